//! The table of ops by name. Crates add their own tables at start-up: the set is open.

use crate::OpDef;
use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

struct Table {
    ops: Vec<&'static OpDef>,
    by_name: HashMap<&'static str, &'static OpDef>,
    overloads: HashMap<&'static str, Vec<&'static OpDef>>,
}

static TABLE: LazyLock<RwLock<Table>> =
    LazyLock::new(|| RwLock::new(Table { ops: Vec::new(), by_name: HashMap::new(), overloads: HashMap::new() }));

/// Adds ops. Overloads of one name are tried in the order they are added; a full name that is there already stays.
pub fn register_ops(ops: &[&'static OpDef]) {
    let mut t = TABLE.write().unwrap_or_else(|e| e.into_inner());
    for &op in ops {
        if t.by_name.contains_key(op.name()) {
            continue;
        }
        t.by_name.insert(op.name(), op);
        t.overloads.entry(op.sig.name).or_default().push(op);
        t.ops.push(op);
    }
}

/// All ops, in the order they were added.
pub fn ops() -> Vec<&'static OpDef> {
    read().ops.clone()
}

/// The op of a full name ("max.dim").
pub fn op_by_name(name: &str) -> Option<&'static OpDef> {
    read().by_name.get(name).copied()
}

/// The overloads of a public name, in order.
pub fn overloads(name: &str) -> Vec<&'static OpDef> {
    read().overloads.get(name).cloned().unwrap_or_default()
}

fn read() -> std::sync::RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(|e| e.into_inner())
}
