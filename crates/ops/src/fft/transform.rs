//! The three transforms over given dimensions, differentiable through one another.
//!
//! `normalization` is 0 for none, 1 for the root of the number of points, 2 for the number itself, as torch counts.

use super::*;
use crate::linalg::{complex_dtype, real_dtype};
use crate::named::{fft_c2c, fft_c2r, fft_r2c};

/// The dimensions, wrapped, without repetition.
fn dims(c: &Call<'_>) -> Result<SmallVec<[usize; 4]>> {
    let x = c.t(fft_c2c::INPUT)?;
    let mut out: SmallVec<[usize; 4]> = SmallVec::new();
    for &d in c.ints(fft_c2c::DIM)? {
        let d = wrap_dim(d, x.ndim())?;
        if out.contains(&d) {
            return Err(Error::runtime("FFT dims must be unique"));
        }
        out.push(d);
    }
    if out.is_empty() || x.ndim() == 0 {
        return Err(Error::runtime(format!("{}(): a transform needs a dimension, of {:?}", c.name(), x.sizes())));
    }
    Ok(out)
}

/// No line may be without points.
fn points(n: i64) -> Result<i64> {
    match n < 1 {
        true => Err(Error::runtime(format!("Invalid number of data points ({n}) specified"))),
        false => Ok(n),
    }
}

fn dtype_of(c: &Call<'_>, complex: bool) -> Result<DType> {
    let d = c.t(fft_c2c::INPUT)?.dtype();
    if !matches!(d, DType::F32 | DType::F64 | DType::C64 | DType::C128) || d.is_complex() != complex {
        return Err(Error::runtime(format!("Unsupported dtype {} in {}()", d.scalar_type_name(), c.name())));
    }
    Ok(d)
}

/// The result's memory order: batch dimensions as the input has them, then those transformed.
fn push(outs: &mut Outs, x: &Tensor, dtype: DType, sizes: Dims, dims: &[usize]) -> Result<()> {
    let strides = laid_out(&sizes, x.strides(), dims);
    outs.push_strided(dtype, x.device(), sizes, strides)
}

fn laid_out(sizes: &[i64], of: &[i64], dims: &[usize]) -> Dims {
    let mut order: SmallVec<[usize; 8]> = (0..of.len()).filter(|d| !dims.contains(d)).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(of[d]));
    order.extend_from_slice(dims);
    let mut strides: Dims = SmallVec::from_elem(1, of.len());
    let mut step = 1;
    for &d in order.iter().rev() {
        strides[d] = step;
        step *= sizes[d].max(1);
    }
    strides
}

/// By descending stride, the last `fixed` as they are.
fn sorted(x: &Tensor, dims: &[usize], fixed: usize) -> SmallVec<[usize; 4]> {
    let mut out: SmallVec<[usize; 4]> = dims.iter().copied().collect();
    let n = out.len() - fixed;
    out[..n].sort_by_key(|&d| std::cmp::Reverse(x.strides()[d]));
    out
}

fn lower(l: &mut Lowered, dims: &[usize], n: i64, normalization: i64, inverse: bool) {
    let scale = match normalization {
        1 => 1.0 / (n as f64).sqrt(),
        2 => 1.0 / n as f64,
        _ => 1.0,
    };
    l.input(fft_c2c::INPUT).output(fft_c2c::RESULT).with(FftParams {
        inverse,
        scale,
        dims: dims.iter().copied().collect(),
    });
}

fn n_points(sizes: &[i64], dims: &[usize]) -> i64 {
    dims.iter().map(|&d| sizes[d]).product()
}

/// Axes that are not transformed may be split.
fn not_axes(c: &Call<'_>) -> u32 {
    dims(c).map_or(u32::MAX, |dims| dims.iter().fold(0, |mask, d| mask | 1 << d))
}

const TRANSFORM: OpDef = OpDef {
    faces: Faces::PRIVATE,
    sbp: SbpRule::of(Rows::Batch { not_axes }),
    amp: Amp::FLOAT32,
    cost: |c, outs| {
        let mut cost = Cost::bytes_only(c, outs);
        let n = c.opt(fft_c2c::INPUT).map_or(1.0, |x| x.numel() as f64).max(2.0);
        cost.flops = 5.0 * n * n.log2();
        cost
    },
    ..OpDef::BASE
};

pub static C2C: OpDef = OpDef {
    sig: Sig::parse("fft_c2c(Tensor input, int[] dim, int normalization, bool forward) -> Tensor"),
    doc: "The transform of a complex tensor over dimensions.",
    infer: |c, outs| {
        let (x, dtype, dims) = (c.t(fft_c2c::INPUT)?, dtype_of(c, true)?, dims(c)?);
        dims.iter().try_for_each(|&d| points(x.sizes()[d]).map(|_| ()))?;
        push(outs, x, dtype, Dims::from_slice(x.sizes()), &sorted(x, &dims, 0))
    },
    kernel: Kernel::Prim {
        prim: &FFT,
        lower: |c, _, l| {
            let (x, dims) = (c.t(fft_c2c::INPUT)?, dims(c)?);
            lower(l, &dims, n_points(x.sizes(), &dims), c.int(fft_c2c::NORMALIZATION)?, !c.bool(fft_c2c::FORWARD));
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (dim, norm) =
                (c.arg(fft_c2c::DIM).ints().unwrap_or(&[]), c.arg(fft_c2c::NORMALIZATION).int().unwrap_or(0));
            out.set(fft_c2c::INPUT, || c.g()?.fft_c2c(dim, norm, !c.arg(fft_c2c::FORWARD).bool()))
        },
    },
    ..TRANSFORM
};

pub static R2C: OpDef = OpDef {
    sig: Sig::parse("fft_r2c(Tensor input, int[] dim, int normalization, bool onesided) -> Tensor"),
    doc: "The transform of a real tensor over dimensions; with `onesided` only the first half of the last one.",
    infer: |c, outs| {
        let (x, dtype, dims) = (c.t(fft_r2c::INPUT)?, dtype_of(c, false)?, dims(c)?);
        dims.iter().try_for_each(|&d| points(x.sizes()[d]).map(|_| ()))?;
        let mut sizes = Dims::from_slice(x.sizes());
        if let (true, Some(&last)) = (c.bool(fft_r2c::ONESIDED), dims.last()) {
            sizes[last] = sizes[last] / 2 + 1;
        }
        push(outs, x, complex_dtype(dtype), sizes, &sorted(x, &dims, 1))
    },
    kernel: Kernel::Prim {
        prim: &FFT,
        lower: |c, _, l| {
            let (x, dims) = (c.t(fft_r2c::INPUT)?, dims(c)?);
            lower(l, &dims, n_points(x.sizes(), &dims), c.int(fft_r2c::NORMALIZATION)?, false);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (dim, norm) =
                (c.arg(fft_r2c::DIM).ints().unwrap_or(&[]), c.arg(fft_r2c::NORMALIZATION).int().unwrap_or(0));
            out.set(fft_r2c::INPUT, || {
                let g = c.g()?;
                if !c.arg(fft_r2c::ONESIDED).bool() {
                    return g.fft_c2c(dim, norm, false)?.real();
                }
                // The inverse counts what has a mirror image twice; here it counts once.
                let last = wrap_dim(dim.last().copied().unwrap_or(-1), g.ndim())?;
                let n = c.in_meta(fft_r2c::INPUT)?.sizes[last];
                g.mul(&mirrored(g, last, n, 0.5)?)?.fft_c2r(dim, norm, n)
            })
        },
    },
    ..TRANSFORM
};

pub static C2R: OpDef = OpDef {
    sig: Sig::parse("fft_c2r(Tensor input, int[] dim, int normalization, int last_dim_size) -> Tensor"),
    doc: "The inverse transform to a real tensor of the first half of its transform.",
    infer: |c, outs| {
        let (x, dtype, dims) = (c.t(fft_c2r::INPUT)?, dtype_of(c, true)?, dims(c)?);
        let (&last, others) = dims.split_last().ok_or_else(|| Error::runtime("a transform needs a dimension"))?;
        let n = points(c.int(fft_c2r::LAST_DIM_SIZE)?)?;
        others.iter().try_for_each(|&d| points(x.sizes()[d]).map(|_| ()))?;
        let mut sizes = Dims::from_slice(x.sizes());
        if sizes[last] != n / 2 + 1 {
            return Err(Error::runtime(format!(
                "fft_c2r(): {n} real points have a half of {}, not of {} (input {:?})",
                n / 2 + 1,
                sizes[last],
                x.sizes()
            )));
        }
        // As if the other dimensions were transformed first.
        let between = match others.is_empty() {
            true => Dims::from_slice(x.strides()),
            false => laid_out(&sizes, x.strides(), &sorted(x, others, 0)),
        };
        sizes[last] = n;
        let strides = laid_out(&sizes, &between, &[last]);
        outs.push_strided(real_dtype(dtype), x.device(), sizes, strides)
    },
    kernel: Kernel::Prim {
        prim: &FFT,
        lower: |c, outs, l| {
            let dims = dims(c)?;
            lower(l, &dims, n_points(outs[fft_c2r::RESULT].sizes(), &dims), c.int(fft_c2r::NORMALIZATION)?, true);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (dim, norm) =
                (c.arg(fft_c2r::DIM).ints().unwrap_or(&[]), c.arg(fft_c2r::NORMALIZATION).int().unwrap_or(0));
            out.set(fft_c2r::INPUT, || {
                let g = c.g()?;
                let last = wrap_dim(dim.last().copied().unwrap_or(-1), g.ndim())?;
                let half = g.fft_r2c(dim, norm, true)?;
                half.mul(&mirrored(&half, last, g.sizes()[last], 2.0)?)
            })
        },
    },
    ..TRANSFORM
};

/// Along `dim`, of the half of `n` points: `weight` where a point has a mirror image, one elsewhere.
fn mirrored(like: &Tensor, dim: usize, n: i64, weight: f64) -> Result<Tensor> {
    let real = Some(real_dtype(like.dtype()));
    let half = n / 2 + 1;
    let part = |n: i64, value: f64| like.new_full_with(&[n], value, real, None, false);
    let (one, rest) = (part(1, 1.0)?, part(n - half, weight)?);
    let all = match n % 2 {
        0 => f::cat([&one, &rest, &one], 0)?,
        _ => f::cat([&one, &rest], 0)?,
    };
    let mut shape: Dims = SmallVec::from_elem(1, like.ndim());
    shape[dim] = half;
    all.reshape(&shape)
}
