//! Logical or.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "logical_or", |x, y| L::from_mask(x.is_true() | y.is_true()))
    .complex(complex!(|x, y| Cx::from_mask(x.is_true() | y.is_true())))
    .truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logical_or(Tensor input, Tensor other) -> Tensor"),
    doc: "An operand is true (non-zero).

Example::

    >>> oneflow.logical_or(oneflow.tensor([True]), oneflow.tensor([False]))
    tensor([True])",
    kernel: Kernel::Elementwise(|c, _, p| {
        p.push(binary::common(c)?.compute().into());
        Ok(&TENSOR)
    }),
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4]), SampleArg::bool(&[4])])],
    ..binary::COMPARE
};
