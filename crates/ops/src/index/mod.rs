//! Ops that read and write elements by index. The rules they share.

pub mod gather;
#[allow(clippy::module_inception)]
pub mod index;
pub mod index_select;
pub mod nonzero;
pub mod sort;
pub mod triangle;

use crate::prelude::*;

/// Index tensors are int64 (or int32 where `i32_too`).
pub fn check_index(name: &str, t: &Tensor, i32_too: bool) -> Result<()> {
    if t.dtype() == DType::I64 || (i32_too && t.dtype() == DType::I32) {
        return Ok(());
    }
    Err(Error::runtime(format!("{name}(): Expected dtype int64 for index, but got {}", t.dtype())))
}
