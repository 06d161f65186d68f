//! Sparse COO tensors: indices and values of a tensor that is zero elsewhere, as a layer over dense ops.
//!
//! Supports gradients of embeddings and products with sparse matrices; every other op raises that it has no sparse form.
//! No kernel and no loop over elements: dense ops do the work.

mod coo;
mod layer;

pub use coo::{Coo, coalesce, make, mask, parts, to_dense};

/// Installs the layer, and lets gradient rules create sparse tensors.
pub fn register() {
    oneflow_core::register_layer(oneflow_core::bit::SPARSE, layer::sparse);
    oneflow_core::set_sparse_maker(|indices, values, sizes| coo::make(indices, values, sizes, false));
}
