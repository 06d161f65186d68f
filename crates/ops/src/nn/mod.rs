//! Ops of neural networks with kernels of their own.

pub mod batch_norm;
pub mod cross_entropy;
pub mod embedding;
pub mod embedding_bag;
pub mod group_norm;
pub mod layer_norm;
pub mod loss;
pub mod rms_norm;
pub mod softmax;

use crate::prelude::*;

/// The memory format of results that follow `x`: channels last where `x` is, contiguous (`None`) otherwise.
fn format_of(x: &Tensor) -> Result<Option<&'static str>> {
    let format = match x.ndim() {
        4 => "channels_last",
        5 => "channels_last_3d",
        _ => return Ok(None),
    };
    let last = crate::elementwise::channels_last(format, x.sizes())?.unwrap_or_default();
    let is_last = !x.is_contiguous() && (0..x.ndim()).all(|d| x.sizes()[d] == 1 || x.strides()[d] == last[d]);
    Ok(is_last.then_some(format))
}

/// A result of `x`'s dtype and memory format, and other sizes.
pub(crate) fn push_format(x: &Tensor, sizes: &[i64], outs: &mut Outs) -> Result<()> {
    match format_of(x)?.map(|f| crate::elementwise::channels_last(f, sizes)).transpose()?.flatten() {
        Some(strides) => outs.push_strided(x.dtype(), x.device(), Dims::from_slice(sizes), strides),
        None => outs.push(x.dtype(), x.device(), sizes),
    }
}

/// `t` in the memory format that a result of `x` has: what a composition gives for `push_format`.
pub(crate) fn formatted(t: Tensor, x: &Tensor) -> Result<Tensor> {
    let format = format_of(x)?;
    let strides = match format {
        Some(f) => crate::elementwise::channels_last(f, t.sizes())?,
        None => None,
    };
    match strides {
        Some(s) if s.as_slice() == t.strides() => Ok(t),
        None if t.is_contiguous() => Ok(t),
        _ => t.clone_contiguous_with(format.or(Some("contiguous_format"))),
    }
}

/// In the compute dtype.
pub(crate) fn wide(t: &Tensor) -> Result<Tensor> {
    let compute = t.dtype().compute();
    if t.dtype() == compute { Ok(t.clone()) } else { t.to_copy_with(Some(compute), None) }
}

pub(crate) fn narrow(t: Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype { Ok(t) } else { t.to_copy_with(Some(dtype), None) }
}
