//! `threshold`, `threshold_backward`: `x` where it is above `threshold`, `value` elsewhere.

use super::unary;
use crate::named::{threshold, threshold_backward};
use crate::prelude::*;

static THRESHOLD_EXPR: Expr = expr!(num "threshold", |x; p| L::select(x.le(p[0]), p[1], x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor"),
    doc: "`x` where it is above `threshold`, `value` elsewhere.

Example::

    >>> oneflow.threshold(oneflow.tensor([-1., 2.]), 0.5, 9.)
    tensor([9., 2.])",
    faces: Faces::FN.or(Faces::INPLACE).or(Faces::OUT),
    infer: |c, outs| {
        if c.t(threshold::INPUT)?.dtype() == DType::Bool {
            return Err(Error::not_implemented("\"threshold_cpu\" not implemented for 'Bool'"));
        }
        unary::same(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &THRESHOLD_EXPR, &[threshold::THRESHOLD.any(), threshold::VALUE.any()])
    }),
    grad: Grad::Rule {
        save: &[Save::of(threshold::INPUT, &[threshold::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(threshold::INPUT, || {
                c.g()?.threshold_backward(
                    c.x(threshold::INPUT)?,
                    c.arg(threshold::THRESHOLD).scalar().unwrap_or(Scalar::Int(0)),
                )
            })
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(0.3), SampleArg::Float(-2.0)])],
    ..unary::SAME
};

static BACKWARD_EXPR: Expr = expr!(num "threshold_backward", |g, x; p| L::select(x.le(p[0]), L::splat(0.0), g));

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("threshold_backward(Tensor grad_output, Tensor input, Scalar threshold) -> Tensor"),
    doc: "The gradient where the input is above a threshold, zero elsewhere.",
    faces: Faces::PRIVATE,
    sparse: Sparse::Values,
    infer: |c, outs| super::push_broadcast(c, c.t(threshold_backward::GRAD_OUTPUT)?.dtype(), outs),
    kernel: Kernel::Elementwise(|c, o, p| {
        let expr = unary::by_output(o, p, &BACKWARD_EXPR)?;
        super::push_scalar(
            p,
            o[threshold_backward::RESULT].dtype().compute(),
            c.arg(threshold_backward::THRESHOLD).scalar().unwrap_or(Scalar::Int(0)),
        );
        Ok(expr)
    }),
    grad: Grad::Rule {
        save: &[Save::of(threshold_backward::INPUT, &[threshold_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(threshold_backward::GRAD_OUTPUT, || {
                c.g()?.threshold_backward(
                    c.x(threshold_backward::INPUT)?,
                    c.arg(threshold_backward::THRESHOLD).scalar().unwrap_or(Scalar::Int(0)),
                )
            })?;
            out.set(threshold_backward::INPUT, || c.g()?.zeros_like())
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[threshold_backward::GRAD_OUTPUT])] }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4]), SampleArg::Float(0.0)])],
    ..unary::FLOAT
};
