//! Limits.

use super::unary;
use crate::prelude::*;

static BOTH: Expr = expr!(num "clamp", |x; p| x.maximum(p[0]).minimum(p[1]));
static MIN: Expr = expr!(num "clamp_min", |x; p| x.maximum(p[0]));
static MAX: Expr = expr!(num "clamp_max", |x; p| x.minimum(p[0]));

fn limits(c: &Call<'_>) -> Result<(Option<Scalar>, Option<Scalar>)> {
    let (lo, hi) = (c.arg(0).scalar(), c.arg(1).scalar());
    if lo.is_none() && hi.is_none() {
        return Err(Error::runtime("clamp(): At least one of 'min' or 'max' must not be None"));
    }
    Ok((lo, hi))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("clamp(Tensor input, Scalar? min=None, Scalar? max=None) -> Tensor"),
    doc: "Elements limited to [min, max].

Example::

    >>> oneflow.clamp(oneflow.tensor([-1., 0.5, 2.]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])",
    infer: |c, outs| {
        let (lo, hi) = limits(c)?;
        let x = c.t(0)?;
        let mut d = result_type(std::iter::once(x), lo);
        if let Some(h) = hi {
            d = promote::combine(Some(d), None, Some(h));
        }
        super::push_broadcast(c, d, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[0].dtype().compute();
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
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| {
            out.set(0, || {
                let x = c.x(0)?;
                let mut g = c.g()?.clone();
                if let Some(lo) = c.arg(0).scalar() {
                    g = x.ge(lo)?.r#where(&g, 0.0)?;
                }
                if let Some(hi) = c.arg(1).scalar() {
                    g = x.le(hi)?.r#where(&g, 0.0)?;
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
    ..unary::FLOAT
};

static TENSORS: Expr = expr!(num "clamp_tensors", |x, lo, hi| x.maximum(lo).minimum(hi));
static TENSOR_MIN: Expr = expr!(num "clamp_min_tensor", |x, lo| x.maximum(lo));
static TENSOR_MAX: Expr = expr!(num "clamp_max_tensor", |x, hi| x.minimum(hi));

pub static TENSOR: OpDef = OpDef {
    sig: Sig::parse("clamp.Tensor(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor"),
    doc: "",
    infer: |c, outs| {
        if c.opt(1).is_none() && c.opt(2).is_none() {
            return Err(Error::value("clamp(): At least one of 'min' or 'max' must not be None"));
        }
        super::push_broadcast(c, result_type(c.ins.iter().flatten().copied(), None), outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        p.push(outs[0].dtype().compute().into());
        Ok(match (c.opt(1), c.opt(2)) {
            (Some(_), Some(_)) => &TENSORS,
            (Some(_), None) => &TENSOR_MIN,
            _ => &TENSOR_MAX,
        })
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 0b111), Save::In(1, 0b111), Save::In(2, 0b111)],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, lo, hi) = (c.x(0)?, c.opt_x(1), c.opt_x(2));
            out.set(0, || {
                let mut g = c.g()?.clone();
                if let Some(lo) = lo {
                    g = x.ge(lo)?.r#where(&g, 0.0)?;
                }
                if let Some(hi) = hi {
                    g = x.le(hi)?.r#where(&g, 0.0)?;
                }
                Ok(g)
            })?;
            // Where the limits cross, the upper one is the result.
            out.set(1, || {
                let lo = c.x(1)?;
                let below = x.lt(lo)?;
                let below = match hi {
                    Some(hi) => below.logical_and(&lo.lt(hi)?)?,
                    None => below,
                };
                below.r#where(c.g()?, 0.0)
            })?;
            out.set(2, || {
                let hi = c.x(2)?;
                let above = x.gt(hi)?;
                let above = match lo {
                    Some(lo) => above.logical_or(&hi.lt(lo)?)?,
                    None => above,
                };
                above.r#where(c.g()?, 0.0)
            })
        },
    },
    samples: || {
        let t = |a: &[i64], b: SampleArg, c: SampleArg| Sample::new(vec![SampleArg::f32(a), b, c]);
        let (lo, hi) = (SampleArg::range(&[4], -1.0, 0.0), SampleArg::range(&[3, 1], 0.0, 1.0));
        vec![t(&[3, 4], lo.clone(), hi.clone()), t(&[3, 4], lo, SampleArg::None), t(&[3, 4], SampleArg::None, hi)]
    },
    ..unary::FLOAT
};
