//! `quantile`, `nanquantile`: The q-th quantiles (q in [0, 1]) of all elements or along a dimension, between
//! elements as `interpolation` says: "linear", "lower", "higher", "midpoint" or "nearest".

use super::*;
use crate::named::{nanquantile, nanquantile_scalar, quantile, quantile_scalar};

/// torch's rule: ranks between elements, in the row sorted along its last dimension.
fn at_rank(
    c: &Call<'_>,
    outs: &mut Outs,
    q: &Tensor,
    (dim, keep, how): (Arg<'_>, bool, &str),
    skip: bool,
) -> Result<()> {
    let (x, name) = (c.t(quantile::INPUT)?, c.name());
    if !matches!(x.dtype(), DType::F32 | DType::F64) {
        return Err(Error::runtime(format!("{name}() input tensor must be either float or double dtype")));
    }
    if q.ndim() > 1 {
        return Err(Error::runtime(format!("{name}() q must be a scalar or 1D tensor")));
    }
    if q.dtype() != x.dtype() {
        return Err(Error::runtime(format!("{name}() q tensor must be same dtype as the input tensor")));
    }
    if !["linear", "lower", "higher", "midpoint", "nearest"].contains(&how) {
        return Err(Error::runtime(format!(
            "{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {how}"
        )));
    }
    let mask = dim_mask(name, dim, x.ndim())?;
    let last = match dim.int() {
        Some(d) if x.ndim() > 0 => x.movedim(&[d], &[-1])?,
        _ => x.reshape(&[-1])?,
    };
    let n = last.sizes()[last.ndim() - 1];
    if n == 0 {
        return Err(Error::runtime(format!("{name}() input tensor must be non-empty")));
    }
    let [sorted, _] = last.sort(-1, false)?;
    let ranks = if skip {
        let valid = sorted.isnan()?.logical_not()?.sum(&[-1], true)?;
        q.mul(&valid.sub(1i64)?)?.clamp(Some(Scalar::Float(0.0)), None)?
    } else {
        let spoilt = sorted.isnan()?.any(&[-1], true)?;
        spoilt.r#where((n - 1) as f64, &q.mul((n - 1) as f64)?)?
    };
    let ranks = if q.ndim() == 0 || ranks.ndim() > 0 { ranks } else { ranks.unsqueeze(0)? };
    let ranks = match how {
        "lower" => ranks.floor()?,
        "higher" => ranks.ceil()?,
        "nearest" => ranks.round()?,
        _ => ranks,
    };
    let index = |r: &Tensor| r.to_copy_with(Some(DType::I64), None);
    let below = index(&ranks)?;
    let mut values = sorted.gather(-1, &below)?;
    if how == "linear" || how == "midpoint" {
        let weight = if how == "midpoint" { ranks.full_like(0.5)? } else { ranks.sub(&below)? };
        values = values.lerp(&sorted.gather(-1, &index(&ranks.ceil()?)?)?, &weight)?;
    }
    // The quantiles stand last and come to lead; a kept dim goes back to its place.
    let kept = match dim.int() {
        _ if !keep => 0,
        Some(d) if x.ndim() > 0 => 1 << wrap_dim(d, x.ndim())?,
        _ => mask,
    };
    let out = unsqueeze_all(&values, kept)?;
    give(outs, if q.ndim() == 0 { out.squeeze_dim(&[-1])? } else { out.movedim(&[-1], &[0])? })
}

/// The quantile asked for as a number.
fn number(c: &Call<'_>) -> Result<Tensor> {
    let q = c.float(quantile_scalar::Q)?;
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::runtime(format!("{}() q must be in the range [0, 1] but got {q}", c.name())));
    }
    c.t(quantile_scalar::INPUT)?.new_full(&[], q)
}

fn number_samples() -> Vec<Sample> {
    let t = |s: &[i64], q, d| Sample::new(vec![SampleArg::f32(s), SampleArg::Float(q), d]);
    vec![t(&[3, 4], 0.4, SampleArg::None), t(&[3, 4], 0.5, SampleArg::Int(0)), t(&[5], 1.0, SampleArg::Int(0))]
}

fn tensor_samples() -> Vec<Sample> {
    let q = || SampleArg::range(&[2], 0.0, 1.0);
    let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), q(), d]);
    vec![t(&[3, 4], SampleArg::None), t(&[3, 4], SampleArg::Int(1))]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "quantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    ),
    doc: "The q-th quantiles (q in [0, 1]) of all elements or along a dimension, between elements as `interpolation` says:
\"linear\", \"lower\", \"higher\", \"midpoint\" or \"nearest\".

Example::

    >>> oneflow.quantile(oneflow.tensor([1., 2., 4.]), 0.75)
    tensor(3.)",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        use quantile as at;
        at_rank(c, outs, c.t(quantile::Q)?, (c.arg(at::DIM), c.bool(at::KEEPDIM), c.str(at::INTERPOLATION)?), false)
    }),
    samples: tensor_samples,
    traits: Traits::EXACT_OUT,
    amp: Amp::FLOAT32_ON_HOST,
    ..COMPOSED
};

pub static QUANTILE_NUMBER: OpDef = OpDef {
    sig: Sig::parse(
        "quantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    ),
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        use quantile_scalar as at;
        at_rank(c, outs, &number(c)?, (c.arg(at::DIM), c.bool(at::KEEPDIM), c.str(at::INTERPOLATION)?), false)
    }),
    samples: number_samples,
    traits: Traits::EXACT_OUT,
    amp: Amp::FLOAT32_ON_HOST,
    ..COMPOSED
};

pub static NANQUANTILE: OpDef = OpDef {
    sig: Sig::parse(
        "nanquantile(Tensor input, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    ),
    doc: "`quantile` of the elements that are not NaN.

Example::

    >>> oneflow.nanquantile(oneflow.tensor([1., oneflow.nan, 3.]), 0.5)
    tensor(2.)",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        use nanquantile as at;
        at_rank(c, outs, c.t(nanquantile::Q)?, (c.arg(at::DIM), c.bool(at::KEEPDIM), c.str(at::INTERPOLATION)?), true)
    }),
    samples: tensor_samples,
    traits: Traits::EXACT_OUT,
    amp: Amp::FLOAT32_ON_HOST,
    ..COMPOSED
};

pub static NANQUANTILE_NUMBER: OpDef = OpDef {
    sig: Sig::parse(
        "nanquantile.scalar(Tensor input, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    ),
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        use nanquantile_scalar as at;
        at_rank(c, outs, &number(c)?, (c.arg(at::DIM), c.bool(at::KEEPDIM), c.str(at::INTERPOLATION)?), true)
    }),
    samples: number_samples,
    traits: Traits::EXACT_OUT,
    amp: Amp::FLOAT32_ON_HOST,
    ..COMPOSED
};
