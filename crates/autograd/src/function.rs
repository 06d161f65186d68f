//! Functions whose backward is written by the user.

use crate::hooks::Payload;
use crate::mode::is_grad_enabled;
use crate::node::{Backward, Edge, Kind, Node, Release};
use crate::slot::link;
use crate::view::{edge, rebase};
use oneflow_base::Result;
use oneflow_core::{Tensor, bit};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// What stands between a call and the edge of its input `i`, where tensors of samples are among its inputs.
type EdgeRule = fn(&[Option<&Tensor>], usize, Edge) -> Edge;
static EDGE_RULE: OnceLock<EdgeRule> = OnceLock::new();

/// Installs the rule; once, at start-up.
pub fn set_edge_rule(rule: EdgeRule) {
    let _ = EDGE_RULE.set(rule);
}

/// Puts what the rule says before the edges.
pub(crate) fn ruled(ins: &[Option<&Tensor>], edges: &mut [Option<Edge>]) {
    let Some(rule) = EDGE_RULE.get() else { return };
    for (i, e) in edges.iter_mut().enumerate() {
        *e = e.take().map(|to| rule(ins, i, to));
    }
}

/// An edge through a function of gradients alone.
pub fn custom_edge(name: &str, to: Edge, backward: Backward) -> Edge {
    custom_edges(name, &[Some(to)], backward)
}

/// As `custom_edge`, to several places.
pub(crate) fn custom_edges(name: &str, to: &[Option<Edge>], backward: Backward) -> Edge {
    let kind = Kind::Custom {
        name: name.to_owned(),
        backward,
        release: Box::new(|| ()),
        owner: None,
        out_metas: SmallVec::new(),
    };
    Edge { node: Arc::new(Node::new(kind, to.into(), 1)), nr: 0 }
}

/// Records that `outs` were made from `ins` by a function whose gradient is `backward` (gradients of the outputs in, one gradient
/// an input out). Outputs in `written` are inputs that the function wrote. Returns the node, or `None` where no input wants a
/// gradient.
pub fn custom_node(
    name: &str,
    ins: &[Option<&Tensor>],
    outs: &[Tensor],
    written: &[bool],
    backward: Backward,
    release: Release,
    owner: Option<Payload>,
) -> Result<Option<Arc<Node>>> {
    let mut edges: SmallVec<[_; 2]> = ins.iter().map(|t| t.and_then(edge)).collect();
    if !is_grad_enabled() || edges.iter().all(Option::is_none) {
        return Ok(None);
    }
    if ins.iter().flatten().any(|t| t.has_key(bit::BATCH)) {
        ruled(ins, &mut edges);
    }
    let out_metas = outs.iter().map(Tensor::meta).collect();
    let kind = Kind::Custom { name: name.to_owned(), backward, release, owner, out_metas };
    let node = Arc::new(Node::new(kind, edges, outs.len() as u32));
    for (i, t) in outs.iter().enumerate() {
        if !t.dtype().is_differentiable() {
            continue;
        }
        if written.get(i) == Some(&true) {
            rebase(t, node.clone(), i as u32)?;
        } else {
            link(t, node.clone(), i as u32);
        }
    }
    Ok(Some(node))
}
