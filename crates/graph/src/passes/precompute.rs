//! What depends on variables alone, which this program never writes, is computed when they change, not in every run.
//!
//! The results become variables. Views are not kept: whoever reads one gets the whole memory under it.

use super::fold::{is_fill, is_pure};
use super::fusion::prepared_weights::is_prepared;
use crate::Config;
use crate::ir::{Derived, Graph, Node, Value, ValueId, Variable};
use oneflow_base::{Meta, Result};
use oneflow_core::Storage;
use std::collections::{HashMap, HashSet};

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.precompute {
        return Ok(false);
    }
    let made = known(g);
    let hoisted: HashSet<usize> = made.values().copied().collect();
    // Memories that other nodes read.
    let mut wanted: Vec<ValueId> = Vec::new();
    let others = g.nodes.iter().enumerate().filter(|(at, _)| !hoisted.contains(at));
    for root in others.flat_map(|(_, n)| n.ins.iter().flatten()).map(|v| g.root(*v)) {
        if made.contains_key(&root) && !wanted.contains(&root) {
            wanted.push(root);
        }
    }
    // Memory is held for good: no more than the variables that it is computed from, but for what was chosen to be.
    wanted.retain(|root| {
        let from = sources(g, &made, *root).1;
        is_prepared(&g.nodes[made[root]]) || g.bytes(*root) <= from.iter().map(|v| g.bytes(*v)).sum::<u64>()
    });
    let mut views = Vec::new();
    for root in &wanted {
        let (nodes, from) = sources(g, &made, *root);
        let bytes = g.bytes(*root);
        let m = g.meta(*root).clone();
        let value = if m.is_contiguous() { *root } else { flat(g, *root, bytes, &mut views) };
        let name = format!("derived.{}", g.variables.len());
        g.derived.push(Derived { value, made: *root, from, nodes });
        g.variables.push(Variable { name, value, storage: Storage::new(m.device, bytes as usize)?, constant: false });
    }
    let wanted: HashSet<ValueId> = wanted.into_iter().collect();
    g.nodes.retain(|n| !n.outs.iter().any(|v| wanted.contains(v)));
    g.nodes.splice(..0, views);
    // What made the parts of them is read by nobody else now.
    super::dead_code::run(g, config)?;
    Ok(!wanted.is_empty())
}

/// A row of as many elements whose memory `root` becomes a view of: what a program keeps is contiguous.
fn flat(g: &mut Graph, root: ValueId, bytes: u64, views: &mut Vec<Node>) -> ValueId {
    let m = g.meta(root).clone();
    let value = g.values.len() as ValueId;
    let row = Meta::contiguous(m.dtype, m.device, &[(bytes / m.dtype.size() as u64) as i64]);
    g.values.push(Value { meta: row, offset: 0, root: value });
    g.values.iter_mut().filter(|v| v.root == root).for_each(|v| v.root = value);
    views.push(Node::view_of(value, root, &m));
    value
}

/// Values that follow from the graph's steady variables alone, and the nodes that make them.
pub fn known(g: &Graph) -> HashMap<ValueId, usize> {
    let kept: HashSet<ValueId> =
        g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)).map(|v| g.root(*v)).collect();
    let is_steady = |v: &ValueId| g.is_steady(*v) && !g.varying.contains(v) && !g.fetched.contains(v);
    let steady: HashSet<ValueId> = g.variables.iter().map(|v| v.value).filter(is_steady).collect();
    let mut made: HashMap<ValueId, usize> = HashMap::new();
    for (at, n) in g.nodes.iter().enumerate() {
        let [out] = *n.outs.as_slice() else { continue };
        if g.varying.contains(&out) {
            continue;
        }
        let follows = n.ins.iter().flatten().all(|v| steady.contains(v) || made.contains_key(v));
        let pure = n.is_view() || is_pure(n) && !is_fill(n);
        if follows && pure && n.ins.iter().any(Option::is_some) && n.again == 0 && !kept.contains(&g.root(out)) {
            made.insert(out, at);
        }
    }
    made.retain(|out, _| !g.is_updated(g.root(*out)));
    made
}

/// The nodes that a value is computed by, in program order, and the variables that they read.
fn sources(g: &Graph, made: &HashMap<ValueId, usize>, value: ValueId) -> (Vec<Node>, Vec<ValueId>) {
    let (mut nodes, mut from, mut open) = (Vec::new(), Vec::new(), vec![value]);
    while let Some(v) = open.pop() {
        match made.get(&v) {
            Some(at) if nodes.contains(at) => {}
            Some(at) => {
                nodes.push(*at);
                open.extend(g.nodes[*at].ins.iter().flatten());
            }
            None if from.contains(&v) => {}
            None => from.push(v),
        }
    }
    nodes.sort_unstable();
    (nodes.into_iter().map(|at| g.nodes[at].clone()).collect(), from)
}
