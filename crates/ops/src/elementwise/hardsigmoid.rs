//! `hardsigmoid`, `hardsigmoid_backward`: `(x + 3) / 6` limited to [0, 1].

use super::unary;
use crate::named::{hardsigmoid, hardsigmoid_backward};
use crate::prelude::*;

static SIGMOID_EXPR: Expr = expr!(float "hardsigmoid", |x| {
    (x + L::splat(3.0)).maximum(L::splat(0.0)).minimum(L::splat(6.0)) / L::splat(6.0)
});

static SIGMOID_BACKWARD_EXPR: Expr = expr!(float "hardsigmoid_backward", |g, x| {
    let inside = L::splat(-3.0).lt(x) & x.lt(L::splat(3.0));
    L::select(inside, g / L::splat(6.0), L::splat(0.0))
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("hardsigmoid(Tensor input) -> Tensor"),
    doc: "`(x + 3) / 6` limited to [0, 1].

Example::

    >>> oneflow.nn.functional.hardsigmoid(oneflow.tensor([-4., 0.]))
    tensor([0.0000, 0.5000])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SIGMOID_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(hardsigmoid::INPUT, &[hardsigmoid::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(hardsigmoid::INPUT, || c.g()?.hardsigmoid_backward(c.x(hardsigmoid::INPUT)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    traits: unary::FLOAT.traits.or(Traits::FLAT),
    ..unary::FLOAT
};

pub static HARDSIGMOID_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardsigmoid_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of hardsigmoid.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SIGMOID_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let x = c.t(hardsigmoid_backward::INPUT)?;
        outs.give(
            x.gt(-3.0)?.logical_and(&x.lt(3.0)?)?.r#where(&c.t(hardsigmoid_backward::GRAD_OUTPUT)?.div(6.0)?, 0.0)?,
        );
        Ok(())
    }),
    ..unary::BACKWARD
};
