//! Reductions: the rules they share.

pub mod amax;
pub mod aminmax;
pub mod any;
pub mod argmax;
pub mod corrcoef;
pub mod count_nonzero;
pub mod cov;
pub mod cummax;
pub mod cumprod;
pub mod cumsum;
pub mod diff;
pub mod dist;
pub mod extrema;
pub mod kthvalue;
pub mod logcumsumexp;
pub mod logsumexp;
pub mod max;
pub mod mean;
pub mod median;
pub mod mode;
pub mod msort;
pub mod nanmean;
pub mod nansum;
pub mod norm;
pub mod prod;
pub mod quantile;
pub mod sum;
pub mod trace;
pub mod trapezoid;
pub mod var;
pub mod var_mean;

use crate::named::sum as at;
use crate::prelude::*;
pub use crate::view::{give, give_all};

/// A bit mask of the dims that argument `i` names (an int, a list, or none for all).
pub fn dim_mask(name: &str, arg: Arg<'_>, ndim: usize) -> Result<u64> {
    if ndim > 64 {
        return Err(Error::runtime(format!("{name}(): only tensors with up to 64 dims are supported, got {ndim}")));
    }
    let all = if ndim == 64 { u64::MAX } else { (1 << ndim) - 1 };
    let one = [arg.int().unwrap_or(0)];
    let dims = match arg {
        Arg::Int(_) => &one[..],
        Arg::Ints(d) => d,
        _ => return Ok(all),
    };
    if dims.is_empty() {
        return Ok(all);
    }
    let mut mask = 0;
    for &d in dims {
        let d = wrap_dim(d, ndim)?;
        if mask >> d & 1 == 1 {
            return Err(Error::runtime(format!("{name}(): dim {d} appears multiple times in the list of dims")));
        }
        mask |= 1 << d;
    }
    Ok(if ndim == 0 { 0 } else { mask })
}

/// Sizes with reduced dims of size one.
pub fn kept_sizes(sizes: &[i64], mask: u64) -> Dims {
    sizes.iter().enumerate().map(|(i, s)| if mask >> i & 1 == 1 { 1 } else { *s }).collect()
}

/// Pushes the output of a reduction.
pub fn push(c: &Call<'_>, dtype: DType, mask: u64, keepdim: bool, outs: &mut Outs) -> Result<()> {
    let x = c.t(at::INPUT)?;
    let sizes = if keepdim {
        kept_sizes(x.sizes(), mask)
    } else {
        x.sizes().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, s)| *s).collect()
    };
    outs.push(dtype, x.device(), &sizes)
}

/// Whether elements must be cast to the result's dtype before they are reduced, since the cast loses something of them.
pub fn casts_first(x: DType, out: DType) -> bool {
    x != out && (out == DType::Bool || (x.is_differentiable() && oneflow_base::promote(x, out).ok() != Some(out)))
}

/// Declines a kernel for a call whose elements are cast first: `after_cast` serves it.
pub fn no_cast_first(c: &Call<'_>, outs: &Outs) -> Result<()> {
    let (x, out) = (c.t(at::INPUT)?.dtype(), outs[at::RESULT].dtype());
    if casts_first(x, out) {
        return Err(Error::not_implemented(format!("{}: {x} is cast to {out} before it is reduced", c.name())));
    }
    Ok(())
}

/// The input in the dtype that was asked for, for an op that reduces it there.
pub fn after_cast(c: &Call<'_>, dtype: At<DType>) -> Result<(Tensor, DType)> {
    let x = c.t(at::INPUT)?;
    match c.arg(dtype).dtype() {
        Some(d) if d != x.dtype() => Ok((x.to_copy_with(Some(d), None)?, d)),
        _ => Err(Error::not_implemented(format!("{}: no kernel for {} on {}", c.name(), x.dtype(), x.device()))),
    }
}

/// Lowers to REDUCE: the output is seen with its reduced dims kept.
pub fn lower(c: &Call<'_>, outs: &Outs, l: &mut Lowered, kind: ReduceKind, mask: u64) -> Result<()> {
    let sizes = kept_sizes(c.t(at::INPUT)?.sizes(), mask);
    let strides = contiguous_strides(&sizes);
    l.input(at::INPUT).output_as(at::RESULT, sizes, strides, outs[at::RESULT].offset()).with(ReduceParams { kind });
    Ok(())
}

/// The gradient of a reduced output, ready to broadcast to the input: dims of size one where it was reduced.
pub fn unreduce(g: &Tensor, mask: u64, keepdim: bool) -> Result<Tensor> {
    if keepdim || g.ndim() == 0 { Ok(g.clone()) } else { unsqueeze_all(g, mask) }
}

/// Dims of size one inserted where the mask has bits.
pub fn unsqueeze_all(g: &Tensor, mask: u64) -> Result<Tensor> {
    let mut g = g.clone();
    for d in (0..64).filter(|d| mask >> d & 1 == 1) {
        g = g.unsqueeze(d)?;
    }
    Ok(g)
}

/// `dim` and `keepdim` are the arguments 0 and 1.
pub const REDUCE: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    cost: |c, outs| {
        let read: usize = c.ins.iter().flatten().map(|t| t.numel() as usize * t.dtype().size()).sum();
        let flops = c.ins.iter().flatten().map(|t| t.numel() as f64).sum();
        Cost { flops, bytes: (read + outs.iter().map(Meta::bytes).sum::<usize>()) as f64, products: false }
    },
    samples,
    ..OpDef::BASE
};

/// A reduction that is its composition.
pub const COMPOSED: OpDef = OpDef { grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), ..REDUCE };

/// All dims, one, several, kept, 0-dim.
pub fn samples() -> Vec<Sample> {
    let t = |s: &[i64]| SampleArg::f32(s);
    let dims = |d: &[i64]| SampleArg::Ints(d.to_vec());
    vec![
        Sample::new(vec![t(&[3, 4])]),
        Sample::new(vec![t(&[2, 3, 4]), dims(&[1])]),
        Sample::new(vec![t(&[2, 3, 4]), dims(&[0, -1]), SampleArg::Bool(true)]),
        Sample::new(vec![t(&[])]),
    ]
}
