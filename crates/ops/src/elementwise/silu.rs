//! Sigmoid linear unit.

use super::unary;
use crate::named::{silu, silu_backward};
use crate::prelude::*;
use oneflow_kernels_prim::activations;

static EXPR: Expr = expr!(float "silu", |x| activations::silu(x)).complex(complex!(|x| x * x.sigmoid()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("silu(Tensor input) -> Tensor"),
    doc: "`x * sigmoid(x)`, elementwise.

Source: Elfwing et al., \"Sigmoid-Weighted Linear Units for Neural Network Function Approximation\", 2017.

Example::

    >>> oneflow.nn.functional.silu(oneflow.tensor([0.]))
    tensor([0.])",
    infer: |c, outs| match c.t(silu::INPUT)?.dtype() {
        d if d.is_differentiable() => super::push_broadcast(c, d, outs),
        d => Err(unary::not_implemented(c, d)),
    },
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(silu::INPUT, &[silu::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(silu::INPUT, || c.g()?.silu_backward(c.x(silu::INPUT)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

static BACKWARD_EXPR: Expr = expr!(float "silu_backward", |g, x| {
    let s = x.sigmoid();
    g * s * (L::splat(1.0) + x * (L::splat(1.0) - s))
});

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("silu_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of silu.",
    faces: Faces::PRIVATE,
    infer: |c, outs| super::push_broadcast(c, c.t(silu_backward::INPUT)?.dtype(), outs),
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(silu_backward::GRAD_OUTPUT)?, c.t(silu_backward::INPUT)?);
        let s = x.sigmoid()?;
        let slope = s.mul(&x.mul(&s.neg()?.add(1.0)?)?.add(1.0)?)?;
        outs.give(g.mul(&slope)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[silu_backward::GRAD_OUTPUT])] }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4])])],
    ..unary::FLOAT
};
