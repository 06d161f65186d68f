//! What elementwise ops take beside half floats. As in PyTorch, an operand of another dtype is cast to the half type before anything
//! is computed, and so is a number beside a tensor of the host; kernels of a GPU read a number in float32.

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

/// The number as the op reads it beside `beside`.
#[inline]
pub fn number(beside: &Tensor, s: Scalar) -> Scalar {
    let (Scalar::Float(_) | Scalar::Int(_)) = s else { return s };
    match beside.dtype() {
        DType::BF16 if beside.device().is_cpu() => Scalar::Float(bf16::from_f64(s.to_f64()).to_f64()),
        DType::F16 if beside.device().is_cpu() => Scalar::Float(f16::from_f64(s.to_f64()).to_f64()),
        _ => s,
    }
}

/// The inputs with those of another dtype than the half type of the result cast by `cast`; `None` where none is.
/// A truth is zero or one in every dtype, and a number of the host beside a tensor of a device stays as it is.
#[inline]
pub fn cast_inputs(c: &Call<'_>, cast: impl Fn(&Tensor, DType) -> Result<Tensor>) -> Result<Option<Cast>> {
    let mut ins = c.ins.iter().flatten();
    let Some(first) = ins.next() else { return Ok(None) };
    if ins.all(|t| t.dtype() == first.dtype()) {
        return Ok(None);
    }
    cast_mixed(c, cast)
}

#[cold]
fn cast_mixed(c: &Call<'_>, cast: impl Fn(&Tensor, DType) -> Result<Tensor>) -> Result<Option<Cast>> {
    if !c.ins.iter().flatten().any(|t| is_half(t.dtype())) {
        return Ok(None);
    }
    let half = result_type(c.ins.iter().flatten().copied().filter(|t| t.dtype() != DType::Bool), None)?;
    if !is_half(half) {
        return Ok(None);
    }
    let on_device = c.ins.iter().flatten().any(|t| !t.device().is_cpu());
    let stays = |i: usize, t: &Tensor| {
        t.dtype() == half
            || t.dtype() == DType::Bool
            || t.device().is_cpu() && on_device
            || i == 1 && t.numel() == 1 && c.op.traits.has(Traits::WIDE_NUMBER)
    };
    let of = |(i, t): (usize, &Option<&Tensor>)| t.filter(|t| !stays(i, t)).map(|t| cast(t, half)).transpose();
    let made = c.ins.iter().enumerate().map(of).collect::<Result<Cast>>()?;
    Ok(made.iter().any(Option::is_some).then_some(made))
}
