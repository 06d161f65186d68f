//! A call lowered to one launch: which operand goes where in which layout, and the launch parameters.
//!
//! Made from metas alone. The local layer runs it at once, the compiler keeps it in a plan.

use crate::{In, Out, Tensor};
use oneflow_base::Dims;
use oneflow_kernels_prim::{Encode, Expr, Params, Primitive};
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

impl Operand {
    fn whole(slot: Slot) -> Operand {
        Operand { slot, layout: None }
    }
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
    /// An input of the call in its own layout.
    pub fn input(&mut self, at: In) -> &mut Self {
        self.ins.push(Some(Operand::whole(slot_in(at))));
        self
    }
    /// An input, if it was given.
    pub fn opt_input(&mut self, at: In, present: bool) -> &mut Self {
        self.ins.push(present.then_some(Operand::whole(slot_in(at))));
        self
    }
    /// An input in another layout of the same storage.
    pub fn input_as(&mut self, at: In, sizes: Dims, strides: Dims, offset: i64) -> &mut Self {
        self.ins.push(Some(Operand { slot: slot_in(at), layout: Some((sizes, strides, offset)) }));
        self
    }
    /// An input (tensor `t`) broadcast to `sizes`.
    pub fn input_expanded(&mut self, at: In, t: &Tensor, sizes: &[i64]) -> &mut Self {
        if t.sizes() == sizes {
            return self.input(at);
        }
        let strides = expanded_strides(t.sizes(), t.strides(), sizes);
        self.input_as(at, Dims::from_slice(sizes), strides, t.offset())
    }
    pub fn output(&mut self, at: Out) -> &mut Self {
        self.outs.push(Some(Operand::whole(Slot::Out(at.index() as u16))));
        self
    }
    pub fn output_as(&mut self, at: Out, sizes: Dims, strides: Dims, offset: i64) -> &mut Self {
        self.outs.push(Some(Operand { slot: Slot::Out(at.index() as u16), layout: Some((sizes, strides, offset)) }));
        self
    }
    /// A call input that the primitive writes (optimizer updates).
    pub fn written_input(&mut self, at: In) -> &mut Self {
        self.outs.push(Some(Operand::whole(slot_in(at))));
        self
    }
    /// The first output starts as a copy of this input.
    pub fn starts_as(&mut self, at: In) -> &mut Self {
        self.init = Some(at.index() as u8);
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
    /// The primitive's parameters.
    pub fn with(&mut self, params: impl Encode) -> &mut Self {
        params.encode(&mut self.params);
        self
    }
}

fn slot_in(at: In) -> Slot {
    Slot::In(at.index() as u16)
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
