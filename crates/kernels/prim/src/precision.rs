//! What callers allow float32 kernels of the host to do for speed. Process-wide, read when a kernel runs.

use std::sync::atomic::{AtomicBool, Ordering};

static ROUNDED_PRODUCTS: AtomicBool = AtomicBool::new(false);

/// Whether products of float32 matrices may round their operands to bfloat16, where the machine multiplies those. Sums
/// stay float32.
pub fn rounds_products() -> bool {
    ROUNDED_PRODUCTS.load(Ordering::Relaxed)
}

/// Sets [`rounds_products`], which is false at first.
pub fn round_products(allowed: bool) {
    ROUNDED_PRODUCTS.store(allowed, Ordering::Relaxed);
}
