//! Infinity test.

use super::unary;
use crate::prelude::*;

static EXPR: Expr = expr!(float "isinf", |x| L::from_mask(x.is_inf()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("isinf(Tensor input) -> Tensor"),
    doc: "True where an element is infinite.

Example::

    >>> oneflow.isinf(oneflow.tensor([1.]))
    tensor([False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &EXPR)),
    ..unary::BOOL
};
