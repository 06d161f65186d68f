//! Type promotion: torch's categories. Tensors with dimensions outweigh 0-dim tensors, those outweigh Python numbers; a
//! lower class changes the result only by a higher category.

use crate::{Tensor, default_dtype};
use oneflow_base::{Category, DType, Result, Scalar, promote};

/// The dtype of a result of these operands.
#[inline]
pub fn result_type<'a>(tensors: impl Iterator<Item = &'a Tensor>, scalar: Option<Scalar>) -> Result<DType> {
    let mut dim: Option<DType> = None;
    let mut zero: Option<DType> = None;
    for t in tensors {
        let slot = if t.ndim() > 0 { &mut dim } else { &mut zero };
        *slot = Some(match *slot {
            None => t.dtype(),
            Some(d) => promote(d, t.dtype())?,
        });
    }
    combine(dim, zero, scalar)
}

/// Promotion of the three classes.
#[inline]
pub fn combine(dim: Option<DType>, zero: Option<DType>, scalar: Option<Scalar>) -> Result<DType> {
    let number = scalar.map(|s| s.natural_dtype(default_dtype()));
    let mut out = dim;
    for lower in [zero, number].into_iter().flatten() {
        out = Some(match out {
            None => lower,
            Some(d) if lower.category() > d.category() => raise(d, lower)?,
            Some(d) => d,
        });
    }
    Ok(out.unwrap_or(default_dtype()))
}

/// A lower class of higher category: the category rises; of floats that become complex the width stays.
fn raise(d: DType, lower: DType) -> Result<DType> {
    match (d.category(), lower.category()) {
        (Category::Float, Category::Complex) => Ok(match d {
            DType::F64 => DType::C128,
            DType::F16 => DType::C32,
            _ => DType::C64,
        }),
        _ => promote(d, lower),
    }
}

/// Integers and booleans become the default float (true division, `exp`, ...).
#[inline]
pub fn to_float(d: DType) -> DType {
    if d.is_differentiable() { d } else { default_dtype() }
}
