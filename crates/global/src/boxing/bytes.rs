//! Tensors as bytes: what boxing packs, sends and unpacks, in host memory or on a device.

use crate::mesh::Part;
use oneflow_base::{DType, Device, Dims, Result};
use oneflow_comm::Span;
use oneflow_core::{Tensor, Tls, bit, copy_into, copy_to_host, tls, with_tls};
use oneflow_ops::TensorOps;

/// A view of a box of a tensor.
pub fn cut(t: &Tensor, starts: &[i64], sizes: &[i64]) -> Result<Tensor> {
    let offset = t.offset() + starts.iter().zip(t.strides()).map(|(a, b)| a * b).sum::<i64>();
    t.alias(Dims::from_slice(sizes), Dims::from_slice(t.strides()), offset)
}

/// A view of a part along one dimension.
pub fn narrow(t: &Tensor, dim: usize, start: i64, len: i64) -> Result<Tensor> {
    let mut p = Part::whole(t.sizes());
    p.starts[dim] = start;
    p.sizes[dim] = len;
    cut(t, &p.starts, &p.sizes)
}

/// A dense copy on the same device.
pub fn dense(t: &Tensor) -> Result<Tensor> {
    if super::traced::tracing() {
        let _off = local_only();
        return t.clone_contiguous();
    }
    let out = Tensor::empty(t.dtype(), t.device(), t.sizes())?;
    copy_into(&out, t)?;
    Ok(out)
}

/// A dense copy on a device, which nobody else sees.
pub fn copy_at(t: &Tensor, device: Device) -> Result<Tensor> {
    if device.is_cpu() {
        return copy_to_host(t);
    }
    let out = Tensor::empty(t.dtype(), device, t.sizes())?;
    copy_into(&out, t)?;
    Ok(out)
}

/// A dense tensor on a device with these elements: the tensor itself where it is one.
pub fn dense_at(t: &Tensor, device: Device) -> Result<Tensor> {
    if t.device() == device && t.is_contiguous() { Ok(t.clone()) } else { copy_at(t, device) }
}

/// The memory of a dense tensor, on whichever device.
pub fn span(t: &Tensor) -> Span {
    debug_assert!(t.is_contiguous());
    match t.numel() as usize * t.dtype().size() {
        0 => Span::EMPTY,
        len => Span { ptr: t.data_ptr(), len },
    }
}

/// A dense host tensor with these elements: the tensor itself where it is one.
pub fn host(t: &Tensor) -> Result<Tensor> {
    if t.device().is_cpu() && t.is_contiguous() { Ok(t.clone()) } else { copy_to_host(t) }
}

/// An uninitialised host tensor.
pub fn host_empty(dtype: DType, sizes: &[i64]) -> Result<Tensor> {
    Tensor::empty(dtype, Device::CPU, sizes)
}

/// The tensor on a device: itself where it is there.
pub fn on(t: Tensor, device: Device) -> Result<Tensor> {
    if t.device() == device {
        return Ok(t);
    }
    let _off = local_only();
    t.to_copy_with(None, Some(device))
}

/// Zeros on a device.
pub fn zeros(dtype: DType, device: Device, sizes: &[i64]) -> Result<Tensor> {
    let _off = local_only();
    oneflow_ops::f::zeros_with(sizes, Some(dtype), Some(device), false)
}

/// Only layers for shards until the guard is dropped (and a trace that is under way): the ones above have had their turn.
pub fn local_only() -> oneflow_core::Guard {
    let lazy = tls().on & 1 << bit::LAZY;
    with_tls(Tls { on: lazy, allowed: 1 << bit::LOCAL | 1 << bit::META | lazy })
}

/// The bytes of a dense host tensor.
pub fn bytes(t: &Tensor) -> &[u8] {
    let n = t.numel() as usize * t.dtype().size();
    if n == 0 {
        return &[];
    }
    debug_assert!(t.device().is_cpu() && t.is_contiguous());
    // SAFETY: a dense host tensor holds its elements one after the other, for as long as the borrow.
    unsafe { std::slice::from_raw_parts(t.data_ptr(), n) }
}

/// The bytes of a dense host tensor created for this purpose.
///
/// # Safety
/// Nobody else reads or writes the tensor's storage while the slice lives.
#[allow(clippy::mut_from_ref)] // A tensor is a handle: its memory is shared, and exclusive by the contract alone.
pub unsafe fn bytes_mut(t: &Tensor) -> &mut [u8] {
    let n = t.numel() as usize * t.dtype().size();
    if n == 0 {
        return &mut [];
    }
    debug_assert!(t.device().is_cpu() && t.is_contiguous());
    // SAFETY: as for `bytes`, and exclusive by this function's contract.
    unsafe { std::slice::from_raw_parts_mut(t.data_ptr(), n) }
}
