//! Rectified linear unit.

use super::unary;
use crate::named::{relu, threshold_backward};
use crate::prelude::*;

static EXPR: Expr = expr!(num "relu", |x| x.maximum(L::splat(0.0)));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("relu(Tensor input) -> Tensor"),
    doc: "`max(x, 0)`, elementwise.

Example::

    >>> oneflow.relu(oneflow.tensor([-1., 2.]))
    tensor([0., 2.])",
    infer: |c, outs| {
        if c.t(relu::INPUT)?.dtype() == DType::Bool {
            return Err(Error::not_implemented("relu(): Boolean inputs not supported"));
        }
        unary::same(c, outs)
    },
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(relu::RESULT, &[relu::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(relu::INPUT, || c.g()?.threshold_backward(c.y(relu::RESULT)?, 0.0)),
    },
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    sparse: Sparse::Values,
    ..unary::SAME
};

static BACKWARD_EXPR: Expr = expr!(num "threshold_backward", |g, x; p| L::select(x.le(p[0]), L::splat(0.0), g));

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("threshold_backward(Tensor grad_output, Tensor input, Scalar threshold) -> Tensor"),
    doc: "The gradient where the input is above a threshold, zero elsewhere.",
    faces: Faces::PRIVATE,
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
