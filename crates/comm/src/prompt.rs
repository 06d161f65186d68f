//! Threads that move messages should run soon after they are woken, also where other threads compute on all cores.

/// Asks for short slices of this thread: from Linux 6.12 on, of two threads the one that is woken and wants less goes first. Its share
/// of the cores stays what it was, so this needs no right. Elsewhere it changes nothing.
#[cfg(target_os = "linux")]
pub(crate) fn run_promptly() {
    /// Nanoseconds, the least that the system takes.
    const SLICE: u64 = 100_000;
    // SAFETY: zeros are a valid value of this struct of numbers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the calls read and write the struct alone, whose size they know; 0 is the calling thread.
    unsafe {
        let known = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
        if known != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
            // Whoever runs under another policy has chosen it.
            return;
        }
        (attributes.size, attributes.sched_runtime) = (size, SLICE);
        // Refused, the thread is woken like any other.
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run_promptly() {}
