//! A resized dimension as a matrix (result, input) of weights, made of ops: for devices without the kernel. It serves the
//! adjoint too, and costs a product where the kernel reads a few neighbours.

use crate::prelude::*;

/// How a dimension is resized.
#[derive(Clone, Copy)]
pub struct Map {
    pub mode: ResampleMode,
    pub align_corners: bool,
    pub antialias: bool,
    /// Input elements an output element; zero: by the sizes.
    pub scale: f64,
}

fn least(t: &Tensor, v: f64) -> Result<Tensor> {
    t.clamp(Some(Scalar::Float(v)), None)
}

/// Weights of `d_out` results (rows) from `d_in` elements, in the dtype and on the device of `like`.
pub fn matrix(m: Map, d_in: i64, d_out: i64, like: &Tensor) -> Result<Tensor> {
    let arange = |n: i64| f::arange_with(n, Some(like.dtype()), Some(like.device()), false);
    let (i, j) = (arange(d_out)?.unsqueeze(1)?, arange(d_in)?.unsqueeze(0)?);
    let (n, last) = (d_in as f64, Some(Scalar::Float(d_in as f64 - 1.0)));
    let zero = Some(Scalar::Float(0.0));
    let scale = match m.align_corners {
        true if d_out > 1 => (n - 1.0) / (d_out as f64 - 1.0),
        true => 0.0,
        false if m.scale > 0.0 => m.scale,
        false => n / d_out as f64,
    };
    let source = || if m.align_corners { i.mul(scale) } else { i.add(0.5)?.mul(scale)?.sub(0.5) };
    let only = |at: &Tensor| f_mask(&at.clamp(zero, last)?.eq(&j)?, like);
    let antialias = m.antialias && matches!(m.mode, ResampleMode::Linear | ResampleMode::Cubic);
    match m.mode {
        _ if antialias => {
            let radius = if m.mode == ResampleMode::Linear { 1.0 } else { 2.0 };
            let (support, shrink) = if scale >= 1.0 { (radius * scale, 1.0 / scale) } else { (radius, 1.0) };
            let center = i.add(0.5)?.mul(scale)?;
            let from = least(&center.sub(support)?.add(0.5)?, 0.0)?.floor()?;
            let to = least(&center.add(support)?.add(0.5)?, 0.0)?.floor()?;
            let x = j.sub(&center)?.add(0.5)?.mul(shrink)?.abs()?;
            let w = if m.mode == ResampleMode::Linear { least(&x.neg()?.add(1.0)?, 0.0)? } else { keys(&x, -0.5)? };
            let w = w.mul(&f_mask(&j.ge(&from)?.logical_and(&j.lt(&to)?)?, like)?)?;
            w.div(&w.sum(&[1], true)?)
        }
        ResampleMode::Nearest => only(&i.mul(scale)?.floor()?),
        ResampleMode::NearestExact => only(&i.add(0.5)?.mul(scale)?.floor()?),
        ResampleMode::Linear if d_in == d_out => only(&i),
        // A hat over every position, held inside, has the two neighbours' weights.
        ResampleMode::Linear => least(&source()?.clamp(zero, last)?.sub(&j)?.abs()?.neg()?.add(1.0)?, 0.0),
        ResampleMode::Cubic => {
            let x = source()?;
            let low = x.floor()?;
            let t = x.sub(&low)?;
            let mut all: Option<Tensor> = None;
            for k in -1..3 {
                let w = keys(&t.sub(k as f64)?.abs()?, -0.75)?;
                let part = only(&low.add(k as f64)?)?.mul(&w)?;
                all = Some(match all {
                    Some(a) => a.add(&part)?,
                    None => part,
                });
            }
            all.ok_or_else(|| Error::runtime("resample: no weights"))
        }
        ResampleMode::Area => {
            let (from, to) = (i.mul(n)?.div(d_out as f64)?.floor()?, i.add(1.0)?.mul(n)?.div(d_out as f64)?.ceil()?);
            f_mask(&j.ge(&from)?.logical_and(&j.lt(&to)?)?, like)?.div(&to.sub(&from)?)
        }
    }
}

fn f_mask(mask: &Tensor, like: &Tensor) -> Result<Tensor> {
    mask.to_copy_with(Some(like.dtype()), None)
}

/// Keys' cubic at distances `x`.
fn keys(x: &Tensor, a: f64) -> Result<Tensor> {
    let near = x.mul(a + 2.0)?.sub(a + 3.0)?.mul(x)?.mul(x)?.add(1.0)?;
    let far = x.sub(5.0)?.mul(x)?.add(8.0)?.mul(x)?.sub(4.0)?.mul(a)?;
    let far = x.lt(2.0)?.r#where(&far, 0.0)?;
    x.lt(1.0)?.r#where(&near, &far)
}
