//! Hooks on gradients of tensors and on nodes, and whatever else is rarely hung on a node. `tensor_hooks` registers them.

use crate::anomaly::Trace;
use oneflow_base::{Error, Result};
use oneflow_core::Tensor;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

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
pub struct HookHandle(pub(crate) u64);

impl HookHandle {
    pub(crate) fn new() -> HookHandle {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        HookHandle(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

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
    /// Lets hooks see (and replace) the gradients that arrive at a node's outputs. Returns the tensors that keep theirs, and
    /// which outputs they are.
    pub fn run(&self, grads: &mut [Option<Tensor>]) -> Result<Vec<(u32, Option<Tensor>)>> {
        let (hooks, retained) = match &*locked(&self.0) {
            None => return Ok(Vec::new()),
            Some(r) => {
                // SAFETY: a retained tensor's state takes this lock before the tensor's memory goes.
                let upgrade = |id: usize| unsafe { Tensor::upgrade(id) };
                (r.hooks.clone(), r.retained.iter().map(|(nr, id)| (*nr, upgrade(*id))).collect::<Vec<_>>())
            }
        };
        for (nr, _, hook) in hooks {
            if let Some(new) = hook(grads[nr as usize].as_ref())? {
                grads[nr as usize] = Some(new);
            }
        }
        Ok(retained)
    }

    pub fn add_hook(&self, nr: u32, hook: Hook) -> HookHandle {
        let handle = HookHandle::new();
        self.add(|r| r.hooks.push((nr, handle.0, hook)));
        handle
    }

    pub fn add_pre(&self, hook: NodePreHook) -> HookHandle {
        let handle = HookHandle::new();
        self.add(|r| r.pre.push((handle.0, hook)));
        handle
    }

    pub fn add_post(&self, hook: NodePostHook) -> HookHandle {
        let handle = HookHandle::new();
        self.add(|r| r.post.push((handle.0, hook)));
        handle
    }

    pub fn remove(&self, handle: HookHandle) {
        let gone = match &mut *locked(&self.0) {
            Some(r) => (
                take_out(&mut r.hooks, |(_, id, _)| *id == handle.0),
                take_out(&mut r.pre, |(id, _)| *id == handle.0),
                take_out(&mut r.post, |(id, _)| *id == handle.0),
            ),
            None => return,
        };
        drop(gone);
    }

    /// What the binding hung here; `make` is asked where it hung nothing.
    pub fn payload(&self, make: impl FnOnce() -> Payload) -> Payload {
        self.add(|r| r.payload.get_or_insert_with(make).clone())
    }

    pub fn existing_payload(&self) -> Option<Payload> {
        locked(&self.0).as_ref().and_then(|r| r.payload.clone())
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

/// Removes what fits; the caller drops it once no lock is held.
fn take_out<T>(list: &mut Vec<T>, fits: impl Fn(&T) -> bool) -> Option<T> {
    list.iter().position(fits).map(|i| list.remove(i))
}
