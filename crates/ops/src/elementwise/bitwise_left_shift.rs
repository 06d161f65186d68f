//! `bitwise_left_shift`, `bitwise_right_shift`: `input` shifted left by `other` bits.

use super::binary;
use crate::named::bitwise_left_shift;
use crate::prelude::*;

static SHIFT_LEFT: Expr = expr!(int "bitwise_left_shift", |x, y| x.shl(y));

static SHIFT_LEFT_SCALAR: Expr = expr!(int "bitwise_left_shift_scalar", |x; p| x.shl(p[0]));

static SHIFT_RIGHT: Expr = expr!(int "bitwise_right_shift", |x, y| x.shr(y));

static SHIFT_RIGHT_SCALAR: Expr = expr!(int "bitwise_right_shift_scalar", |x; p| x.shr(p[0]));

/// Shifts are of the result's own width: what a distance of eight does to a byte is not what it does to a long.
fn shift(
    c: &Call<'_>,
    o: &Outs,
    p: &mut Params,
    tensor: &'static Expr,
    scalar: &'static Expr,
) -> Result<&'static Expr> {
    binary::lower(c, o[bitwise_left_shift::RESULT].dtype().compute(), p, tensor, scalar)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bitwise_left_shift(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input` shifted left by `other` bits.

Example::

    >>> oneflow.bitwise_left_shift(oneflow.tensor([1, 3]), 2)
    tensor([ 4, 12])",
    kernel: Kernel::Elementwise(|c, o, p| shift(c, o, p, &SHIFT_LEFT, &SHIFT_LEFT_SCALAR)),
    traits: Traits::ALIAS_OK.or(Traits::NUMBER_FIRST),
    ..super::binary_rules::INTEGERS
};

pub static RIGHT_SHIFT: OpDef = OpDef {
    sig: Sig::parse("bitwise_right_shift(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input` shifted right by `other` bits, with its sign.

Example::

    >>> oneflow.bitwise_right_shift(oneflow.tensor([-8, 12]), 2)
    tensor([-2,  3])",
    kernel: Kernel::Elementwise(|c, o, p| shift(c, o, p, &SHIFT_RIGHT, &SHIFT_RIGHT_SCALAR)),
    traits: Traits::ALIAS_OK.or(Traits::NUMBER_FIRST),
    ..super::binary_rules::INTEGERS
};

pub static LEFT_SHIFT_SELF: OpDef = OpDef {
    sig: Sig::parse("bitwise_left_shift.Scalar_Tensor(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    compose: Some(|c, outs| super::binary_rules::number_first!(c, outs, bitwise_left_shift)),
    ..super::binary_rules::NUMBER_FIRST
};

pub static RIGHT_SHIFT_SELF: OpDef = OpDef {
    sig: Sig::parse("bitwise_right_shift.Scalar_Tensor(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    compose: Some(|c, outs| super::binary_rules::number_first!(c, outs, bitwise_right_shift)),
    ..super::binary_rules::NUMBER_FIRST
};
