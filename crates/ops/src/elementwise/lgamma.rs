//! `lgamma`: Logarithm of the absolute value of the gamma function.

use super::unary;
use crate::named::lgamma;
use crate::prelude::*;

static LGAMMA_EXPR: Expr = expr!(float "lgamma", |x| x.lgamma());

pub static OP: OpDef = OpDef {
    sig: Sig::parse("lgamma(Tensor input) -> Tensor"),
    doc: "Logarithm of the absolute value of the gamma function.

Example::

    >>> oneflow.lgamma(oneflow.tensor([3.]))
    tensor([0.6931])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LGAMMA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(lgamma::INPUT, &[lgamma::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(lgamma::INPUT, || c.g()?.mul(&c.x(lgamma::INPUT)?.digamma()?)),
    },
    samples: unary::samples_positive,
    ..super::special_rules::REAL
};
