//! Logical xor.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "logical_xor", |x, y| L::from_mask(x.is_true() ^ y.is_true()))
    .complex(complex!(|x, y| Cx::from_mask(x.is_true() ^ y.is_true())))
    .truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logical_xor(Tensor input, Tensor other) -> Tensor"),
    doc: "Exactly one operand is true (non-zero).

Example::

    >>> oneflow.logical_xor(oneflow.tensor([True]), oneflow.tensor([False]))
    tensor([True])",
    kernel: Kernel::Elementwise(|c, _, p| {
        p.push(binary::common(c)?.compute().into());
        Ok(&TENSOR)
    }),
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4]), SampleArg::bool(&[4])])],
    ..binary::COMPARE
};
