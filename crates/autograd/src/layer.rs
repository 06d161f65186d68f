//! The layer: runs the op below and records a node.

use crate::function::ruled;
use crate::mode::{GradGuard, is_forward_mode};
use crate::node::{Kind, Node, OpNode, Saved};
use crate::saved::Kept;
use crate::slot::{differentiable, is_leaf, link, requires_grad};
use crate::view::{self, check_history, check_view, edge};
use oneflow_base::{Attrs, Error, Meta, Result};
use oneflow_core::{
    Call, Dest, Grad, In, InMask, Outs, Save, Tensor, bit, check_reads_disjoint, redispatch, register_layer,
};
use oneflow_ops::TensorOps;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};

/// Puts the layer into the stack.
pub fn register() {
    register_layer(bit::AUTOGRAD, autograd);
}

fn autograd(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    match c.op.grad {
        Grad::Never => {
            check_dest(c, false)?;
            redispatch(c, below, outs)
        }
        Grad::Compose => compose(c, outs),
        Grad::Rule { save, .. } => record(c, below, outs, save),
    }
}

/// Records the composition instead of the op.
fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let Some(f) = c.op.compose else {
        return Err(Error::not_implemented(format!("{}(): has neither a gradient rule nor a composition", c.name())));
    };
    let Dest::Into(dest) = c.dest else {
        f(c, outs)?;
        outs.own_what_is_private(c);
        return Ok(());
    };
    check_dest(c, true)?;
    check_reads_disjoint(c)?;
    // Its parts keep their inputs, which must stay what they are when the result is written.
    let copies = c.ins.iter().map(|t| t.filter(|t| overwritten(c, t)).map(|t| keep_input(c, t)).transpose());
    let copies = copies.collect::<Result<SmallVec<[_; 4]>>>()?;
    let ins = c.ins.iter().zip(&copies).map(|(t, copy)| copy.as_ref().or(*t));
    let ins: SmallVec<[_; 4]> = ins.collect();
    f(&Call { ins: &ins, dest: Dest::Fresh, ..*c }, outs)?;
    for (i, d) in dest.iter().enumerate() {
        d.copy_(&outs[i], false)?;
        outs.set(i, (*d).clone());
    }
    Ok(())
}

/// Refuses destinations that autograd cannot follow.
fn check_dest(c: &Call<'_>, differentiable: bool) -> Result<()> {
    let Dest::Into(dest) = c.dest else { return Ok(()) };
    for d in dest {
        // Written in place is what an op reads first; `add(x, y, out=y)` is an `out=` like others.
        let in_place = c.ins.first().copied().flatten().is_some_and(|t| t.same(d));
        if !in_place && differentiable {
            if is_forward_mode() {
                return Err(Error::not_implemented(format!(
                    "Trying to use forward AD with {}_out that does not support it because it is an out= function",
                    c.name()
                )));
            }
            return Err(Error::runtime(format!(
                "{}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.",
                c.name()
            )));
        }
        if differentiable {
            check_view(d)?;
        }
        if let Some(b) = d.base()
            && requires_grad(b)
            && is_leaf(b)
        {
            return Err(Error::runtime(format!(
                "{}_(): a view of a leaf Variable that requires grad is being used in an in-place operation. (shape {:?}, dtype {})",
                c.name(),
                d.sizes(),
                d.dtype()
            )));
        }
        if requires_grad(d) && is_leaf(d) {
            return Err(Error::runtime(format!(
                "{}_(): a leaf Variable that requires grad is being used in an in-place operation. (shape {:?}, dtype {})",
                c.name(),
                d.sizes(),
                d.dtype()
            )));
        }
    }
    Ok(())
}

fn record(c: &Call<'_>, below: u32, outs: &mut Outs, save: &[Save]) -> Result<()> {
    let mut edges: SmallVec<[_; 2]> = SmallVec::with_capacity(c.ins.len());
    let mut needs = 0u64;
    let in_place = matches!(c.dest, Dest::Into(_));
    for (i, t) in c.ins.iter().enumerate() {
        t.map_or(Ok(()), check_history)?;
        let mut e = t.and_then(edge);
        if in_place && let Some(t) = t {
            e = e.map(|e| view::unhooked(t, e));
        }
        needs |= (e.is_some() as u64) << i.min(63);
        edges.push(e);
    }
    if below >> bit::BATCH & 1 == 1 {
        ruled(c.ins, &mut edges);
    }
    check_dest(c, true)?;
    let mut saved = Saved::default();
    let mut in_metas: SmallVec<[Option<Meta>; 2]> = SmallVec::with_capacity(c.ins.len());
    for t in c.ins {
        in_metas.push(t.map(Tensor::meta));
    }
    for s in save {
        match *s {
            Save::In(i, mask) if wanted(needs, mask) => {
                if let Some(t) = c.opt(i) {
                    saved.ins.push((i.index() as u8, Kept::new(keep_input(c, t)?)?));
                }
            }
            Save::InsFrom(i, mask) if wanted(needs, mask) => {
                for k in i.index()..c.ins.len() {
                    if let Some(t) = c.opt(In::nth(k)) {
                        saved.ins.push((k as u8, Kept::new(keep_input(c, t)?)?));
                    }
                }
            }
            _ => {}
        }
    }
    redispatch(c, below, outs)?;
    for s in save {
        let out = match *s {
            Save::Out(i, mask) => Some((i, mask)),
            Save::OutIfArg(i, mask, arg) if c.bool(arg) => Some((i, mask)),
            _ => None,
        };
        if let Some((i, mask)) = out
            && wanted(needs, mask)
            && i.index() < outs.len()
        {
            saved.outs.push((i.index() as u8, Kept::new(outs[i].shallow())?));
        }
    }
    let node = Arc::new(Node::new(
        Kind::Op(Box::new(OpNode {
            op: c.op,
            attrs: Attrs::new(c.args),
            needs,
            in_metas,
            out_metas: outs.tensors().iter().map(Tensor::meta).collect(),
            saved: Mutex::new(Some(saved)),
        })),
        edges,
        outs.len() as u32,
    ));
    for (i, t) in outs.tensors().iter().enumerate() {
        // What is an input itself was made by nobody here.
        let returned = !in_place && c.ins.iter().flatten().any(|x| x.same(t));
        // A view of an inference tensor is one too.
        if returned || !differentiable(c.op, i, t) || t.is_inference() && !in_place {
            continue;
        }
        if in_place && t.base().is_some() {
            view::rebase(t, node.clone(), i as u32)?;
        } else {
            link(t, node.clone(), i as u32);
        }
    }
    Ok(())
}

#[inline]
fn wanted(needs: u64, mask: InMask) -> bool {
    needs & mask.bits() as u64 != 0
}

/// The input to keep: a copy, with the input's history, where the op is about to overwrite it.
fn keep_input(c: &Call<'_>, t: &Tensor) -> Result<Tensor> {
    if t.is_inference() {
        return Err(Error::runtime(
            "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor and use it in autograd.",
        ));
    }
    if !overwritten(c, t) {
        return Ok(t.clone());
    }
    let copy = {
        let _off = GradGuard::new(false);
        t.clone_contiguous()?
    };
    if let Some(e) = edge(t) {
        link(&copy, e.node, e.nr);
    }
    Ok(copy)
}

fn overwritten(c: &Call<'_>, t: &Tensor) -> bool {
    match c.dest {
        Dest::Into(dest) => dest.iter().any(|d| shares(d, t)),
        Dest::Fresh => false,
    }
}

fn shares(a: &Tensor, b: &Tensor) -> bool {
    a.same(b)
        || matches!((a.storage(), b.storage()), (Some(x), Some(y)) if x.same(y))
        || matches!((a.ext_arc(), b.ext_arc()), (Some(x), Some(y)) if Arc::ptr_eq(&x, &y))
}
