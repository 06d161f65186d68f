//! Tensors made from nothing, and copies of tensors in another dtype, device or layout.

pub mod arange;
pub mod clone;
pub mod contiguous;
pub mod copy;
pub mod empty;
pub mod empty_permuted;
pub mod empty_strided;
pub mod eye;
pub mod fill;
pub mod full;
pub mod linspace;
pub mod logspace;
pub mod new;
pub mod new_empty_strided;
pub mod ones;
pub mod scalar_tensor;
pub mod to_copy;
pub mod tril_indices;
pub mod vander;
pub mod zero;
pub mod zeros;

use crate::named::{zeros as zeros_at, zeros_like};
use crate::prelude::*;
pub use crate::view::give;

/// Every rank makes the whole.
pub const WHERE_IT_LIES: SbpRule = SbpRule::of(Rows::OnlyB { why: "it has no input whose layout it could follow" });

/// An op that is its composition.
pub const COMPOSED: OpDef = OpDef { grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), ..OpDef::BASE };

/// dtype, device and requires_grad are keyword arguments of every creation op; requires_grad is set by the layer above.
pub fn push(c: &Call<'_>, sizes: &[i64], dtype: Arg<'_>, device: Arg<'_>, outs: &mut Outs) -> Result<()> {
    if let Some(s) = sizes.iter().find(|s| **s < 0) {
        return Err(Error::runtime(format!(
            "{}(): Trying to create tensor with negative dimension {s}: {sizes:?}",
            c.name()
        )));
    }
    outs.push(dtype.dtype().unwrap_or(default_dtype()), device.device().unwrap_or(Device::CPU), sizes)
}

/// A constant fill.
pub fn lower_fill(l: &mut Lowered, value: Scalar) -> Result<()> {
    l.output(zeros_at::RESULT);
    l.with(fill_params(value));
    Ok(())
}

/// The number, as a fill takes it.
pub(crate) fn fill_params(value: Scalar) -> FillParams {
    match value {
        Scalar::Float(v) => FillParams { is_float: true, value: v.into(), imaginary: None },
        Scalar::Complex(v, imag) => FillParams { is_float: true, value: v.into(), imaginary: Some(imag) },
        v => FillParams { is_float: false, value: v.to_i64().into(), imaginary: None },
    }
}

/// Rows of ops that read their input's meta and not its values: the result of the input's size follows a split, and nothing is
/// reduced for a partial input.
pub fn unread_rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let Some(x) = c.opt(zeros_like::INPUT) else { return Ok(()) };
    let row = |i: Sbp, o: Sbp| Row { ins: SmallVec::from_slice(&[i]), outs: SmallVec::from_slice(&[o]) };
    rows.extend((0..x.ndim()).map(|d| row(Sbp::S(d as u8), Sbp::S(d as u8))));
    rows.push(row(Sbp::P_SUM, Sbp::B));
    Ok(())
}

/// The same where the result has a size of its own: every rank makes the whole.
pub fn resized_rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    unread_rows(c, rows)?;
    rows.iter_mut().for_each(|r| r.outs[0] = Sbp::B);
    Ok(())
}
