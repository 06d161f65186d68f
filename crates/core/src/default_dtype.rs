//! The dtype of floats that name none. One a process, as in torch.

use oneflow_base::{DType, Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};

static DEFAULT: AtomicU8 = AtomicU8::new(DType::F32 as u8);

/// The dtype of Python floats and of creation functions without `dtype=`.
#[inline]
pub fn default_dtype() -> DType {
    DType::from_u8(DEFAULT.load(Ordering::Relaxed)).unwrap_or(DType::F32)
}

/// Changes it; only floating dtypes are accepted.
pub fn set_default_dtype(dtype: DType) -> Result<()> {
    if !dtype.is_float() || dtype.is_limited() {
        return Err(Error::type_(format!("only floating-point types are supported as the default type, not {dtype}")));
    }
    DEFAULT.store(dtype as u8, Ordering::Relaxed);
    Ok(())
}
