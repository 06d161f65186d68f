//! `remainder`: Remainder with the divisor's sign, as Python's `%`.

use super::binary;
use crate::named::remainder;
use crate::prelude::*;

static REMAINDER_TENSOR: Expr = expr!(num "remainder", |x, y| x.rem_floor(y)).nonzero(1);

static REMAINDER_SCALAR: Expr = expr!(num "remainder_scalar", |x; p| x.rem_floor(p[0]));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("remainder(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Remainder with the divisor's sign, as Python's `%`.

Example::

    >>> oneflow.remainder(oneflow.tensor([-5, 5]), 3)
    tensor([1, 2])",
    infer: |c, outs| {
        super::div::check_zero(c, binary::common(c)?)?;
        binary::infer(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower(c, o[remainder::RESULT].dtype().compute(), p, &REMAINDER_TENSOR, &REMAINDER_SCALAR)
    }),
    traits: Traits::ALIAS_OK.or(Traits::NUMBER_FIRST),
    grad: Grad::Rule {
        save: &[Save::of(remainder::INPUT, &[remainder::OTHER]), Save::of(remainder::OTHER, &[remainder::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(remainder::INPUT, || Ok(c.g()?.clone()))?;
            out.set(remainder::OTHER, || {
                c.g()?.mul(&c.x(remainder::INPUT)?.div_with(c.x(remainder::OTHER)?, Some("floor"))?)?.neg()
            })
        },
    },
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[4], 0.5, 2.0)]),
            Sample::new(vec![SampleArg::i64(&[5], -9, 9), SampleArg::Int(3)]),
        ]
    },
    ..binary::ARITH
};

pub static REMAINDER_SELF: OpDef = OpDef {
    sig: Sig::parse("remainder.Scalar_Tensor(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    compose: Some(|c, outs| super::binary_rules::number_first!(c, outs, remainder)),
    ..super::binary_rules::NUMBER_FIRST
};
