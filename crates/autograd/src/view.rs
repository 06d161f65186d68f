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
    let node = if view.dtype() != base.dtype() {
        view_of_parts(view, base, edge(base)).ok()?
    } else {
        op_node(&as_strided::FROM_FIRST, layout(view, base), SmallVec::from_iter([edge(base)]), &[base], view)
    };
    link(view, node.clone(), 0);
    Some(Edge { node, nr: 0 })
}

/// Meta of a complex base seen as its parts, and the layout of a view of parts inside it.
fn parts(view: &Tensor, base: &Tensor) -> Result<(Tensor, Attrs)> {
    if !base.dtype().is_complex() || view.dtype() != base.dtype().to_real() {
        return Err(Error::not_implemented(format!(
            "an in-place write through a {} view of a {} tensor that takes part in a gradient",
            view.dtype(),
            base.dtype()
        )));
    }
    let mut sizes = Dims::from_slice(base.sizes());
    let mut strides: Dims = base.strides().iter().map(|s| s * 2).collect();
    sizes.push(2);
    strides.push(1);
    let shell = Tensor::shell(view.dtype(), base.device(), sizes, strides)?;
    let offset = view.offset() - 2 * base.offset();
    Ok((shell, Attrs::new(&[Arg::Ints(view.sizes()), Arg::Ints(view.strides()), Arg::Int(offset)])))
}

/// The node of a view of a complex base's parts, given where the base comes from.
fn view_of_parts(view: &Tensor, base: &Tensor, from: Option<Edge>) -> Result<Arc<Node>> {
    let (shell, attrs) = parts(view, base)?;
    let real = op_node(&complex::VIEW_AS_REAL, Attrs::new(&[]), SmallVec::from_iter([from]), &[base], &shell);
    let edges = SmallVec::from_iter([Some(Edge { node: real, nr: 0 })]);
    Ok(op_node(&as_strided::FROM_FIRST, attrs, edges, &[&shell], view))
}

/// As `rebase` where the view is of the parts of a complex base.
fn rebase_parts(view: &Tensor, base: &Tensor, written: Edge) -> Result<()> {
    let (shell, attrs) = parts(view, base)?;
    let whole = |node| SmallVec::from_iter([Some(Edge { node, nr: 0 })]);
    let real = op_node(&complex::VIEW_AS_REAL, Attrs::new(&[]), SmallVec::from_iter([edge(base)]), &[base], &shell);
    let edges = SmallVec::from_iter([Some(Edge { node: real, nr: 0 }), Some(written)]);
    let scattered = op_node(&as_strided::SCATTER_FROM_FIRST, attrs, edges, &[&shell, view], &shell);
    let node = op_node(&complex::VIEW_AS_COMPLEX, Attrs::new(&[]), whole(scattered), &[&shell], base);
    link(base, node.clone(), 0);
    link(view, view_of_parts(view, base, Some(Edge { node, nr: 0 }))?, 0);
    Ok(())
}
