//! Nodes of the tape: what a gradient needs, and where it goes next. `gradients` runs them.

use crate::anomaly;
use crate::hooks::{HookHandle, NodeHooks, NodePostHook, NodePreHook, Payload};
use crate::saved::Kept;
use oneflow_base::{Attrs, Meta, Result};
use oneflow_core::{OpDef, Tensor};
use oneflow_ep::queues::Chosen;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Where the gradient of an input goes: output `nr` of a node.
#[derive(Clone)]
pub struct Edge {
    pub node: Arc<Node>,
    pub nr: u32,
}

/// A recorded op, a leaf's accumulator, or a user's function.
pub struct Node {
    /// Position in program order: the engine runs the highest first.
    pub(crate) seq: u64,
    pub(crate) kind: Kind,
    pub(crate) edges: SmallVec<[Option<Edge>; 2]>,
    pub(crate) n_outputs: u32,
    pub(crate) hooks: NodeHooks,
    /// The queues that the recording thread had chosen: the backward issues to them, too.
    pub(crate) queues: Chosen,
}

pub(crate) type Backward = Box<dyn Fn(&[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> + Send + Sync>;

pub(crate) type Release = Box<dyn Fn() + Send + Sync>;

pub(crate) enum Kind {
    Op(Box<OpNode>),
    /// Adds to the leaf's `.grad`.
    Accumulate(Tensor),
    Custom {
        name: String,
        backward: Backward,
        /// Lets go of what was kept for backward.
        release: Release,
        /// What the binding calls the function's context.
        owner: Option<Payload>,
        /// The outputs; of functions of gradients alone none are known.
        out_metas: SmallVec<[Meta; 1]>,
    },
}

pub(crate) struct OpNode {
    pub op: &'static OpDef,
    pub attrs: Attrs,
    pub needs: u64,
    pub in_metas: SmallVec<[Option<Meta>; 2]>,
    pub out_metas: SmallVec<[Meta; 1]>,
    pub saved: Mutex<Option<Saved>>,
}

/// What an op kept. Outputs are kept detached and linked again when read: the output owns the node.
#[derive(Clone, Default)]
pub(crate) struct Saved {
    pub ins: SmallVec<[(u8, Kept); 2]>,
    pub outs: SmallVec<[(u8, Kept); 1]>,
}

static SEQ: AtomicU64 = AtomicU64::new(1);

impl Node {
    pub(crate) fn new(kind: Kind, edges: SmallVec<[Option<Edge>; 2]>, n_outputs: u32) -> Node {
        let seq = SEQ.fetch_add(1, Ordering::Relaxed);
        oneflow_core::watch_link(seq);
        let node = Node { seq, kind, edges, n_outputs, hooks: NodeHooks::default(), queues: Chosen::now() };
        if anomaly::is_anomaly_enabled()
            && let Some(trace) = anomaly::here()
        {
            node.hooks.set_trace(trace);
        }
        node
    }

    /// "AddBackward0".
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Op(o) => format!("{}Backward0", camel(o.op.sig.name)),
            Kind::Accumulate(_) => "AccumulateGrad".into(),
            Kind::Custom { name, .. } => name.clone(),
        }
    }

    /// Position in program order.
    pub fn sequence_nr(&self) -> u64 {
        self.seq
    }

    /// Number of outputs, hence of gradients that arrive.
    pub fn n_outputs(&self) -> usize {
        self.n_outputs as usize
    }

    /// What output `nr` is, where the node knows that.
    pub fn output_meta(&self, nr: u32) -> Option<Meta> {
        match &self.kind {
            Kind::Op(o) => o.out_metas.get(nr as usize).cloned(),
            Kind::Accumulate(leaf) => Some(leaf.meta()),
            Kind::Custom { out_metas, .. } => out_metas.get(nr as usize).cloned(),
        }
    }

    /// Where gradients go next, one entry an input.
    pub fn next(&self) -> &[Option<Edge>] {
        &self.edges
    }

    /// What the binding gave with a custom function.
    pub fn owner(&self) -> Option<&Payload> {
        match &self.kind {
            Kind::Custom { owner, .. } => owner.as_ref(),
            _ => None,
        }
    }

    /// The leaf of an accumulator.
    pub fn leaf(&self) -> Option<&Tensor> {
        match &self.kind {
            Kind::Accumulate(t) => Some(t),
            _ => None,
        }
    }

    /// Calls `hook` before the node runs.
    pub fn register_prehook(&self, hook: NodePreHook) -> HookHandle {
        self.hooks.add_pre(hook)
    }

    /// Calls `hook` after the node ran.
    pub fn register_hook(&self, hook: NodePostHook) -> HookHandle {
        self.hooks.add_post(hook)
    }

    /// Takes a hook of the node or of one of its outputs away.
    pub fn remove_hook(&self, handle: HookHandle) {
        self.hooks.remove(handle);
    }

    /// What the binding hung on this node, made by `make` at first use.
    pub fn payload(&self, make: impl FnOnce() -> Payload) -> Payload {
        self.hooks.payload(make)
    }

    /// What the binding hung on this node.
    pub fn existing_payload(&self) -> Option<Payload> {
        self.hooks.existing_payload()
    }
}

fn camel(name: &str) -> String {
    name.split('_')
        .filter(|s| !s.is_empty())
        .map(|s| {
            let mut c = s.chars();
            c.next().map_or(String::new(), |f| f.to_uppercase().collect::<String>() + c.as_str())
        })
        .collect()
}

thread_local! {
    static DEFERRED: RefCell<Option<Vec<Remains>>> = const { RefCell::new(None) };
}

/// What a dead node owned.
type Remains = (SmallVec<[Option<Edge>; 2]>, Option<Saved>);

impl Drop for Node {
    /// Long chains are freed by a loop, not by recursion: edges and saved tensors of a dying node wait in a queue.
    fn drop(&mut self) {
        let edges = std::mem::take(&mut self.edges);
        let saved = match &mut self.kind {
            Kind::Op(o) => o.saved.get_mut().unwrap_or_else(|e| e.into_inner()).take(),
            _ => None,
        };
        let first = DEFERRED.try_with(|q| match &mut *q.borrow_mut() {
            Some(queue) => {
                queue.push((edges, saved));
                None
            }
            slot => {
                *slot = Some(Vec::new());
                Some((edges, saved))
            }
        });
        let Ok(Some(mine)) = first else { return };
        drop(mine);
        while let Ok(Some(next)) = DEFERRED.try_with(|q| q.borrow_mut().as_mut().and_then(Vec::pop)) {
            drop(next);
        }
        let _ = DEFERRED.try_with(|q| *q.borrow_mut() = None);
    }
}
