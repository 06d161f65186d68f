//! Rounding towards zero.

use super::unary;
use crate::named::trunc as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "trunc", |x| x.trunc());

pub static OP: OpDef = OpDef {
    sig: Sig::parse("trunc(Tensor input) -> Tensor"),
    doc: "The integer part of each element.

Example::

    >>> oneflow.trunc(oneflow.tensor([1.]))
    tensor([1.])",
    infer: unary::number,
    kernel: Kernel::Elementwise(|_, o, p| unary::rounding(o, p, &EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(at::INPUT, || c.g()?.zeros_like()) },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Values,
    ..unary::SAME
};
