//! The order in which the nodes run: a topological order chosen by keys, for less memory or earlier results.
//!
//! Order is free between nodes that do not depend on each other. An update of a memory comes after those who read what
//! it held; collectives keep their order, since other ranks wait for them.

use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use oneflow_base::Result;
use oneflow_core::Traits;
use oneflow_ops::creation::contiguous::COPY_OP;
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};

/// How nodes are ordered, under OneFlow's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Straighten {
    /// As the program said.
    Disable,
    /// What frees memory first; the program's order where that needs less.
    #[default]
    MemoryFirst,
    /// What the end depends on by the longest way first.
    SpeedFirst,
    /// Work on another device than the host first, then as SpeedFirst.
    OverlapCpuGpu,
    /// Short work waits for what needs it.
    DelayShortGpu,
}

impl Straighten {
    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Straighten> {
        Some(match name {
            "Disable" => Straighten::Disable,
            "MemoryFirst" => Straighten::MemoryFirst,
            "SpeedFirst" => Straighten::SpeedFirst,
            "OverlapCpuGpu" => Straighten::OverlapCpuGpu,
            "DelayShortGpu" => Straighten::DelayShortGpu,
            _ => return None,
        })
    }
}

/// What is known of a node before it is placed.
struct Facts {
    /// Nodes it waits for, and nodes that wait for it.
    before: Vec<usize>,
    after: Vec<usize>,
    /// Length of the longest way from the start, and to the end.
    depth: u64,
    height: u64,
    /// Bytes of its results.
    volume: i64,
    on_host: bool,
}

/// Who reads a memory: the nodes, and how many have not run yet (the program's end counts as one). At zero it is free.
#[derive(Default)]
struct Readers {
    nodes: Vec<usize>,
    left: usize,
}

/// Reorders the nodes. The order of a pipeline stays, whatever it costs here: it keeps other ranks from waiting.
pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    let Some(order) = chosen(g, config) else { return Ok(false) };
    apply(g, &order);
    Ok(true)
}

/// Puts the nodes in this order.
pub fn apply(g: &mut Graph, order: &[usize]) {
    let mut nodes: Vec<Option<Node>> = std::mem::take(&mut g.nodes).into_iter().map(Some).collect();
    g.nodes = order.iter().filter_map(|i| nodes[*i].take()).collect();
}

/// The order in which the nodes are to run, unless it is the one that they have.
pub fn chosen(g: &Graph, config: &Config) -> Option<Vec<usize>> {
    let mode = config.straighten;
    if mode == Straighten::Disable || g.is_pipelined() {
        return None;
    }
    let facts = facts(g);
    let roots: Vec<SmallVec<[ValueId; 4]>> = g.nodes.iter().map(|n| roots(g, n)).collect();
    let mut waiting: Vec<usize> = facts.iter().map(|f| f.before.len()).collect();
    let mut readers: HashMap<ValueId, Readers> = HashMap::new();
    for i in (0..g.nodes.len()).filter(|i| !g.nodes[*i].is_view()) {
        for r in &roots[i] {
            let readers = readers.entry(*r).or_default();
            readers.nodes.push(i);
            readers.left += 1;
        }
    }
    for v in g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)) {
        readers.entry(g.root(*v)).or_default().left += 1;
    }
    let frees = |i: usize, readers: &HashMap<ValueId, Readers>| -> i64 {
        let last = |r: &&ValueId| readers.get(r).is_some_and(|r| r.left == 1) && !g.is_external(**r);
        roots[i].iter().filter(last).map(|r| g.bytes(*r) as i64).sum()
    };
    type Key = (i64, i64, i64, usize);
    let key = |i: usize, readers: &HashMap<ValueId, Readers>| -> Key {
        let f = &facts[i];
        if g.nodes[i].is_view() {
            return (i64::MIN, 0, 0, i);
        }
        let increment = f.volume - frees(i, readers);
        match mode {
            Straighten::Disable => (0, 0, 0, i),
            Straighten::MemoryFirst => (increment.signum(), increment.min(0), f.depth as i64, i),
            Straighten::SpeedFirst => (-(f.height as i64), 0, 0, i),
            Straighten::OverlapCpuGpu => (f.on_host as i64, -(f.height as i64), increment, i),
            Straighten::DelayShortGpu => (!f.on_host as i64, f.depth as i64, increment, i),
        }
    };
    let mut ready: BTreeSet<Key> = BTreeSet::new();
    // The key under which each node stands there.
    let mut keys: Vec<Option<Key>> = vec![None; facts.len()];
    let put = |i: usize, readers: &HashMap<_, _>, ready: &mut BTreeSet<Key>, keys: &mut [Option<Key>]| {
        let k = key(i, readers);
        if let Some(old) = keys[i].replace(k) {
            ready.remove(&old);
        }
        ready.insert(k);
    };
    (0..facts.len()).filter(|i| waiting[*i] == 0).for_each(|i| put(i, &readers, &mut ready, &mut keys));
    let mut order = Vec::with_capacity(facts.len());
    while let Some((.., i)) = ready.pop_first() {
        keys[i] = None;
        order.push(i);
        if !g.nodes[i].is_view() {
            for r in &roots[i] {
                let Some(read) = readers.get_mut(r) else { continue };
                read.left -= 1;
                // Whoever reads it last frees it, and may come sooner for that.
                if read.left == 1 {
                    let last: Vec<usize> = read.nodes.iter().copied().filter(|j| keys[*j].is_some()).collect();
                    last.into_iter().for_each(|j| put(j, &readers, &mut ready, &mut keys));
                }
            }
        }
        for &j in &facts[i].after {
            waiting[j] -= 1;
            if waiting[j] == 0 {
                put(j, &readers, &mut ready, &mut keys);
            }
        }
    }
    Some(order)
}

/// The memories that a node reads, each once.
fn roots(g: &Graph, n: &Node) -> SmallVec<[ValueId; 4]> {
    let mut v: SmallVec<[ValueId; 4]> = n.ins.iter().flatten().map(|v| g.root(*v)).collect();
    v.sort_unstable();
    v.dedup();
    v
}

/// The nodes that each node must come after, for what it computes or for its turn. `in_order`: of collectives also those before it.
pub(super) fn waits(g: &Graph, in_order: bool) -> Vec<BTreeSet<usize>> {
    let mut before = dependencies(g);
    let mut collective = None;
    for (i, node) in g.nodes.iter().enumerate() {
        // What runs again does so when its turn has come, not as early as it could.
        if node.again > 0 && !node.is_view() {
            let gate = (0..i).rev().find(|j| g.nodes[*j].again != node.again && !g.nodes[*j].is_view());
            before[i].extend(gate);
        }
        if in_order && node.op().is_some_and(|o| o.traits.has(Traits::COLLECTIVE)) {
            before[i].extend(collective.replace(i));
        }
    }
    before
}

/// The nodes that each node must come after: they make what it reads, or read what it updates.
pub(super) fn dependencies(g: &Graph) -> Vec<BTreeSet<usize>> {
    let mut before: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); g.nodes.len()];
    let mut made: HashMap<ValueId, usize> = HashMap::new();
    let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (i, node) in g.nodes.iter().enumerate() {
        for v in node.ins.iter().flatten() {
            before[i].extend(made.get(v));
            before[i].extend(made.get(&g.root(*v)));
            readers.entry(g.root(*v)).or_default().push(i);
        }
        for (k, _) in &node.updates {
            let Some(v) = node.ins.get(*k as usize).copied().flatten() else { continue };
            let all = readers.get(&g.root(v)).into_iter().flatten();
            before[i].extend(all.filter(|j| **j != i));
        }
        node.outs.iter().for_each(|v| {
            made.insert(*v, i);
        });
    }
    before
}

/// Whether a node computes something; a view does not, nor does the copy that a rank makes of one that is not contiguous.
pub(super) fn works(n: &Node) -> bool {
    !n.is_view() && n.op().is_none_or(|o| !std::ptr::eq(o, &COPY_OP))
}

fn facts(g: &Graph) -> Vec<Facts> {
    let n = g.nodes.len();
    let before = waits(g, true);
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut depth = vec![0u64; n];
    for i in 0..n {
        for &j in &before[i] {
            after[j].push(i);
            depth[i] = depth[i].max(depth[j] + 1);
        }
    }
    let mut height = vec![0u64; n];
    for i in (0..n).rev() {
        height[i] = after[i].iter().map(|j| height[*j] + 1).max().unwrap_or(0);
    }
    let mut out = Vec::with_capacity(n);
    for (i, (before, after)) in before.into_iter().zip(after).enumerate() {
        let node = &g.nodes[i];
        let fresh = node
            .outs
            .iter()
            .enumerate()
            .filter(|(k, v)| g.is_root(**v) && !node.updates.iter().any(|(_, o)| *o as usize == *k));
        out.push(Facts {
            before: before.into_iter().collect(),
            after,
            depth: depth[i],
            height: height[i],
            volume: fresh.map(|(_, v)| g.bytes(*v) as i64).sum(),
            on_host: node.outs.first().is_none_or(|v| g.meta(*v).device.is_cpu()),
        });
    }
    out
}
