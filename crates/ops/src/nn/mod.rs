//! Ops of neural networks with kernels of their own.

pub mod batch_norm;
pub mod cross_entropy;
pub mod embedding;
pub mod group_norm;
pub mod layer_norm;
pub mod loss;
pub mod softmax;

use crate::prelude::*;

/// A result of `x`'s dtype and other sizes: channels last where `x` is, contiguous otherwise.
pub(crate) fn push_format(x: &Tensor, sizes: &[i64], outs: &mut Outs) -> Result<()> {
    let format = match x.ndim() {
        4 => "channels_last",
        5 => "channels_last_3d",
        _ => return outs.push(x.dtype(), x.device(), sizes),
    };
    let last = crate::elementwise::channels_last(format, x.sizes())?.unwrap_or_default();
    let is_last = !x.is_contiguous() && (0..x.ndim()).all(|d| x.sizes()[d] == 1 || x.strides()[d] == last[d]);
    match crate::elementwise::channels_last(format, sizes)?.filter(|_| is_last) {
        Some(strides) => outs.push_strided(x.dtype(), x.device(), Dims::from_slice(sizes), strides),
        None => outs.push(x.dtype(), x.device(), sizes),
    }
}
