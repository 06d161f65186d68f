//! Where gradients go next, as the rule that makes them may use it: it adds to what is there in its own kernel, and leaves casts to
//! who reads the gradient. Offered only where nobody could see a difference: no hook, no recorded gradient, plain local tensors.

use crate::addresses::AddressMap;
use crate::node::{Edge, Kind, Node};
use crate::slot::{grad, sees_gradients};
use oneflow_base::DType;
use oneflow_core::{Destinations, Tensor, Traits, bit};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// Gradients that have arrived at a node's outputs.
pub(crate) type Slots = SmallVec<[Option<Tensor>; 1]>;

/// The destinations of a node's gradients in a run that reaches every one of them.
pub(crate) struct Reachable<'a> {
    node: &'a Node,
    buffers: RefCell<&'a mut AddressMap<Slots>>,
}

fn is_plain(t: &Tensor) -> bool {
    t.keys() & !(1 << bit::LOCAL) == 0 && t.storage().is_some()
}

impl<'a> Reachable<'a> {
    pub fn new(node: &'a Node, buffers: &'a mut AddressMap<Slots>) -> Reachable<'a> {
        Reachable { node, buffers: RefCell::new(buffers) }
    }

    /// The edge of an input, if no other input's gradient goes to the same place.
    fn edge(&self, input: usize) -> Option<&Edge> {
        let edge = self.node.edges.get(input)?.as_ref()?;
        let same = |e: &&Edge| Arc::ptr_eq(&e.node, &edge.node) && e.nr == edge.nr;
        (self.node.edges.iter().flatten().filter(same).count() == 1).then_some(edge)
    }
}

fn key(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node) as usize
}

impl Destinations for Reachable<'_> {
    fn take_sum(&self, input: usize, fits: &dyn Fn(&Tensor) -> bool) -> Option<Tensor> {
        let edge = self.edge(input)?;
        let mut buffers = self.buffers.borrow_mut();
        let slot = buffers.get_mut(&key(&edge.node))?.get_mut(edge.nr as usize)?;
        slot.take_if(|t| is_plain(t) && fits(t))
    }

    fn leaf_grad(&self, input: usize, fits: &dyn Fn(&Tensor) -> bool) -> Option<Tensor> {
        let edge = self.edge(input)?;
        let leaf = edge.node.leaf().filter(|_| !edge.node.hooks.any())?;
        // Other layers have rules of their own for what is added to a leaf's.
        let is_local = leaf.keys() & !(1 << bit::LOCAL | 1 << bit::AUTOGRAD) == 0;
        let sum = grad(leaf).filter(|_| is_local && !sees_gradients(leaf))?;
        (is_plain(&sum) && !sum.is_inference() && sum.sizes() == leaf.sizes() && fits(&sum)).then_some(sum)
    }

    fn takes_narrow(&self, input: usize) -> bool {
        let Some(edge) = self.edge(input) else { return false };
        let Kind::Op(o) = &edge.node.kind else { return false };
        // Two of them would be added with a rounding to the half type.
        let first = match self.buffers.borrow().get(&key(&edge.node)).and_then(|s| s.get(edge.nr as usize)) {
            Some(Some(sum)) => is_plain(sum) && sum.dtype() == DType::F32,
            _ => true,
        };
        first && o.op.traits.has(Traits::NARROW_GRADIENTS) && !edge.node.hooks.any()
    }
}
