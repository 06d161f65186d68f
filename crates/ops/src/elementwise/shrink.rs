//! `hardshrink`, `softshrink`, `shrink_backward`: `x` where its absolute value is above `lambd`, zero elsewhere.

use super::unary;
use crate::named::{hardshrink, shrink_backward, softshrink};
use crate::prelude::*;

static HARD_EXPR: Expr = expr!(float "hardshrink", |x; p| L::select(x.abs().le(p[0]), L::splat(0.0), x));

static SOFT_EXPR: Expr = expr!(float "softshrink", |x; p| {
    // NaN stays: zero times it.
    let y = L::select(p[0].lt(x), x - p[0], x * L::splat(0.0));
    L::select(x.lt(-p[0]), x + p[0], y)
});

static BACKWARD_EXPR: Expr = expr!(float "shrink_backward", |g, x; p| L::select(p[0].lt(x.abs()), g, L::splat(0.0)));

fn lambda(a: Arg<'_>) -> Scalar {
    a.scalar().unwrap_or(Scalar::Float(0.5))
}

const SHRINK_GRAD: Grad = Grad::Rule {
    save: &[Save::of(hardshrink::INPUT, &[hardshrink::INPUT])],
    fix: Fix::None,
    f: |c, out| {
        out.set(hardshrink::INPUT, || c.g()?.shrink_backward(c.x(hardshrink::INPUT)?, lambda(c.arg(hardshrink::LAMBD))))
    },
};

pub static HARDSHRINK: OpDef = OpDef {
    sig: Sig::parse("hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor"),
    doc: "`x` where its absolute value is above `lambd`, zero elsewhere.

Example::

    >>> oneflow.hardshrink(oneflow.tensor([-1., 0.2]))
    tensor([-1.,  0.])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &HARD_EXPR, &[hardshrink::LAMBD.any()])),
    grad: SHRINK_GRAD,
    faces: Faces::FN_METHOD_OUT,
    ..unary::FLOAT
};

pub static SOFTSHRINK: OpDef = OpDef {
    sig: Sig::parse("softshrink(Tensor input, Scalar lambd=0.5) -> Tensor"),
    doc: "`x` moved towards zero by `lambd`; zero where it is closer than that.

Example::

    >>> oneflow.nn.functional.softshrink(oneflow.tensor([-1., 0.2]))
    tensor([-0.5000,  0.0000])",
    infer: |c, outs| {
        let l = lambda(c.arg(softshrink::LAMBD)).to_f64();
        if l < 0.0 || l.is_nan() {
            return Err(Error::runtime(format!("lambda must be greater or equal to 0, but found to be {l}.")));
        }
        unary::floating(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &SOFT_EXPR, &[softshrink::LAMBD.any()])),
    grad: SHRINK_GRAD,
    faces: Faces::NN.or(Faces::OUT),
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("shrink_backward(Tensor grad_output, Tensor input, Scalar lambd) -> Tensor"),
    doc: "Gradient of hardshrink and softshrink.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &BACKWARD_EXPR, &[shrink_backward::LAMBD.any()])
    }),
    compose: Some(|c, outs| {
        outs.give(
            c.t(shrink_backward::INPUT)?
                .abs()?
                .gt(lambda(c.arg(shrink_backward::LAMBD)))?
                .r#where(c.t(shrink_backward::GRAD_OUTPUT)?, 0.0)?,
        );
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(shrink_backward::INPUT, &[shrink_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(shrink_backward::GRAD_OUTPUT, || {
                c.g()?.shrink_backward(c.x(shrink_backward::INPUT)?, lambda(c.arg(shrink_backward::LAMBD)))
            })?;
            out.set(shrink_backward::INPUT, || c.g()?.zeros_like())
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4]), SampleArg::Float(0.5)])],
    ..unary::BACKWARD
};
