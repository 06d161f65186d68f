//! `float_power`: `input ** exponent` in double precision.

use super::binary;
use crate::named::{float_power, float_power_scalar};
use crate::prelude::*;

/// A destination that would round what is asked for in double precision.
fn powers_into(c: &Call<'_>, d: DType) -> Result<()> {
    let Dest::Into([dest]) = c.dest else { return Ok(()) };
    if dest.dtype() == d {
        return Ok(());
    }
    let what = match c.ins.iter().flatten().any(|t| t.same(dest)) {
        true => "base given to float_power_",
        false => "output given to float_power",
    };
    Err(Error::runtime(format!(
        "the {what} has dtype {} but the operation's result requires dtype {}",
        dest.dtype().scalar_type_name(),
        d.scalar_type_name()
    )))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("float_power(Tensor input, Tensor|Scalar exponent) -> Tensor"),
    doc: "`input ** exponent` in double precision.

Example::

    >>> oneflow.float_power(oneflow.tensor([2]), 3)
    tensor([8.], dtype=oneflow.float64)",
    infer: |c, outs| {
        let d = if binary::common(c)?.is_complex() { DType::C128 } else { DType::F64 };
        powers_into(c, d)?;
        super::push_broadcast(c, d, outs)
    },
    compose: Some(|c, outs| {
        let d = if binary::common(c)?.is_complex() { DType::C128 } else { DType::F64 };
        let x = c.t(float_power::INPUT)?.to_copy_with(Some(d), None)?;
        outs.give(match c.arg(float_power::EXPONENT_SCALAR).scalar() {
            Some(s) => x.pow(s)?,
            None => x.pow(&c.t(float_power::EXPONENT)?.to_copy_with(Some(d), None)?)?,
        });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.2, 2.0), SampleArg::Float(1.5)])],
    ..binary::ARITH
};

pub static FLOAT_POWER_SELF: OpDef = OpDef {
    sig: Sig::parse("float_power.Scalar(Scalar input, Tensor exponent) -> Tensor"),
    doc: "",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let d = result_type(c.ins.iter().flatten().copied(), c.arg(float_power_scalar::INPUT).scalar())?;
        let d = if d.is_complex() { DType::C128 } else { DType::F64 };
        powers_into(c, d)?;
        super::push_broadcast(c, d, outs)
    },
    compose: Some(|c, outs| {
        let s = c.arg(float_power_scalar::INPUT).scalar().unwrap_or(Scalar::Int(1));
        let complex = result_type(c.ins.iter().flatten().copied(), Some(s))?.is_complex();
        let e = c
            .t(float_power_scalar::EXPONENT)?
            .to_copy_with(Some(if complex { DType::C128 } else { DType::F64 }), None)?;
        outs.give(f::pow_scalar(s, &e)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(2.0), SampleArg::f32(&[3])])],
    ..binary::ARITH
};
