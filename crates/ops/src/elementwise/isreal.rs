//! `isreal`: True where the imaginary part is zero.

use super::unary;
use crate::named::isreal;
use crate::prelude::*;

static ISREAL_EXPR: Expr = expr!(num "isreal", |x| L::from_mask(x.eq(x) | x.is_nan()))
    .complex(complex!(|x| Cx::from_mask(x.im.eq(L::splat(0.0)))));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("isreal(Tensor input) -> Tensor"),
    doc: "True where the imaginary part is zero.

Example::

    >>> oneflow.isreal(oneflow.tensor([1j, 1 + 0j]))
    tensor([False,  True])",
    infer: |c, outs| super::push_like(c.t(isreal::INPUT)?, DType::Bool, c.t(isreal::INPUT)?.device(), None, outs),
    kernel: Kernel::Elementwise(|c, _, p| unary::by_input(c, p, &ISREAL_EXPR)),
    limited: Limited::ALL,
    ..unary::BOOL
};
