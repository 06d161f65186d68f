//! `heaviside`: Zero where `input` is negative, one where it is positive, `values` where it is zero.

use super::{binary, two_tensors, unary};
use crate::named::heaviside;
use crate::prelude::*;

static HEAVISIDE_EXPR: Expr = expr!(num "heaviside", |x, v| {
    let zero = L::splat(0.0);
    L::select(x.eq(zero), v, L::from_mask(zero.lt(x)))
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("heaviside(Tensor input, Tensor values) -> Tensor"),
    doc: "Zero where `input` is negative, one where it is positive, `values` where it is zero.

Example::

    >>> oneflow.heaviside(oneflow.tensor([-1., 0., 2.]), oneflow.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])",
    infer: |c, outs| {
        let (x, v) = (c.t(heaviside::INPUT)?, c.t(heaviside::VALUES)?);
        if x.dtype().is_complex() || v.dtype().is_complex() {
            return Err(Error::not_implemented("heaviside is not yet implemented for complex tensors."));
        }
        if x.dtype() != v.dtype() {
            return Err(Error::not_implemented("heaviside is not yet implemented for tensors with different dtypes."));
        }
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &HEAVISIDE_EXPR)),
    samples: two_tensors,
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    ..binary::ARITH
};
