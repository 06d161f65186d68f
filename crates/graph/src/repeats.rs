//! Repeated blocks of a step, such as the layers of a transformer: a graph in which one block stands for all equal ones.
//!
//! Blocks are runs of units (`units.rs`) whose forwards and backwards have the same ops, attributes and shapes in the same
//! order, connected in the same way: within a block, with the block before and the one behind, and with values that all of them
//! read. Of a run the first block stays. Where blocks meet (a seam) it meets what is before and behind the run once, and itself
//! as often as its copies follow each other. Layouts that all blocks of a run share cost the same in both graphs
//! (`layouts.rs`), and a search over the small one takes the time of one block, however many there are.

use crate::ir::{Folds, Graph, Kind, Node, Run, Seam, ValueId};
use crate::layouts::lists;
use crate::units::places;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The most units of one block, such as a dense layer and one with experts by turns.
const LONGEST: usize = 4;

/// The graph with one block for each run of equal ones; `None` where there is none. Variables of one group (by value) have one
/// layout, so only those can stand for each other.
pub fn fold(g: &Graph, groups: &HashMap<ValueId, usize>) -> Option<Graph> {
    let whole = Whole::of(g, groups)?;
    let mut runs = whole.runs();
    // What a run cannot be folded for: something outside reads a block in its middle.
    while let Some(bad) = whole.read_from_outside(&runs) {
        runs.remove(bad);
    }
    (!runs.is_empty()).then(|| whole.folded(&runs)).flatten()
}

/// Where a value is made.
#[derive(Clone, Copy, PartialEq)]
struct Home {
    unit: usize,
    backward: bool,
    index: usize,
    out: usize,
}

/// A run in numbers of the whole graph: its first unit, the units of a block, and how many blocks there are.
#[derive(Clone, Copy)]
struct Found {
    start: usize,
    period: usize,
    times: usize,
}

impl Found {
    fn end(&self) -> usize {
        self.start + self.period * self.times
    }
    fn block(&self, unit: usize) -> Option<usize> {
        (self.start..self.end()).contains(&unit).then(|| (unit - self.start) / self.period)
    }
}

struct Whole<'a> {
    g: &'a Graph,
    groups: &'a HashMap<ValueId, usize>,
    /// The nodes of each unit: of its forward, and of its backward.
    nodes: Vec<[Range<usize>; 2]>,
    /// The first update: what is behind it belongs to no unit.
    end: usize,
    homes: HashMap<ValueId, Home>,
}

impl<'a> Whole<'a> {
    fn of(g: &'a Graph, groups: &'a HashMap<ValueId, usize>) -> Option<Whole<'a>> {
        let end = g.nodes.iter().position(|n| !n.updates.is_empty()).unwrap_or(g.nodes.len());
        let places = places(g);
        let n_units = places.iter().map(|p| p.unit + 1).max()?;
        let mut nodes = vec![[0..0, 0..0]; n_units];
        for (at, place) in places.iter().enumerate().take(end) {
            let range = &mut nodes[place.unit][usize::from(place.backward)];
            match range.start == range.end {
                true => *range = at..at + 1,
                false if range.end == at => range.end = at + 1,
                // The unit works in several places.
                false => return None,
            }
        }
        let mut homes = HashMap::new();
        for (unit, ranges) in nodes.iter().enumerate() {
            for (range, backward) in ranges.iter().zip([false, true]) {
                for (index, n) in g.nodes[range.clone()].iter().enumerate() {
                    homes.extend(n.outs.iter().enumerate().map(|(out, v)| (*v, Home { unit, backward, index, out })));
                }
            }
        }
        Some(Whole { g, groups, nodes, end, homes })
    }

    fn at(&self, home: Home) -> usize {
        self.nodes[home.unit][usize::from(home.backward)].start + home.index
    }

    fn value(&self, home: Home) -> ValueId {
        self.g.nodes[self.at(home)].outs[home.out]
    }

    // ---- runs

    fn runs(&self) -> Vec<Found> {
        let n = self.nodes.len();
        let mut alike: HashMap<(usize, usize), bool> = HashMap::new();
        let mut is_alike = |unit: usize, period: usize| {
            *alike.entry((unit, period)).or_insert_with(|| unit + period < n && self.is_alike(unit, period))
        };
        let (mut runs, mut unit) = (Vec::new(), 0);
        while unit < n {
            let mut best: Option<Found> = None;
            for period in 1..=LONGEST {
                let equal = (unit..n).take_while(|u| is_alike(*u, period)).count();
                let found = Found { start: unit, period, times: equal / period + 1 };
                let gone = |f: &Found| f.period * (f.times - 1);
                if found.times > 1 && best.as_ref().is_none_or(|b| gone(&found) > gone(b)) {
                    best = Some(found);
                }
            }
            unit = best.map_or(unit + 1, |f| f.end());
            runs.extend(best);
        }
        runs
    }

    /// Whether two units are made alike, with what they read.
    fn is_alike(&self, unit: usize, period: usize) -> bool {
        let (one, two) = (&self.nodes[unit], &self.nodes[unit + period]);
        if one.iter().zip(two).any(|(a, b)| a.len() != b.len()) || one[0].is_empty() {
            return false;
        }
        let mut twins = Twins { whole: self, period, there: HashMap::new(), back: HashMap::new() };
        let pairs = one.iter().zip(two).flat_map(|(a, b)| a.clone().zip(b.clone()));
        pairs.into_iter().all(|(a, b)| twins.nodes(&self.g.nodes[a], &self.g.nodes[b]))
    }

    /// The variables of a block's nodes and, with them, those of the next block's.
    fn twins(&self, run: &Found, block: usize) -> HashMap<ValueId, ValueId> {
        let mut twins = Twins { whole: self, period: run.period, there: HashMap::new(), back: HashMap::new() };
        for unit in (0..run.period).map(|k| run.start + block * run.period + k) {
            let (one, two) = (&self.nodes[unit], &self.nodes[unit + run.period]);
            let pairs = one.iter().zip(two).flat_map(|(a, b)| a.clone().zip(b.clone()));
            pairs.for_each(|(a, b)| {
                twins.nodes(&self.g.nodes[a], &self.g.nodes[b]);
            });
        }
        twins.there
    }

    fn block_of(&self, runs: &[Found], v: ValueId) -> Option<(usize, usize)> {
        let home = self.homes.get(&v)?;
        runs.iter().enumerate().find_map(|(k, r)| r.block(home.unit).map(|block| (k, block)))
    }

    /// A run of which something outside reads more than its first block and its last, or whose blocks read further than the
    /// next one.
    fn read_from_outside(&self, runs: &[Found]) -> Option<usize> {
        let inner = |v: ValueId, from: Option<(usize, usize)>| -> Option<usize> {
            let (k, block) = self.block_of(runs, self.g.root(v)).or_else(|| self.block_of(runs, v))?;
            let near = match from {
                Some((own, other)) if own == k => block.abs_diff(other) <= 1,
                _ => block == 0 || block + 1 == runs[k].times,
            };
            (!near).then_some(k)
        };
        let owned: Vec<HashSet<ValueId>> = runs
            .iter()
            .map(|r| (0..r.times - 1).flat_map(|b| self.twins(r, b)).flat_map(|(v, w)| [v, w]).collect())
            .collect();
        for (at, n) in self.g.nodes.iter().enumerate() {
            let own = n.outs.first().and_then(|v| self.block_of(runs, *v));
            if at >= self.end && !n.updates.is_empty() {
                continue;
            }
            for v in n.ins.iter().flatten() {
                let variable =
                    || owned.iter().position(|all| all.contains(v)).filter(|k| own.is_none_or(|o| o.0 != *k));
                if let Some(bad) = inner(*v, own).or_else(variable) {
                    return Some(bad);
                }
            }
        }
        let others = self.g.outputs.iter().copied().chain(self.g.writes.iter().map(|w| w.value));
        others.into_iter().find_map(|v| inner(v, None))
    }

    // ---- folded

    fn folded(&self, runs: &[Found]) -> Option<Graph> {
        let g = self.g;
        let (mut gone, mut values) = (HashSet::new(), HashMap::new());
        for run in runs {
            let mut chain: HashMap<ValueId, ValueId> = HashMap::new();
            for block in 0..run.times - 1 {
                for (v, w) in self.twins(run, block) {
                    let first = chain.get(&v).copied().unwrap_or(v);
                    chain.insert(w, first);
                    gone.insert(w);
                    values.insert(first, run.times as f64);
                }
            }
        }
        let removed = |unit: usize| runs.iter().any(|r| r.block(unit).is_some_and(|b| b > 0));
        let mut is_gone = vec![false; g.nodes.len()];
        for ranges in self.nodes.iter().enumerate().filter(|(unit, _)| removed(*unit)).map(|(_, r)| r) {
            ranges.iter().for_each(|r| is_gone[r.clone()].fill(true));
        }
        let mut numbers = Vec::with_capacity(g.nodes.len() + 1);
        let mut n_kept = 0;
        for gone in &is_gone {
            numbers.push(n_kept);
            n_kept += usize::from(!gone);
        }
        numbers.push(n_kept);

        let mut made = Graph { nodes: Vec::with_capacity(n_kept), calls: HashMap::new(), ..g.clone() };
        made.nodes.clear();
        let mut seams = HashMap::new();
        for (at, n) in g.nodes.iter().enumerate().filter(|(at, _)| !is_gone[*at]) {
            let mut n = n.clone();
            if at >= self.end && !n.updates.is_empty() {
                self.update(&mut n, &mut gone, &mut values);
            } else if let Some((run, unit, backward, index)) = self.in_run(runs, at) {
                for slot in 0..n.ins.len() {
                    let twin = |blocks: usize| {
                        let there = &self.nodes[unit + blocks * run.period][usize::from(backward)];
                        g.nodes[there.start + index].ins[slot]
                    };
                    let (Some(v), Some(next), Some(last)) = (n.ins[slot], twin(1), twin(run.times - 1)) else {
                        continue;
                    };
                    let block = |v: ValueId| self.homes.get(&v).and_then(|h| run.block(h.unit));
                    let times = (run.times - 1) as f64;
                    if block(v) == Some(1) {
                        // What the next block makes is of another run, or none, for the last one.
                        let home = self.homes[&v];
                        let own = self.value(Home { unit: home.unit - run.period, ..home });
                        seams.insert((numbers[at], slot), Seam { own, times, at_last: true });
                        n.ins[slot] = Some(last);
                    } else if block(next) == Some(0) {
                        seams.insert((numbers[at], slot), Seam { own: next, times, at_last: false });
                    }
                }
            }
            n.ins.iter_mut().flatten().for_each(|v| *v = self.first_of(runs, *v));
            if let Some(call) = g.calls.get(&at) {
                made.calls.insert(made.nodes.len(), call.clone());
            }
            made.nodes.push(n);
        }
        made.values.iter_mut().for_each(|v| v.root = self.first_of(runs, v.root));
        made.outputs.iter_mut().for_each(|v| *v = self.first_of(runs, *v));
        made.writes.retain(|w| !gone.contains(&w.target));
        made.writes.iter_mut().for_each(|w| w.value = self.first_of(runs, w.value));
        made.variables.retain(|x| !gone.contains(&x.value));

        // Units keep their order, without those that are gone.
        let mut units = Vec::with_capacity(self.nodes.len());
        let mut n_units = 0;
        for unit in 0..self.nodes.len() {
            units.push(n_units);
            n_units += usize::from(!removed(unit));
        }
        made.sections.retain(|s| !removed(s.stage as usize / 2));
        for s in &mut made.sections {
            s.at = numbers[s.at.min(g.nodes.len())];
            s.stage = 2 * units[s.stage as usize / 2] as u32 + s.stage % 2;
        }
        let range = |units: Range<usize>, backward: usize| {
            let all = units.map(|u| self.nodes[u][backward].clone()).filter(|r| !r.is_empty());
            let (start, end) = all.fold((usize::MAX, 0), |(a, b), r| (a.min(r.start), b.max(r.end)));
            if end == 0 { 0..0 } else { numbers[start]..numbers[end - 1] + 1 }
        };
        let one = |r: &Found| Run {
            first_unit: units[r.start],
            n_units: r.period,
            times: r.times,
            forward: range(r.start..r.start + r.period, 0),
            backward: range(r.start..r.start + r.period, 1),
        };
        let stands = (0..g.nodes.len()).map(|at| numbers[self.first_at(runs, at)]).collect();
        made.folds = Folds { runs: runs.iter().map(one).collect(), values, seams, stands };
        Some(made)
    }

    /// The run of a node, with its unit and its number there.
    fn in_run<'r>(&self, runs: &'r [Found], at: usize) -> Option<(&'r Found, usize, bool, usize)> {
        for run in runs {
            for unit in run.start..run.end() {
                for backward in [false, true] {
                    let range = &self.nodes[unit][usize::from(backward)];
                    if range.contains(&at) {
                        return Some((run, unit, backward, at - range.start));
                    }
                }
            }
        }
        None
    }

    fn first_at(&self, runs: &[Found], at: usize) -> usize {
        let Some((run, unit, backward, index)) = self.in_run(runs, at) else { return at };
        let unit = run.start + (unit - run.start) % run.period;
        self.at(Home { unit, backward, index, out: 0 })
    }

    /// The value of the first block that stands for a value.
    fn first_of(&self, runs: &[Found], v: ValueId) -> ValueId {
        let Some((k, block)) = self.block_of(runs, v) else { return v };
        let home = self.homes[&v];
        self.value(Home { unit: home.unit - block * runs[k].period, ..home })
    }

    /// Takes out of an update what it does to variables that are gone; states go with their parameters.
    fn update(&self, n: &mut Node, gone: &mut HashSet<ValueId>, values: &mut HashMap<ValueId, f64>) {
        for own in lists(n) {
            let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
            let states = own.iter().skip(1).filter_map(|i| n.ins[*i]).filter(|v| self.g.variables.of(*v).is_some());
            if gone.contains(&home) {
                gone.extend(states);
                own.iter().for_each(|i| n.ins[*i] = None);
            } else if let Some(times) = values.get(&home).copied() {
                values.extend(states.map(|v| (v, times)));
            }
        }
    }
}

/// Compares nodes of two blocks, and pairs their variables.
struct Twins<'a, 'b> {
    whole: &'a Whole<'b>,
    period: usize,
    there: HashMap<ValueId, ValueId>,
    back: HashMap<ValueId, ValueId>,
}

impl Twins<'_, '_> {
    fn nodes(&mut self, a: &Node, b: &Node) -> bool {
        let (Kind::Op { op: one, attrs: its }, Kind::Op { op: other, attrs: others }) = (&a.kind, &b.kind) else {
            return false;
        };
        let alike = std::ptr::eq(*one, *other) && its == others && a.updates.is_empty() && b.updates.is_empty();
        let counts = a.ins.len() == b.ins.len() && a.outs.len() == b.outs.len() && (a.again == 0) == (b.again == 0);
        if !alike || !counts {
            return false;
        }
        let ins = a.ins.iter().zip(&b.ins).all(|(v, w)| match (v, w) {
            (Some(v), Some(w)) => self.values(*v, *w),
            (None, None) => true,
            _ => false,
        });
        ins && a.outs.iter().zip(&b.outs).all(|(v, w)| self.values(*v, *w))
    }

    fn values(&mut self, v: ValueId, w: ValueId) -> bool {
        if v == w {
            return true;
        }
        let g = self.whole.g;
        let (one, two) = (&g.values[v as usize], &g.values[w as usize]);
        if one.meta != two.meta || one.offset != two.offset || (one.root == v) != (two.root == w) {
            return false;
        }
        match (self.whole.homes.get(&v), self.whole.homes.get(&w)) {
            (Some(a), Some(b)) => {
                let moved = Home { unit: a.unit + self.period, ..*a } == *b;
                moved && (one.root == v || self.values(one.root, two.root))
            }
            (None, None) if g.variables.of(v).is_some() && g.variables.of(w).is_some() => {
                let group = self.whole.groups.get(&v);
                let paired = *self.there.entry(v).or_insert(w) == w && *self.back.entry(w).or_insert(v) == v;
                paired && group.is_some() && group == self.whole.groups.get(&w)
            }
            _ => false,
        }
    }
}
