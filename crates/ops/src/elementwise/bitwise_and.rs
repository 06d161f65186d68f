//! Bitwise and.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(int "bitwise_and", |x, y| x.bit_and(y)).truth();
static SCALAR: Expr = expr!(int "bitwise_and_scalar", |x; p| x.bit_and(p[0])).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bitwise_and(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Bitwise and of integers, logical and of booleans.

Example::

    >>> oneflow.bitwise_and(oneflow.tensor([6]), 3)
    tensor([2])",
    infer: |c, outs| {
        binary::integral(c)?;
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|c, _, p| binary::lower(c, DType::I64, p, &TENSOR, &SCALAR)),
    traits: Traits::ALIAS_OK.or(Traits::NUMBER_FIRST),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::i64(&[3, 4], -9, 9), SampleArg::i64(&[4], -9, 9)]),
            Sample::new(vec![SampleArg::bool(&[3, 4]), SampleArg::bool(&[3, 4])]),
            Sample::new(vec![SampleArg::i64(&[3], -9, 9), SampleArg::Int(5)]),
        ]
    },
    limited: Limited::UNSIGNED,
    ..binary::ARITH
};
