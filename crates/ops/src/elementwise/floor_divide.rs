//! `floor_divide`: Quotient rounded down, elementwise.

use super::binary;
use crate::named::floor_divide;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("floor_divide(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Quotient rounded down, elementwise.

Example::

    >>> oneflow.floor_divide(oneflow.tensor([-5, 5]), 2)
    tensor([-3,  2])",
    infer: |c, outs| {
        super::div::check_zero(c, binary::common(c)?)?;
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower_wide(
            c,
            o[floor_divide::RESULT].dtype().compute(),
            p,
            &super::div::FLOOR,
            &super::div::FLOOR_SCALAR,
        )
    }),
    traits: Traits::ALIAS_OK.or(Traits::NUMBERS).or(Traits::WIDE_NUMBER),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[4], 0.5, 2.0)]),
            Sample::new(vec![SampleArg::i64(&[5], -9, 9), SampleArg::Int(2)]),
        ]
    },
    sparse: Sparse::Values,
    ..binary::ARITH
};
