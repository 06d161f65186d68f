//! The gradients of a node's inputs: its op's rule, given what was kept for it.

use crate::hooks::locked;
use crate::mode::is_grad_enabled;
use crate::node::{Edge, Kind, Node, OpNode};
use crate::saved::Kept;
use crate::slot::{differentiable, link, relinked, requires_grad};
use oneflow_base::{Error, Result};
use oneflow_core::{Destinations, GradCall, Grads, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

impl Node {
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
                k.check_version(|| kept_by(o, "input"))?;
                return k.open(relink_to(self.edges.get(i as usize).and_then(Option::as_ref))).map(Some);
            }
        }
        for (i, k) in saved.outs {
            if output == Some(i as usize) {
                k.check_version(|| kept_by(o, "output"))?;
                let t = k.open(UNLINKED)?;
                return Ok(Some(if differentiable(o.op, i as usize, &t) { relinked(self, i as u32, &t) } else { t }));
            }
        }
        Ok(None)
    }

    /// The gradients of the inputs, given those of the outputs, outside of any backward.
    pub fn call(self: &Arc<Node>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        self.run(grads, u64::MAX, true, None).map(SmallVec::into_vec)
    }

    /// The gradients of the inputs, given those of the outputs. Those outside `wanted` (a bit for each input) may be left out.
    pub(crate) fn run(
        self: &Arc<Node>,
        grads: &[Option<Tensor>],
        wanted: u64,
        retain: bool,
        to: Option<&dyn Destinations>,
    ) -> Result<SmallVec<[Option<Tensor>; 4]>> {
        match &self.kind {
            // No gradient reached any output.
            Kind::Op(o) if grads.iter().all(Option::is_none) => Ok(SmallVec::from_elem(None, o.in_metas.len())),
            Kind::Op(o) => self.run_op(o, grads, wanted & o.needs, retain, to),
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
        to: Option<&dyn Destinations>,
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
            k.check_version(|| kept_by(o, "input"))?;
            let edge = self.edges.get(i as usize).and_then(Option::as_ref);
            check_attached(&k, edge)?;
            ins[i as usize] = Some(k.open(relink_to(edge))?);
        }
        let mut outs: SmallVec<[Option<Tensor>; 2]> = SmallVec::from_elem(None, self.n_outputs as usize);
        for (i, k) in saved.outs {
            k.check_version(|| kept_by(o, "output"))?;
            let tensor = k.open(UNLINKED)?;
            if is_grad_enabled() && differentiable(o.op, i as usize, &tensor) {
                outs[i as usize] = Some(relinked(self, i as u32, &tensor));
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
            to,
        };
        let mut out = Grads::new(o.in_metas.len(), needs);
        f(&call, &mut out).map_err(|e| e.context(format_args!("backward of {}: ", o.op.name())))?;
        Ok(out.grads)
    }
}

/// A kept tensor as it is read by a function of the user, who says what it is. `history` is that of one that had to be brought
/// back.
pub fn reopened(kept: &Kept, history: Option<&Edge>, what: &str) -> Result<Tensor> {
    kept.check_version(|| what.to_owned())?;
    kept.clone().open(relink_to(history))
}

/// Gives a tensor that was brought back its history again.
fn relink_to(history: Option<&Edge>) -> Option<impl FnOnce(&Tensor)> {
    history.map(|e| move |t: &Tensor| link(t, e.node.clone(), e.nr))
}

/// For a tensor that gets its history later, or has none.
const UNLINKED: Option<fn(&Tensor)> = None;

#[cold]
fn kept_by(o: &OpNode, what: &str) -> String {
    format!("an {what} of {}", o.op.name())
}

/// The error of reading what a backward has freed.
#[cold]
pub fn freed() -> Error {
    Error::runtime(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
    )
}

/// Refuses a kept input whose history `detach_` has taken: a derivative through it would silently end there.
fn check_attached(k: &Kept, edge: Option<&Edge>) -> Result<()> {
    match (k.plain(), edge) {
        (Some((t, _)), Some(e)) if e.node.leaf().is_none() && !requires_grad(t) => Err(Error::runtime(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported, please use out-of-place `.detach()` instead",
        )),
        _ => Ok(()),
    }
}
