//! `softplus`, `softplus_backward`: `log(1 + exp(beta * x)) / beta`; `x` itself where `beta * x` is above
//! `threshold`.

use super::unary;
use crate::named::{softplus, softplus_backward};
use crate::prelude::*;

// p: beta, threshold, above which it is the identity.
static EXPR: Expr = expr!(float "softplus", |x; p| {
    let z = x * p[0];
    L::select(p[1].lt(z), x, z.exp().log1p() / p[0])
});

static BACKWARD_EXPR: Expr = expr!(float "softplus_backward", |g, x; p| {
    let z = x * p[0];
    L::select(p[1].lt(z), g, g * z.sigmoid())
});

fn beta_threshold(c: &Call<'_>) -> (f64, f64) {
    (
        c.arg(softplus_backward::BETA).scalar().map_or(1.0, Scalar::to_f64),
        c.arg(softplus_backward::THRESHOLD).scalar().map_or(20.0, Scalar::to_f64),
    )
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("softplus(Tensor input, Scalar beta=1, Scalar threshold=20) -> Tensor"),
    doc: "`log(1 + exp(beta * x)) / beta`; `x` itself where `beta * x` is above `threshold`.

Example::

    >>> oneflow.nn.functional.softplus(oneflow.tensor([0., 30.]))
    tensor([ 0.6931, 30.0000])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &EXPR, &[softplus::BETA.any(), softplus::THRESHOLD.any()])
    }),
    grad: Grad::Rule {
        save: &[Save::of(softplus::INPUT, &[softplus::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let beta = c.arg(softplus::BETA).scalar().unwrap_or(Scalar::Int(1));
            let threshold = c.arg(softplus::THRESHOLD).scalar().unwrap_or(Scalar::Int(20));
            out.set(softplus::INPUT, || c.g()?.softplus_backward(c.x(softplus::INPUT)?, beta, threshold))
        },
    },
    faces: Faces::NN.or(Faces::OUT),
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("softplus_backward(Tensor grad_output, Tensor input, Scalar beta, Scalar threshold) -> Tensor"),
    doc: "Gradient of softplus.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(
            c,
            o,
            p,
            &BACKWARD_EXPR,
            &[softplus_backward::BETA.any(), softplus_backward::THRESHOLD.any()],
        )
    }),
    compose: Some(|c, outs| {
        let (g, (beta, threshold)) = (c.t(softplus_backward::GRAD_OUTPUT)?, beta_threshold(c));
        let z = c.t(softplus_backward::INPUT)?.mul(beta)?;
        outs.give(z.gt(threshold)?.r#where(g, &g.mul(&z.sigmoid()?)?)?);
        Ok(())
    }),
    samples: || {
        let g = SampleArg::f32(&[3, 4]);
        vec![Sample::new(vec![g.clone(), g, SampleArg::Float(1.5), SampleArg::Float(2.0)])]
    },
    ..unary::BACKWARD
};
