//! One update of many parameters becomes several, each as soon as its gradients are there and nobody reads the old
//! parameters any more: gradients are read while they lie in the cache, and their memory is free sooner. On request there
//! is one a parameter.

use super::fusion::update::{is_update, lists, part};
use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use crate::passes::order::Straighten;
use oneflow_base::Result;
use oneflow_core::Kernel;
use std::collections::{HashMap, HashSet};

/// Gradients of this many bytes are worth a separate launch; with parameters and states they still fit the second-level cache.
const WORTH: u64 = 256 << 10;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    // Whoever asks for the program's order gets it, and a pipeline's is chosen already.
    let early = config.straighten != Straighten::Disable && !g.is_pipelined();
    let least = if config.multi_tensor_update { WORTH } else { 0 };
    if config.multi_tensor_update && !early {
        return Ok(false);
    }
    if early {
        hoist(g);
    }
    let last = last_uses(g);
    let nodes = std::mem::take(&mut g.nodes);
    // What follows each node.
    let mut after: HashMap<usize, Vec<Node>> = HashMap::new();
    let mut split = vec![false; nodes.len()];
    for (at, n) in nodes.iter().enumerate().filter(|(_, n)| is_update(n)) {
        let mut parts = parts(g, n, at, &last, least);
        if parts.len() < 2 {
            continue;
        }
        if !early {
            parts.iter_mut().for_each(|p| p.0 = at);
        }
        split[at] = true;
        parts.into_iter().for_each(|(at, keep)| after.entry(at).or_default().push(part(n, &keep)));
    }
    for (at, n) in nodes.into_iter().enumerate() {
        if !split[at] {
            g.nodes.push(n);
        }
        g.nodes.extend(after.remove(&at).into_iter().flatten());
    }
    Ok(split.contains(&true))
}

/// Moves to the front what updates read besides their lists and what follows from variables alone, as the count of steps does.
fn hoist(g: &mut Graph) {
    let mut read: HashSet<ValueId> = HashSet::new();
    for n in g.nodes.iter().filter(|n| is_update(n)) {
        read.extend(n.ins[lists(n).iter().sum()..].iter().flatten());
    }
    let nodes = std::mem::take(&mut g.nodes);
    let (mut first, rest): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(|n| {
        let elementwise = n.op().is_some_and(|o| matches!(o.kernel, Kernel::Elementwise(_)));
        let outside = n.ins.iter().flatten().all(|v| g.is_external(g.root(*v)));
        elementwise && outside && n.again == 0 && n.outs.iter().any(|v| read.contains(v))
    });
    first.extend(rest);
    g.nodes = first;
}

/// The nodes that make or read each memory, by its root.
fn last_uses(g: &Graph) -> HashMap<ValueId, Vec<usize>> {
    let mut uses: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (at, n) in g.nodes.iter().enumerate() {
        n.ins.iter().flatten().chain(&n.outs).for_each(|v| uses.entry(g.root(*v)).or_default().push(at));
    }
    uses
}

/// The update at `at` in parts: the node that each may follow, and its parameters.
fn parts(g: &Graph, n: &Node, at: usize, uses: &HashMap<ValueId, Vec<usize>>, least: u64) -> Vec<(usize, Vec<usize>)> {
    let lens = lists(n);
    let count = lens.first().copied().unwrap_or(0);
    // The last node before the update that makes or reads what this input lies in.
    let ready = |i: usize| -> usize {
        let all = n.ins[i].and_then(|v| uses.get(&g.root(v))).into_iter().flatten();
        all.copied().filter(|j| *j < at).max().unwrap_or(0)
    };
    let n_lists: usize = lens.iter().sum();
    let common = (n_lists..n.ins.len()).map(ready).max().unwrap_or(0);
    let mut order: Vec<(usize, usize)> = (0..count)
        .map(|k| {
            let mut start = 0;
            let own = lens.iter().filter(|l| **l > 0).map(|l| {
                start += l;
                ready(start - l + k)
            });
            (own.max().unwrap_or(0).max(common), k)
        })
        .collect();
    order.sort_unstable();
    let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut held = 0;
    for (ready, k) in order {
        match parts.last_mut() {
            // What is ready at the same time runs together.
            Some(p) if held < least || least > 0 && p.0 == ready => {
                p.0 = ready;
                p.1.push(k);
            }
            _ => {
                parts.push((ready, vec![k]));
                held = 0;
            }
        }
        held += n.ins[k].map_or(0, |v| g.bytes(g.root(v)));
    }
    parts.iter_mut().for_each(|p| p.1.sort_unstable());
    parts
}
