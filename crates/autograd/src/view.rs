//! Writing through views: the base's history is the truth, views are linked to it anew.

use crate::node::{Edge, Kind, Node, OpNode, Saved};
use crate::slot::{edge, link, note_version, requires_grad};
use oneflow_base::{Arg, Attrs, Dims, Error, Result};
use oneflow_core::{OpDef, Tensor, bit};
use oneflow_ops::elementwise::complex;
use oneflow_ops::view::as_strided;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};

/// Notes that a view was made while nothing was recorded. It requires a gradient where its base does, as a leaf of its own.
pub fn mark_no_grad_view(view: &Tensor) {
    view.set_no_grad_view();
    if crate::is_inference_mode_enabled() {
        view.set_inference_view();
    }
    if view.dtype().is_differentiable() && view.base().is_some_and(requires_grad) {
        view.set_key(bit::AUTOGRAD, true);
        note_version(view);
    }
}

/// Layout of a view inside its base, offset counted from the base's first element.
fn layout(view: &Tensor, base: &Tensor) -> Attrs {
    Attrs::new(&[Arg::Ints(view.sizes()), Arg::Ints(view.strides()), Arg::Int(view.offset() - base.offset())])
}

fn op_node(
    op: &'static OpDef,
    attrs: Attrs,
    edges: SmallVec<[Option<Edge>; 2]>,
    ins: &[&Tensor],
    out: &Tensor,
) -> Arc<Node> {
    let needs = edges.iter().enumerate().fold(0, |m, (i, e)| m | (e.is_some() as u64) << i.min(63));
    let node = OpNode {
        op,
        attrs,
        needs,
        in_metas: ins.iter().map(|t| Some(t.meta())).collect(),
        out_metas: std::iter::once(out.meta()).collect(),
        saved: Mutex::new(Some(Saved::default())),
    };
    Arc::new(Node::new(Kind::Op(Box::new(node)), edges, 1))
}

/// After a write through `view`, whose new value is output `nr` of `node`: the base becomes "the old base with the written part
/// scattered in", and the view a strided view of that.
pub(crate) fn rebase(view: &Tensor, node: Arc<Node>, nr: u32) -> Result<()> {
    let Some(base) = view.base().cloned() else {
        link(view, node, nr);
        return Ok(());
    };
    if view.dtype() != base.dtype() {
        return rebase_parts(view, &base, Edge { node, nr });
    }
    let attrs = layout(view, &base);
    let edges = SmallVec::from_iter([edge(&base), Some(Edge { node, nr })]);
    let scattered = op_node(&as_strided::SCATTER_FROM_FIRST, attrs.clone(), edges, &[&base, view], &base);
    link(&base, scattered.clone(), 0);
    let edges = SmallVec::from_iter([Some(Edge { node: scattered, nr: 0 })]);
    link(view, op_node(&as_strided::FROM_FIRST, attrs, edges, &[&base], view), 0);
    Ok(())
}

/// The node of a view whose base was written through another view since: a strided view of the base's present value.
pub(crate) fn relink(view: &Tensor) -> Option<Edge> {
    let base = view.base()?;
    if !requires_grad(base) {
        return None;
    }
    let node = node_of(view, base).ok()?;
    link(view, node.clone(), 0);
    Some(Edge { node, nr: 0 })
}

/// Where a view comes from for an op that writes it. Hooks on the view are about what the user reads of it: its base receives the
/// gradient of the write past them.
pub(crate) fn unhooked(view: &Tensor, from: Edge) -> Edge {
    let (Some(base), true) = (view.base(), from.node.hooks.any()) else { return from };
    if view.is_foreign_view() || view.is_multi_view() || from.node.leaf().is_some() {
        return from;
    }
    node_of(view, base).map_or(from, |node| Edge { node, nr: 0 })
}

/// The node of a view of the base's present value.
fn node_of(view: &Tensor, base: &Tensor) -> Result<Arc<Node>> {
    if view.dtype() != base.dtype() {
        return view_of_parts(view, base, edge(base));
    }
    let from = SmallVec::from_iter([edge(base)]);
    Ok(op_node(&as_strided::FROM_FIRST, layout(view, base), from, &[base], view))
}

/// A view of the other kind of numbers: of the parts of a complex base, or of a real base as parts of complex numbers. Both are
/// strided views of real numbers: those that stand for the base and for the view, and the layout of the latter in the former.
struct Parts {
    base: Tensor,
    view: Tensor,
    layout: Attrs,
}

fn parts(view: &Tensor, base: &Tensor) -> Result<Parts> {
    let real = view.dtype().to_real();
    if base.dtype().to_real() != real || view.dtype().is_complex() == base.dtype().is_complex() {
        return Err(Error::not_implemented(format!(
            "an in-place write through a {} view of a {} tensor that takes part in a gradient",
            view.dtype(),
            base.dtype()
        )));
    }
    let (base_shell, base_offset) = as_real(base)?;
    let (view_shell, view_offset) = as_real(view)?;
    let args = [Arg::Ints(view_shell.sizes()), Arg::Ints(view_shell.strides()), Arg::Int(view_offset - base_offset)];
    let layout = Attrs::new(&args);
    Ok(Parts { base: base_shell, view: view_shell, layout })
}

/// Meta of a tensor as real numbers, and where it begins in its memory, counted in them.
fn as_real(t: &Tensor) -> Result<(Tensor, i64)> {
    if !t.dtype().is_complex() {
        let shell = Tensor::shell(t.dtype(), t.device(), t.sizes().into(), t.strides().into())?;
        return Ok((shell, t.offset()));
    }
    let mut sizes = Dims::from_slice(t.sizes());
    let mut strides: Dims = t.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    Ok((Tensor::shell(t.dtype().to_real(), t.device(), sizes, strides)?, t.offset() * 2))
}

/// The edge of a value as real numbers, given that of the value.
fn to_real(of: &Tensor, shell: &Tensor, from: Option<Edge>) -> Option<Edge> {
    if !of.dtype().is_complex() {
        return from;
    }
    let edges = SmallVec::from_iter([from]);
    Some(Edge { node: op_node(&complex::VIEW_AS_REAL, Attrs::new(&[]), edges, &[of], shell), nr: 0 })
}

/// The node of a value that these real numbers stand for.
fn from_real(node: Arc<Node>, shell: &Tensor, value: &Tensor) -> Arc<Node> {
    if !value.dtype().is_complex() {
        return node;
    }
    let edges = SmallVec::from_iter([Some(Edge { node, nr: 0 })]);
    op_node(&complex::VIEW_AS_COMPLEX, Attrs::new(&[]), edges, &[shell], value)
}

/// The node of a view of the other kind of numbers, given where the base comes from.
fn view_of_parts(view: &Tensor, base: &Tensor, from: Option<Edge>) -> Result<Arc<Node>> {
    let p = parts(view, base)?;
    let edges = SmallVec::from_iter([to_real(base, &p.base, from)]);
    let node = op_node(&as_strided::FROM_FIRST, p.layout, edges, &[&p.base], &p.view);
    Ok(from_real(node, &p.view, view))
}

/// As `rebase` where the view is of the other kind of numbers.
fn rebase_parts(view: &Tensor, base: &Tensor, written: Edge) -> Result<()> {
    let p = parts(view, base)?;
    let edges = [to_real(base, &p.base, edge(base)), to_real(view, &p.view, Some(written))];
    let edges = SmallVec::from_iter(edges);
    let scattered = op_node(&as_strided::SCATTER_FROM_FIRST, p.layout, edges, &[&p.base, &p.view], &p.base);
    let node = from_real(scattered, &p.base, base);
    link(base, node.clone(), 0);
    link(view, view_of_parts(view, base, Some(Edge { node, nr: 0 }))?, 0);
    Ok(())
}
