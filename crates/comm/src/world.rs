//! The group of all ranks.

use std::sync::{Arc, OnceLock};

use crate::fake;
use crate::group::ProcessGroup;
use crate::registry::{DEFAULT_TIMEOUT, given};

/// The group of all ranks: this thread's, else the process's, else a group of one.
pub fn world() -> Arc<dyn ProcessGroup> {
    static ALONE: OnceLock<Arc<dyn ProcessGroup>> = OnceLock::new();
    given().unwrap_or_else(|| ALONE.get_or_init(|| fake::single(DEFAULT_TIMEOUT)).clone())
}
