//! Waits that can be ended from outside: whoever embeds this crate may have news for its main thread, such as Ctrl-C.
//!
//! Nothing here knows what the news is; a wait that is interrupted ends with an error, and its group is aborted.

use std::sync::OnceLock;
use std::time::Duration;

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

/// How long a wait lasts before the check is asked again.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// Words for an operation that was given up.
pub(crate) const CAUSE: &str = "interrupted";

/// Sets the check, once: whether the main thread shall stop waiting. It is asked on that thread alone.
pub fn set_interrupt_check(check: fn() -> bool) {
    let _ = CHECK.set(check);
}

/// Whether the calling thread shall stop waiting.
pub(crate) fn interrupted() -> bool {
    let Some(check) = CHECK.get() else { return false };
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    is_main && check()
}

/// Sleeps, at most until the next check is due. The error of a wait that shall stop.
pub(crate) fn pause(time: Duration) -> oneflow_base::Result<()> {
    std::thread::sleep(time.min(PERIOD));
    if interrupted() { Err(oneflow_base::Error::runtime(CAUSE)) } else { Ok(()) }
}
