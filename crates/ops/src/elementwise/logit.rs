//! `logit`, `logit_backward`: `log(x / (1 - x))`; with `eps`, of x limited to [eps, 1 - eps].

use super::unary;
use crate::named::{logit, logit_backward};
use crate::prelude::*;

static LOGIT_EXPR: Expr = expr!(float "logit", |x| (x / (L::splat(1.0) - x)).log());

static LOGIT_EPS: Expr = expr!(float "logit_eps", |x; p| {
    let one = L::splat(1.0);
    let z = L::select(x.lt(p[0]), p[0], L::select((one - p[0]).lt(x), one - p[0], x));
    (z / (one - z)).log()
});

/// Inputs inside (0, 1).
pub(super) fn unit() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, 0.05, 0.95)]);
    vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logit(Tensor input, float? eps=None) -> Tensor"),
    doc: "`log(x / (1 - x))`; with `eps`, of x limited to [eps, 1 - eps].

Example::

    >>> oneflow.logit(oneflow.tensor([0.5]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|c, o, p| match c.arg(logit::EPS).scalar() {
        Some(_) => unary::with_scalars(c, o, p, &LOGIT_EPS, &[logit::EPS.any()]),
        None => unary::by_output(o, p, &LOGIT_EXPR),
    }),
    grad: Grad::Rule {
        save: &[Save::of(logit::INPUT, &[logit::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let eps = c.arg(logit::EPS).scalar().map(Scalar::to_f64);
            out.set(logit::INPUT, || c.g()?.logit_backward(c.x(logit::INPUT)?, eps))
        },
    },
    samples: || {
        let mut all = unit();
        all.push(Sample::new(vec![SampleArg::range(&[5], 0.0, 1.0), SampleArg::Float(0.2)]));
        all
    },
    ..super::special_rules::REAL
};

// p: the limit from below, what lies outside of it gives.
static LOGIT_BACKWARD_EXPR: Expr = expr!(float "logit_backward", |g, x; p| {
    let one = L::splat(1.0);
    L::select(x.lt(p[0]) | (one - p[0]).lt(x), p[1], g / (x * (one - x)))
});

pub static LOGIT_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("logit_backward(Tensor grad_output, Tensor input, float? eps=None) -> Tensor"),
    doc: "Gradient of logit.",
    kernel: Kernel::Elementwise(|c, o, p| {
        let eps = c.arg(logit_backward::EPS).scalar().map(Scalar::to_f64);
        let expr = unary::by_output(o, p, &LOGIT_BACKWARD_EXPR)?;
        p.push(eps.unwrap_or(0.0).into());
        p.push(if eps.is_some() { 0.0 } else { f64::NAN }.into());
        Ok(expr)
    }),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(logit_backward::GRAD_OUTPUT)?, c.t(logit_backward::INPUT)?);
        let slope = g.div(&x.mul(&x.neg()?.add(1.0)?)?)?;
        let (eps, outside) = c.arg(logit_backward::EPS).scalar().map_or((0.0, f64::NAN), |s| (s.to_f64(), 0.0));
        outs.give(x.lt(eps)?.logical_or(&x.gt(1.0 - eps)?)?.r#where(outside, &slope)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[3, 4], 0.1, 0.9)])],
    ..unary::BACKWARD
};
