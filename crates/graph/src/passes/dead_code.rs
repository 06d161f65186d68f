//! Removes nodes that no result and no write-back depends on, and constants that no node reads.

use crate::Config;
use crate::ir::Graph;
use oneflow_base::Result;
use oneflow_core::Traits;
use std::collections::HashSet;

pub fn run(g: &mut Graph, _: &Config) -> Result<bool> {
    let mut live: HashSet<u32> = g.outputs.iter().copied().chain(g.writes.iter().map(|w| w.value)).collect();
    // A live view needs its root's maker, which its own node reads.
    let mut keep = vec![false; g.nodes.len()];
    for (i, n) in g.nodes.iter().enumerate().rev() {
        // Collectives stay: other ranks wait for them.
        let talks = n.op().is_some_and(|o| o.traits.has(Traits::COLLECTIVE));
        if talks || n.outs.iter().any(|v| live.contains(v)) {
            keep[i] = true;
            live.extend(n.ins.iter().flatten());
        }
    }
    let before = g.nodes.len();
    let mut it = keep.into_iter();
    g.nodes.retain(|_| it.next().unwrap_or(true));
    let read: HashSet<u32> =
        g.nodes.iter().flat_map(|n| n.ins.iter().flatten()).chain(&live).map(|v| g.root(*v)).collect();
    let read: HashSet<u32> = g.derived.iter().flat_map(|d| &d.from).copied().chain(read).collect();
    g.variables.retain(|v| !v.constant || read.contains(&v.value));
    Ok(g.nodes.len() != before)
}
