//! Elements by their rank: median, nanmedian, mode, kthvalue, quantile, nanquantile, msort.

use super::*;
use crate::named::{
    kthvalue, median, median_dim, mode, msort, nanquantile, nanquantile_scalar, quantile, quantile_scalar,
};

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
        let value = if x.dtype().is_float() { Scalar::Float(f64::NAN) } else { Scalar::Int(i64::MIN) };
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

pub static MEDIAN: OpDef = OpDef {
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

pub static KTHVALUE: OpDef = OpDef {
    sig: Sig::parse("kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The k-th smallest elements along a dimension (counted from one), and where they are.

Example::

    >>> oneflow.kthvalue(oneflow.tensor([3., 1., 2.]), 2).values
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, k, keep) = (c.t(kthvalue::INPUT)?, c.int(kthvalue::K)?, c.bool(kthvalue::KEEPDIM));
        let d = wrap_dim(c.int(kthvalue::DIM)?, x.ndim())?;
        let n = x.sizes().get(d).copied().unwrap_or(1);
        if k < 1 || k > n {
            return Err(Error::runtime(format!("kthvalue(): selected number k out of range for dimension {d}")));
        }
        if x.ndim() == 0 {
            return give_all(outs, [x.cloned()?, x.zeros_like_with(Some(DType::I64), None, false, None)?]);
        }
        let d = d as i64;
        for t in x.sort(d, false)? {
            let t = t.slice(d, Some(k - 1), Some(k), 1)?;
            outs.give(if keep { t.contiguous()? } else { t.squeeze_dim(&[d])?.contiguous()? });
        }
        Ok(())
    }),
    samples: || {
        let i = SampleArg::Int;
        let t = |s: &[i64], k, d| Sample::new(vec![SampleArg::f32(s), i(k), i(d)]);
        vec![t(&[3, 4], 2, -1), t(&[5, 3], 5, 0), t(&[], 1, 0)]
    },
    ..COMPOSED
};

pub static MODE: OpDef = OpDef {
    sig: Sig::parse("mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The most frequent elements along a dimension (the least of several), and where one of them is.

Example::

    >>> oneflow.mode(oneflow.tensor([2., 1., 2.])).values
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, keep) = (c.t(mode::INPUT)?, c.bool(mode::KEEPDIM));
        let d = wrap_dim(c.int(mode::DIM)?, x.ndim())? as i64;
        if x.ndim() == 0 {
            return give_all(outs, [x.cloned()?, x.zeros_like_with(Some(DType::I64), None, false, None)?]);
        }
        let n = x.sizes()[d as usize];
        if n == 0 {
            return Err(Error::index(format!("mode(): Expected reduction dim {d} to have non-zero size.")));
        }
        let [values, indices] = x.sort(d, false)?;
        // How many equal elements stand before each; the first place of the longest run's end is the answer.
        let mut along: Dims = SmallVec::from_elem(1, x.ndim());
        along[d as usize] = n;
        let places = indices.ones_like()?.cumsum(d)?.sub(1i64)?;
        let starts = values.slice(d, Some(1), None, 1)?.ne(&values.slice(d, Some(0), Some(n - 1), 1)?)?;
        let first = starts.new_ones(&kept_sizes(x.sizes(), 1 << d))?;
        let starts = f::cat([&first, &starts], d)?.r#where(&places, 0i64)?.cumulative_extreme(d, true)?;
        let best = places.sub(&starts)?.argmax(Some(d), true)?;
        for t in [&values, &indices] {
            let t = t.gather(d, &best)?;
            outs.give(if keep { t } else { t.squeeze_dim(&[d])?.contiguous()? });
        }
        Ok(())
    }),
    samples: || {
        let t = |s: &[i64], d, k| Sample::new(vec![SampleArg::i64(s, 0, 3), SampleArg::Int(d), SampleArg::Bool(k)]);
        vec![t(&[3, 6], -1, false), t(&[5, 3], 0, true), t(&[], 0, false)]
    },
    ..COMPOSED
};

pub static MSORT: OpDef = OpDef {
    sig: Sig::parse("msort(Tensor input) -> Tensor"),
    doc: "The elements in order along the first dimension.

Example::

    >>> oneflow.msort(oneflow.tensor([3., 1., 2.]))
    tensor([1., 2., 3.])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let [values, _] = c.t(msort::INPUT)?.sort(0, false)?;
        give(outs, values)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..COMPOSED
};

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

pub static QUANTILE: OpDef = OpDef {
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
    ..COMPOSED
};
