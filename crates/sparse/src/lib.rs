//! Sparse tensors: places and values of a tensor that is zero elsewhere, as a layer over dense ops. By coordinates (COO), or with
//! rows or columns compressed, of numbers or of blocks (CSR, CSC, BSR, BSC).
//!
//! Supports gradients of embeddings, products with sparse matrices, functions of the values, and what moves entries; every other op
//! raises that it has no sparse form.
//! No kernel and no loop over elements: dense ops do the work.

mod calls;
mod compressed;
mod compressed_ops;
mod convert;
mod coo;
mod layer;
mod products;
mod structure;

pub use compressed::{Compressed, Layout, check, compressed, make_compressed, to_compressed, to_coo, values_at};
pub use convert::{mask, to_dense};
pub use coo::{Coo, coalesce, entries_of, make, parts};

/// Installs the layer, and lets gradient rules create sparse tensors.
pub fn register() {
    oneflow_core::register_layer(oneflow_core::bit::SPARSE, layer::sparse);
    oneflow_core::set_sparse_maker(|indices, values, sizes| coo::make(indices, values, sizes, false));
}
