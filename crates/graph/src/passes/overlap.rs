//! The order in which work hides communication: a collective is issued as soon as its operands are there, what reads its result
//! waits until the next one is on its way, and parameters that modules gather, or fetch from the host, come one module ahead.
//!
//! So at most two collectives' results are held for this, two gathered layers with ZeRO stage 3. Collectives keep their order,
//! which all ranks have in common, but for gathers of parameters: each takes the place of the one before it among those of
//! its group. Seen from the other groups that changes nothing, since the same ranks meet at the same places; so ranks that
//! did not wait for each other in a circle do not now.

use super::order::{apply, waits};
use crate::Config;
use crate::ir::{Graph, Node};
use crate::lowering::{call_of, fetches, lane_of};
use crate::passes::order::Straighten;
use oneflow_base::{Result, Sbp};
use oneflow_global::boxing::{Wire, wire};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Collectives under way whose results nothing is to wait for yet.
const AHEAD: usize = 1;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if config.streams == 0 || config.straighten == Straighten::Disable || g.is_pipelined() {
        return Ok(false);
    }
    let lanes: Vec<Option<usize>> = g.nodes.iter().map(|n| lane_of(g, n)).collect::<Result<_>>()?;
    if lanes.iter().all(Option::is_none) {
        return Ok(false);
    }
    let mut before = waits(g, false);
    let (visits, early) = prefetched(g, &lanes, &mut before)?;
    let order = Schedule::new(g, &lanes, before, early).run(&visits);
    apply(g, &order);
    Ok(true)
}

/// The nodes in their order, each gather of a parameter in the place of the one before it; and which those are.
fn prefetched(
    g: &Graph,
    lanes: &[Option<usize>],
    before: &mut [BTreeSet<usize>],
) -> Result<(Vec<usize>, BTreeSet<usize>)> {
    let updated: BTreeSet<u32> = g
        .nodes
        .iter()
        .flat_map(|n| n.updates.iter().map(move |(i, _)| (n, *i)))
        .filter_map(|(n, i)| n.ins[i as usize])
        .map(|v| g.root(v))
        .collect();
    let mut makers: HashMap<u32, usize> = HashMap::new();
    for (i, n) in g.nodes.iter().enumerate() {
        n.outs.iter().for_each(|v| {
            makers.insert(*v, i);
        });
    }
    // Per group the last gather, whose place the next one takes.
    let mut last: HashMap<usize, usize> = HashMap::new();
    let mut instead: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut early = BTreeSet::new();
    for (i, n) in g.nodes.iter().enumerate() {
        let Some(lane) = lanes[i] else { continue };
        // A variable that the step updates is read before: no update may come between two of its gathers.
        let steady = |v: &u32| {
            let root = g.root(*v);
            g.variables.of(root).is_some()
                && (!updated.contains(&root) || !updates_between(g, root, last.get(&lane), i))
        };
        if !(fetches(g, n) || n.reads_stored && gathers(g, n)?) || !n.ins.iter().flatten().all(steady) {
            continue;
        }
        early.insert(i);
        // It comes when its place does, not when a part of the program that runs again begins.
        before[i] =
            n.ins.iter().flatten().filter_map(|v| makers.get(v).copied()).filter(|j| g.nodes[*j].is_view()).collect();
        instead.entry(i).or_default();
        let place = last.insert(lane, i).unwrap_or(i);
        instead.entry(place).or_default().push(i);
    }
    let visits = (0..g.nodes.len()).flat_map(|i| instead.get(&i).cloned().unwrap_or_else(|| vec![i])).collect();
    Ok((visits, early))
}

/// Whether a node updates a memory from the last gather on, or at any time before the first one.
fn updates_between(g: &Graph, root: u32, from: Option<&usize>, to: usize) -> bool {
    let updates = |n: &Node| n.updates.iter().any(|(i, _)| n.ins[*i as usize].is_some_and(|v| g.root(v) == root));
    g.nodes[from.copied().unwrap_or(0)..to].iter().any(updates)
}

fn gathers(g: &Graph, n: &Node) -> Result<bool> {
    let gathers = |c: &oneflow_core::Call<'_>| {
        let found = matches!(wire(c)?, Some(Wire::Axis(m)) if matches!(m.from, Sbp::S(_)) && m.to == Sbp::B);
        Ok(found.then_some(()))
    };
    Ok(call_of(g, n, gathers)?.is_some())
}

struct Schedule<'a> {
    g: &'a Graph,
    lanes: &'a [Option<usize>],
    before: Vec<BTreeSet<usize>>,
    /// Gathers that come at their place alone.
    early: BTreeSet<usize>,
    order: Vec<usize>,
    placed: Vec<bool>,
    /// Collectives whose results are waited for later, and the nodes that wait for them, in their order.
    ahead: VecDeque<usize>,
    held: Vec<usize>,
    is_held: Vec<bool>,
}

impl<'a> Schedule<'a> {
    fn new(g: &'a Graph, lanes: &'a [Option<usize>], before: Vec<BTreeSet<usize>>, early: BTreeSet<usize>) -> Self {
        let n = g.nodes.len();
        let (placed, is_held) = (vec![false; n], vec![false; n]);
        Schedule {
            g,
            lanes,
            before,
            early,
            order: Vec::with_capacity(n),
            placed,
            ahead: VecDeque::new(),
            held: Vec::new(),
            is_held,
        }
    }

    fn run(mut self, visits: &[usize]) -> Vec<usize> {
        let talks: Vec<usize> = visits.iter().copied().filter(|i| self.lanes[*i].is_some()).collect();
        let mut next = 0;
        for &i in visits {
            if self.placed[i] {
                continue;
            }
            if self.lanes[i].is_some() && !self.is_free(i) {
                self.release_all();
            }
            if self.early.contains(&i) {
                self.place_views(i);
            }
            self.visit(i);
            // Collectives whose turn it is and whose operands are there go at once.
            while let Some(&c) = talks.get(next) {
                if self.placed[c] {
                    next += 1;
                } else if !self.early.contains(&c) && self.is_ready(c) {
                    self.visit(c);
                } else {
                    break;
                }
            }
        }
        self.release_all();
        self.order
    }

    /// Whether it waits for no collective under way.
    fn is_free(&self, i: usize) -> bool {
        !self.before[i].iter().any(|j| self.is_held[*j] || self.ahead.contains(j))
    }

    fn is_ready(&self, i: usize) -> bool {
        self.is_free(i) && self.before[i].iter().all(|j| self.placed[*j])
    }

    fn visit(&mut self, i: usize) {
        if !self.is_free(i) {
            self.is_held[i] = true;
            self.held.push(i);
            return;
        }
        self.place(i);
        if self.lanes[i].is_some() {
            self.ahead.push_back(i);
            while self.ahead.len() > AHEAD {
                self.ahead.pop_front();
                self.release();
            }
        }
    }

    /// A gather that comes early needs the views of its parameter.
    fn place_views(&mut self, i: usize) {
        for j in self.before[i].clone() {
            if !self.placed[j] {
                self.place_views(j);
                self.place(j);
            }
        }
    }

    fn place(&mut self, i: usize) {
        self.placed[i] = true;
        self.order.push(i);
    }

    /// Places what waits for no collective under way any more.
    fn release(&mut self) {
        for i in std::mem::take(&mut self.held) {
            self.is_held[i] = false;
            if self.is_free(i) {
                self.place(i);
            } else {
                self.is_held[i] = true;
                self.held.push(i);
            }
        }
    }

    fn release_all(&mut self) {
        self.ahead.clear();
        self.release();
        debug_assert!(self.held.is_empty(), "{}", self.g.name);
    }
}
