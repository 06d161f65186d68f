//! Logical negation.

use super::unary;
use crate::prelude::*;

static EXPR: Expr =
    expr!(num "logical_not", |x| L::from_mask(!x.is_true())).complex(complex!(|x| Cx::from_mask(!x.is_true()))).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logical_not(Tensor input) -> Tensor"),
    doc: "True where an element is zero.

Example::

    >>> oneflow.logical_not(oneflow.tensor([0, 1]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_input(c, p, &EXPR)),
    faces: Faces::ALL,
    ..unary::BOOL
};
