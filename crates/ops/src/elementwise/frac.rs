//! `frac`: What is left after the integer part.

use super::unary;
use crate::named::frac;
use crate::prelude::*;

static FRAC_EXPR: Expr = expr!(float "frac", |x| x - x.trunc());

pub static OP: OpDef = OpDef {
    sig: Sig::parse("frac(Tensor input) -> Tensor"),
    doc: "What is left after the integer part.

Example::

    >>> oneflow.frac(oneflow.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &FRAC_EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(frac::INPUT, || Ok(c.g()?.clone())) },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    sparse: Sparse::Values,
    ..unary::FLOAT
};
