//! Smooth rectifiers: softplus, mish and the logarithm of the sigmoid.

use super::unary;
use crate::named::{log_sigmoid, mish, mish_backward, softplus, softplus_backward};
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
static MISH_EXPR: Expr = expr!(float "mish", |x| {
    let soft = x.maximum(L::splat(0.0)) + (-x.abs()).exp().log1p();
    x * soft.tanh()
});
static MISH_BACKWARD_EXPR: Expr = expr!(float "mish_backward", |g, x| {
    let soft = x.maximum(L::splat(0.0)) + (-x.abs()).exp().log1p();
    let t = soft.tanh();
    g * (t + x * x.sigmoid() * (L::splat(1.0) - t * t))
});
static LOG_SIGMOID_EXPR: Expr = expr!(float "log_sigmoid", |x| {
    x.minimum(L::splat(0.0)) - (-x.abs()).exp().log1p()
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
    faces: Faces::NN,
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

pub static MISH: OpDef = OpDef {
    sig: Sig::parse("mish(Tensor input) -> Tensor"),
    doc: "`x * tanh(softplus(x))`.

Source: Misra, \"Mish: A Self Regularized Non-Monotonic Activation Function\", 2019.

Example::

    >>> oneflow.nn.functional.mish(oneflow.tensor([0., 1.]))
    tensor([0.0000, 0.8651])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MISH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(mish::INPUT, &[mish::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(mish::INPUT, || c.g()?.mish_backward(c.x(mish::INPUT)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static MISH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("mish_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of mish.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MISH_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(mish_backward::GRAD_OUTPUT)?, c.t(mish_backward::INPUT)?);
        let t = x.softplus(1.0, 20.0)?.tanh()?;
        let slope = x.mul(&x.sigmoid()?)?.mul(&t.mul(&t)?.neg()?.add(1.0)?)?.add(&t)?;
        outs.give(g.mul(&slope)?);
        Ok(())
    }),
    ..unary::BACKWARD
};

pub static LOG_SIGMOID: OpDef = OpDef {
    sig: Sig::parse("log_sigmoid(Tensor input) -> Tensor"),
    doc: "`log(1 / (1 + exp(-x)))`.

Example::

    >>> oneflow.nn.functional.logsigmoid(oneflow.tensor([0.]))
    tensor([-0.6931])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOG_SIGMOID_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(log_sigmoid::INPUT, &[log_sigmoid::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(log_sigmoid::INPUT, || c.g()?.mul(&c.x(log_sigmoid::INPUT)?.neg()?.sigmoid()?)),
    },
    faces: Faces::NN,
    ..unary::FLOAT
};
