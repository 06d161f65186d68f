//! `special_zeta`, `zeta_pair`: Hurwitz's zeta function, elementwise.

use super::{binary, unary};
use crate::named::{special_zeta, special_zeta_self_scalar, zeta_pair};
use crate::prelude::*;

static ZETA_EXPR: Expr = expr!(float "zeta", |x, q| special::zeta(x, q));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("special_zeta(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Hurwitz's zeta function, elementwise.

Example::

    >>> oneflow.special.zeta(oneflow.tensor([2.]), 1)
    tensor([1.6449])",
    faces: Faces::PRIVATE.or(Faces::OUT),
    infer: super::binary_rules::to_real_float,
    compose: Some(|c, outs| {
        let other = super::binary_rules::number_as_tensor(
            c,
            c.t(special_zeta::INPUT)?,
            special_zeta::OTHER_SCALAR,
            binary::common(c)?,
        )?;
        outs.give(c.t(special_zeta::INPUT)?.zeta_pair(&other)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[4], 2.0, 4.0), SampleArg::range(&[4], 1.0, 3.0)])],
    ..binary::ARITH
};

pub static ZETA_SELF: OpDef = OpDef {
    sig: Sig::parse("special_zeta.self_scalar(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    faces: Faces::PRIVATE,
    infer: super::binary_rules::to_real_float_first,
    compose: Some(|c, outs| {
        outs.give(super::binary_rules::first_number(c)?.zeta_pair(c.t(special_zeta_self_scalar::OTHER)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(2.5), SampleArg::range(&[3], 0.5, 2.0)])],
    ..binary::ARITH
};

pub static ZETA_PAIR: OpDef = OpDef {
    sig: Sig::parse("zeta_pair(Tensor input, Tensor other) -> Tensor"),
    doc: "zeta of two tensors.",
    faces: Faces::PRIVATE,
    infer: super::binary_rules::to_real_float,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ZETA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(zeta_pair::INPUT, &[zeta_pair::OTHER]), Save::of(zeta_pair::OTHER, &[zeta_pair::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, q) = (c.x(zeta_pair::INPUT)?, c.x(zeta_pair::OTHER)?);
            out.set(zeta_pair::INPUT, || {
                Err(Error::not_implemented("the derivative for 'self' is not implemented: zeta(x, q) in x"))
            })?;
            out.set(zeta_pair::OTHER, || c.g()?.mul(&x.neg()?.mul(&x.add(1.0)?.zeta_pair(q)?)?))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::range(&[4], 2.0, 4.0), SampleArg::range(&[4], 1.0, 3.0)])],
    ..binary::ARITH
};
