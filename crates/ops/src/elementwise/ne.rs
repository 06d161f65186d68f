//! Inequality.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr =
    expr!(num "ne", |x, y| L::from_mask(x.ne(y))).complex(complex!(|x, y| Cx::from_mask(!x.eq(y)))).truth();
static SCALAR: Expr = expr!(num "ne_scalar", |x; p| L::from_mask(x.ne(p[0])))
    .complex(complex!(|x; p| Cx::from_mask(!x.eq(p[0]))))
    .truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("ne(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "True where `input != other`, elementwise, with broadcasting.

Example::

    >>> oneflow.ne(oneflow.tensor([1, 2]), 2)
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| binary::lower(c, binary::common(c)?.compute(), p, &TENSOR, &SCALAR)),
    limited: Limited::ALL,
    ..binary::COMPARE
};
