//! What poolings share: windows along a dimension, and the plane that gradients are summed in.

use crate::geometry::Image;
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::MaxPoolAxis;

/// Windows along one dimension.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub input: usize,
    pub output: usize,
    /// Zero: adaptive windows.
    pub kernel: usize,
    pub stride: isize,
    pub padding: isize,
    pub dilation: usize,
}

const FAR: usize = 1 << 12;

/// The part of a window that lies in the image: `start`, `start + dilation`, ... below `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Axis {
    pub const WHOLE: Axis = Axis { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    #[inline]
    pub fn span(&self, o: usize) -> Span {
        if self.kernel == 0 {
            let end = ((o + 1) * self.input).div_ceil(self.output);
            return Span { start: o * self.input / self.output, end };
        }
        let first = o as isize * self.stride - self.padding;
        let d = self.dilation as isize;
        let start = if first < 0 { first + (-first + d - 1) / d * d } else { first };
        let end = (first + (self.kernel as isize - 1) * d + 1).min(self.input as isize);
        Span { start: start as usize, end: end.max(start) as usize }
    }

    /// A window far wider than its image: a line prepared with its padding would be mostly padding.
    pub fn is_far(&self) -> bool {
        let reach = self.kernel.saturating_sub(1).saturating_mul(self.dilation).max(self.stride as usize);
        reach / 4 > self.input + FAR
    }

    /// Most taps of a window that lie in the image.
    pub fn most_taps(&self) -> usize {
        if self.kernel == 0 { self.input.div_ceil(self.output) + 1 } else { self.kernel.min(self.input) }
    }

    /// Elements of a window with the padding it reaches into.
    #[inline]
    pub fn padded_len(&self, o: usize) -> usize {
        if self.kernel == 0 {
            let s = self.span(o);
            return s.end - s.start;
        }
        let first = o as isize * self.stride - self.padding;
        ((first + self.kernel as isize).min(self.input as isize + self.padding) - first).max(0) as usize
    }
}

/// The three axes of a pooling of images from `input` to `output`.
pub fn axes(windows: impl ExactSizeIterator<Item = MaxPoolAxis>, input: &Image, output: &Image) -> Result<[Axis; 3]> {
    let mut axes = [Axis::WHOLE; 3];
    let spatial = windows.len();
    for (d, window) in windows.enumerate().take(3) {
        let at = d + 3 - spatial;
        // Positions are sums and products of two of these.
        let number = |n: i64| match n {
            n @ 0..=0x7fff_ffff => Ok(n as usize),
            n => Err(Error::runtime(format!("pooling: {n}: integer out of range"))),
        };
        axes[at] = Axis {
            input: input.sizes[2 + at],
            output: output.sizes[2 + at],
            kernel: number(window.kernel)?,
            // Of a single window the stride is never used.
            stride: if output.sizes[2 + at] > 1 { number(window.stride)?.max(1) as isize } else { 1 },
            padding: number(window.padding)? as isize,
            dilation: number(window.dilation)?.max(1),
        };
    }
    Ok(axes)
}

/// Positions of an image in order, as an index and as three numbers.
#[inline(always)]
pub fn positions([d, h, w]: [usize; 3], mut f: impl FnMut(usize, [usize; 3])) {
    let mut i = 0;
    for a in 0..d {
        for b in 0..h {
            for c in 0..w {
                f(i, [a, b, c]);
                i += 1;
            }
        }
    }
}

/// Whether channels lie side by side, so that registers run over them.
pub fn by_channel(images: &[&Image]) -> bool {
    images.iter().all(|i| i.sizes[1] > 1 && i.strides[1] == 1)
}
