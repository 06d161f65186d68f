//! Hooks on a tensor's gradient: registering and removing them, and gradients that are kept on their way.

use crate::hooks::{Hook, HookHandle, PostHook};
use crate::node::Node;
use crate::slot::{is_leaf, requires_grad, state, state_mut};
use crate::view::edge;
use oneflow_base::{Error, Result};
use oneflow_core::Tensor;
use oneflow_ops::TensorOps;
use std::cell::Cell;

/// Lets the hooks of a node's outputs see (and replace) the gradients that arrive there; tensors that retain theirs get them.
pub(crate) fn arrive(node: &Node, grads: &mut [Option<Tensor>]) -> Result<()> {
    if !node.hooks.any() {
        return Ok(());
    }
    for (nr, t) in node.hooks.run(grads)? {
        if let (Some(t), Some(g)) = (t, &grads[nr as usize]) {
            // Backwards add up, as those of a leaf do; what the user may hold is not written.
            let sum = match t.with_slot(|s| state_mut(s).grad.clone()) {
                Some(have) => have.add(g)?,
                None => g.clone(),
            };
            let old = t.with_slot(|s| state_mut(s).grad.replace(sum));
            drop(old);
        }
    }
    Ok(())
}

fn must_require(t: &Tensor) -> Result<()> {
    if requires_grad(t) {
        return Ok(());
    }
    Err(Error::runtime("cannot register a hook on a tensor that doesn't require gradient"))
}

/// Calls `hook` whenever a gradient of this tensor has been computed.
pub fn register_hook(t: &Tensor, hook: Hook) -> Result<HookHandle> {
    must_require(t)?;
    if !is_leaf(t)
        && let Some(e) = edge(t)
    {
        return Ok(e.node.hooks.add_hook(e.nr, hook));
    }
    let handle = HookHandle::new();
    t.with_slot(|s| state_mut(s).leaf_hooks.pre.push((handle.0, hook)));
    Ok(handle)
}

/// Calls `hook` with a leaf whose gradient was accumulated.
pub fn register_post_accumulate_hook(t: &Tensor, hook: PostHook) -> Result<HookHandle> {
    must_require(t)?;
    if !is_leaf(t) {
        return Err(Error::runtime("post accumulate grad hooks cannot be registered on non-leaf tensors"));
    }
    let handle = HookHandle::new();
    t.with_slot(|s| state_mut(s).leaf_hooks.post.push((handle.0, hook)));
    Ok(handle)
}

/// Takes a hook away.
pub fn remove_hook(t: &Tensor, handle: HookHandle) {
    let node = t.with_slot(|s| {
        let s = state_mut(s);
        s.leaf_hooks.pre.retain(|(id, _)| *id != handle.0);
        s.leaf_hooks.post.retain(|(id, _)| *id != handle.0);
        s.node.clone()
    });
    if let Some(n) = node {
        n.remove_hook(handle);
    }
}

/// Keeps the gradient of a non-leaf in `.grad`.
pub fn retain_grad(t: &Tensor) -> Result<()> {
    if !requires_grad(t) {
        return Err(Error::runtime("can't retain_grad on Tensor that has requires_grad=False"));
    }
    if is_leaf(t) || t.with_slot(|s| state(s).is_some_and(|s| s.retained.is_some())) {
        return Ok(());
    }
    if let Some(e) = edge(t) {
        e.node.hooks.retain(e.nr, t.id());
        t.with_slot(|s| state_mut(s).retained = Some(t.id()));
    }
    Ok(())
}

thread_local! {
    static WITHOUT: Cell<bool> = const { Cell::new(false) };
}

/// Whether backward passes of this thread leave the hooks of leaves out; returns what was set before. A pass that is traced
/// as a part of another one leaves them to that one.
pub fn leave_out_leaf_hooks(on: bool) -> bool {
    WITHOUT.replace(on)
}

pub(crate) fn leaf_pre(t: &Tensor) -> Vec<Hook> {
    if WITHOUT.get() {
        return Vec::new();
    }
    t.with_slot(|s| state(s).map_or(Vec::new(), |s| s.leaf_hooks.pre.iter().map(|(_, h)| h.clone()).collect()))
}

pub(crate) fn leaf_post(t: &Tensor) -> Vec<PostHook> {
    t.with_slot(|s| state(s).map_or(Vec::new(), |s| s.leaf_hooks.post.iter().map(|(_, h)| h.clone()).collect()))
}
