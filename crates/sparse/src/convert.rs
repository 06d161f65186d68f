//! Sparse tensors of any layout as dense ones, and entries at their places.

use crate::compressed::{compressed, from_coo, to_coo, values_at};
use crate::coo::{coalesce, dense_of, gather, make, not_sparse, parts};
use crate::structure;
use oneflow_base::{Error, Result};
use oneflow_core::{Tensor, bit};
use oneflow_ops::TensorOps;

/// The tensor with its zeros.
pub fn to_dense(t: &Tensor) -> Result<Tensor> {
    dense_of(&to_coo(t)?)
}

/// The entries of a dense tensor at the indices of a sparse one.
pub fn mask(dense: &Tensor, like: &Tensor) -> Result<Tensor> {
    if let Some(c) = compressed(like) {
        let same = compressed(dense).map(|d| c.same_places(d)).transpose()?;
        if dense.has_key(bit::SPARSE) && same != Some(true) {
            // Of a sparse tensor the places that both have.
            let (x, y) = (coalesce(&to_coo(dense)?)?, to_coo(like)?);
            let (Some(a), Some(b)) = (parts(&x), parts(&y)) else { return Err(not_sparse("sparse_mask()")) };
            let (of_a, _) = structure::shared(a, b, like.sizes())?;
            let indices = a.indices.index_select(1, &of_a)?;
            let kept = make(&indices, &a.values.index_select(0, &of_a)?, like.sizes(), true)?;
            return from_coo(&kept, c.layout, c.block());
        }
        return c.with_values(&values_at(dense, like)?, like.sizes());
    }
    let coo = parts(like).ok_or_else(|| not_sparse("sparse_mask()"))?;
    if dense.sizes() != like.sizes() {
        return Err(Error::runtime(format!(
            "sparse_mask(): operands have incompatible sizes; self has size {:?} but mask has size {:?}",
            dense.sizes(),
            like.sizes()
        )));
    }
    let values = gather(dense, coo)?;
    make(&coo.indices, &values, dense.sizes(), coo.coalesced)
}
