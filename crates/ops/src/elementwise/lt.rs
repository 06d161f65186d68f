//! Less than.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "lt", |x, y| L::from_mask(x.lt(y))).truth();
static SCALAR: Expr = expr!(num "lt_scalar", |x; p| L::from_mask(x.lt(p[0]))).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("lt(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "True where `input < other`, elementwise, with broadcasting.

Example::

    >>> oneflow.lt(oneflow.tensor([1, 2]), 2)
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| binary::lower(c, binary::common(c)?.compute(), p, &TENSOR, &SCALAR)),
    ..binary::COMPARE
};
