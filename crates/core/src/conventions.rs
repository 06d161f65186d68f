//! Whose meaning a call has that PyTorch and OneFlow understand differently. One flag of the process, set by the binding.

use std::sync::atomic::{AtomicBool, Ordering};

static ONEFLOW: AtomicBool = AtomicBool::new(false);

/// Returns true if OneFlow's meaning holds for calls that PyTorch and OneFlow define differently.
#[inline]
pub fn oneflow_conventions() -> bool {
    ONEFLOW.load(Ordering::Relaxed)
}

/// Sets whose conventions hold; returns whether they were OneFlow's.
pub fn set_oneflow_conventions(on: bool) -> bool {
    ONEFLOW.swap(on, Ordering::Relaxed)
}
