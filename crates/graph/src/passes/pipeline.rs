//! The order of a pipeline's micro-batches: one forward, one backward.
//!
//! As traced, a stage that is not the last would wait with each micro-batch until its gradient has come back. Here it runs
//! as many further forwards first as there are stages behind it, and from then on one for each backward: all stages work,
//! and none holds the activations of more micro-batches than it needs to. Chooses an order alone; the messages between
//! stages are their own credits (`_cross_send`).

use crate::Config;
use crate::ir::{Graph, Node};
use crate::passes::straighten::waits;
use oneflow_base::Result;
use oneflow_core::Traits;
use std::collections::BTreeSet;
use std::ops::Range;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if config.stages_after == 0 || !g.is_pipelined() {
        return Ok(false);
    }
    let parts: Option<Vec<_>> = g.micro_batches.windows(2).map(|w| halves(&g.nodes, w[0]..w[1])).collect();
    let Some(parts) = parts else { return Ok(false) };
    let ahead = config.stages_after.min(parts.len());
    let (first, last) = (g.micro_batches[0], g.micro_batches[parts.len()]);
    let mut wanted: Vec<usize> = (0..first).collect();
    wanted.extend(parts[..ahead].iter().flat_map(|(forward, _)| forward.clone()));
    for (i, (_, backward)) in parts.iter().enumerate() {
        wanted.extend(parts.get(i + ahead).into_iter().flat_map(|(forward, _)| forward.clone()));
        wanted.extend(backward.clone());
    }
    wanted.extend(last..g.nodes.len());
    reorder(g, &wanted);
    Ok(true)
}

/// A micro-batch's forward and its backward, which begins with the first thing that comes back after something was sent.
fn halves(nodes: &[Node], part: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let does = |i: &usize, t: Traits| nodes[*i].op().is_some_and(|o| o.traits.has(t));
    let sent = part.clone().find(|i| does(i, Traits::SENDS))?;
    let turn = (sent..part.end).find(|i| does(i, Traits::RECEIVES))?;
    Some((part.start..turn, turn..part.end))
}

/// Puts the nodes into this order, each after whatever it depends on.
fn reorder(g: &mut Graph, wanted: &[usize]) {
    let before = waits(g, false);
    let mut nodes: Vec<Option<Node>> = std::mem::take(&mut g.nodes).into_iter().map(Some).collect();
    for &i in wanted {
        let (mut needed, mut open) = (BTreeSet::new(), vec![i]);
        while let Some(j) = open.pop() {
            if nodes[j].is_some() && needed.insert(j) {
                open.extend(&before[j]);
            }
        }
        // As they were traced: nothing depends on what was traced later.
        g.nodes.extend(needed.into_iter().filter_map(|j| nodes[j].take()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Kind, Value};
    use oneflow_base::{Attrs, DType, Device, Meta};
    use oneflow_core::{Kernel, OpDef};

    const PLAIN: OpDef = OpDef { kernel: Kernel::None, ..OpDef::BASE };
    static WORK: OpDef = PLAIN;
    static SEND: OpDef = OpDef { traits: Traits::COLLECTIVE.or(Traits::SENDS), ..PLAIN };
    static RECEIVE: OpDef = OpDef { traits: Traits::COLLECTIVE.or(Traits::RECEIVES), ..PLAIN };

    fn push(g: &mut Graph, op: &'static OpDef, ins: &[u32]) -> u32 {
        let out = g.values.len() as u32;
        g.values.push(Value { meta: Meta::contiguous(DType::F32, Device::CPU, &[1]), offset: 0, root: out });
        g.nodes.push(Node {
            kind: Kind::Op { op, attrs: Attrs::new(&[]) },
            ins: ins.iter().map(|v| Some(*v)).collect(),
            outs: [out].into_iter().collect(),
            updates: Default::default(),
            stack: None,
            again: 0,
        });
        out
    }

    /// Four micro-batches of a first stage, each sent away and waited for; `shared`: the second forward reads what the first
    /// backward. Classifies each node once ordered: forward work and its send, receive and backward work.
    fn order(stages_after: usize, shared: bool) -> String {
        let mut g = Graph::default();
        let mut names = Vec::new();
        let mut kept = None;
        for i in 0..4 {
            g.micro_batches.push(g.nodes.len());
            let ins = if shared && i == 1 { kept.into_iter().collect() } else { vec![] };
            let f = push(&mut g, &WORK, &ins);
            push(&mut g, &SEND, &[f]);
            let r = push(&mut g, &RECEIVE, &[]);
            let b = push(&mut g, &WORK, &[r, f]);
            kept = kept.or(Some(b));
            names.extend(["f", "s", "r", "b"].map(|n| format!("{n}{i} ")));
        }
        g.micro_batches.push(g.nodes.len());
        push(&mut g, &WORK, &[]);
        names.push("u".to_owned());
        run(&mut g, &Config { stages_after, ..Config::default() }).unwrap();
        g.nodes.iter().map(|n| names[n.outs[0] as usize].as_str()).collect()
    }

    #[test]
    fn a_stage_is_ahead_by_the_stages_behind_it() {
        assert_eq!(order(0, false), "f0 s0 r0 b0 f1 s1 r1 b1 f2 s2 r2 b2 f3 s3 r3 b3 u");
        assert_eq!(order(1, false), "f0 s0 f1 s1 r0 b0 f2 s2 r1 b1 f3 s3 r2 b2 r3 b3 u");
        assert_eq!(order(9, false), "f0 s0 f1 s1 f2 s2 f3 s3 r0 b0 r1 b1 r2 b2 r3 b3 u");
        assert_eq!(order(1, true), "f0 s0 r0 b0 f1 s1 f2 s2 r1 b1 f3 s3 r2 b2 r3 b3 u");
    }
}
