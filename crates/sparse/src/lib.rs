//! Sparse COO tensors: indices and values of a tensor that is zero elsewhere, as a layer over dense ops.
//!
//! Offers what gradients of embeddings and products with sparse matrices need; every other op says that it has no sparse form.
//! No kernel and no loop over elements: dense ops do the work.

mod coo;
mod layer;

pub use coo::{Coo, coalesce, make, mask, parts, to_dense};

/// Puts the layer into the stack, and lets gradient rules make sparse tensors.
pub fn register() {
    oneflow_core::register_layer(oneflow_core::bit::SPARSE, layer::sparse);
    oneflow_core::set_sparse_maker(|indices, values, sizes| coo::make(indices, values, sizes, false));
}
