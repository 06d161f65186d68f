//! Bitwise negation.

use super::unary;
use crate::named::bitwise_not as at;
use crate::prelude::*;

static EXPR: Expr = expr!(int "bitwise_not", |x| x.bit_not());

static LOGICAL: Expr = expr!(num "bitwise_not_bool", |x| L::from_mask(!x.is_true())).truth();

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bitwise_not(Tensor input) -> Tensor"),
    doc: "Bits inverted; for booleans the logical negation.

Example::

    >>> oneflow.bitwise_not(oneflow.tensor([0]))
    tensor([-1])",
    kernel: Kernel::Elementwise(|_, o, p| {
        unary::by_output(o, p, if o[at::RESULT].dtype() == DType::Bool { &LOGICAL } else { &EXPR })
    }),
    infer: |c, outs| {
        super::binary::integral(c)?;
        unary::same(c, outs)
    },
    samples: || vec![Sample::new(vec![SampleArg::i64(&[3, 4], -9, 9)]), Sample::new(vec![SampleArg::bool(&[3])])],
    ..unary::SAME
};
