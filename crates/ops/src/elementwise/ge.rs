//! Greater than or equal.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "ge", |x, y| L::from_mask(x.ge(y))).truth();
static SCALAR: Expr = expr!(num "ge_scalar", |x; p| L::from_mask(x.ge(p[0]))).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("ge(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "True where `input >= other`, elementwise, with broadcasting.

Example::

    >>> oneflow.ge(oneflow.tensor([1, 2]), 2)
    tensor([False,  True])",
    kernel: Kernel::Elementwise(|c, _, p| binary::lower(c, binary::common(c)?.compute(), p, &TENSOR, &SCALAR)),
    ..binary::COMPARE
};
