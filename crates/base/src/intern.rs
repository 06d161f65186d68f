//! Interned strings: everything with identity in an argument list is a `u32`.

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

/// An interned string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sym(pub u32);

struct Table {
    ids: HashMap<&'static str, u32>,
    names: Vec<&'static str>,
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(|| RwLock::new(Table { ids: HashMap::new(), names: Vec::new() }));

/// The symbol of a string; the text is kept for the life of the process (option names, modes, device names).
pub fn intern(name: &str) -> Sym {
    if let Some(&id) = read().ids.get(name) {
        return Sym(id);
    }
    let mut t = TABLE.write().unwrap_or_else(|e| e.into_inner());
    if let Some(&id) = t.ids.get(name) {
        return Sym(id);
    }
    let id = t.names.len() as u32;
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    t.names.push(kept);
    t.ids.insert(kept, id);
    Sym(id)
}

/// The text of a symbol; empty for an unknown one.
pub fn sym_name(sym: Sym) -> &'static str {
    read().names.get(sym.0 as usize).copied().unwrap_or("")
}

fn read() -> std::sync::RwLockReadGuard<'static, Table> {
    TABLE.read().unwrap_or_else(|e| e.into_inner())
}
