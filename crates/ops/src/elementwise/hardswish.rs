//! `hardswish`, `hardswish_backward`: `x * hardsigmoid(x)`.

use super::unary;
use crate::named::{hardswish, hardswish_backward};
use crate::prelude::*;
use oneflow_kernels_prim::activations;

static SWISH_EXPR: Expr = expr!(float "hardswish", |x| activations::hardswish(x));

static SWISH_BACKWARD_EXPR: Expr = expr!(float "hardswish_backward", |g, x| {
    let three = L::splat(3.0);
    let y = L::select(x.lt(three), g * (x / three + L::splat(0.5)), g);
    L::select(x.le(-three), L::splat(0.0), y)
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("hardswish(Tensor input) -> Tensor"),
    doc: "`x * hardsigmoid(x)`.

Source: Howard et al., \"Searching for MobileNetV3\", 2019.

Example::

    >>> oneflow.nn.functional.hardswish(oneflow.tensor([-4., 3.]))
    tensor([-0.,  3.])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SWISH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(hardswish::INPUT, &[hardswish::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(hardswish::INPUT, || c.g()?.hardswish_backward(c.x(hardswish::INPUT)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDSWISH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardswish_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of hardswish.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SWISH_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(hardswish_backward::GRAD_OUTPUT)?, c.t(hardswish_backward::INPUT)?);
        let middle = g.mul(&x.div(3.0)?.add(0.5)?)?;
        outs.give(x.le(-3.0)?.r#where(0.0, &x.lt(3.0)?.r#where(&middle, g)?)?);
        Ok(())
    }),
    ..unary::BACKWARD
};
