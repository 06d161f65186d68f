//! A call lowered to one launch: which operand goes where in which layout, and the launch parameters.
//!
//! Made from metas alone. The local layer runs it at once, the compiler keeps it in a plan.

use crate::Tensor;
use oneflow_base::Dims;
use oneflow_kernels_prim::{Expr, Params, Primitive, Word};
use smallvec::SmallVec;

/// A tensor of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    In(u16),
    Out(u16),
}

/// One operand of the launch.
#[derive(Clone, Debug)]
pub struct Operand {
    pub slot: Slot,
    /// Sizes, strides and storage offset where they differ from the tensor's own.
    pub layout: Option<(Dims, Dims, i64)>,
}

/// One launch of a primitive.
pub struct Lowered {
    pub prim: &'static Primitive,
    pub expr: Option<&'static Expr>,
    pub ins: SmallVec<[Option<Operand>; 4]>,
    pub outs: SmallVec<[Option<Operand>; 2]>,
    pub params: Params,
    /// Output 0 first receives a copy of this input (scatter and friends write only parts).
    pub init: Option<u8>,
}

impl Lowered {
    pub fn new(prim: &'static Primitive) -> Lowered {
        Lowered { prim, expr: None, ins: SmallVec::new(), outs: SmallVec::new(), params: Params::new(), init: None }
    }
    /// Input `i` of the call in its own layout.
    pub fn input(&mut self, i: usize) -> &mut Self {
        self.ins.push(Some(Operand { slot: Slot::In(i as u16), layout: None }));
        self
    }
    /// Input `i` if it was given.
    pub fn opt_input(&mut self, i: usize, present: bool) -> &mut Self {
        self.ins.push(present.then_some(Operand { slot: Slot::In(i as u16), layout: None }));
        self
    }
    /// Input `i` in another layout of the same storage.
    pub fn input_as(&mut self, i: usize, sizes: Dims, strides: Dims, offset: i64) -> &mut Self {
        self.ins.push(Some(Operand { slot: Slot::In(i as u16), layout: Some((sizes, strides, offset)) }));
        self
    }
    /// Input `i` (tensor `t`) broadcast to `sizes`.
    pub fn input_expanded(&mut self, i: usize, t: &Tensor, sizes: &[i64]) -> &mut Self {
        if t.sizes() == sizes {
            return self.input(i);
        }
        let strides = expanded_strides(t.sizes(), t.strides(), sizes);
        self.input_as(i, Dims::from_slice(sizes), strides, t.offset())
    }
    pub fn output(&mut self, i: usize) -> &mut Self {
        self.outs.push(Some(Operand { slot: Slot::Out(i as u16), layout: None }));
        self
    }
    pub fn output_as(&mut self, i: usize, sizes: Dims, strides: Dims, offset: i64) -> &mut Self {
        self.outs.push(Some(Operand { slot: Slot::Out(i as u16), layout: Some((sizes, strides, offset)) }));
        self
    }
    /// A call input that the primitive writes (optimizer updates).
    pub fn written_input(&mut self, i: usize) -> &mut Self {
        self.outs.push(Some(Operand { slot: Slot::In(i as u16), layout: None }));
        self
    }
    pub fn no_input(&mut self) -> &mut Self {
        self.ins.push(None);
        self
    }
    pub fn no_output(&mut self) -> &mut Self {
        self.outs.push(None);
        self
    }
    pub fn param(&mut self, w: impl Into<Word>) -> &mut Self {
        self.params.push(w.into());
        self
    }
}

/// Strides of a tensor broadcast to `target` (which `infer` has checked).
#[inline]
pub(crate) fn expanded_strides(sizes: &[i64], strides: &[i64], target: &[i64]) -> Dims {
    let lead = target.len() - sizes.len();
    let mut out: Dims = SmallVec::from_elem(0, target.len());
    for i in 0..sizes.len() {
        if sizes[i] == target[lead + i] {
            out[lead + i] = strides[i];
        }
    }
    out
}
