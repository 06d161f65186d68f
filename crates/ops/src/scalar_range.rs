//! Numbers that are written into tensors: what a dtype can hold. Arithmetic with numbers wraps and rounds, and does not ask.

use oneflow_base::{DType, Error, Result, Scalar};
use oneflow_core::Call;

/// An error where the dtype of argument `arg`'s destination cannot hold the number.
pub(crate) fn check(c: &Call<'_>, dtype: DType, s: Scalar) -> Result<()> {
    if holds(dtype, s) {
        return Ok(());
    }
    Err(Error::runtime(format!("{}(): value cannot be converted to type {} without overflow", c.name(), c_name(dtype))))
}

/// An error where a factor is complex and the dtype real: arithmetic would drop its imaginary part.
#[inline]
pub(crate) fn check_factor(c: &Call<'_>, dtype: DType, factor: Option<Scalar>) -> Result<()> {
    match factor {
        Some(s @ Scalar::Complex(..)) if !dtype.is_complex() => check(c, dtype, s),
        _ => Ok(()),
    }
}

/// As `check`, of `n` elements: one alone of a narrow float dtype is cast, which makes infinity of what it cannot hold.
pub(crate) fn check_many(c: &Call<'_>, dtype: DType, s: Scalar, n: i64) -> Result<()> {
    let narrow = dtype.is_float8() || matches!(dtype, DType::F16 | DType::BF16);
    if n == 1 && narrow && s.parts().1 == 0.0 { Ok(()) } else { check(c, dtype, s) }
}

/// The number as it is written: booleans ask whether it is zero.
pub(crate) fn written(dtype: DType, s: Scalar) -> Scalar {
    if dtype == DType::Bool { Scalar::Int((s.parts() != (0.0, 0.0)).into()) } else { s }
}

/// Whether a number can be cast to the dtype: an integer wraps to an unsigned one of its width, fractions are cut, infinity and
/// NaN are floats, and a complex number without an imaginary part is real.
fn holds(dtype: DType, s: Scalar) -> bool {
    let (re, im) = s.parts();
    // Half complex numbers go by way of floats, as in PyTorch.
    if dtype == DType::Bool || dtype == DType::C32 {
        return true;
    }
    if dtype.is_complex() {
        let limit = float_limit(dtype.to_real());
        return [re, im].iter().all(|v| !v.is_finite() || v.abs() <= limit);
    }
    if im != 0.0 {
        return false;
    }
    if !dtype.is_int() {
        return re.is_nan() || re.abs() <= float_limit(dtype) || re.is_infinite() && has_infinity(dtype);
    }
    let (low, high) = int_limits(dtype);
    match s {
        Scalar::Int(i) if low == 0 => i.unsigned_abs() <= high,
        Scalar::Int(i) => i >= low && (i < 0 || i as u64 <= high),
        _ => re >= low as f64 && re <= high as f64,
    }
}

pub(crate) fn int_limits(dtype: DType) -> (i64, u64) {
    match dtype {
        DType::U8 => (0, u8::MAX.into()),
        DType::U16 => (0, u16::MAX.into()),
        DType::U32 => (0, u32::MAX.into()),
        DType::U64 => (0, u64::MAX),
        DType::I8 => (i8::MIN.into(), i8::MAX as u64),
        DType::I16 => (i16::MIN.into(), i16::MAX as u64),
        DType::I32 => (i32::MIN.into(), i32::MAX as u64),
        _ => (i64::MIN, i64::MAX as u64),
    }
}

fn has_infinity(dtype: DType) -> bool {
    !dtype.is_float8() || dtype == DType::F8E5M2
}

fn float_limit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F32 => f32::MAX.into(),
        DType::F8E4M3FN => 448.0,
        DType::F8E4M3FNUZ => 240.0,
        DType::F8E5M2 | DType::F8E5M2FNUZ => 57344.0,
        DType::F8E8M0FNU => 2f64.powi(127),
        _ => f64::MAX,
    }
}

/// The dtype's name as PyTorch says it here, since programs match the text.
fn c_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int",
        DType::I64 => "int64_t",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::C64 => "c10::complex<float>",
        DType::C128 => "c10::complex<double>",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::F8E4M3FN => "c10::Float8_e4m3fn",
        DType::F8E5M2 => "c10::Float8_e5m2",
        DType::F8E4M3FNUZ => "c10::Float8_e4m3fnuz",
        DType::F8E5M2FNUZ => "c10::Float8_e5m2fnuz",
        DType::F8E8M0FNU => "c10::Float8_e8m0fnu",
        DType::C32 => "c10::complex<c10::Half>",
    }
}
