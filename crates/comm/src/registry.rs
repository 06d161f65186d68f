//! The group that a thread, or the whole process, was given as its world.

use std::cell::RefCell;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::group::ProcessGroup;

/// The deadline of collectives on the CPU when nobody asks for another.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

type Shared = Arc<dyn ProcessGroup>;

thread_local! {
    static THREAD: RefCell<Option<Shared>> = const { RefCell::new(None) };
}
static PROCESS: RwLock<Option<Shared>> = RwLock::new(None);

/// Makes `group` the world of this thread only, as ranks that are threads need it. Returns the one before.
pub fn set_thread_group(group: Option<Shared>) -> Option<Shared> {
    THREAD.with(|slot| slot.replace(group))
}

/// Makes `group` the world of every thread that has none of its own. Returns the one before, for its owner to close: a
/// process should close its groups before it exits.
pub fn set_process_group(group: Option<Shared>) -> Option<Shared> {
    std::mem::replace(&mut *PROCESS.write().unwrap_or_else(PoisonError::into_inner), group)
}

/// The group that this thread or this process was given.
pub(crate) fn given() -> Option<Shared> {
    let of_thread = THREAD.with(|slot| slot.borrow().clone());
    of_thread.or_else(|| PROCESS.read().unwrap_or_else(PoisonError::into_inner).clone())
}
