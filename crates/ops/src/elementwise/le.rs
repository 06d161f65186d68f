//! Less than or equal.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "le", |x, y| L::from_mask(x.le(y))).truth();
static SCALAR: Expr = expr!(num "le_scalar", |x; p| L::from_mask(x.le(p[0]))).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("le(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "True where `input <= other`, elementwise, with broadcasting.

Example::

    >>> oneflow.le(oneflow.tensor([1, 2]), 2)
    tensor([True, True])",
    kernel: Kernel::Elementwise(|c, _, p| binary::lower(c, binary::common(c)?.compute(), p, &TENSOR, &SCALAR)),
    ..binary::COMPARE
};
