//! Cache lines: what a program says to the processor about them. No result depends on it.

/// Asks for a line of memory that is read soon.
#[inline(always)]
pub fn prefetch<T>(line: &T) {
    prefetch_at(std::ptr::from_ref(line));
}

/// Asks for the line at any address; one where there is no memory asks for nothing.
#[inline(always)]
pub fn prefetch_at<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Waits for stores past the caches, before other threads read what they wrote.
#[inline(always)]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: orders stores; every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
