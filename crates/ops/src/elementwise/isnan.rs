//! Not-a-number test.

use super::unary;
use crate::prelude::*;

static EXPR: Expr = expr!(float "isnan", |x| L::from_mask(x.is_nan())).complex(complex!(|x| Cx::from_mask(x.is_nan())));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("isnan(Tensor input) -> Tensor"),
    doc: "True where an element is NaN.

Example::

    >>> oneflow.isnan(oneflow.tensor([1.]))
    tensor([False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &EXPR)),
    limited: Limited::ALL,
    sparse: Sparse::Values,
    ..unary::BOOL
};
