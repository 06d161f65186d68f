//! The autograd state of a tensor, kept in the tensor's slot.

use crate::hooks::LeafHooks;
use crate::mode::is_inference_mode_enabled;
use crate::node::{Kind, Node};
use oneflow_base::{Error, Result};
use oneflow_core::{OpDef, Tensor, TensorSlot, bit};
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

#[derive(Default)]
pub(crate) struct State {
    pub grad: Option<Tensor>,
    pub node: Option<Arc<Node>>,
    pub nr: u32,
    /// Version of the data at which `node` was right (for views: a write through another view makes it stale).
    pub version: u32,
    pub accumulator: Weak<Node>,
    pub leaf_hooks: LeafHooks,
    /// Address under which the node knows a tensor that retains its gradient.
    pub retained: Option<usize>,
}

impl Drop for State {
    fn drop(&mut self) {
        if let (Some(id), Some(node)) = (self.retained, &self.node) {
            node.hooks.forget_retained(id);
        }
    }
}

pub(crate) fn state(slot: &TensorSlot) -> Option<&State> {
    slot.as_deref().and_then(|s| s.downcast_ref::<State>())
}

pub(crate) fn state_mut(slot: &mut TensorSlot) -> &mut State {
    if !slot.as_deref().is_some_and(|s| s.is::<State>()) {
        *slot = Some(Box::new(State::default()));
    }
    match slot.as_deref_mut().and_then(|s| s.downcast_mut::<State>()) {
        Some(s) => s,
        None => unreachable!("the slot was filled above"),
    }
}

/// Whether ops on this tensor are recorded.
#[inline]
pub fn requires_grad(t: &Tensor) -> bool {
    t.has_key(bit::AUTOGRAD)
}

/// Whether the tensor was not made by a recorded op.
pub fn is_leaf(t: &Tensor) -> bool {
    !requires_grad(t) || t.with_slot(|s| state(s).is_none_or(|s| s.node.is_none())) && !written_through_base(t)
}

/// Whether a view of memory that wanted no gradient has one now: a recorded op has written its base, or another view of it,
/// since the view was made.
pub(crate) fn written_through_base(view: &Tensor) -> bool {
    let Some(base) = view.base().filter(|_| !view.is_no_grad_view()) else { return false };
    requires_grad(base) && base.with_slot(|s| state(s).is_some_and(|s| s.node.is_some()))
}

/// Makes a leaf require a gradient, or not.
pub fn set_requires_grad(t: &Tensor, on: bool) -> Result<()> {
    if on && !t.dtype().is_differentiable() {
        return Err(Error::runtime(format!(
            "only Tensors of floating point and complex dtype can require gradients (got {})",
            t.dtype()
        )));
    }
    if on && t.is_inference() && !is_inference_mode_enabled() {
        return Err(Error::runtime(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        ));
    }
    if !is_leaf(t) {
        return if on {
            Ok(())
        } else {
            Err(Error::runtime(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().",
            ))
        };
    }
    t.set_key(bit::AUTOGRAD, on);
    Ok(())
}

/// The accumulated gradient.
pub fn grad(t: &Tensor) -> Option<Tensor> {
    t.with_slot(|s| state(s).and_then(|s| s.grad.clone()))
}

/// Whether a leaf has hooks that see each gradient before it is added to the sum.
pub(crate) fn sees_gradients(t: &Tensor) -> bool {
    t.with_slot(|s| state(s).is_some_and(|s| !s.leaf_hooks.pre.is_empty()))
}

/// Sets `.grad`. Shape, dtype and device must be the tensor's.
pub fn set_grad(t: &Tensor, g: Option<Tensor>) -> Result<()> {
    if let Some(g) = &g {
        if g.same(t) {
            return Err(Error::runtime("can't assign Variable as its own grad"));
        }
        if g.sizes() != t.sizes() {
            return Err(Error::runtime(format!(
                "assigned grad has data of a different size (grad {:?}, tensor {:?})",
                g.sizes(),
                t.sizes()
            )));
        }
        if g.dtype() != t.dtype() {
            return Err(Error::runtime(format!(
                "assigned grad has data of a different type (grad {}, tensor {})",
                g.dtype(),
                t.dtype()
            )));
        }
        if g.device() != t.device() {
            return Err(Error::runtime(format!(
                "assigned grad has data located on a different device (grad {}, tensor {})",
                g.device(),
                t.device()
            )));
        }
    }
    // The old gradient is dropped outside the lock.
    let old = t.with_slot(|s| std::mem::replace(&mut state_mut(s).grad, g));
    drop(old);
    Ok(())
}

/// The node that adds to a leaf's gradient; one for as long as somebody holds it.
pub fn accumulator(t: &Tensor) -> Arc<Node> {
    t.with_slot(|s| {
        let s = state_mut(s);
        s.accumulator.upgrade().unwrap_or_else(|| {
            let node = Arc::new(Node::new(Kind::Accumulate(t.clone()), SmallVec::new(), 1));
            s.accumulator = Arc::downgrade(&node);
            node
        })
    })
}

/// Makes a tensor output `nr` of a node. Where its gradient is to be kept, that of the new node's output is.
pub(crate) fn link(t: &Tensor, node: Arc<Node>, nr: u32) {
    let version = t.version();
    let (old, retained) = t.with_slot(|s| {
        let s = state_mut(s);
        s.nr = nr;
        s.version = version;
        (s.node.replace(node.clone()), s.retained)
    });
    if let Some(id) = retained {
        if let Some(old) = &old {
            old.hooks.forget_retained(id);
        }
        node.hooks.retain(nr, id);
    }
    t.set_key(bit::AUTOGRAD, true);
    drop(old);
}

/// A function's saved output with its history again: kept without it, as the output owns the node.
pub fn relinked(node: &Arc<Node>, nr: u32, output: &Tensor) -> Tensor {
    let t = output.shallow();
    link(&t, node.clone(), nr);
    t
}

/// Whether output `i` carries a gradient.
#[inline]
pub(crate) fn differentiable(op: &OpDef, i: usize, t: &Tensor) -> bool {
    t.dtype().is_differentiable() && op.differentiable.has(i)
}

/// Remembers the version of what a view shows.
pub(crate) fn note_version(view: &Tensor) {
    let version = view.version();
    view.with_slot(|s| state_mut(s).version = version);
}

/// Whether memory of a view that takes part in a gradient was written since its place in the history was right.
pub(crate) fn written_since(view: &Tensor) -> bool {
    requires_grad(view)
        && view.base().is_some_and(requires_grad)
        && view.with_slot(|s| state(s).map(|s| s.version)).is_some_and(|v| v != view.version())
}

/// The node that a tensor was last linked to, whatever was written since.
pub(crate) fn recorded_node(t: &Tensor) -> Option<Arc<Node>> {
    t.with_slot(|s| state(s).and_then(|s| s.node.clone()))
}

/// The node that made this tensor, if nothing but the tensor holds it.
pub fn own_node(t: &Tensor) -> Option<Arc<Node>> {
    let node = t.with_slot(|s| state(s).and_then(|s| s.node.clone()))?;
    // The slot's count, and the one taken here.
    (Arc::strong_count(&node) == 2).then_some(node)
}

pub fn output_nr(t: &Tensor) -> u32 {
    t.with_slot(|s| state(s).map_or(0, |s| s.nr))
}

pub fn retains_grad(t: &Tensor) -> bool {
    t.with_slot(|s| state(s).is_some_and(|s| s.retained.is_some()))
}

/// The same data without history.
pub fn detach(t: &Tensor) -> Tensor {
    t.shallow()
}

/// Forgets the tensor's history in place.
pub fn detach_(t: &Tensor) -> Result<()> {
    if t.base().is_some() && requires_grad(t) {
        return Err(Error::runtime(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() cannot be called on these gradients.",
        ));
    }
    let old = t.with_slot(|s| {
        let s = state_mut(s);
        s.nr = 0;
        s.node.take()
    });
    t.set_key(bit::AUTOGRAD, false);
    drop(old);
    Ok(())
}

/// `x.data = y`: other data under the same identity, history and gradient.
pub fn set_data(t: &Tensor, data: &Tensor) -> Result<()> {
    if requires_grad(t) && !data.dtype().is_differentiable() {
        return Err(Error::runtime(
            "data set to a tensor that requires gradients must be floating point or complex dtype",
        ));
    }
    if t.has_key(bit::SPARSE) != data.has_key(bit::SPARSE) || t.is_only_a_subclass() != data.is_only_a_subclass() {
        return Err(Error::runtime(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.",
        ));
    }
    take_data(t, &data.shallow());
    Ok(())
}

/// Exchanges the data of two tensors, whatever they are; histories and gradients stay where they are.
pub fn swap_data(a: &Tensor, b: &Tensor) -> Result<()> {
    if [a, b].iter().any(|t| requires_grad(t)) {
        return Err(Error::runtime("swap_tensors(): the tensors require gradients"));
    }
    let (of_a, of_b) = (a.shallow(), b.shallow());
    take_data(a, &of_b);
    take_data(b, &of_a);
    Ok(())
}

fn take_data(t: &Tensor, data: &Tensor) {
    // SAFETY: the language's global lock is held by the caller (the binding), and ops keep no borrow across calls.
    unsafe { t.set_body_from(data) };
    // A new accumulator: the old one was made for the old meta.
    t.with_slot(|s| {
        if s.is_some() {
            state_mut(s).accumulator = Weak::new();
        }
    });
}

/// Refuses to write into what inference mode made, outside of it: a history that reads it would not notice.
#[inline]
pub fn check_inference_write(t: &Tensor) -> Result<()> {
    if t.is_inference() && !is_inference_mode_enabled() {
        return Err(Error::runtime(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor before doing inplace update.",
        ));
    }
    Ok(())
}
