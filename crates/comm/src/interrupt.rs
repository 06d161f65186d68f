//! Waits that can be ended from outside: the program that embeds this crate may interrupt its main thread, as for Ctrl-C.
//!
//! A thread may also have a check of its own: threads that run a program's collectives stop waiting when the program has failed.
//! The cause is unknown here; a wait that is interrupted ends with an error, and its group is aborted.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::time::Duration;

static CHECK: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    static OWN: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// The interval at which a wait calls the check again.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// The error text of an interrupted operation.
pub(crate) const CAUSE: &str = "interrupted";

/// Sets the check, once: it returns true if the main thread must stop waiting. It is called on that thread alone.
pub fn set_interrupt_check(check: fn() -> bool) {
    let _ = CHECK.set(check);
}

/// Sets the check of the calling thread: it returns true if this thread must stop waiting. It must not wait itself.
pub fn set_thread_interrupt_check(check: Option<Box<dyn Fn() -> bool>>) {
    OWN.with(|own| *own.borrow_mut() = check);
}

/// Returns true if the calling thread must stop waiting.
pub fn interrupted() -> bool {
    if OWN.with(|own| own.borrow().as_ref().is_some_and(|check| check())) {
        return true;
    }
    let Some(check) = CHECK.get() else { return false };
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    is_main && check()
}

/// Sleeps, at most until the next check is due. The error of a wait that shall stop.
pub(crate) fn pause(time: Duration) -> oneflow_base::Result<()> {
    std::thread::sleep(time.min(PERIOD));
    if interrupted() { Err(oneflow_base::Error::runtime(CAUSE)) } else { Ok(()) }
}
