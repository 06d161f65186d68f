//! Nodes that compute the same thing from the same values become one.

use crate::Config;
use crate::ir::{Graph, Kind, ValueId};
use oneflow_base::{Attrs, Result};
use oneflow_core::{Kernel, Traits};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// The op by its address, its arguments, its inputs, and the part that it runs again.
type Key = (usize, Attrs, SmallVec<[Option<ValueId>; 4]>, u32);

pub fn run(g: &mut Graph, _: &Config) -> Result<bool> {
    let mut known: HashMap<Key, SmallVec<[ValueId; 2]>> = HashMap::new();
    let mut same: HashMap<ValueId, ValueId> = HashMap::new();
    // Results have memory of their own, as their caller expects.
    let results: HashSet<ValueId> = g.outputs.iter().map(|v| g.root(*v)).collect();
    let fetched = std::mem::take(&mut g.fetched);
    let mut nodes = std::mem::take(&mut g.nodes);
    let before = nodes.len();
    nodes.retain_mut(|n| {
        n.ins.iter_mut().flatten().for_each(|v| *v = *same.get(v).unwrap_or(v));
        for v in &n.outs {
            let value = &mut g.values[*v as usize];
            value.root = *same.get(&value.root).unwrap_or(&value.root);
        }
        let Kind::Op { op, attrs } = &n.kind else { return true };
        // Copies of what is on the host are there for those who read them next.
        if n.ins.iter().flatten().any(|v| fetched.contains(&g.values[*v as usize].root)) && !n.is_view() {
            return true;
        }
        let once = [Traits::RANDOM, Traits::MUTATES, Traits::COLLECTIVE].iter().any(|t| op.traits.has(*t));
        if once || matches!(op.kernel, Kernel::Host(_)) || n.outs.iter().any(|v| results.contains(&g.root(*v))) {
            return true;
        }
        let key = ((*op as *const _) as usize, attrs.clone(), n.ins.clone(), n.again);
        match known.get(&key) {
            Some(first) => {
                same.extend(n.outs.iter().copied().zip(first.iter().copied()));
                false
            }
            None => {
                known.insert(key, n.outs.clone());
                true
            }
        }
    });
    (g.nodes, g.fetched) = (nodes, fetched);
    for v in g.outputs.iter_mut().chain(g.writes.iter_mut().map(|w| &mut w.value)) {
        *v = *same.get(v).unwrap_or(v);
    }
    Ok(g.nodes.len() != before)
}
