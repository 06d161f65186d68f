//! The order of a pipeline's micro-batches: a row of the pipeline's table, or one forward for one backward.
//!
//! As traced, a stage that is not the last would wait with each micro-batch until its gradient has come back. Without a
//! table a rank runs as many further forwards first as there are stages behind it, and from then on one for each backward:
//! all stages work, and none holds the activations of more micro-batches than it needs to. A table says for each stage and
//! micro-batch when its forward, its backward and, separately, the gradients of its parameters come. Chooses an order
//! alone; the messages between stages are their own credits (`_cross_send`), and the table was checked as a whole before.
//!
//! Two things stand aside of a row. What follows from parameters alone, such as their casts, comes before it: a rank then does
//! it while it waits for its first message. And where a rank has work of other stages behind the last of one, the gradients of that
//! one are reduced between their turns, in shares of equal bytes, so that the row does not wait for them.

use crate::Config;
use crate::ir::{Graph, Node};
use crate::lowering::call_of;
use crate::passes::fold::is_pure;
use crate::passes::order::waits;
use oneflow_base::{Error, Result};
use oneflow_core::Traits;
use oneflow_global::boxing::{Wire, wire};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// One entry of a rank's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    pub stage: u32,
    pub micro_batch: usize,
    pub half: Half,
}

/// What is done with a micro-batch on a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Forward,
    /// Without the gradients of parameters, if `Weights` is in the row too.
    Backward,
    Weights,
}

impl Half {
    /// "F", "B" or "W".
    pub fn parse(letter: &str) -> Option<Half> {
        Some(match letter {
            "F" => Half::Forward,
            "B" => Half::Backward,
            "W" => Half::Weights,
            _ => return None,
        })
    }
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.turns.is_empty() {
        let wanted = by_table(g, &config.turns)?;
        reorder(g, &wanted);
        return Ok(true);
    }
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

/// The nodes of each stage and micro-batch, in the order of a row. Receives from other stages are left out: each comes
/// with the first node that needs it.
fn by_table(g: &Graph, turns: &[Turn]) -> Result<Vec<usize>> {
    let own: BTreeSet<u32> = turns.iter().map(|t| t.stage).collect();
    let known: BTreeSet<u32> = g.sections.iter().map(|s| s.stage).collect();
    if let Some(stage) = own.difference(&known).next() {
        return Err(Error::runtime(format!(
            "the pipeline's table has stage {stage}, and no module that build calls belongs to it: name it with set_stage()"
        )));
    }
    let n = g.micro_batches.len().saturating_sub(1);
    if let Some(t) = turns.iter().find(|t| t.micro_batch >= n) {
        return Err(Error::runtime(format!(
            "the pipeline's table has micro-batch {}, and a step has {n}: call set_gradient_accumulation_steps()",
            t.micro_batch
        )));
    }
    let first = g.micro_batches.first().copied().unwrap_or(0);
    let last = g.micro_batches.last().copied().unwrap_or(0);
    let mut units: HashMap<(usize, u32, bool), Vec<usize>> = HashMap::new();
    let before = waits(g, false);
    for (m, w) in g.micro_batches.windows(2).enumerate() {
        units_of(g, m, w[0]..w[1], &own, &before, &mut units);
    }
    let mut wanted: Vec<usize> = (0..first).collect();
    wanted.extend(of_parameters(g, first..last));
    let late = reductions(g, first..last, turns, &units, &before)?;
    let is_late: HashSet<usize> = late.values().flatten().copied().collect();
    for (at, t) in turns.iter().enumerate() {
        let unit = units.get(&(t.micro_batch, t.stage, t.half != Half::Forward));
        let unit = unit.map_or(&[][..], Vec::as_slice);
        let weights_wait = t.half == Half::Backward && turns.contains(&Turn { half: Half::Weights, ..*t });
        if weights_wait {
            wanted.extend(for_others(g, t, unit, &units, &before));
        } else {
            // What the first half of a backward has taken already is skipped.
            wanted.extend(unit.iter().filter(|i| !is_late.contains(i)));
        }
        wanted.extend(late.get(&at).into_iter().flatten());
    }
    wanted.extend(first..last);
    wanted.extend(last..g.nodes.len());
    Ok(wanted)
}

/// Adds the nodes of one micro-batch to the stages of this rank that they belong to.
fn units_of(
    g: &Graph,
    m: usize,
    part: Range<usize>,
    own: &BTreeSet<u32>,
    before: &[BTreeSet<usize>],
    units: &mut HashMap<(usize, u32, bool), Vec<usize>>,
) {
    let mut unit_of: HashMap<usize, (usize, u32, bool)> = HashMap::new();
    let start = part.start;
    let mut sections = g.sections.iter().filter(|s| s.micro_batch == m).peekable();
    // What precedes the first stage prepares inputs.
    let first = sections.clone().find(|s| own.contains(&s.stage));
    let Some(first) = first else { return };
    let (mut unit, mut here) = ((m, first.stage, first.backward), true);
    for i in part {
        while let Some(s) = sections.next_if(|s| s.at <= i) {
            here = own.contains(&s.stage);
            if here {
                unit = (m, s.stage, s.backward);
            }
        }
        let op = g.nodes[i].op();
        let sends = op.is_some_and(|o| o.traits.has(Traits::SENDS));
        if op.is_some_and(|o| o.traits.has(Traits::RECEIVES)) && !hops(&g.nodes[i]) {
            continue;
        }
        // What this rank sends while another's stage is traced was made by its own stage before. Gradients may be accumulated as
        // late: with the stage that made them, whose activations they would keep, also if it is another one of this rank. What
        // waits for a message belongs to whoever needs it.
        let made_by: Option<Vec<_>> = before[i].range(start..).map(|j| unit_of.get(j).copied()).collect();
        let later = || made_by.as_ref().and_then(|u| u.last().copied());
        let other = || {
            let all = made_by.as_ref().filter(|_| unit.2 && !sends)?;
            all.first().copied().filter(|u| u.2 && u.1 != unit.1 && all.iter().all(|v| v == u))
        };
        let at = if here || sends { Some(other().unwrap_or(unit)) } else { later() };
        if let Some(at) = at {
            units.entry(at).or_default().push(i);
            unit_of.insert(i, at);
        }
    }
}

/// Of a backward's nodes those that other stages wait for: what leads to its messages, or to another stage of this rank.
fn for_others(
    g: &Graph,
    t: &Turn,
    unit: &[usize],
    units: &HashMap<(usize, u32, bool), Vec<usize>>,
    before: &[BTreeSet<usize>],
) -> Vec<usize> {
    let inside: BTreeSet<usize> = unit.iter().copied().collect();
    let is_message = |n: &Node| hops(n) || n.op().is_some_and(|o| o.traits.has(Traits::SENDS));
    let sends = unit.iter().filter(|i| is_message(&g.nodes[**i]));
    let mut open: Vec<usize> = sends.copied().collect();
    let others = units.iter().filter(|((m, stage, back), _)| *m == t.micro_batch && *back && *stage < t.stage);
    open.extend(others.flat_map(|(_, nodes)| nodes).flat_map(|i| &before[*i]).filter(|i| inside.contains(i)));
    let mut needed = BTreeSet::new();
    while let Some(i) = open.pop() {
        if inside.contains(&i) && needed.insert(i) {
            open.extend(&before[i]);
        }
    }
    needed.into_iter().collect()
}

/// What micro-batches make of parameters alone; of what several make the first stays.
fn of_parameters(g: &Graph, part: Range<usize>) -> Vec<usize> {
    let mut known: HashSet<u32> = g.variables.iter().map(|x| x.value).collect();
    let mut found = Vec::new();
    for (i, n) in g.nodes[part.clone()].iter().enumerate().map(|(k, n)| (part.start + k, n)) {
        let follows = n.again == 0 && n.updates.is_empty() && (n.is_view() || is_pure(n));
        if follows && !n.ins.is_empty() && n.ins.iter().flatten().all(|v| known.contains(v)) {
            known.extend(&n.outs);
            found.push(i);
        }
    }
    // A view comes with what reads it.
    found.retain(|i| !g.nodes[*i].is_view());
    found
}

/// By the turn behind which they come: the reductions of gradients of a stage that is done, with what is made of their results
/// before the step's end.
fn reductions(
    g: &Graph,
    part: Range<usize>,
    turns: &[Turn],
    units: &HashMap<(usize, u32, bool), Vec<usize>>,
    before: &[BTreeSet<usize>],
) -> Result<BTreeMap<usize, Vec<usize>>> {
    let mut after: HashMap<usize, Vec<usize>> = HashMap::new();
    for i in part.clone() {
        before[i].iter().for_each(|j| after.entry(*j).or_default().push(i));
    }
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut lasts: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, t) in turns.iter().enumerate().filter(|(_, t)| t.half != Half::Forward) {
        lasts.insert(t.stage, at);
    }
    let in_a_unit: HashSet<usize> = units.values().flatten().copied().collect();
    for (stage, last) in lasts {
        let behind = turns.len() - 1 - last;
        if behind == 0 {
            continue;
        }
        let unit: BTreeSet<usize> =
            units.get(&(turns[last].micro_batch, stage, true)).into_iter().flatten().copied().collect();
        // Each reduction with what follows from it; a message must not follow from it.
        let mut own: Vec<(u64, Vec<usize>)> = Vec::new();
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        for &i in &unit {
            let Some(bytes) = reduced_bytes(g, i)?.filter(|_| !taken.contains(&i)) else { continue };
            let (mut all, mut open) = (BTreeSet::new(), vec![i]);
            while let Some(j) = open.pop() {
                if all.insert(j) {
                    open.extend(after.get(&j).into_iter().flatten());
                }
            }
            let sends = |j: &usize| g.nodes[*j].op().is_some_and(|o| o.traits.has(Traits::SENDS));
            if all.iter().all(|j| (unit.contains(j) || !in_a_unit.contains(j)) && !sends(j)) {
                taken.extend(&all);
                own.push((bytes, all.into_iter().collect()));
            }
        }
        let total: u64 = own.iter().map(|(bytes, _)| bytes).sum();
        let mut passed = 0;
        for (bytes, nodes) in own {
            let share = u128::from(passed) * behind as u128 / u128::from(total.max(1));
            found.entry(last + share as usize).or_default().extend(nodes);
            passed += bytes;
        }
    }
    Ok(found)
}

/// The bytes of sums over ranks, if a node makes them.
fn reduced_bytes(g: &Graph, at: usize) -> Result<Option<u64>> {
    call_of(g, &g.nodes[at], |c| {
        let Some(Wire::Axis(m)) = wire(c)?.filter(|w| matches!(w, Wire::Axis(m) if m.from.is_partial())) else {
            return Ok(None);
        };
        let numel = |sizes: &[i64]| sizes.iter().product::<i64>() as u64;
        let all = [&m.sizes].into_iter().chain(&m.others).map(|sizes| numel(sizes)).sum::<u64>();
        Ok(Some(all * m.dtype.size() as u64))
    })
}

/// A micro-batch's forward and its backward, which begins with the first thing that comes back after something was sent.
fn halves(nodes: &[Node], part: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let does = |i: &usize, t: Traits| nodes[*i].op().is_some_and(|o| o.traits.has(t));
    let sent = part.clone().find(|i| does(i, Traits::SENDS))?;
    let turn = (sent..part.end).find(|i| does(i, Traits::RECEIVES))?;
    Some((part.start..turn, turn..part.end))
}

/// A move among the ranks of one stage, such as a hop of ring attention: what is received and what is sent are one node, which the
/// others of the stage wait for whether this rank needs what it receives or not.
fn hops(n: &Node) -> bool {
    n.op().is_some_and(|o| o.traits.has(Traits::RECEIVES)) && n.ins.first().is_some_and(Option::is_some)
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
    use crate::ir::{Kind, Section, Value};
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
            reads_stored: false,
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

    /// Two micro-batches on the first and the last of four stages (a rank of a V), in the order of a row. Each backward computes
    /// the gradient of the input (`b`) and, from it, that of a weight (`w`).
    fn by_row(row: &[(u32, usize, &str)]) -> String {
        let mut g = Graph::default();
        let mut names: Vec<String> = Vec::new();
        let mut node = |g: &mut Graph, op: &'static OpDef, name: &str, m: usize, ins: &[u32]| {
            names.push(format!("{name}{m} "));
            push(g, op, ins)
        };
        for m in 0..2 {
            g.micro_batches.push(g.nodes.len());
            let begin = |g: &mut Graph, stage, backward| {
                g.sections.push(Section { at: g.nodes.len(), micro_batch: m, stage, backward });
            };
            begin(&mut g, 0, false);
            let f0 = node(&mut g, &WORK, "f", m, &[]);
            begin(&mut g, 1, false);
            // Sent by this rank, while the next stage is traced.
            node(&mut g, &SEND, "s", m, &[f0]);
            begin(&mut g, 2, false);
            let r = node(&mut g, &RECEIVE, "r", m, &[]);
            begin(&mut g, 3, false);
            let f3 = node(&mut g, &WORK, "F", m, &[r]);
            begin(&mut g, 3, true);
            let w3 = node(&mut g, &WORK, "W", m, &[f3, r]);
            let b3 = node(&mut g, &WORK, "B", m, &[f3]);
            node(&mut g, &SEND, "S", m, &[b3]);
            node(&mut g, &WORK, "V", m, &[w3]);
            begin(&mut g, 2, true);
            // What accumulates a gradient of the last stage comes while another one is traced.
            node(&mut g, &WORK, "A", m, &[w3]);
            begin(&mut g, 1, true);
            let r = node(&mut g, &RECEIVE, "R", m, &[]);
            // Behind the stage's module, on the same rank.
            let t = node(&mut g, &WORK, "T", m, &[r, f0]);
            begin(&mut g, 0, true);
            // Another one, while the other stage of this rank is traced.
            node(&mut g, &WORK, "Z", m, &[w3]);
            node(&mut g, &WORK, "w", m, &[t, f0]);
        }
        g.micro_batches.push(g.nodes.len());
        node(&mut g, &WORK, "u", 9, &[]);
        let turn = |(stage, micro_batch, half): &(u32, usize, &str)| Turn {
            stage: *stage,
            micro_batch: *micro_batch,
            half: Half::parse(half).unwrap(),
        };
        let turns = row.iter().map(turn).collect();
        match run(&mut g, &Config { turns, ..Config::default() }) {
            Ok(_) => g.nodes.iter().map(|n| names[n.outs[0] as usize].as_str()).collect(),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn a_row_of_a_table_orders_stages_and_weights() {
        let whole =
            [(0, 0, "F"), (0, 1, "F"), (3, 0, "F"), (3, 0, "B"), (3, 1, "F"), (3, 1, "B"), (0, 0, "B"), (0, 1, "B")];
        assert_eq!(by_row(&whole), "f0 s0 f1 s1 r0 F0 W0 B0 S0 V0 A0 Z0 r1 F1 W1 B1 S1 V1 A1 Z1 R0 T0 w0 R1 T1 w1 u9 ");
        let split = [
            (0, 0, "F"),
            (0, 1, "F"),
            (3, 0, "F"),
            (3, 0, "B"),
            (3, 1, "F"),
            (3, 1, "B"),
            (3, 1, "W"),
            (0, 1, "B"),
            (3, 0, "W"),
            (0, 0, "B"),
        ];
        assert_eq!(by_row(&split), "f0 s0 f1 s1 r0 F0 B0 S0 r1 F1 B1 S1 W1 V1 A1 Z1 R1 T1 w1 W0 V0 A0 Z0 R0 T0 w0 u9 ");
    }

    /// Nobody on this rank needs what a hop brings, and others of the stage need what it sends.
    #[test]
    fn hops_among_the_ranks_of_a_stage_keep_their_place() {
        let (mut g, mut names) = (Graph::default(), Vec::new());
        for micro_batch in 0..2 {
            g.micro_batches.push(g.nodes.len());
            let begin = |g: &mut Graph, backward| {
                g.sections.push(Section { at: g.nodes.len(), micro_batch, stage: 0, backward });
            };
            begin(&mut g, false);
            let f = push(&mut g, &WORK, &[]);
            push(&mut g, &RECEIVE, &[f]);
            begin(&mut g, true);
            let b = push(&mut g, &WORK, &[f]);
            push(&mut g, &WORK, &[b]);
            push(&mut g, &RECEIVE, &[b]);
            names.extend(["f", "h", "b", "w", "k"].map(|n| format!("{n}{micro_batch} ")));
        }
        g.micro_batches.push(g.nodes.len());
        let turn = |(micro_batch, half)| Turn { stage: 0, micro_batch, half };
        let row = [
            (0, Half::Forward),
            (1, Half::Forward),
            (0, Half::Backward),
            (1, Half::Backward),
            (0, Half::Weights),
            (1, Half::Weights),
        ];
        run(&mut g, &Config { turns: row.map(turn).to_vec(), ..Config::default() }).unwrap();
        let order: String = g.nodes.iter().map(|n| names[n.outs[0] as usize].as_str()).collect();
        assert_eq!(order, "f0 h0 f1 h1 b0 k0 b1 k1 w0 w1 ");
    }

    #[test]
    fn rows_that_do_not_fit_the_trace_are_refused() {
        assert!(by_row(&[(0, 0, "F"), (7, 0, "F")]).contains("the pipeline's table has stage 7"));
        assert!(by_row(&[(0, 0, "F"), (0, 2, "F")]).contains("has micro-batch 2, and a step has 2"));
        assert_eq!(Half::parse("I"), None);
    }
}
