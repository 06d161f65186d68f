//! Nodes of the tape: what a gradient needs, and where it goes next.

use crate::function::relinked;
use crate::hooks::{NodeHooks, Payload};
use crate::saved::Kept;
use oneflow_base::{Attrs, Error, Meta, Result};
use oneflow_core::{GradCall, Grads, OpDef, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

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
        let node = Node { seq, kind, edges, n_outputs, hooks: NodeHooks::default() };
        if crate::anomaly::is_anomaly_enabled() {
            crate::anomaly::remember(&node);
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

    /// What the op keeps for its gradient: an input by its parameter's name, outputs as "result", "result1" and so on.
    ///
    /// `None`: nothing is kept under that name.
    pub fn saved(self: &Arc<Node>, name: &str) -> Result<Option<Tensor>> {
        let Kind::Op(o) = &self.kind else { return Ok(None) };
        let inputs = o.op.sig.params().iter().filter(|p| p.is_input());
        let input = inputs.clone().position(|p| p.name == name);
        let output = name.strip_prefix("result").and_then(|n| if n.is_empty() { Some(0) } else { n.parse().ok() });
        if input.is_none() && output.is_none() {
            return Ok(None);
        }
        let saved = locked(&o.saved).clone().ok_or_else(freed)?;
        for (i, k) in saved.ins {
            if input == Some(i as usize) {
                check_version(o, &k, "input")?;
                return k.into_tensor(self.edges.get(i as usize).and_then(Option::as_ref)).map(Some);
            }
        }
        for (i, k) in saved.outs {
            if output == Some(i as usize) {
                check_version(o, &k, "output")?;
                let t = k.into_tensor(None)?;
                return Ok(Some(if differentiable(o.op, i as usize, &t) { relinked(self, i as u32, &t) } else { t }));
            }
        }
        Ok(None)
    }

    /// The gradients of the inputs, given those of the outputs, outside of any backward.
    pub fn call(self: &Arc<Node>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        self.run(grads, u64::MAX, true).map(SmallVec::into_vec)
    }

    /// The gradients of the inputs, given those of the outputs. Those outside `wanted` (a bit for each input) may be left out.
    pub(crate) fn run(
        self: &Arc<Node>,
        grads: &[Option<Tensor>],
        wanted: u64,
        retain: bool,
    ) -> Result<SmallVec<[Option<Tensor>; 4]>> {
        match &self.kind {
            // No gradient reached any output.
            Kind::Op(o) if grads.iter().all(Option::is_none) => Ok(SmallVec::from_elem(None, o.in_metas.len())),
            Kind::Op(o) => self.run_op(o, grads, wanted & o.needs, retain),
            Kind::Custom { backward, release, .. } => {
                let out = backward(grads)?;
                if !retain {
                    release();
                }
                if out.len() < self.edges.len() {
                    return Err(Error::runtime(format!(
                        "function {} returned an incorrect number of gradients (expected {}, got {})",
                        self.name(),
                        self.edges.len(),
                        out.len()
                    )));
                }
                Ok(out.into_iter().collect())
            }
            Kind::Accumulate(_) => Ok(SmallVec::new()),
        }
    }

    fn run_op(
        self: &Arc<Node>,
        o: &OpNode,
        grads: &[Option<Tensor>],
        needs: u64,
        retain: bool,
    ) -> Result<SmallVec<[Option<Tensor>; 4]>> {
        let oneflow_core::Grad::Rule { f, .. } = o.op.grad else {
            return Err(Error::not_implemented(format!("derivative for {} is not implemented", o.op.name())));
        };
        // What kept nothing may run again.
        let saved = match &mut *locked(&o.saved) {
            Some(s) if retain || s.ins.is_empty() && s.outs.is_empty() => Some(s.clone()),
            s => s.take(),
        };
        let saved = saved.ok_or_else(freed)?;
        let mut ins: SmallVec<[Option<Tensor>; 4]> = SmallVec::from_elem(None, o.in_metas.len());
        for (i, k) in saved.ins {
            check_version(o, &k, "input")?;
            let edge = self.edges.get(i as usize).and_then(Option::as_ref);
            check_attached(&k, edge)?;
            ins[i as usize] = Some(k.into_tensor(edge)?);
        }
        let mut outs: SmallVec<[Option<Tensor>; 2]> = SmallVec::from_elem(None, self.n_outputs as usize);
        for (i, k) in saved.outs {
            check_version(o, &k, "output")?;
            let tensor = k.into_tensor(None)?;
            if crate::is_grad_enabled() && differentiable(o.op, i as usize, &tensor) {
                let linked = tensor.shallow();
                crate::slot::link(&linked, self.clone(), i as u32);
                outs[i as usize] = Some(linked);
            } else {
                outs[i as usize] = Some(tensor);
            }
        }
        let args = o.attrs.args();
        let call = GradCall {
            op: o.op,
            args: &args,
            outs_grad: grads,
            needs,
            saved_ins: &ins,
            saved_outs: &outs,
            in_metas: &o.in_metas,
            out_metas: &o.out_metas,
        };
        let mut out = Grads::new(o.in_metas.len(), needs);
        f(&call, &mut out).map_err(|e| e.context(format_args!("backward of {}: ", o.op.name())))?;
        Ok(out.grads)
    }
}

/// Whether output `i` carries a gradient.
#[inline]
pub(crate) fn differentiable(op: &OpDef, i: usize, t: &Tensor) -> bool {
    t.dtype().is_differentiable() && op.differentiable.has(i)
}

/// The error of reading what a backward has freed.
#[cold]
pub fn freed() -> Error {
    Error::runtime(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
    )
}

fn check_version(o: &OpNode, k: &Kept, what: &str) -> Result<()> {
    match k.plain() {
        Some((t, version)) if t.version() != version => {
            Err(written(t, version, &format!("an {what} of {}", o.op.name())))
        }
        _ => Ok(()),
    }
}

/// Refuses a kept input whose history `detach_` has taken: a derivative through it would silently end there.
fn check_attached(k: &Kept, edge: Option<&Edge>) -> Result<()> {
    match (k.plain(), edge) {
        (Some((t, _)), Some(e)) if e.node.leaf().is_none() && !crate::requires_grad(t) => Err(Error::runtime(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported, please use out-of-place `.detach()` instead",
        )),
        _ => Ok(()),
    }
}

/// A kept tensor was written since.
#[cold]
pub(crate) fn written(t: &Tensor, version: u32, what: &str) -> Error {
    Error::runtime(format!(
        "one of the variables needed for gradient computation has been modified by an inplace operation: [{} {:?}], which is {what}, is at version {}; expected version {version} instead. Hint: enable anomaly detection to find the operation that failed to compute its gradient, with oneflow.autograd.set_detect_anomaly(True).",
        t.dtype(),
        t.sizes(),
        t.version(),
    ))
}

pub(crate) fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
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
