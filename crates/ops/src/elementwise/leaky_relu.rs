//! `leaky_relu`, `leaky_relu_backward`: `x` where it is positive, `negative_slope * x` elsewhere.

use super::unary;
use crate::named::{leaky_relu, leaky_relu_backward};
use crate::prelude::*;

static EXPR: Expr = expr!(float "leaky_relu", |x; p| L::select(x.gt(L::splat(0.0)), x, x * p[0]));

static BACKWARD_EXPR: Expr = expr!(float "leaky_relu_backward", |g, x; p| {
    L::select(x.gt(L::splat(0.0)), g, g * p[0])
});

fn slope(a: Arg<'_>) -> Scalar {
    a.scalar().unwrap_or(Scalar::Float(0.01))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor"),
    doc: "`x` where it is positive, `negative_slope * x` elsewhere.

Example::

    >>> oneflow.nn.functional.leaky_relu(oneflow.tensor([-1., 2.]), 0.1)
    tensor([-0.1000,  2.0000])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &EXPR, &[leaky_relu::NEGATIVE_SLOPE.any()])),
    grad: Grad::Rule {
        save: &[Save::of(leaky_relu::INPUT, &[leaky_relu::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(leaky_relu::INPUT, || {
                c.g()?.leaky_relu_backward(c.x(leaky_relu::INPUT)?, slope(c.arg(leaky_relu::NEGATIVE_SLOPE)))
            })
        },
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("leaky_relu_backward(Tensor grad_output, Tensor input, Scalar negative_slope) -> Tensor"),
    doc: "Gradient of leaky_relu.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &BACKWARD_EXPR, &[leaky_relu_backward::NEGATIVE_SLOPE.any()])
    }),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(leaky_relu_backward::GRAD_OUTPUT)?, c.t(leaky_relu_backward::INPUT)?);
        outs.give(x.gt(0.0)?.r#where(g, &g.mul(slope(c.arg(leaky_relu_backward::NEGATIVE_SLOPE)))?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(leaky_relu_backward::INPUT, &[leaky_relu_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(leaky_relu_backward::GRAD_OUTPUT, || {
                c.g()?.leaky_relu_backward(
                    c.x(leaky_relu_backward::INPUT)?,
                    slope(c.arg(leaky_relu_backward::NEGATIVE_SLOPE)),
                )
            })?;
            out.set(leaky_relu_backward::INPUT, || c.g()?.zeros_like())
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4]), SampleArg::Float(0.1)])],
    ..unary::BACKWARD
};
