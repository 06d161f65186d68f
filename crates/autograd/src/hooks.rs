//! Hooks on gradients of tensors.

use crate::node::locked;
use crate::slot::{edge, is_leaf, requires_grad, state, state_mut};
use oneflow_base::{Error, Result};
use oneflow_core::Tensor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Sees a gradient on its way and may replace it.
pub type Hook = Arc<dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync>;
/// Sees a leaf after its gradient was accumulated.
pub type PostHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// Names a registered hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookHandle(u64);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Hooks of a node's outputs, and outputs that want their gradient kept.
#[derive(Default)]
pub(crate) struct NodeHooks(Mutex<Option<Box<Registered>>>);

#[derive(Default)]
struct Registered {
    hooks: Vec<(u32, u64, Hook)>,
    retained: Vec<(u32, usize)>,
}

#[derive(Default)]
pub(crate) struct LeafHooks {
    pub pre: Vec<(u64, Hook)>,
    pub post: Vec<(u64, PostHook)>,
}

impl NodeHooks {
    /// Lets hooks see (and replace) the gradients that arrive at a node's outputs.
    pub fn run(&self, grads: &mut [Option<Tensor>]) -> Result<()> {
        let (hooks, retained) = match &*locked(&self.0) {
            None => return Ok(()),
            // SAFETY: a retained tensor's state takes this lock before the tensor's memory goes.
            Some(r) => (
                r.hooks.clone(),
                r.retained.iter().map(|(nr, id)| (*nr, unsafe { Tensor::upgrade(*id) })).collect::<Vec<_>>(),
            ),
        };
        for (nr, _, hook) in hooks {
            if let Some(g) = &grads[nr as usize]
                && let Some(new) = hook(g)?
            {
                grads[nr as usize] = Some(new);
            }
        }
        for (nr, t) in retained {
            if let (Some(t), Some(g)) = (t, &grads[nr as usize]) {
                let g = g.clone();
                t.with_slot(|s| state_mut(s).grad = Some(g));
            }
        }
        Ok(())
    }

    fn add(&self, f: impl FnOnce(&mut Registered)) {
        f(locked(&self.0).get_or_insert_default());
    }

    pub fn forget_retained(&self, id: usize) {
        if let Some(r) = &mut *locked(&self.0) {
            r.retained.retain(|(_, i)| *i != id);
        }
    }
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
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    if is_leaf(t) {
        t.with_slot(|s| state_mut(s).leaf_hooks.pre.push((id, hook)));
    } else if let Some(e) = edge(t) {
        e.node.hooks.add(|r| r.hooks.push((e.nr, id, hook)));
    }
    Ok(HookHandle(id))
}

/// Calls `hook` with a leaf whose gradient was accumulated.
pub fn register_post_accumulate_hook(t: &Tensor, hook: PostHook) -> Result<HookHandle> {
    must_require(t)?;
    if !is_leaf(t) {
        return Err(Error::runtime("post accumulate grad hooks cannot be registered on non-leaf tensors"));
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    t.with_slot(|s| state_mut(s).leaf_hooks.post.push((id, hook)));
    Ok(HookHandle(id))
}

/// Takes a hook away.
pub fn remove_hook(t: &Tensor, handle: HookHandle) {
    let node = t.with_slot(|s| {
        let s = state_mut(s);
        s.leaf_hooks.pre.retain(|(id, _)| *id != handle.0);
        s.leaf_hooks.post.retain(|(id, _)| *id != handle.0);
        s.node.clone()
    });
    if let Some(n) = node
        && let Some(r) = &mut *locked(&n.hooks.0)
    {
        r.hooks.retain(|(_, id, _)| *id != handle.0);
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
        e.node.hooks.add(|r| r.retained.push((e.nr, t.id())));
        t.with_slot(|s| state_mut(s).retained = Some(t.id()));
    }
    Ok(())
}

pub(crate) fn leaf_pre(t: &Tensor) -> Vec<Hook> {
    t.with_slot(|s| state(s).map_or(Vec::new(), |s| s.leaf_hooks.pre.iter().map(|(_, h)| h.clone()).collect()))
}

pub(crate) fn leaf_post(t: &Tensor) -> Vec<PostHook> {
    t.with_slot(|s| state(s).map_or(Vec::new(), |s| s.leaf_hooks.post.iter().map(|(_, h)| h.clone()).collect()))
}
