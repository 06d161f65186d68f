//! What ops of two operands share: which dtypes they take, and calls whose first operand is a number.

use super::{binary, unary};
use crate::named::{xlogy, xlogy_pair, xlogy_scalar_self};
use crate::prelude::*;

/// The promoted dtype, which must be a float (or none of those refused).
pub(super) fn float_only(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = binary::common(c)?;
    if !d.is_float() {
        return Err(unary::not_implemented(c, d));
    }
    binary::infer(c, outs)
}

pub(super) fn to_real_float(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = binary::common(c)?;
    if d.is_complex() {
        return Err(unary::not_implemented(c, d));
    }
    binary::infer_float(c, outs)
}

pub(super) fn positive_second() -> Vec<Sample> {
    let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::range(b, 0.2, 3.0)]);
    vec![t(&[5], &[5]), t(&[3, 4], &[4]), t(&[], &[])]
}

/// The dtype of a number with a tensor.
pub(super) fn to_real_float_first(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = result_type(c.ins.iter().flatten().copied(), c.arg(xlogy_scalar_self::INPUT).scalar())?;
    if d.is_complex() {
        return Err(unary::not_implemented(c, d));
    }
    super::push_mixed(c, promote::to_float(d), true, outs)
}

/// The second operand as a tensor, also where it is a number.
pub(super) fn number_as_tensor(c: &Call<'_>, like: &Tensor, number: At<Scalar>, dtype: DType) -> Result<Tensor> {
    match c.arg(number).scalar() {
        Some(s) => like.new_full_with(&[], s, Some(promote::to_float(dtype)), None, false),
        None => Ok(c.t(xlogy::OTHER)?.clone()),
    }
}

/// Leaves half types to the composition: the logarithm is rounded to the half type before the product.
pub(super) fn refuse_half(c: &Call<'_>, outs: &Outs) -> Result<()> {
    let d = outs[xlogy_pair::RESULT].dtype();
    if matches!(d, DType::BF16 | DType::F16) { Err(unary::not_implemented(c, d)) } else { Ok(()) }
}

/// `input * log(other)` by ops that round each: zero where the input is zero, NaN where `other` is NaN.
pub(super) fn times_logarithm(c: &Call<'_>, outs: &mut Outs, log: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    let d = promote::to_float(binary::common(c)?);
    let as_result = |t: &Tensor| if t.dtype() == d { Ok(t.clone()) } else { t.to_copy_with(Some(d), None) };
    let (x, y) = (as_result(c.t(xlogy_pair::INPUT)?)?, as_result(c.t(xlogy_pair::OTHER)?)?);
    let product = x.eq(0.0)?.r#where(0.0, &x.mul(&log(&y)?)?)?;
    outs.give(y.isnan()?.r#where(&y, &product)?);
    Ok(())
}

/// The number of argument 0 in the dtype it has with the tensor.
pub(super) fn first_number(c: &Call<'_>) -> Result<Tensor> {
    let s = c.arg(xlogy_scalar_self::INPUT).scalar().unwrap_or(Scalar::Int(0));
    let d = promote::to_float(result_type(c.ins.iter().flatten().copied(), Some(s))?);
    c.t(xlogy_scalar_self::OTHER)?.new_full_with(&[], s, Some(d), None, false)
}

pub(super) const INTEGERS: OpDef = OpDef {
    infer: |c, outs| {
        let d = binary::common(c)?;
        if !d.is_int() {
            return Err(unary::not_implemented(c, d));
        }
        binary::infer(c, outs)
    },
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::i64(a, -20, 20), SampleArg::i64(b, 0, 9)]);
        vec![t(&[5], &[5]), t(&[3, 4], &[4])]
    },
    ..binary::ARITH
};

/// A number with a tensor, by the op of two tensors.
macro_rules! number_first {
    ($c:ident, $outs:ident, $method:ident) => {{
        let s = $c.arg($crate::named::bitwise_left_shift_scalar_tensor::INPUT).scalar().unwrap_or(Scalar::Int(0));
        let d = result_type($c.ins.iter().flatten().copied(), Some(s))?;
        $outs.give(
            $c.t($crate::named::bitwise_left_shift_scalar_tensor::OTHER)?
                .new_full_with(&[], s, Some(d), None, false)?
                .$method($c.t($crate::named::bitwise_left_shift_scalar_tensor::OTHER)?)?,
        );
        Ok(())
    }};
}

pub(super) const NUMBER_FIRST: OpDef = OpDef {
    faces: Faces::FN,
    infer: |c, outs| {
        let d = result_type(
            c.ins.iter().flatten().copied(),
            c.arg(crate::named::bitwise_left_shift_scalar_tensor::INPUT).scalar(),
        )?;
        super::push_mixed(c, d, true, outs)
    },
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Int(7), SampleArg::i64(&[4], 1, 5)])],
    ..binary::ARITH
};
pub(super) use number_first;
