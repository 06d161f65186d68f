//! What the first half of a backward leaves for the second (`halves.rs`). Data alone: the engine fills and reads it.

use crate::node::{Edge, Kind, Node};
use oneflow_core::Tensor;
use std::sync::Arc;

/// What the first half leaves.
#[derive(Default)]
pub(crate) struct Left {
    /// Nodes with the gradients that have arrived at them.
    pub nodes: Vec<(Arc<Node>, Vec<Option<Tensor>>)>,
    /// Gradients on their way.
    pub grads: Vec<(Edge, Option<Tensor>)>,
}

impl Left {
    /// Whether a node runs once, for both halves.
    pub fn runs_once(node: &Node) -> bool {
        matches!(node.kind, Kind::Custom { .. }) || node.hooks.any()
    }
}
