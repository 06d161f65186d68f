//! `relu`: `max(x, 0)`, elementwise.

use super::unary;
use crate::named::relu;
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
