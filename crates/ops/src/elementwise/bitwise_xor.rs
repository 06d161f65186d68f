//! Bitwise xor.

use super::binary;
use crate::prelude::*;

static TENSOR: Expr = expr!(int "bitwise_xor", |x, y| x.bit_xor(y)).truth();
static SCALAR: Expr = expr!(int "bitwise_xor_scalar", |x; p| x.bit_xor(p[0])).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bitwise_xor(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Bitwise xor of integers, logical xor of booleans.

Example::

    >>> oneflow.bitwise_xor(oneflow.tensor([6]), 3)
    tensor([5])",
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
