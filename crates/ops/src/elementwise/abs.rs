//! Absolute value.

use super::unary;
use crate::prelude::*;

static EXPR: Expr = expr!(num "abs", |x| x.abs())
    .complex(complex!(|x| Cx::real(x.abs())))
    .bits(bits!(|x| x.bit_and(L::splat(32767.0))));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("abs(Tensor input) -> Tensor"),
    doc: "Absolute value, elementwise.

Example::

    >>> oneflow.abs(oneflow.tensor([-1., 2.]))
    tensor([1., 2.])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_input(c, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.mul(&c.x(0)?.sgn()?)),
    },
    infer: |c, outs| super::push_broadcast(c, c.t(0)?.dtype().to_real(), outs),
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::FLOAT8.or(Limited::COMPLEX),
    sparse: Sparse::Values,
    ..unary::SAME
};
