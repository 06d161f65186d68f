//! How an op's gradient is written: what to keep, and a rule made of ops.

use crate::{OpDef, Tensor};
use oneflow_base::{Arg, Args, Error, Meta, Result};
use smallvec::SmallVec;

/// The gradient of an op.
#[derive(Clone, Copy)]
pub enum Grad {
    /// Not differentiable (integers, booleans, shapes).
    Never,
    /// The composition is recorded instead of the op.
    Compose,
    Rule {
        save: &'static [Save],
        fix: Fix,
        f: fn(&GradCall<'_>, &mut Grads) -> Result<()>,
    },
}

/// A tensor to keep. The mask names the inputs of whose gradients it is part: it is kept only if one of them is wanted.
/// Reading anything that was not declared is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Save {
    In(u8, u32),
    Out(u8, u32),
    /// As `Out`, where the boolean argument of this position is true.
    OutIfArg(u8, u32, u8),
    /// Every input from this one on (list inputs).
    InsFrom(u8, u32),
}

/// What autograd does to the gradients a rule returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    None,
    /// Sum and cast them back to the input's meta.
    Broadcast,
}

/// The backward call of one node. Metas of inputs and outputs are always there, tensors only where declared.
pub struct GradCall<'a> {
    pub op: &'static OpDef,
    pub args: Args<'a>,
    /// One per output; `None` where nothing reached it.
    pub outs_grad: &'a [Option<Tensor>],
    /// Bit mask of inputs that want a gradient.
    pub needs: u64,
    pub saved_ins: &'a [Option<Tensor>],
    pub saved_outs: &'a [Option<Tensor>],
    /// Metas of the inputs (absent inputs have none).
    pub in_metas: &'a [Option<Meta>],
    pub out_metas: &'a [Meta],
}

impl<'a> GradCall<'a> {
    /// The gradient of the first output.
    #[inline]
    pub fn g(&self) -> Result<&'a Tensor> {
        self.outs_grad.first().and_then(Option::as_ref).ok_or_else(|| self.undeclared("gradient of output", 0))
    }
    /// Saved input `i`.
    #[inline]
    pub fn x(&self, i: usize) -> Result<&'a Tensor> {
        self.saved_ins.get(i).and_then(Option::as_ref).ok_or_else(|| self.undeclared("input", i))
    }
    /// Saved input `i`, or `None` for one that was not given.
    #[inline]
    pub fn opt_x(&self, i: usize) -> Option<&'a Tensor> {
        self.saved_ins.get(i).and_then(Option::as_ref)
    }
    /// Saved output `i`.
    #[inline]
    pub fn y(&self, i: usize) -> Result<&'a Tensor> {
        self.saved_outs.get(i).and_then(Option::as_ref).ok_or_else(|| self.undeclared("output", i))
    }
    #[inline]
    pub fn in_meta(&self, i: usize) -> Result<&'a Meta> {
        self.in_metas.get(i).and_then(Option::as_ref).ok_or_else(|| self.undeclared("meta of input", i))
    }
    #[inline]
    pub fn arg(&self, i: usize) -> Arg<'a> {
        self.args.get(i).copied().unwrap_or(Arg::None)
    }
    #[inline]
    pub fn needs(&self, i: usize) -> bool {
        self.needs >> i.min(63) & 1 != 0
    }
    #[cold]
    fn undeclared(&self, what: &str, i: usize) -> Error {
        Error::runtime(format!("{}: the gradient rule reads {what} {i}, which it did not save", self.op.name()))
    }
}

/// Gradients of the inputs.
pub struct Grads {
    /// A bit an input; all beyond the 63rd share the last one.
    needs: u64,
    pub grads: SmallVec<[Option<Tensor>; 4]>,
}

impl Grads {
    pub fn new(n: usize, needs: u64) -> Grads {
        Grads { needs, grads: SmallVec::from_elem(None, n) }
    }
    /// Sets the gradient of input `i`; the closure runs only where it is wanted.
    #[inline]
    pub fn set(&mut self, i: usize, f: impl FnOnce() -> Result<Tensor>) -> Result<()> {
        if self.needs >> i.min(63) & 1 != 0 {
            self.grads[i] = Some(f()?);
        }
        Ok(())
    }
    #[inline]
    pub fn needs(&self, i: usize) -> bool {
        self.needs >> i.min(63) & 1 != 0
    }
}
