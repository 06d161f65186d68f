//! `linear` followed by an activation becomes one product with the activation in its epilogue, where nobody else reads the
//! value in between (in training the backward does, so this is for evaluation graphs).

use crate::Config;
use crate::ir::{Graph, Kind, Node};
use oneflow_base::{Arg, Attrs, Result, intern};
use oneflow_ops::matmul::linear;
use std::collections::HashMap;

/// The epilogue that computes this node, if there is one.
fn activation(n: &Node) -> Option<&'static str> {
    let Kind::Op { op, attrs } = &n.kind else { return None };
    match op.name() {
        "relu" => Some("relu"),
        "silu" => Some("silu"),
        "gelu" => match attrs.args().first().and_then(|a| a.str()) {
            Some("tanh") => Some("gelu_tanh"),
            _ => Some("gelu"),
        },
        _ => None,
    }
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse {
        return Ok(false);
    }
    let mut readers: HashMap<u32, usize> = HashMap::new();
    let mut made: HashMap<u32, usize> = HashMap::new();
    for (i, n) in g.nodes.iter().enumerate() {
        n.ins.iter().flatten().for_each(|v| *readers.entry(*v).or_default() += 1);
        n.outs.iter().for_each(|v| {
            made.insert(*v, i);
        });
    }
    g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)).for_each(|v| *readers.entry(*v).or_default() += 1);
    let mut gone = vec![false; g.nodes.len()];
    for i in 0..g.nodes.len() {
        let Some(name) = activation(&g.nodes[i]) else { continue };
        let Some(x) = g.nodes[i].ins[0] else { continue };
        let Some(&p) = made.get(&x) else { continue };
        let product = g.nodes[p].op().is_some_and(|o| std::ptr::eq(o, &linear::OP));
        // Its readers come after the activation, so the product may wait until there, unless an update lies between.
        let updated = g.nodes[p..i].iter().any(|n| !n.updates.is_empty());
        if product && readers.get(&x) == Some(&1) && g.root(x) == x && !updated {
            g.nodes[i].ins = g.nodes[p].ins.clone();
            g.nodes[i].kind = Kind::Op { op: &linear::FUSED, attrs: Attrs::new(&[Arg::Sym(intern(name))]) };
            gone[p] = true;
        }
    }
    let changed = gone.contains(&true);
    let mut it = gone.into_iter();
    g.nodes.retain(|_| !it.next().unwrap_or(false));
    Ok(changed)
}
