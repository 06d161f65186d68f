//! Inputs of ops that only other ops call: nobody has compared their sizes where a program comes from a file.

use oneflow_base::{DType, Error, Result};
use oneflow_core::Call;

/// Input `i` has these sizes.
pub(crate) fn sized(c: &Call<'_>, i: usize, sizes: &[i64]) -> Result<()> {
    match c.opt(i) {
        Some(t) if t.sizes() != sizes => Err(Error::runtime(format!(
            "{}(): input {i} has the sizes {:?}, {sizes:?} were expected",
            c.name(),
            t.sizes()
        ))),
        _ => Ok(()),
    }
}

/// Input `i` has this dtype.
pub(crate) fn typed(c: &Call<'_>, i: usize, dtype: DType) -> Result<()> {
    match c.opt(i) {
        Some(t) if t.dtype() != dtype => {
            Err(Error::runtime(format!("{}(): input {i} is {}, {dtype} was expected", c.name(), t.dtype())))
        }
        _ => Ok(()),
    }
}

/// Inputs that have the sizes and the dtype of another.
pub(crate) fn alike(c: &Call<'_>, inputs: &[usize], like: usize) -> Result<()> {
    let like = c.t(like)?;
    inputs.iter().try_for_each(|i| sized(c, *i, like.sizes()).and_then(|()| typed(c, *i, like.dtype())))
}
