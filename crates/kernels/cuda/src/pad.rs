//! PAD and its adjoint: a thread an element that is written.

use crate::launch::{Family, Key, args, linear, run};
use crate::nest::Nest;
use crate::text::Builder;
use oneflow_base::{DType, DeviceType, Error, Result};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{FILL, Launch, PadBackwardParams, PadMode, PadParams, View, words};

/// Dimensions that the adjoint sums over at once.
const MAX_MOVED: usize = 3;

/// The text for elements of so many bytes.
pub fn text(mode: PadMode, bytes: usize) -> Text {
    let b = Builder::new("pad").define("PART", 0).variant("MODE", mode as u8).variant("BYTES", bytes);
    b.alias("U", crate::concat::unit(bytes)).push(include_str!("text/pad.cu")).finish()
}

pub fn backward_text(mode: PadMode, dtype: DType) -> Result<Text> {
    let b = Builder::new("pad backward").define("PART", 1).variant("MODE", mode as u8).compute("C", dtype.compute())?;
    Ok(b.dtype("T", dtype)?.push(include_str!("text/pad.cu")).finish())
}

/// Before every dimension.
fn before(widths: &[i64]) -> Vec<i64> {
    widths.iter().step_by(2).copied().collect()
}

pub unsafe fn pad(l: &Launch<'_>) -> Result<()> {
    let (x, out, PadParams { mode, widths, value }) = (l.input(0)?, l.output(0)?, l.read()?);
    if out.numel() == 0 {
        return Ok(());
    }
    let mut bytes = [0u64; 2];
    if mode == PadMode::Constant {
        // The host makes an element of the number.
        let one = View { ptr: bytes.as_mut_ptr().cast(), dtype: out.dtype, sizes: &[], strides: &[] };
        let launch = Launch { outs: &[Some(one)], ins: &[], params: &words(&value), expr: None, queue: l.queue };
        // SAFETY: one element of at most sixteen bytes.
        unsafe { FILL.on(DeviceType::CPU)?(&launch)? };
    }
    let geo =
        Nest::new(out.sizes, &[out.strides, x.strides, x.sizes, &before(&widths)]).ordered().geo_unmerged("pad")?;
    let size = out.dtype.size();
    let key = Key::new(Family::Pad).small(0).small(mode as u64).small(size.ilog2() as u64);
    let [low, high] = bytes;
    // SAFETY: the launch's contract; the arguments are the template's.
    unsafe { run(l.queue, key, || Ok(text(mode, size)), linear(geo.n()), args![x.ptr, out.ptr, low, high, geo]) }
}

pub unsafe fn pad_backward(l: &Launch<'_>) -> Result<()> {
    let (g, out, PadBackwardParams { mode, widths }) = (l.input(0)?, l.output(0)?, l.read()?);
    if out.numel() == 0 {
        return Ok(());
    }
    let nest = Nest::new(out.sizes, &[out.strides, g.strides, g.sizes, &before(&widths)]).ordered();
    let is_moved = |d: usize| nest.sizes()[d] != nest.strides(2)[d] || nest.strides(3)[d] != 0;
    let moved = (0..nest.sizes().len()).filter(|d| is_moved(*d)).fold(0u32, |mask, d| mask | 1 << d);
    if moved.count_ones() as usize > MAX_MOVED {
        return Err(Error::not_implemented(format!(
            "pad_backward: CUDA kernels sum over at most {MAX_MOVED} dimensions, got widths {widths:?}"
        )));
    }
    let geo = nest.geo_unmerged("pad_backward")?;
    let key = Key::new(Family::Pad).small(1).small(mode as u64).dtype(out.dtype);
    let text = || backward_text(mode, out.dtype);
    // SAFETY: the launch's contract; the arguments are the template's.
    unsafe { run(l.queue, key, text, linear(geo.n()), args![g.ptr, out.ptr, moved, geo]) }
}
