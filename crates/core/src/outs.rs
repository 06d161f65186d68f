//! Output shells: what `infer` returns about the results before any memory is touched.

use crate::{Call, In, Out, Tensor};
use oneflow_base::{DType, Device, Dims, Result, contiguous_strides};
use smallvec::SmallVec;

/// The results of a call. `infer` pushes shells, the layer that owns the world fills them, compositions add finished tensors.
#[derive(Default)]
pub struct Outs {
    tensors: SmallVec<[Tensor; 2]>,
    alias_of: Option<u8>,
}

impl Outs {
    pub fn new() -> Outs {
        Outs::default()
    }
    /// A contiguous output.
    #[inline]
    pub fn push(&mut self, dtype: DType, device: Device, sizes: &[i64]) -> Result<()> {
        self.push_strided(dtype, device, Dims::from_slice(sizes), contiguous_strides(sizes))
    }
    #[inline]
    pub fn push_strided(&mut self, dtype: DType, device: Device, sizes: Dims, strides: Dims) -> Result<()> {
        self.tensors.push(Tensor::shell(dtype, device, sizes, strides)?);
        Ok(())
    }
    /// An output that is a view of `input`: same dtype and device, this layout in the same storage.
    #[inline]
    pub fn view(&mut self, input: In, of: &Tensor, sizes: Dims, strides: Dims, offset: i64) -> Result<()> {
        self.view_as(input, of, of.dtype(), sizes, strides, offset)
    }
    /// The same whose elements are read as another dtype; sizes, strides and offset count those.
    #[inline]
    pub fn view_as(
        &mut self,
        input: In,
        of: &Tensor,
        dtype: DType,
        sizes: Dims,
        strides: Dims,
        offset: i64,
    ) -> Result<()> {
        let t = Tensor::shell(dtype, of.device(), sizes, strides)?;
        t.set_shell_offset(offset);
        self.tensors.push(t);
        self.alias_of = Some(input.index() as u8);
        Ok(())
    }
    /// All outputs, of which there may be none, are views of this input.
    pub fn views_of(&mut self, input: In) {
        self.alias_of = Some(input.index() as u8);
    }
    /// The input that all outputs are views of.
    #[inline]
    pub fn alias_of(&self) -> Option<usize> {
        self.alias_of.map(usize::from)
    }
    /// Results of a composition that are views of a private tensor become tensors of their own: `complex` rand is a view
    /// of reals that nobody has seen.
    pub fn own_what_is_private(&self, c: &Call<'_>) {
        for t in &self.tensors {
            if let Some(base) = t.base()
                && !c.ins.iter().flatten().any(|x| x.same(base) || x.same(t) || x.base().is_some_and(|b| b.same(base)))
            {
                t.forget_base();
            }
        }
    }
    /// A finished result (compositions, layers).
    #[inline]
    pub fn give(&mut self, t: Tensor) {
        self.tensors.push(t);
    }
    pub fn clear(&mut self) {
        self.tensors.clear();
        self.alias_of = None;
    }
    pub fn set(&mut self, i: usize, t: Tensor) {
        self.tensors[i] = t;
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.tensors.len()
    }
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
    #[inline]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
    #[inline]
    pub fn into_tensors(self) -> SmallVec<[Tensor; 2]> {
        self.tensors
    }
}

impl std::ops::Index<usize> for Outs {
    type Output = Tensor;
    #[inline]
    fn index(&self, i: usize) -> &Tensor {
        &self.tensors[i]
    }
}

impl std::ops::Index<Out> for Outs {
    type Output = Tensor;
    #[inline]
    fn index(&self, at: Out) -> &Tensor {
        &self.tensors[at.index()]
    }
}
