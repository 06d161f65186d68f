//! Waits that can be ended from outside: the program that embeds this crate may interrupt its main thread, as for Ctrl-C.
//!
//! The cause is unknown here; a wait that is interrupted ends with an error, and its group is aborted.

use std::sync::OnceLock;
use std::time::Duration;

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// The interval at which a wait calls the check again.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// The error text of an interrupted operation.
pub(crate) const CAUSE: &str = "interrupted";

/// Sets the check, once: it returns true if the main thread must stop waiting. It is called on that thread alone.
pub fn set_interrupt_check(check: fn() -> bool) {
    let _ = CHECK.set(check);
}

/// Returns true if the calling thread must stop waiting.
pub fn interrupted() -> bool {
    let Some(check) = CHECK.get() else { return false };
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    is_main && check()
}

/// Sleeps, at most until the next check is due. The error of a wait that shall stop.
pub(crate) fn pause(time: Duration) -> oneflow_base::Result<()> {
    std::thread::sleep(time.min(PERIOD));
    if interrupted() { Err(oneflow_base::Error::runtime(CAUSE)) } else { Ok(()) }
}
