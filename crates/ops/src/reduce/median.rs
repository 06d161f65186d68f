//! `median`, `nanmedian`: The middle element in order (the lower of two); NaN if there is one.

use super::*;
use crate::named::{median, median_dim};

/// The rank where a row's median stands in sorted order, one a row along `dim` (kept). NaN comes last; without `skip` the
/// first of them is the answer.
fn median_rank(sorted: &Tensor, dim: i64, skip: bool) -> Result<Tensor> {
    let n = sorted.sizes().get(dim as usize).copied().unwrap_or(1);
    let valid = sorted.isnan()?.logical_not()?.sum(&[dim], true)?;
    let middle = valid.sub(1i64)?.div_with(2i64, Some("floor"))?.clamp(Some(Scalar::Int(0)), None)?;
    if skip { Ok(middle) } else { valid.eq(n)?.r#where(&middle, &valid) }
}

fn median_along(c: &Call<'_>, outs: &mut Outs, skip: bool) -> Result<()> {
    let (x, keep) = (c.t(median_dim::INPUT)?, c.bool(median_dim::KEEPDIM));
    let d = wrap_dim(c.int(median_dim::DIM)?, x.ndim())? as i64;
    if x.ndim() == 0 {
        return give_all(outs, [x.cloned()?, x.zeros_like_with(Some(DType::I64), None, false, None)?]);
    }
    let n = x.sizes()[d as usize];
    if n == 0 {
        return Err(Error::index(format!("{}(): Expected reduction dim {d} to have non-zero size.", c.name())));
    }
    let [values, indices] = x.sort(d, false)?;
    let pick = |t: &Tensor| match x.dtype().is_float() {
        true => t.gather(d, &median_rank(&values, d, skip)?),
        false => t.slice(d, Some((n - 1) / 2), Some((n + 1) / 2), 1),
    };
    let kept = [pick(&values)?, pick(&indices)?];
    for t in kept {
        outs.give(if keep { t.contiguous()? } else { t.squeeze_dim(&[d])?.contiguous()? });
    }
    Ok(())
}

/// The median of all elements; equal ones share the gradient.
fn median_of_all(c: &Call<'_>, outs: &mut Outs, skip: bool) -> Result<()> {
    let x = c.t(median::INPUT)?;
    if x.numel() == 0 {
        // NaN, as a cast to integers leaves it.
        let value = match x.dtype() {
            d if d.is_float() => Scalar::Float(f64::NAN),
            DType::I64 => Scalar::Int(i64::MIN),
            DType::I32 => Scalar::Int(i32::MIN.into()),
            _ => Scalar::Int(0),
        };
        return give(outs, x.new_full(&[], value)?);
    }
    let [value, _] =
        if skip { x.reshape(&[-1])?.nanmedian_dim(0, false)? } else { x.reshape(&[-1])?.median_dim(0, false)? };
    give(outs, value)
}

fn share(c: &GradCall<'_>, out: &mut Grads) -> Result<()> {
    out.set(median::INPUT, || {
        let (x, y) = (c.x(median::INPUT)?, c.y(median::RESULT)?);
        let hit = x.eq(y)?.logical_or(&x.isnan()?.logical_and(&y.isnan()?)?)?;
        let hit = hit.to_copy_with(Some(x.dtype()), None)?;
        let n = hit.sum(None::<&[i64]>, false)?;
        hit.mul(&c.g()?.div(&n)?)
    })
}

const MIDDLE: OpDef = OpDef {
    faces: Faces::FN_METHOD,
    infer: |c, outs| outs.push(c.t(median::INPUT)?.dtype(), c.t(median::INPUT)?.device(), &[]),
    grad: Grad::Rule {
        save: &[Save::of(median::INPUT, &[median::INPUT]), Save::out(median::RESULT, &[median::INPUT])],
        fix: Fix::Broadcast,
        f: share,
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])]), Sample::new(vec![SampleArg::f32(&[])])],
    ..COMPOSED
};

fn along_samples() -> Vec<Sample> {
    let t = |s: &[i64], d, k| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Bool(k)]);
    vec![t(&[3, 4], 1, false), t(&[5, 3], 0, true), t(&[], 0, false)]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("median(Tensor input) -> Tensor"),
    doc: "The middle element in order (the lower of two); NaN if there is one.

Example::

    >>> oneflow.median(oneflow.tensor([3., 1., 2.]))
    tensor(2.)",
    compose: Some(|c, outs| median_of_all(c, outs, false)),
    ..MIDDLE
};

pub static NANMEDIAN: OpDef = OpDef {
    sig: Sig::parse("nanmedian(Tensor input) -> Tensor"),
    doc: "The middle of the elements that are not NaN.

Example::

    >>> oneflow.nanmedian(oneflow.tensor([3., oneflow.nan, 2.]))
    tensor(2.)",
    compose: Some(|c, outs| median_of_all(c, outs, true)),
    ..MIDDLE
};

pub static MEDIAN_DIM: OpDef = OpDef {
    sig: Sig::parse("median.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    compose: Some(|c, outs| median_along(c, outs, false)),
    samples: along_samples,
    ..COMPOSED
};

pub static NANMEDIAN_DIM: OpDef = OpDef {
    sig: Sig::parse("nanmedian.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    compose: Some(|c, outs| median_along(c, outs, true)),
    samples: along_samples,
    ..COMPOSED
};
