//! Hooks on gradients of tensors and on nodes, and whatever else is rarely hung on a node.

use crate::anomaly::Trace;
use crate::node::{Node, locked};
use crate::slot::{edge, is_leaf, requires_grad, state, state_mut};
use oneflow_base::{Error, Result};
use oneflow_core::Tensor;
use oneflow_ops::TensorOps;
use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Sees a gradient on its way and may replace it. `None`: the node runs, but no gradient reached this output of it.
pub type Hook = Arc<dyn Fn(Option<&Tensor>) -> Result<Option<Tensor>> + Send + Sync>;
/// Sees a leaf after its gradient was accumulated.
pub type PostHook = Arc<dyn Fn(&Tensor) -> Result<()> + Send + Sync>;

/// Sees the gradients that arrive at a node's outputs and may replace them all.
pub type NodePreHook = Arc<dyn Fn(&[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
/// Sees the gradients of a node's inputs, and those of its outputs; may replace the former.
pub type NodePostHook =
    Arc<dyn Fn(&[Option<Tensor>], &[Option<Tensor>]) -> Result<Option<Vec<Option<Tensor>>>> + Send + Sync>;
/// What the binding hangs on a node.
pub type Payload = Arc<dyn Any + Send + Sync>;

/// Names a registered hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookHandle(u64);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Hooks of a node's outputs, and outputs that want their gradient kept.
#[derive(Default)]
pub(crate) struct NodeHooks(Mutex<Option<Box<Registered>>>, AtomicBool);

#[derive(Default)]
struct Registered {
    hooks: Vec<(u32, u64, Hook)>,
    retained: Vec<(u32, usize)>,
    pre: Vec<(u64, NodePreHook)>,
    post: Vec<(u64, NodePostHook)>,
    payload: Option<Payload>,
    trace: Option<Box<Trace>>,
}

#[derive(Default)]
pub(crate) struct LeafHooks {
    pub pre: Vec<(u64, Hook)>,
    pub post: Vec<(u64, PostHook)>,
}

impl NodeHooks {
    /// Lets hooks see (and replace) the gradients that arrive at a node's outputs.
    pub fn run(&self, grads: &mut [Option<Tensor>]) -> Result<()> {
        if !self.any() {
            return Ok(());
        }
        let (hooks, retained) = match &*locked(&self.0) {
            None => return Ok(()),
            // SAFETY: a retained tensor's state takes this lock before the tensor's memory goes.
            Some(r) => (
                r.hooks.clone(),
                r.retained.iter().map(|(nr, id)| (*nr, unsafe { Tensor::upgrade(*id) })).collect::<Vec<_>>(),
            ),
        };
        for (nr, _, hook) in hooks {
            if let Some(new) = hook(grads[nr as usize].as_ref())? {
                grads[nr as usize] = Some(new);
            }
        }
        for (nr, t) in retained {
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

    fn add<R>(&self, f: impl FnOnce(&mut Registered) -> R) -> R {
        let mut registered = locked(&self.0);
        self.1.store(true, Ordering::Release);
        f(registered.get_or_insert_default())
    }

    /// Whether anything was ever hung here; asked first, without the lock.
    #[inline]
    pub fn any(&self) -> bool {
        self.1.load(Ordering::Acquire)
    }

    fn list<T>(&self, f: impl FnOnce(&Registered) -> Vec<T>) -> Vec<T> {
        locked(&self.0).as_deref().map_or(Vec::new(), f)
    }

    /// Hooks of the node itself, before it runs.
    pub fn run_pre(&self, grads: &mut [Option<Tensor>]) -> Result<()> {
        for hook in self.list(|r| r.pre.iter().map(|(_, h)| h.clone()).collect()) {
            if let Some(new) = hook(grads)? {
                replace(grads, new, "pre hook")?;
            }
        }
        Ok(())
    }

    pub fn has_post(&self) -> bool {
        locked(&self.0).as_ref().is_some_and(|r| !r.post.is_empty())
    }

    /// Hooks of the node itself, after it ran.
    pub fn run_post(&self, inputs: &mut [Option<Tensor>], outputs: &[Option<Tensor>]) -> Result<()> {
        for hook in self.list(|r| r.post.iter().map(|(_, h)| h.clone()).collect()) {
            if let Some(new) = hook(inputs, outputs)? {
                replace(inputs, new, "hook")?;
            }
        }
        Ok(())
    }

    pub fn set_trace(&self, trace: Trace) {
        self.add(|r| r.trace = Some(Box::new(trace)));
    }

    pub fn trace(&self) -> Option<Trace> {
        locked(&self.0).as_ref().and_then(|r| r.trace.as_deref().cloned())
    }

    /// The tensor `id`, output `nr`, wants its gradient kept.
    pub fn retain(&self, nr: u32, id: usize) {
        self.add(|r| r.retained.push((nr, id)));
    }

    pub fn forget_retained(&self, id: usize) {
        if let Some(r) = &mut *locked(&self.0) {
            r.retained.retain(|(_, i)| *i != id);
        }
    }
}

fn replace(slots: &mut [Option<Tensor>], new: Vec<Option<Tensor>>, what: &str) -> Result<()> {
    if new.len() != slots.len() {
        return Err(Error::runtime(format!(
            "{what} of a node returned an incorrect number of gradients (expected {}, got {})",
            slots.len(),
            new.len()
        )));
    }
    slots.iter_mut().zip(new).for_each(|(slot, g)| *slot = g);
    Ok(())
}

impl Node {
    /// Calls `hook` before the node runs.
    pub fn register_prehook(&self, hook: NodePreHook) -> HookHandle {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.hooks.add(|r| r.pre.push((id, hook)));
        HookHandle(id)
    }

    /// Calls `hook` after the node ran.
    pub fn register_hook(&self, hook: NodePostHook) -> HookHandle {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.hooks.add(|r| r.post.push((id, hook)));
        HookHandle(id)
    }

    /// Takes a hook of the node or of one of its outputs away.
    pub fn remove_hook(&self, handle: HookHandle) {
        let gone = match &mut *locked(&self.hooks.0) {
            Some(r) => (
                take_out(&mut r.hooks, |(_, id, _)| *id == handle.0),
                take_out(&mut r.pre, |(id, _)| *id == handle.0),
                take_out(&mut r.post, |(id, _)| *id == handle.0),
            ),
            None => return,
        };
        drop(gone);
    }

    /// What the binding hung on this node, made by `make` at first use.
    pub fn payload(&self, make: impl FnOnce() -> Payload) -> Payload {
        self.hooks.add(|r| r.payload.get_or_insert_with(make).clone())
    }

    /// What the binding hung on this node.
    pub fn existing_payload(&self) -> Option<Payload> {
        locked(&self.hooks.0).as_ref().and_then(|r| r.payload.clone())
    }
}

/// Removes what fits; the caller drops it once no lock is held.
fn take_out<T>(list: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    list.iter().position(fits).map(|i| list.remove(i))
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
