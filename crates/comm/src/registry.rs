//! Which group "the world" is, for this thread or for the whole process.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crate::fake;
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

/// The group of all ranks: this thread's, else the process's, else a group of one.
pub fn world() -> Shared {
    if let Some(group) = THREAD.with(|slot| slot.borrow().clone()) {
        return group;
    }
    if let Some(group) = &*PROCESS.read().unwrap_or_else(PoisonError::into_inner) {
        return group.clone();
    }
    static ALONE: OnceLock<Shared> = OnceLock::new();
    ALONE.get_or_init(|| fake::single(DEFAULT_TIMEOUT)).clone()
}
