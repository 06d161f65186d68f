//! What a kernel sees of a tensor.

use oneflow_base::DType;

/// A raw strided view. `ptr` points at the first element (the storage offset is in it), strides count elements and may
/// be zero (broadcast) or negative.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub ptr: *mut u8,
    pub dtype: DType,
    pub sizes: &'a [i64],
    pub strides: &'a [i64],
}

impl<'a> View<'a> {
    #[inline]
    pub fn ndim(&self) -> usize {
        self.sizes.len()
    }
    /// Elements. Sizes of an existing tensor never overflow.
    #[inline]
    pub fn numel(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        oneflow_base::is_contiguous(self.sizes, self.strides)
    }
}
