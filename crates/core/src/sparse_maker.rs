//! The constructor of sparse tensors for gradient rules: the sparse layer registers it. This file does not know their form.

use crate::Tensor;
use oneflow_base::{Error, Result};
use std::sync::OnceLock;

/// Indices [sparse dims, nnz], values [nnz, ...], sizes of the whole.
pub type SparseMaker = fn(&Tensor, &Tensor, &[i64]) -> Result<Tensor>;

static MAKER: OnceLock<SparseMaker> = OnceLock::new();

/// Installs the maker; once, at start-up.
pub fn set_sparse_maker(f: SparseMaker) {
    let _ = MAKER.set(f);
}

/// A sparse COO tensor.
pub fn make_sparse(indices: &Tensor, values: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    match MAKER.get() {
        Some(f) => f(indices, values, sizes),
        None => Err(Error::not_implemented("sparse tensors: the layer is not registered")),
    }
}
