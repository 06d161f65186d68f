//! The properties of a tensor without its data.

use crate::{DType, Device, Dims, contiguous_strides, is_contiguous, numel};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    pub dtype: DType,
    pub device: Device,
    pub sizes: Dims,
    pub strides: Dims,
}

impl Meta {
    pub fn contiguous(dtype: DType, device: Device, sizes: &[i64]) -> Meta {
        Meta { dtype, device, sizes: Dims::from_slice(sizes), strides: contiguous_strides(sizes) }
    }
    /// Elements; zero if the product would overflow (such a meta cannot be created by an op).
    pub fn numel(&self) -> i64 {
        numel(&self.sizes).unwrap_or(0)
    }
    /// Bytes of the elements, without gaps.
    pub fn bytes(&self) -> usize {
        self.numel() as usize * self.dtype.size()
    }
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(&self.sizes, &self.strides)
    }
}
