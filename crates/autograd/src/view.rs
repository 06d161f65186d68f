//! Where a tensor comes from. Of views the base's history is the truth: after a write they are linked to it anew.

use crate::mode::{is_grad_enabled, is_inference_mode_enabled};
use crate::node::{Edge, Kind, Node, OpNode, Saved};
use crate::slot::{
    accumulator, check_inference_write, is_leaf, link, note_version, output_nr, recorded_node, requires_grad, state,
    state_mut, written_since, written_through_base,
};
use oneflow_base::{Arg, Attrs, Dims, Error, Result};
use oneflow_core::{OpDef, Tensor, bit};
use oneflow_ops::elementwise::view_as_real;
use oneflow_ops::view::as_strided;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, Weak};

/// The node that made this tensor, and which of its outputs it is. Views written through other views are linked anew.
pub(crate) fn edge(t: &Tensor) -> Option<Edge> {
    if !requires_grad(t) {
        return None;
    }
    let found = t.with_slot(|s| {
        let s = state(s)?;
        Some((s.node.clone()?, s.nr, s.version))
    });
    match found {
        Some((node, nr, version)) if t.base().is_none() || t.is_foreign_view() || version == t.version() => {
            Some(Edge { node, nr })
        }
        Some((node, nr, _)) => Some(relink(t).unwrap_or(Edge { node, nr })),
        None if written_through_base(t) => relink(t),
        None => Some(Edge { node: accumulator(t), nr: 0 }),
    }
}

/// The node that made this tensor; `None` for leaves.
pub fn grad_fn(t: &Tensor) -> Option<Arc<Node>> {
    edge(t).map(|e| e.node).filter(|n| n.leaf().is_none())
}

/// The node and output at which gradients of this tensor arrive; a leaf's accumulator.
pub fn gradient_edge(t: &Tensor) -> Option<Edge> {
    edge(t)
}

/// Notes that a view was made while nothing was recorded. It requires a gradient where its base does, as a leaf of its own.
pub fn mark_no_grad_view(view: &Tensor) {
    view.set_no_grad_view();
    if is_inference_mode_enabled() {
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
fn relink(view: &Tensor) -> Option<Edge> {
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
    Some(Edge { node: op_node(&view_as_real::OP, Attrs::new(&[]), edges, &[of], shell), nr: 0 })
}

/// The node of a value that these real numbers stand for.
fn from_real(node: Arc<Node>, shell: &Tensor, value: &Tensor) -> Arc<Node> {
    if !value.dtype().is_complex() {
        return node;
    }
    let edges = SmallVec::from_iter([Some(Edge { node, nr: 0 })]);
    op_node(&view_as_real::VIEW_AS_COMPLEX, Attrs::new(&[]), edges, &[shell], value)
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

/// `x.squeeze_()`: the tensor takes the layout of a view of itself, and that view's place in the history.
pub fn set_view(t: &Tensor, view: &Tensor) -> Result<()> {
    check_inference_write(t)?;
    // What nobody records keeps its history.
    let history = if is_grad_enabled() { edge(view) } else { None };
    if history.is_some() {
        check_view(t)?;
        if is_leaf(t) {
            return Err(Error::runtime("a leaf Variable that requires grad is being used in an in-place operation."));
        }
    }
    t.bump_version();
    let layout = view.shallow();
    if let Some(base) = t.base() {
        layout.set_base(base);
    }
    // SAFETY: as for `set_data`.
    unsafe { t.set_body_from(&layout) };
    match history {
        Some(e) => link(t, e.node, e.nr),
        None => t.with_slot(|s| {
            if s.is_some() {
                state_mut(s).accumulator = Weak::new();
            }
        }),
    }
    Ok(())
}

/// Refuses to write, with a history, through views whose own history is not known.
pub(crate) fn check_view(d: &Tensor) -> Result<()> {
    if d.base().is_some() && (d.is_multi_view() || d.is_no_grad_view() || d.is_foreign_view()) {
        return Err(refused_view(d, false));
    }
    Ok(())
}

/// Why a view whose history is not known must not be written, or not be read once its memory was written: `indirect`.
#[cold]
fn refused_view(view: &Tensor, indirect: bool) -> Error {
    let what = if indirect { "its base or another view of its base has been" } else { "is being" };
    let maker = recorded_node(view).map(|n| format!("Output {} of {}", output_nr(view), n.name()));
    // What a custom function returns was made without grad, too.
    let no_grad = view.is_no_grad_view() && !view.is_foreign_view();
    let mode = if view.is_inference_view() { "inference" } else { "no_grad" };
    let when = if view.is_inference_view() { "in normal mode" } else { "with grad mode enabled" };
    let start = match maker {
        Some(maker) if !no_grad => format!("{maker} is a view and {what} modified inplace."),
        Some(maker) => {
            format!("{maker} is a view of a view which was created in {mode} mode and {what} modified inplace {when}.")
        }
        None => format!("A view was created in {mode} mode and {what} modified inplace {when}."),
    };
    let reason = if view.is_foreign_view() {
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function.".to_owned()
    } else if no_grad {
        let block = if view.is_inference_view() { "inference_mode" } else { "no_grad" };
        format!(
            "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the {block} block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
        )
    } else {
        "This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.".to_owned()
    };
    Error::runtime(format!("{start} {reason}"))
}

/// Refuses to say where a view comes from whose memory was written since, unless the history of its base tells it: it was
/// made outside of any record, or as one of several.
#[inline]
pub fn check_history(view: &Tensor) -> Result<()> {
    let odd = view.is_no_grad_view() || view.is_multi_view();
    if !odd || view.is_foreign_view() || !written_since(view) {
        return Ok(());
    }
    Err(refused_view(view, true))
}
