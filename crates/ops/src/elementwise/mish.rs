//! `mish`, `mish_backward`: `x * tanh(softplus(x))`.

use super::unary;
use crate::named::{mish, mish_backward};
use crate::prelude::*;

static MISH_EXPR: Expr = expr!(float "mish", |x| {
    let soft = x.maximum(L::splat(0.0)) + (-x.abs()).exp().log1p();
    x * soft.tanh()
});

static MISH_BACKWARD_EXPR: Expr = expr!(float "mish_backward", |g, x| {
    let soft = x.maximum(L::splat(0.0)) + (-x.abs()).exp().log1p();
    let t = soft.tanh();
    g * (t + x * x.sigmoid() * (L::splat(1.0) - t * t))
});

pub static OP: OpDef = OpDef {
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
