//! RANDOM and DROPOUT.

use crate::launch::{Family, Key, Number, args, drawn, linear, run};
use crate::nest::Nest;
use crate::text::{Builder, c_type, float};
use oneflow_base::{DType, Result};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::mt19937;
use oneflow_kernels_prim::philox::{Window, threshold};
use oneflow_kernels_prim::{DropoutParams, Launch, RandomKind, RandomParams, View};

/// The generator's functions, which a host compiler understands too.
pub const PHILOX: &str = include_str!("text/random.cu");
const DROPOUT: u64 = 5;

/// `part` is a `RandomKind`, or 5 for dropout.
pub fn text(part: u64, dtype: DType) -> Result<Text> {
    let digits = match dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let b = Builder::new("random").variant("PART", part).compute("C", dtype.compute())?.dtype("T", dtype)?;
    let b = b.define("DIGITS", digits).define("IS_F64", (dtype == DType::F64) as u8).options(&["--fmad=false"]);
    Ok(b.push(PHILOX).push(include_str!("text/random_kernels.cu")).finish())
}

pub unsafe fn random(l: &Launch<'_>) -> Result<()> {
    let RandomParams { kind: known, seed, offset, a, b, shard } = l.read()?;
    let (out, kind) = (l.output(0)?, known as u64);
    if offset == mt19937::IN_ORDER {
        return Err(mt19937::only_in_order("random", "a CUDA device"));
    }
    c_type("random", out.dtype)?;
    if !matches!(known, RandomKind::Bernoulli | RandomKind::Integers) {
        float("random", out.dtype)?;
    }
    let window = Window::new(&shard, out.sizes)?;
    let geo = Nest::new(out.sizes, &[out.strides, window.strides()]).geo("random")?;
    let (low, span) = (a.i64(), b.i64().wrapping_sub(a.i64()));
    let key = Key::new(Family::Random).small(kind).dtype(out.dtype);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || text(kind, out.dtype),
            linear(geo.n()),
            args![
                out.ptr,
                seed,
                offset,
                drawn(l.queue)?,
                window.first(),
                a.f64(),
                b.f64(),
                low,
                span,
                threshold(a.f64()),
                geo
            ],
        )
    }
}

pub unsafe fn dropout(l: &Launch<'_>) -> Result<()> {
    let (x, y, mask) = (l.input(0)?, l.output(0)?, l.output(1)?);
    let DropoutParams { p, seed, offset, shard } = l.read()?;
    if offset == mt19937::IN_ORDER {
        return Err(mt19937::only_in_order("dropout", "a CUDA device"));
    }
    let compute = float("dropout", x.dtype)?.compute();
    let window = Window::new(&shard, x.sizes)?;
    let mut nest = Nest::new(x.sizes, &[y.strides, mask.strides, x.strides, window.strides()]).merged();
    // Four neighbours share a block of random numbers, counted from the whole tensor's start.
    let index = View { ptr: std::ptr::null_mut(), dtype: DType::U8, ..x };
    let packed = if window.first() % 4 == 0 { nest.pack(&[y, mask, x, index], u32::MAX, 4) } else { 0 };
    let packed = (packed != 0) as i32;
    let geo = nest.geo_unmerged("dropout")?;
    let scale = Number::new(compute, if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 });
    let key = Key::new(Family::Random).small(DROPOUT).dtype(x.dtype);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || text(DROPOUT, x.dtype),
            linear(geo.n()),
            args![
                packed,
                x.ptr,
                y.ptr,
                mask.ptr,
                seed,
                offset,
                drawn(l.queue)?,
                window.first(),
                threshold(p),
                scale,
                geo
            ],
        )
    }
}
