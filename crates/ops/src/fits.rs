//! Inputs of ops that only other ops call: nobody has compared their sizes where a program comes from a file.

use oneflow_base::{DType, Error, Result};
use oneflow_core::{Call, In};

/// The input has these sizes.
pub(crate) fn sized(c: &Call<'_>, at: In, sizes: &[i64]) -> Result<()> {
    match c.opt(at) {
        Some(t) if t.sizes() != sizes => Err(Error::runtime(format!(
            "{}(): input {} has the sizes {:?}, {sizes:?} were expected",
            c.name(),
            at.index(),
            t.sizes()
        ))),
        _ => Ok(()),
    }
}

/// The input has this dtype.
pub(crate) fn typed(c: &Call<'_>, at: In, dtype: DType) -> Result<()> {
    match c.opt(at) {
        Some(t) if t.dtype() != dtype => {
            Err(Error::runtime(format!("{}(): input {} is {}, {dtype} was expected", c.name(), at.index(), t.dtype())))
        }
        _ => Ok(()),
    }
}

/// Inputs that have the sizes and the dtype of another.
pub(crate) fn alike(c: &Call<'_>, inputs: &[In], like: In) -> Result<()> {
    let like = c.t(like)?;
    inputs.iter().try_for_each(|i| sized(c, *i, like.sizes()).and_then(|()| typed(c, *i, like.dtype())))
}
