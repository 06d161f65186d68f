//! Square.

use super::{dual, unary};
use crate::named::square as at;
use crate::prelude::*;

static EXPR: Expr = expr!(num "square", |x| x * x).complex(complex!(|x| x * x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("square(Tensor input) -> Tensor"),
    doc: "`x * x`, elementwise.

Example::

    >>> oneflow.square(oneflow.tensor([3.]))
    tensor([9.])",
    infer: |c, outs| match c.t(at::INPUT)?.dtype() {
        DType::Bool => super::push_broadcast(c, DType::I64, outs),
        d => super::push_broadcast(c, d, outs),
    },
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.mul(&dual(c.x(at::INPUT)?)?.mul(2.0)?)),
    },
    sparse: Sparse::Values,
    ..unary::SAME
};
