//! Sources by name: crates that read data register themselves, so that a plan can name them.

use crate::actor::Body;
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

/// Makes a source from its configuration.
pub type MakeSource = fn(&[u8]) -> Result<Box<dyn Body>>;

static SOURCES: LazyLock<RwLock<HashMap<&'static str, MakeSource>>> = LazyLock::new(RwLock::default);

/// Makes a kind of source known. Called at start-up.
pub fn register_source(kind: &'static str, make: MakeSource) {
    SOURCES.write().unwrap_or_else(|e| e.into_inner()).insert(kind, make);
}

/// The source of a kind, from its configuration.
pub fn make(kind: &str, config: &[u8]) -> Result<Box<dyn Body>> {
    let make = SOURCES.read().unwrap_or_else(|e| e.into_inner()).get(kind).copied();
    make.ok_or_else(|| Error::value(format!("plan: there is no source of the kind {kind:?}")))?(config)
}
