//! `isposinf`, `isneginf`: True where an element is positive infinity.

use super::unary;
use crate::prelude::*;

static POSINF_EXPR: Expr = expr!(float "isposinf", |x| L::from_mask(x.eq(L::splat(f64::INFINITY))));

static NEGINF_EXPR: Expr = expr!(float "isneginf", |x| L::from_mask(x.eq(L::splat(f64::NEG_INFINITY))));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("isposinf(Tensor input) -> Tensor"),
    doc: "True where an element is positive infinity.

Example::

    >>> oneflow.isposinf(oneflow.tensor([oneflow.inf, 1.]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &POSINF_EXPR)),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Values,
    ..super::signbit::PREDICATE
};

pub static ISNEGINF: OpDef = OpDef {
    sig: Sig::parse("isneginf(Tensor input) -> Tensor"),
    doc: "True where an element is negative infinity.

Example::

    >>> oneflow.isneginf(oneflow.tensor([-oneflow.inf, 1.]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &NEGINF_EXPR)),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Values,
    ..super::signbit::PREDICATE
};
