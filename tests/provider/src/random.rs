//! Random values: the house's bits (`prim::philox`), so that a device draws what every other draws.

use crate::cells::{Args, Val, each};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::RandomKind;
use oneflow_kernels_prim::philox::{self, Window};
use oneflow_kernels_prim::{DropoutParams, RandomParams};

/// The words of every element of a shape, row-major.
fn words(sizes: &[i64], window: &Window, seed: u64, offset: u64) -> Vec<[u32; 4]> {
    places(sizes, window).into_iter().map(|at| philox::block(seed, offset, at)).collect()
}

/// Every element's index in the whole, row-major.
fn places(sizes: &[i64], window: &Window) -> Vec<u64> {
    let mut all = Vec::new();
    each(sizes, |i| {
        let at = i.iter().zip(window.strides()).map(|(i, s)| i * s).sum::<i64>() as u64;
        all.push(window.first().wrapping_add(at));
    });
    all
}

pub fn random(a: &Args) -> Result<()> {
    let RandomParams { kind, seed, offset, a: low, b: high, shard } = a.read()?;
    let out = a.output(0)?;
    if kind.is_in_order_only() {
        return Err(Error::not_implemented(format!("random: {kind:?} by position")));
    }
    let (x, y, wide) = (low.f64(), high.f64(), out.dtype == DType::F64);
    let (xs, ys) = (x as f32, y as f32);
    // As many bits as the dtype holds: rounding cannot reach the upper end.
    let digits = match out.dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let window = Window::new(&shard, &out.sizes)?;
    let draw = |w: [u32; 4]| match kind {
        RandomKind::Uniform if wide => Val::F(philox::uniform_f64(w[0], w[1]) * (y - x) + x),
        RandomKind::Uniform => {
            let unit = (w[0] >> (32 - digits)) as f32 * (1.0 / (1u32 << digits) as f32);
            Val::F((unit * (ys - xs) + xs) as f64)
        }
        RandomKind::Normal if wide => Val::F(philox::normal_f64(w) * y + x),
        RandomKind::Normal => Val::F((philox::normal_f32(w[0], w[1]) * ys + xs) as f64),
        RandomKind::Bernoulli => Val::I((w[0] >> 8 < philox::threshold(x)) as i64),
        RandomKind::Exponential if wide => Val::F((1.0 - philox::uniform_f64(w[0], w[1])).ln() / -x),
        RandomKind::Exponential => Val::F((philox::ln_f32(philox::uniform_f32_above_zero(w[0])) * (-1.0 / xs)) as f64),
        RandomKind::Integers => {
            let (from, span) = (low.i64(), high.i64().wrapping_sub(low.i64()) as u64);
            let bits = w[0] as u64 | (w[1] as u64) << 32;
            Val::I(from.wrapping_add(((bits as u128 * span as u128) >> 64) as i64))
        }
        // Refused above.
        _ => Val::I(0),
    };
    // A value that rounds to the open end becomes the closed one.
    let end = |v: Val| if kind == RandomKind::Uniform && x < y && v.f() >= y { Val::F(x) } else { v };
    out.write(words(&out.sizes, &window, seed, offset).into_iter().map(|w| end(draw(w))));
    Ok(())
}

pub fn dropout(a: &Args) -> Result<()> {
    let (x, y, mask) = (a.input(0)?, a.output(0)?, a.output(1)?);
    let DropoutParams { p, seed, offset, shard } = a.read()?;
    let window = Window::new(&shard, &x.sizes)?;
    let drawn = places(&x.sizes, &window).into_iter().map(|at| philox::packed(seed, offset, at));
    let kept: Vec<bool> = drawn.map(|w| w >> 8 >= philox::threshold(p)).collect();
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    let vals = x.floats().into_iter().zip(&kept).map(|(v, k)| if *k { v * scale } else { 0.0 });
    y.write_floats(vals.collect::<Vec<_>>());
    mask.write(kept.into_iter().map(|k| Val::I(k as i64)));
    Ok(())
}
