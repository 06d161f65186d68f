//! Functions whose backward is written by the user.

use crate::node::{Backward, Kind, Node, Release};
use crate::slot::{edge, link};
use oneflow_core::Tensor;
use std::sync::Arc;

/// Records that `outs` were made from `ins` by a function whose gradient is `backward` (gradients of the outputs in, one gradient
/// an input out). Returns the node, or `None` where no input wants a gradient.
pub fn custom_node(
    name: &str,
    ins: &[Option<&Tensor>],
    outs: &[Tensor],
    backward: Backward,
    release: Release,
) -> Option<Arc<Node>> {
    let edges: smallvec::SmallVec<[_; 2]> = ins.iter().map(|t| t.and_then(edge)).collect();
    if !crate::is_grad_enabled() || edges.iter().all(Option::is_none) {
        return None;
    }
    let kind = Kind::Custom { name: name.to_owned(), backward, release };
    let node = Arc::new(Node::new(kind, edges, outs.len() as u32));
    for (i, t) in outs.iter().enumerate() {
        if t.dtype().is_differentiable() {
            link(t, node.clone(), i as u32);
        }
    }
    Some(node)
}

/// A function's saved output with its history again: kept without it, as the output owns the node.
pub fn relinked(node: &Arc<Node>, nr: u32, output: &Tensor) -> Tensor {
    let t = output.shallow();
    link(&t, node.clone(), nr);
    t
}
