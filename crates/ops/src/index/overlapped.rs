//! Writes of some elements into tensors of which several elements are one in memory (`x.expand(3, 4)[0] = 1`). PyTorch's kernels
//! of such ops leave the other elements alone, so the memory ends as what was written last.

use crate::f;
use crate::prelude::*;

/// As `write_changed`, with PyTorch's warning.
macro_rules! write_changed_of {
    ($op:literal, $example:literal) => {
        |result, to| {
            oneflow_core::warn(concat!(
                "Use of ",
                $op,
                "_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also \
                 applies to advanced indexing e.g. ",
                $example
            ))?;
            crate::index::overlapped::write_changed(result, to)
        }
    };
}
pub(crate) use write_changed_of;

/// Writes the elements of `result` that differ from those of `to`, in the order of their indices.
pub(crate) fn write_changed(result: &Tensor, to: &Tensor) -> Result<()> {
    if to.numel() == 0 {
        return Ok(());
    }
    let mut changed = result.ne(to)?;
    if to.dtype().is_differentiable() {
        let both_nan = result.isnan()?.logical_and(&to.isnan()?)?;
        changed = changed.logical_and(&both_nan.logical_not()?)?;
    }
    let extents = to.sizes().iter().zip(to.strides()).map(|(n, s)| (n - 1) * s);
    let n_cells = 1 + extents.sum::<i64>();
    let cells = to.alias(Dims::from_slice(&[n_cells]), Dims::from_slice(&[1]), to.offset())?;
    let cell_of = f::arange_with(n_cells, Some(DType::I64), Some(to.device()), false)?;
    let cell_of = cell_of.as_strided(to.sizes(), to.strides(), None)?;
    let written =
        cells.index_put([Some(&cell_of.masked_select(&changed)?)], &result.masked_select(&changed)?, false)?;
    oneflow_core::copy_into(&cells, &written)
}
