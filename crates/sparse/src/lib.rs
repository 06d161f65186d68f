//! Sparse COO tensors: indices and values of a tensor that is zero elsewhere, as a layer over dense ops.
//!
//! Supports gradients of embeddings, products with sparse matrices, functions of the values, and what moves entries; every other op
//! raises that it has no sparse form.
//! No kernel and no loop over elements: dense ops do the work.

mod coo;
mod layer;
mod structure;

pub use coo::{Coo, coalesce, make, mask, parts, to_dense};

/// Installs the layer, and lets gradient rules create sparse tensors.
pub fn register() {
    oneflow_core::register_layer(oneflow_core::bit::SPARSE, layer::sparse);
    oneflow_core::set_sparse_maker(|indices, values, sizes| coo::make(indices, values, sizes, false));
}
