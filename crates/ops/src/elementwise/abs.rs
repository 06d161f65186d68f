//! Absolute value.

use super::unary;
use crate::named::abs as at;
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
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.mul(&c.x(at::INPUT)?.sgn()?)),
    },
    infer: |c, outs| match c.t(at::INPUT)?.dtype() {
        DType::Bool => Err(unary::not_implemented(c, DType::Bool)),
        d => super::push_broadcast(c, d.to_real(), outs),
    },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::FLOAT8.or(Limited::COMPLEX),
    sparse: Sparse::Values,
    ..unary::SAME
};
