//! Products of matrices, one of them by coordinates.

use crate::calls::refused;
use crate::coo::{Coo, coalesce, make, not_sparse, parts};
use crate::structure;
use oneflow_base::{DType, Error, Result};
use oneflow_core::{Call, Tensor};
use oneflow_ops::nn::embedding_bag::weighted_sums;
use oneflow_ops::{TensorOps, f};
use smallvec::SmallVec;

/// A matrix times a matrix or vector, one of them sparse: rows of the dense one, scaled and added up.
pub(crate) fn matrix_product(c: &Call<'_>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let fits = x.ndim() == 2 && (1..=2).contains(&y.ndim()) && x.sizes()[1] == y.sizes()[0];
    if !fits {
        return Err(Error::runtime(format!(
            "{}(): sparse matrices: shapes {:?} and {:?} cannot be multiplied",
            c.name(),
            x.sizes(),
            y.sizes()
        )));
    }
    match (parts(x), parts(y)) {
        (Some(a), None) if a.sparse_dim() == 2 => {
            let columns = if y.ndim() == 2 { y.clone() } else { y.unsqueeze(1)? };
            let made = rows_summed(a, &columns, x.sizes()[0])?;
            if y.ndim() == 2 { Ok(made) } else { made.squeeze_dim(&[1]) }
        }
        (None, Some(b)) if b.sparse_dim() == 2 && y.ndim() == 2 => {
            let flipped = transposed(c, y, 0, 1)?;
            matrix_product(c, &flipped, &x.transpose(0, 1)?)?.transpose(0, 1)
        }
        (Some(a), Some(b)) if a.sparse_dim() == 2 && b.sparse_dim() == 2 => joined(a, &coalesce(y)?, x.sizes()[0]),
        _ => Err(refused(c)),
    }
}

/// The rows of `y` that the entries of each row of a sparse matrix name, times their values, summed.
fn rows_summed(a: &Coo, y: &Tensor, n_rows: i64) -> Result<Tensor> {
    let (mut rows, mut columns, mut values) = (a.indices.select(0, 0)?, a.indices.select(0, 1)?, a.values.clone());
    if !fit_bags(&values, y) {
        let terms = y.index_select(0, &columns)?.mul(&values.unsqueeze(1)?)?;
        return terms.new_zeros(&[n_rows, y.sizes()[1]])?.index_add(0, &rows, &terms);
    }
    if !a.coalesced {
        let [sorted, order] = rows.sort_with(0, false, Some(true))?;
        (rows, columns, values) = (sorted, columns.index_select(0, &order)?, values.index_select(0, &order)?);
    }
    let every = f::arange_with(n_rows + 1, Some(DType::I64), Some(rows.device()), false)?;
    let starts = rows.clone_contiguous()?.searchsorted(&every)?;
    weighted_sums(y, &starts, &columns.clone_contiguous()?, &values)
}

/// Whether the kernel for bags of rows takes these values and rows.
pub(crate) fn fit_bags(values: &Tensor, y: &Tensor) -> bool {
    matches!(y.dtype(), DType::F32 | DType::F64) && values.dtype() == y.dtype() && values.ndim() == 1
}

/// The product of two sparse matrices, the second of which is coalesced: a term for each entry of the first with each entry of
/// the row of the second that it meets.
fn joined(a: &Coo, y: &Tensor, n_rows: i64) -> Result<Tensor> {
    let b = parts(y).ok_or_else(|| not_sparse("a product"))?;
    let (of_a, of_b) = structure::matches(&b.indices.select(0, 0)?, &a.indices.select(0, 1)?)?;
    let at = [a.indices.select(0, 0)?.index_select(0, &of_a)?, b.indices.select(0, 1)?.index_select(0, &of_b)?];
    let terms = a.values.index_select(0, &of_a)?.mul(&b.values.index_select(0, &of_b)?)?;
    coalesce(&make(&f::stack(&at, 0)?, &terms, &[n_rows, y.sizes()[1]], false)?)
}

pub(crate) fn transposed(c: &Call<'_>, x: &Tensor, a: i64, b: i64) -> Result<Tensor> {
    let (a, b) = (oneflow_base::wrap_dim(a, x.ndim())?, oneflow_base::wrap_dim(b, x.ndim())?);
    let mut order: SmallVec<[i64; 4]> = (0..x.ndim() as i64).collect();
    order.swap(a, b);
    structure::permute(c, x, &order)
}
