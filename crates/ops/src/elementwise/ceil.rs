//! Rounding up.

use super::unary;
use crate::named::ceil as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "ceil", |x| x.ceil());

pub static OP: OpDef = OpDef {
    sig: Sig::parse("ceil(Tensor input) -> Tensor"),
    doc: "The smallest integer not below each element.

Example::

    >>> oneflow.ceil(oneflow.tensor([1.]))
    tensor([1.])",
    infer: unary::number,
    kernel: Kernel::Elementwise(|_, o, p| unary::rounding(o, p, &EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(at::INPUT, || c.g()?.zeros_like()) },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Values,
    ..unary::SAME
};
