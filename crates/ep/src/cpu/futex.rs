//! Sleeping on a word until it changes. Only what the pool needs; spurious wake-ups are the caller's matter.

use std::sync::atomic::AtomicU32;

/// Sleeps while `word == seen`; may return early.
pub fn wait(word: &AtomicU32, seen: u32) {
    // SAFETY: the word is a live, aligned u32; a null timeout waits without limit.
    unsafe {
        let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), flags, seen, std::ptr::null::<libc::timespec>());
    }
}

/// Wakes up to `n` sleepers.
pub fn wake(word: &AtomicU32, n: u32) {
    // SAFETY: the word is a live, aligned u32.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, n);
    }
}
