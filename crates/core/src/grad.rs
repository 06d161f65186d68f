//! The definition of an op's gradient: what to save, and a rule composed of ops.

use crate::{AnyArg, At, In, InMask, Ins, LastIn, OpDef, Out, Tensor};
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
    In(In, InMask),
    Out(Out, InMask),
    /// As `Out`, where this argument is true.
    OutIfArg(Out, InMask, At<bool>),
    /// Every input from this one on (list inputs).
    InsFrom(In, InMask),
}

impl Save {
    /// An input, for the gradients of `wanted`.
    pub const fn of(input: In, wanted: &[In]) -> Save {
        Save::In(input, InMask::of(wanted))
    }
    /// A result, for the gradients of `wanted`.
    pub const fn out(result: Out, wanted: &[In]) -> Save {
        Save::Out(result, InMask::of(wanted))
    }
    /// A result, where an argument is true.
    pub const fn out_if(result: Out, wanted: &[In], arg: At<bool>) -> Save {
        Save::OutIfArg(result, InMask::of(wanted), arg)
    }
    /// The tensors of a list and all inputs after them.
    pub const fn from_list(list: Ins, wanted: InMask) -> Save {
        Save::InsFrom(list.first(), wanted)
    }
}

/// Autograd's treatment of the gradients that a rule returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    None,
    /// Sum and cast them back to the input's meta.
    Broadcast,
}

/// Where the gradients of a node's inputs go, as far as a rule may know it. Nobody but the rule sees what it is told here.
pub trait Destinations {
    /// Takes what has gone to the same place as the gradient of this input so far, if it `fits`: the gradient that the rule sets must
    /// include it then.
    fn take_sum(&self, input: usize, fits: &dyn Fn(&Tensor) -> bool) -> Option<Tensor>;
    /// The `.grad` of the leaf that is this input, if it `fits` and nothing else is done with this gradient than to be added there: the
    /// rule may add it in place, and sets none then.
    fn leaf_grad(&self, input: usize, fits: &dyn Fn(&Tensor) -> bool) -> Option<Tensor>;
    /// Whether a gradient in a half type of this input in float32 may stay as it is.
    fn takes_narrow(&self, input: usize) -> bool;
}

/// The backward call of one node. Metas of inputs and outputs are always there, tensors only where declared.
pub struct GradCall<'a> {
    pub op: &'static OpDef,
    pub args: Args<'a>,
    /// One per output; `None` where nothing reached it.
    pub outs_grad: &'a [Option<Tensor>],
    /// Bit mask of inputs that require a gradient.
    pub needs: u64,
    pub saved_ins: &'a [Option<Tensor>],
    pub saved_outs: &'a [Option<Tensor>],
    /// Metas of the inputs (absent inputs have none).
    pub in_metas: &'a [Option<Meta>],
    pub out_metas: &'a [Meta],
    /// None where gradients are recorded themselves, or seen by hooks.
    pub to: Option<&'a dyn Destinations>,
}

impl<'a> GradCall<'a> {
    /// The gradient of the first output.
    #[inline]
    pub fn g(&self) -> Result<&'a Tensor> {
        self.outs_grad.first().and_then(Option::as_ref).ok_or_else(|| self.undeclared("gradient of output", 0))
    }
    /// The gradient of any output, `None` where nothing reached it.
    #[inline]
    pub fn g_of(&self, at: Out) -> Option<&'a Tensor> {
        self.outs_grad.get(at.index()).and_then(Option::as_ref)
    }
    /// A saved input.
    #[inline]
    pub fn x(&self, at: In) -> Result<&'a Tensor> {
        self.opt_x(at).ok_or_else(|| self.undeclared("input", at.index()))
    }
    /// A saved input, or `None` for one that was not given.
    #[inline]
    pub fn opt_x(&self, at: In) -> Option<&'a Tensor> {
        self.saved_ins.get(at.index()).and_then(Option::as_ref)
    }
    /// The tensors of a saved list.
    pub fn xs(&self, at: Ins) -> impl Iterator<Item = Option<&Tensor>> {
        at.all(self.args).map(|at| self.opt_x(at))
    }
    /// A saved output.
    #[inline]
    pub fn y(&self, at: Out) -> Result<&'a Tensor> {
        self.saved_outs.get(at.index()).and_then(Option::as_ref).ok_or_else(|| self.undeclared("output", at.index()))
    }
    /// The position of an input after a list in the call.
    #[inline]
    pub fn place(&self, at: LastIn) -> In {
        at.of(self.in_metas.len())
    }
    #[inline]
    pub fn in_meta(&self, at: In) -> Result<&'a Meta> {
        self.in_metas
            .get(at.index())
            .and_then(Option::as_ref)
            .ok_or_else(|| self.undeclared("meta of input", at.index()))
    }
    #[inline]
    pub fn out_meta(&self, at: Out) -> &'a Meta {
        &self.out_metas[at.index()]
    }
    #[inline]
    pub fn arg(&self, at: impl Into<AnyArg>) -> Arg<'a> {
        self.args.get(at.into().index()).copied().unwrap_or(Arg::None)
    }
    #[inline]
    pub fn needs(&self, at: In) -> bool {
        self.needs >> at.index().min(63) & 1 != 0
    }
    /// What a rule may add to the gradient of this input, which must include it then: of the same meta, and without gaps.
    pub fn take_sum(&self, at: In) -> Option<Tensor> {
        self.to?.take_sum(at.index(), &|t| self.is_dense_as(at, t))
    }
    /// The `.grad` of the leaf that is this input, of its meta and without gaps, where a rule may add the gradient in place of setting it.
    pub fn leaf_grad(&self, at: In) -> Option<Tensor> {
        self.to?.leaf_grad(at.index(), &|t| self.is_dense_as(at, t))
    }
    fn is_dense_as(&self, at: In, t: &Tensor) -> bool {
        let meta = self.in_metas.get(at.index()).and_then(Option::as_ref);
        meta.is_some_and(|m| t.dtype() == m.dtype && t.sizes() == m.sizes.as_slice()) && t.is_contiguous()
    }
    /// Whether a gradient in a half type of this input in float32 may stay as it is.
    pub fn takes_narrow(&self, at: In) -> bool {
        self.to.is_some_and(|to| to.takes_narrow(at.index()))
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
    /// Sets the gradient of an input; the closure runs only where it is wanted.
    #[inline]
    pub fn set(&mut self, at: In, f: impl FnOnce() -> Result<Tensor>) -> Result<()> {
        if self.needs(at) {
            self.grads[at.index()] = Some(f()?);
        }
        Ok(())
    }
    #[inline]
    pub fn needs(&self, at: In) -> bool {
        self.needs >> at.index().min(63) & 1 != 0
    }
}
