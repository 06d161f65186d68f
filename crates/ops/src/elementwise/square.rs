//! Square.

use super::{dual, unary};
use crate::prelude::*;

static EXPR: Expr = expr!(num "square", |x| x * x).complex(complex!(|x| x * x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("square(Tensor input) -> Tensor"),
    doc: "`x * x`, elementwise.

Example::

    >>> oneflow.square(oneflow.tensor([3.]))
    tensor([9.])",
    infer: |c, outs| match c.t(0)?.dtype() {
        DType::Bool => super::push_broadcast(c, DType::I64, outs),
        d => super::push_broadcast(c, d, outs),
    },
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.mul(&dual(c.x(0)?)?.mul(2.0)?)),
    },
    sparse: Sparse::Values,
    ..unary::SAME
};
