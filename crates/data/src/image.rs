//! Pictures as rows of pixels: JPEG and PNG, decoded into 8-bit channels.
//!
//! Sizes are checked before memory is taken. Nothing is resized or moved to another dtype here.

use oneflow_base::{Error, Result};
use png::{ColorType, Transformations};
use std::fmt::Display;
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The largest side in pixels; no camera exceeds it, and a damaged header may hold anything.
const MOST: usize = 1 << 16;
/// Most bytes of a picture.
const MOST_BYTES: usize = 1 << 30;

/// The channels of a decoded picture, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    Rgb,
    Bgr,
    Gray,
}

/// Height, width, channels and the pixels, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    pub pixels: Vec<u8>,
}

/// Decodes the bytes of a JPEG or PNG file.
pub fn decode(bytes: &[u8], channels: Channels) -> Result<Picture> {
    let mut picture = if bytes.starts_with(b"\x89PNG") {
        png(bytes, channels == Channels::Gray)?
    } else {
        jpeg(bytes, channels == Channels::Gray)?
    };
    if channels == Channels::Bgr {
        picture.pixels.chunks_exact_mut(3).for_each(|p| p.swap(0, 2));
    }
    Ok(picture)
}

fn bad(bytes: &[u8], why: impl Display) -> Error {
    Error::value(format!("image: {} bytes are no JPEG or PNG: {why}", bytes.len()))
}

fn fits(bytes: &[u8], height: usize, width: usize) -> Result<()> {
    let size = height.checked_mul(width).and_then(|n| n.checked_mul(4));
    match size {
        Some(1..=MOST_BYTES) if height <= MOST && width <= MOST => Ok(()),
        _ => Err(bad(bytes, format_args!("a picture of {height} by {width} is refused"))),
    }
}

fn jpeg(bytes: &[u8], gray: bool) -> Result<Picture> {
    let space = if gray { ColorSpace::Luma } else { ColorSpace::RGB };
    let options = DecoderOptions::default().set_max_width(MOST).set_max_height(MOST).jpeg_set_out_colorspace(space);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|e| bad(bytes, e))?;
    let (width, height) = decoder.dimensions().ok_or_else(|| bad(bytes, "it has no size"))?;
    fits(bytes, height, width)?;
    let pixels = decoder.decode().map_err(|e| bad(bytes, e))?;
    let channels = if gray { 1 } else { 3 };
    if pixels.len() != height * width * channels {
        return Err(bad(bytes, "its colours are of another kind"));
    }
    Ok(Picture { height, width, channels, pixels })
}

fn png(bytes: &[u8], gray: bool) -> Result<Picture> {
    let limits = png::Limits { bytes: MOST_BYTES };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(|e| bad(bytes, e))?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    fits(bytes, height, width)?;
    let size = reader.output_buffer_size().ok_or_else(|| bad(bytes, "it is too large"))?;
    let mut raw = vec![0; size];
    let frame = reader.next_frame(&mut raw).map_err(|e| bad(bytes, e))?;
    let n = match frame.color_type {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
        ColorType::Indexed => return Err(bad(bytes, "its palette was not read")),
    };
    let channels = if gray { 1 } else { 3 };
    let mut pixels = Vec::with_capacity(height * width * channels);
    for p in raw.chunks_exact(n).take(height * width) {
        match (n < 3, gray) {
            (true, true) => pixels.push(p[0]),
            (true, false) => pixels.extend([p[0]; 3]),
            (false, false) => pixels.extend(&p[..3]),
            (false, true) => pixels.push(luma(p)),
        }
    }
    Ok(Picture { height, width, channels, pixels })
}

/// Brightness of a colour (ITU-R BT.601), as JPEG defines it.
fn luma(p: &[u8]) -> u8 {
    let [r, g, b] = [p[0], p[1], p[2]].map(u32::from);
    ((299 * r + 587 * g + 114 * b + 500) / 1000) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png_file() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 3, 2);
        encoder.set_color(ColorType::Rgb);
        let pixels = [0, 0, 7, 1, 0, 7, 2, 0, 7, 0, 1, 7, 1, 1, 7, 2, 1, 7];
        encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
        bytes
    }

    #[test]
    fn decodes_rows_of_pixels_in_the_order_asked_for() {
        let rgb = decode(&png_file(), Channels::Rgb).unwrap();
        assert_eq!((rgb.height, rgb.width, rgb.channels), (2, 3, 3));
        assert_eq!(rgb.pixels[..6], [0, 0, 7, 1, 0, 7]);
        assert_eq!(decode(&png_file(), Channels::Bgr).unwrap().pixels[..3], [7, 0, 0]);
        assert_eq!(decode(&png_file(), Channels::Gray).unwrap().pixels.len(), 6);
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let whole = png_file();
        for end in 0..whole.len() - 12 {
            assert!(decode(&whole[..end], Channels::Rgb).is_err(), "{end} bytes");
        }
        let mut large = whole;
        large[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(decode(&large, Channels::Rgb).is_err());
    }
}
