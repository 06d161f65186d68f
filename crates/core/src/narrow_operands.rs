//! What elementwise ops take beside dtypes narrower than the one that they compute in. As in PyTorch, an operand of another dtype
//! is cast to the dtype of the result before anything is computed: to a half float by rounding, to a narrow integer by wrapping.
//! A number is cast so too, but kernels of a GPU read one beside half floats in float32.

use crate::op::Traits;
use crate::promote::result_type;
use crate::{Call, Tensor};
use oneflow_base::{DType, Result, Scalar, bf16, f16};
use smallvec::SmallVec;

/// Inputs of a call of which some were cast.
pub type Cast = SmallVec<[Option<Tensor>; 3]>;

#[inline]
fn is_half(d: DType) -> bool {
    matches!(d, DType::BF16 | DType::F16)
}

#[inline]
fn is_narrow_int(d: DType) -> bool {
    d.is_int() && d.size() < 8
}

/// The number as an op that computes in `compute` reads it beside `beside`.
#[inline]
pub fn number(beside: &Tensor, compute: DType, s: Scalar) -> Scalar {
    if !matches!(s, Scalar::Float(_) | Scalar::Int(_)) {
        return s;
    }
    match beside.dtype() {
        DType::BF16 if beside.device().is_cpu() => Scalar::Float(bf16::from_f64(s.to_f64()).to_f64()),
        DType::F16 if beside.device().is_cpu() => Scalar::Float(f16::from_f64(s.to_f64()).to_f64()),
        d => wrapped(d, compute, s),
    }
}

/// An integer beside integers narrower than it, wrapped to their dtype.
#[inline]
pub fn wrapped(beside: DType, compute: DType, s: Scalar) -> Scalar {
    let Scalar::Int(i) = s else { return s };
    if compute != DType::I64 {
        return s;
    }
    Scalar::Int(match beside {
        DType::U8 => i64::from(i as u8),
        DType::I8 => i64::from(i as i8),
        DType::I16 => i64::from(i as i16),
        DType::I32 => i64::from(i as i32),
        DType::U16 => i64::from(i as u16),
        DType::U32 => i64::from(i as u32),
        _ => i,
    })
}

/// The inputs with those of another dtype than the narrow type of the result cast by `cast`; `None` where none is.
/// `result` is what the call gives. A truth is zero or one in every dtype, and a number of the host beside a tensor of a device
/// stays as it is.
#[inline]
pub fn cast_inputs(
    c: &Call<'_>,
    result: DType,
    cast: impl Fn(&Tensor, DType) -> Result<Tensor>,
) -> Result<Option<Cast>> {
    let mut ins = c.ins.iter().flatten();
    let Some(first) = ins.next() else { return Ok(None) };
    if ins.all(|t| t.dtype() == first.dtype()) {
        return Ok(None);
    }
    cast_mixed(c, result, cast)
}

#[cold]
fn cast_mixed(c: &Call<'_>, result: DType, cast: impl Fn(&Tensor, DType) -> Result<Tensor>) -> Result<Option<Cast>> {
    let tensors = || c.ins.iter().flatten().copied();
    if !tensors().any(|t| is_half(t.dtype()) || is_narrow_int(t.dtype())) {
        return Ok(None);
    }
    let common = result_type(tensors().filter(|t| t.dtype() != DType::Bool), None)?;
    // Where integers give floats they are cast to those at once, whatever their width.
    if !(is_half(common) || is_narrow_int(common) && !result.is_float()) {
        return Ok(None);
    }
    let on_device = tensors().any(|t| !t.device().is_cpu());
    let stays = |i: usize, t: &Tensor| {
        t.dtype() == common
            || t.dtype() == DType::Bool
            || is_narrow_int(common) && t.dtype().size() < common.size()
            || t.device().is_cpu() && on_device
            || is_half(common) && i == 1 && t.numel() == 1 && c.op.traits.has(Traits::WIDE_NUMBER)
    };
    let of = |(i, t): (usize, &Option<&Tensor>)| t.filter(|t| !stays(i, t)).map(|t| cast(t, common)).transpose();
    let made = c.ins.iter().enumerate().map(of).collect::<Result<Cast>>()?;
    Ok(made.iter().any(Option::is_some).then_some(made))
}
