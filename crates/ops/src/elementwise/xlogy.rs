//! `xlogy`, `xlogy_pair`: `input * log(other)`, zero where `input` is zero.

use super::{binary, unary};
use crate::named::{xlogy, xlogy_pair, xlogy_scalar_self};
use crate::prelude::*;

static XLOGY_EXPR: Expr = expr!(float "xlogy", |x, y| {
    let zero = L::splat(0.0);
    L::select(y.is_nan(), y, L::select(x.eq(zero), zero, x * y.log()))
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("xlogy(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input * log(other)`, zero where `input` is zero.

Example::

    >>> oneflow.xlogy(oneflow.tensor([0., 2.]), oneflow.tensor([0., 1.]))
    tensor([0., 0.])",
    infer: super::binary_rules::to_real_float,
    compose: Some(|c, outs| {
        let other =
            super::binary_rules::number_as_tensor(c, c.t(xlogy::INPUT)?, xlogy::OTHER_SCALAR, binary::common(c)?)?;
        outs.give(c.t(xlogy::INPUT)?.xlogy_pair(&other)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: super::binary_rules::positive_second,
    traits: Traits::ALIAS_OK,
    ..binary::ARITH
};

pub static XLOGY_SELF: OpDef = OpDef {
    sig: Sig::parse("xlogy.Scalar_Self(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: super::binary_rules::to_real_float_first,
    compose: Some(|c, outs| {
        outs.give(super::binary_rules::first_number(c)?.xlogy_pair(c.t(xlogy_scalar_self::OTHER)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.5), SampleArg::range(&[3], 0.5, 2.0)])],
    ..binary::ARITH
};

pub static XLOGY_PAIR: OpDef = OpDef {
    sig: Sig::parse("xlogy_pair(Tensor input, Tensor other) -> Tensor"),
    doc: "xlogy of two tensors.",
    faces: Faces::PRIVATE,
    infer: super::binary_rules::to_real_float,
    kernel: Kernel::Elementwise(|c, o, p| {
        super::binary_rules::refuse_half(c, o)?;
        unary::by_output(o, p, &XLOGY_EXPR)
    }),
    compose: Some(|c, outs| super::binary_rules::times_logarithm(c, outs, |y| y.log())),
    grad: Grad::Rule {
        save: &[
            Save::of(xlogy_pair::INPUT, &[xlogy_pair::INPUT, xlogy_pair::OTHER]),
            Save::of(xlogy_pair::OTHER, &[xlogy_pair::INPUT, xlogy_pair::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, y) = (c.x(xlogy_pair::INPUT)?, c.x(xlogy_pair::OTHER)?);
            out.set(xlogy_pair::INPUT, || {
                let flat = x.eq(0.0)?.logical_and(&y.le(0.0)?)?;
                c.g()?.mul(&flat.r#where(0.0, &y.log()?)?)
            })?;
            out.set(xlogy_pair::OTHER, || c.g()?.mul(x)?.div(y))
        },
    },
    samples: super::binary_rules::positive_second,
    ..binary::ARITH
};
