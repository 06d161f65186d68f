//! Limits.

use super::unary;
use crate::named::{clamp, clamp_tensor};
use crate::prelude::*;
use crate::scalar_range;

static BOTH: Expr = expr!(num "clamp", |x; p| x.maximum(p[0]).minimum(p[1]));
pub(super) static MIN: Expr = expr!(num "clamp_min", |x; p| x.maximum(p[0]));
pub(super) static MAX: Expr = expr!(num "clamp_max", |x; p| x.minimum(p[0]));

fn limits(c: &Call<'_>) -> Result<(Option<Scalar>, Option<Scalar>)> {
    let (lo, hi) = (c.arg(clamp::MIN).scalar(), c.arg(clamp::MAX).scalar());
    if lo.is_none() && hi.is_none() {
        return Err(Error::runtime("clamp(): At least one of 'min' or 'max' must not be None"));
    }
    Ok((lo, hi))
}

/// Refuses limits that no element of the dtype can meet.
pub(super) fn check_limits(c: &Call<'_>, dtype: DType, lo: Option<Scalar>, hi: Option<Scalar>) -> Result<()> {
    if dtype.is_int() {
        let beyond = |what: &str, s: Scalar| {
            Err(Error::runtime(format!(
                "{}(): Clamp {what} value {} is outside the representable range of {}",
                c.name(),
                s.to_i64(),
                dtype.scalar_type_name()
            )))
        };
        let (least, greatest) = scalar_range::int_limits(dtype);
        if let Some(s) = lo.filter(|s| u64::try_from(s.to_i64()).is_ok_and(|v| v > greatest)) {
            return beyond("min", s);
        }
        if let Some(s) = hi.filter(|s| s.to_i64() < least) {
            return beyond("max", s);
        }
    } else if matches!(dtype, DType::F16 | DType::BF16) {
        for s in [lo, hi].into_iter().flatten() {
            scalar_range::check(c, dtype, s)?;
        }
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor"),
    doc: "Elements limited to [min, max].

Example::

    >>> oneflow.clamp(oneflow.tensor([-1., 0.5, 2.]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])",
    infer: |c, outs| {
        let (lo, hi) = limits(c)?;
        let x = c.t(clamp::INPUT)?;
        let mut d = result_type(std::iter::once(x), lo)?;
        if let Some(h) = hi {
            d = promote::combine(Some(d), None, Some(h))?;
        }
        check_limits(c, d, lo, hi)?;
        super::push_broadcast(c, d, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[clamp::RESULT].dtype().compute();
        p.push(compute.into());
        let (lo, hi) = limits(c)?;
        for s in [lo, hi].into_iter().flatten() {
            super::push_scalar(p, compute, s);
        }
        Ok(match (lo, hi) {
            (Some(_), Some(_)) => &BOTH,
            (Some(_), None) => &MIN,
            _ => &MAX,
        })
    }),
    grad: Grad::Rule {
        save: &[Save::of(clamp::INPUT, &[clamp::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(clamp::INPUT, || {
                let x = c.x(clamp::INPUT)?;
                let mut g = c.g()?.clone();
                if let Some(lo) = c.arg(clamp::MIN).scalar() {
                    g = x.gt(lo)?.r#where(&g, 0.0)?;
                }
                if let Some(hi) = c.arg(clamp::MAX).scalar() {
                    g = x.lt(hi)?.r#where(&g, 0.0)?;
                }
                Ok(g)
            })
        },
    },
    samples: || {
        let t = |s: &[i64], lo, hi| Sample::new(vec![SampleArg::f32(s), lo, hi]);
        vec![
            t(&[3, 4], SampleArg::Float(-0.5), SampleArg::Float(0.7)),
            t(&[5], SampleArg::Float(0.0), SampleArg::None),
            t(&[], SampleArg::None, SampleArg::Int(1)),
        ]
    },
    limited: Limited::ORDER,
    ..unary::FLOAT
};

static TENSORS: Expr = expr!(num "clamp_tensors", |x, lo, hi| x.maximum(lo).minimum(hi));
pub(super) static TENSOR_MIN_EXPR: Expr = expr!(num "clamp_min_tensor", |x, lo| x.maximum(lo));
pub(super) static TENSOR_MAX_EXPR: Expr = expr!(num "clamp_max_tensor", |x, hi| x.minimum(hi));

pub static TENSOR: OpDef = OpDef {
    sig: Sig::parse("clamp.Tensor(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor"),
    doc: "",
    infer: |c, outs| {
        if c.opt(clamp_tensor::MIN).is_none() && c.opt(clamp_tensor::MAX).is_none() {
            return Err(Error::value("clamp(): At least one of 'min' or 'max' must not be None"));
        }
        super::push_broadcast(c, result_type(c.ins.iter().flatten().copied(), None)?, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        p.push(outs[clamp_tensor::RESULT].dtype().compute().into());
        Ok(match (c.opt(clamp_tensor::MIN), c.opt(clamp_tensor::MAX)) {
            (Some(_), Some(_)) => &TENSORS,
            (Some(_), None) => &TENSOR_MIN_EXPR,
            _ => &TENSOR_MAX_EXPR,
        })
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(clamp_tensor::INPUT, &[clamp_tensor::INPUT, clamp_tensor::MIN, clamp_tensor::MAX]),
            Save::of(clamp_tensor::MIN, &[clamp_tensor::INPUT, clamp_tensor::MIN, clamp_tensor::MAX]),
            Save::of(clamp_tensor::MAX, &[clamp_tensor::INPUT, clamp_tensor::MIN, clamp_tensor::MAX]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, lo, hi) = (c.x(clamp_tensor::INPUT)?, c.opt_x(clamp_tensor::MIN), c.opt_x(clamp_tensor::MAX));
            // Where each limit is the result, and where it ties with the input and they share. Of limits that cross, the
            // upper one wins; limits that are equal leave a tie to the input.
            let ordered = |strict: bool| match (lo, hi) {
                (Some(lo), Some(hi)) if strict => lo.lt(hi).map(Some),
                (Some(lo), Some(hi)) => lo.gt(hi)?.logical_not().map(Some),
                _ => Ok(None),
            };
            let and = |m: Tensor, o: &Option<Tensor>| match o {
                Some(o) => m.logical_and(o),
                None => Ok(m),
            };
            let (apart, uncrossed) = (ordered(true)?, ordered(false)?);
            let below = lo.map(|lo| and(x.lt(lo)?, &uncrossed)).transpose()?;
            let at_low = lo.map(|lo| and(x.eq(lo)?, &apart)).transpose()?;
            let above = hi
                .map(|hi| match &uncrossed {
                    Some(o) => x.gt(hi)?.logical_or(&o.logical_not()?),
                    None => x.gt(hi),
                })
                .transpose()?;
            let at_high = hi.map(|hi| and(x.eq(hi)?, &apart)).transpose()?;
            let half = c.g()?.mul(0.5)?;
            let share = |all: &Option<Tensor>, tie: &Option<Tensor>| match (all, tie) {
                (Some(all), Some(tie)) => all.r#where(c.g()?, &tie.r#where(&half, 0.0)?),
                _ => Err(Error::runtime("clamp(): a limit that was not given has no gradient")),
            };
            out.set(clamp_tensor::INPUT, || {
                let mut g = c.g()?.clone();
                for tie in [&at_low, &at_high].into_iter().flatten() {
                    g = tie.r#where(&half, &g)?;
                }
                for limit in [&below, &above].into_iter().flatten() {
                    g = limit.r#where(0.0, &g)?;
                }
                Ok(g)
            })?;
            out.set(clamp_tensor::MIN, || share(&below, &at_low))?;
            out.set(clamp_tensor::MAX, || share(&above, &at_high))
        },
    },
    samples: || {
        let t = |a: &[i64], b: SampleArg, c: SampleArg| Sample::new(vec![SampleArg::f32(a), b, c]);
        let (lo, hi) = (SampleArg::range(&[4], -1.0, 0.0), SampleArg::range(&[3, 1], 0.0, 1.0));
        vec![t(&[3, 4], lo.clone(), hi.clone()), t(&[3, 4], lo, SampleArg::None), t(&[3, 4], SampleArg::None, hi)]
    },
    limited: Limited::ORDER,
    ..unary::FLOAT
};
