//! Greater than.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "gt", |x, y| L::from_mask(x.gt(y))).truth();
static SCALAR: Expr = expr!(num "gt_scalar", |x; p| L::from_mask(x.gt(p[0]))).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("gt(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "True where `input > other`, elementwise, with broadcasting.

Example::

    >>> oneflow.gt(oneflow.tensor([1, 2]), 2)
    tensor([False, False])",
    kernel: Kernel::Elementwise(|c, _, p| binary::lower(c, binary::common(c)?.compute(), p, &TENSOR, &SCALAR)),
    ..binary::COMPARE
};
