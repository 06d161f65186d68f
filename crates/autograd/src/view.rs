//! Writing through views: the base's history is the truth, views are linked to it anew.

use crate::node::{Edge, Kind, Node, OpNode, Saved};
use crate::slot::{edge, link, requires_grad};
use oneflow_base::{Arg, Attrs, Result};
use oneflow_core::{OpDef, Tensor};
use oneflow_ops::view::as_strided;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};

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
    let needs = edges.iter().enumerate().fold(0, |m, (i, e)| m | (e.is_some() as u64) << i);
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
    let attrs = layout(view, &base);
    let edges = SmallVec::from_iter([edge(&base), Some(Edge { node, nr })]);
    let scattered = op_node(&as_strided::SCATTER, attrs.clone(), edges, &[&base, view], &base);
    link(&base, scattered.clone(), 0);
    let edges = SmallVec::from_iter([Some(Edge { node: scattered, nr: 0 })]);
    link(view, op_node(&as_strided::OP, attrs, edges, &[&base], view), 0);
    Ok(())
}

/// The node of a view whose base was written through another view since: a strided view of the base's present value.
pub(crate) fn relink(view: &Tensor) -> Option<Edge> {
    let base = view.base()?;
    if !requires_grad(base) {
        return None;
    }
    let edges = SmallVec::from_iter([edge(base)]);
    let node = op_node(&as_strided::OP, layout(view, base), edges, &[base], view);
    link(view, node.clone(), 0);
    Some(Edge { node, nr: 0 })
}
