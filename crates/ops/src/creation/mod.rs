//! Tensors made from nothing, and copies of tensors in another dtype, device or layout.

pub mod arange;
pub mod contiguous;
pub mod copy;
pub mod full;
pub mod new;
pub mod to;
pub mod zeros;

use crate::prelude::*;

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
    l.output(0);
    match value {
        Scalar::Float(v) | Scalar::Complex(v, _) => l.param(true).param(v),
        v => l.param(false).param(v.to_i64()),
    };
    Ok(())
}
