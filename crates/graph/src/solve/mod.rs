//! The search for layouts: of every call, and of groups of parameters and inputs, so that a step takes the fewest seconds.
//!
//! Each call may have any layouts that its op offers; a call costs its share of the work, and an edge between two calls the
//! change of layout that it needs (`layouts` prices both). The sum is minimised exactly by eliminating one variable after
//! another (Bertele and Brioschi, Nonserial Dynamic Programming, 1972) where the tables stay small, else by steps from a start
//! that is never left for something worse: the calls alone, exactly if that is possible, and one or two variables at a time.

mod eliminate;
mod stages;

pub use stages::{Pipeline, Shape, StageCut, cut_stages, price_stages};

use crate::ir::{Graph, Node, ValueId};
use crate::layouts::{Laid, Mesh, by_rule, chosen, lists, offers, pins_for, whole_bytes};
use eliminate::{Factor, least};
use oneflow_base::{Error, NdSbp, Result, Sbp};
use oneflow_global::pinned::Pin;
use std::collections::{BTreeMap, HashMap};

/// Values that have one layout together, and the layouts that they may have.
#[derive(Clone, Debug)]
pub struct Group {
    pub members: Vec<ValueId>,
    pub options: Vec<NdSbp>,
}

/// What `solve` found.
#[derive(Clone, Debug)]
pub struct Solution {
    /// For each group the number of its option.
    pub groups: Vec<usize>,
    /// Calls whose layouts are not those that the rule would choose.
    pub pins: HashMap<usize, Pin>,
    /// Whether nothing can be better, under the weight that was given to memory.
    pub optimal: bool,
}

/// Seconds that a change of layout costs at least: of equal layouts the one with fewer changes is better.
const CHANGE: f64 = 1e-12;
const IMPOSSIBLE: f64 = 1e30;

/// Searches from `start` (an option for each group) on. `weight`: the seconds that a byte held by a rank is worth; `micro_batches`:
/// how many a step has, of which the graph is one.
pub fn solve(
    g: &Graph,
    mesh: &Mesh,
    groups: &[Group],
    start: &[usize],
    weight: f64,
    micro_batches: u32,
) -> Result<Solution> {
    let (weight, once) = (weight / f64::from(micro_batches), 1.0 / f64::from(micro_batches));
    if start.len() != groups.len() || groups.iter().zip(start).any(|(g, at)| *at >= g.options.len()) {
        return Err(Error::value("solve: the start names an option for each group"));
    }
    let net = Net::of(g, mesh, groups, weight, once)?;
    let first = net.assignment(g, mesh, groups, start)?;
    let found = match net.eliminate(&[]) {
        Some(best) => (best, true),
        None => (net.descend(first.clone()), false),
    };
    let best = if net.cost(&found.0) < net.cost(&first) { found.0 } else { first };
    let chosen_groups: Vec<usize> = best[..groups.len()].to_vec();
    Ok(Solution { pins: net.pins(g, mesh, groups, &best)?, groups: chosen_groups, optimal: found.1 })
}

/// Where a value's layout comes from.
#[derive(Clone, Copy)]
enum Source {
    Group(usize),
    /// A variable of the net, and which of its results.
    Call(usize, usize),
    Whole,
}

/// Variables, each with the cost of its options, and pairs of variables with the costs of pairs of options.
struct Net {
    costs: Vec<Vec<f64>>,
    edges: BTreeMap<(usize, usize), Vec<f64>>,
    /// Of calls: the node and the layouts of each option.
    calls: Vec<(usize, Vec<Pin>)>,
    n_groups: usize,
}

impl Net {
    fn of(g: &Graph, mesh: &Mesh, groups: &[Group], weight: f64, once: f64) -> Result<Net> {
        let mut net = Net {
            costs: groups.iter().map(|g| vec![0.0; g.options.len()]).collect(),
            edges: BTreeMap::new(),
            calls: Vec::new(),
            n_groups: groups.len(),
        };
        let mut sources: HashMap<ValueId, Source> = HashMap::new();
        for (k, group) in groups.iter().enumerate() {
            for v in &group.members {
                sources.insert(*v, Source::Group(k));
                for (cost, option) in net.costs[k].iter_mut().zip(&group.options) {
                    *cost += weight * local(g, mesh, *v, option);
                }
            }
        }
        let mut prices = Prices { g, mesh, groups, once, scale: 1.0, known: HashMap::new() };
        for n in g.nodes.iter().filter(|n| !n.updates.is_empty()) {
            follow(g, n, &mut sources, |k, v| {
                let weight = weight * g.folds.variables(v);
                net.costs[k].iter_mut().zip(&groups[k].options).for_each(|(c, o)| *c += weight * local(g, mesh, v, o));
            });
        }
        for (at, n) in g.nodes.iter().enumerate() {
            if n.updates.is_empty() {
                net.call(at, n, &mut sources, &mut prices, weight)?;
            } else {
                net.update(n, &mut sources, &mut prices)?;
            }
        }
        net.seams(g, &sources, &mut prices)?;
        for w in &g.writes {
            let (from, to) = (source(&sources, w.value), source(&sources, w.target));
            net.connect(from, to, w.value, &mut prices)?;
        }
        Ok(net)
    }

    fn call(
        &mut self,
        at: usize,
        n: &Node,
        sources: &mut HashMap<ValueId, Source>,
        prices: &mut Prices<'_>,
        weight: f64,
    ) -> Result<()> {
        let (g, mesh) = (prices.g, prices.mesh);
        if n.is_view() && n.ins.len() == 1 && !g.calls.contains_key(&at) {
            return self.view(at, n, sources, prices);
        }
        let mut all = offers(g, mesh, n)?;
        // Layouts that no input can get to (sums of the wrong kind) are none.
        for (slot, v) in n.ins.iter().enumerate() {
            let Some(v) = *v else { continue };
            let from = self.layouts_of(source(sources, v), prices);
            let mut reach = Vec::new();
            for (pin, _) in &all {
                let mut ok = false;
                for f in &from {
                    ok |= prices.seconds(f, &pin.ins[slot], v)? < IMPOSSIBLE;
                }
                reach.push(ok);
            }
            let mut keep = reach.into_iter();
            all.retain(|_| keep.next().unwrap_or(true));
        }
        if all.is_empty() {
            return Err(Error::runtime(format!("{}: no layout can be reached from those of its inputs", n.name())));
        }
        let (me, times) = (self.costs.len(), g.folds.times(at));
        let held = |pin: &Pin| -> f64 {
            let roots = n.outs.iter().zip(&pin.outs).filter(|(v, _)| g.is_root(**v));
            roots.map(|(v, s)| weight * local(g, mesh, *v, s)).sum()
        };
        self.costs.push(all.iter().map(|(pin, seconds)| times * (seconds + held(pin))).collect());
        self.calls.push((at, all.into_iter().map(|(pin, _)| pin).collect()));
        for (slot, v) in n.ins.iter().enumerate() {
            let Some(v) = *v else { continue };
            let from = source(sources, v);
            let layouts = self.layouts_of(from, prices);
            let mine: Vec<NdSbp> = self.calls[me - self.n_groups].1.iter().map(|p| p.ins[slot].clone()).collect();
            prices.scale = times - g.folds.seam(at, slot).map_or(0.0, |s| s.times);
            self.price(from, &layouts, Some(me), &mine, v, prices)?;
        }
        prices.scale = 1.0;
        n.outs.iter().enumerate().for_each(|(o, v)| {
            sources.insert(*v, Source::Call(me, o));
        });
        Ok(())
    }

    /// A view, which follows its input by the rule.
    fn view(
        &mut self,
        at: usize,
        n: &Node,
        sources: &mut HashMap<ValueId, Source>,
        prices: &mut Prices<'_>,
    ) -> Result<()> {
        let Some(v) = n.ins[0] else { return Ok(()) };
        let from = source(sources, v);
        let layouts = self.layouts_of(from, prices);
        let ruled: Vec<Pin> = layouts.iter().map(|f| by_rule(prices.g, prices.mesh, n, f)).collect::<Result<_>>()?;
        let mut all: Vec<Pin> = Vec::new();
        for pin in &ruled {
            if !all.contains(pin) {
                all.push(pin.clone());
            }
        }
        let times = prices.g.folds.times(at);
        let mut table = Vec::with_capacity(layouts.len() * all.len());
        for (f, own) in layouts.iter().zip(&ruled) {
            for pin in &all {
                table.push(if pin == own { times * prices.seconds(f, &pin.ins[0], v)? } else { IMPOSSIBLE });
            }
        }
        let me = self.costs.len();
        self.costs.push(vec![0.0; all.len()]);
        match from {
            Source::Group(k) | Source::Call(k, _) => self.add_edge(k, me, &table, layouts.len(), all.len()),
            Source::Whole => self.costs[me] = table,
        }
        self.calls.push((at, all));
        n.outs.iter().enumerate().for_each(|(o, v)| {
            sources.insert(*v, Source::Call(me, o));
        });
        Ok(())
    }

    /// Gradients come to the layouts of their parameters.
    fn update(&mut self, n: &Node, sources: &mut HashMap<ValueId, Source>, prices: &mut Prices<'_>) -> Result<()> {
        let (g, mesh) = (prices.g, prices.mesh);
        for own in lists(n) {
            let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
            let once = prices.once * g.folds.variables(home);
            prices.scale = once;
            let to = source(sources, home);
            let same = own.iter().filter_map(|i| n.ins[*i]).filter(|v| g.meta(*v).sizes == g.meta(home).sizes);
            for v in same {
                self.connect(source(sources, v), to, v, prices)?;
                if let Source::Group(k) = to {
                    let options = &prices.groups[k].options;
                    for (cost, option) in self.costs[k].iter_mut().zip(options) {
                        let bytes = local(g, mesh, v, option);
                        *cost += once * (bytes / mesh.flops).max(2.0 * bytes / mesh.memory_bandwidth);
                    }
                }
            }
        }
        prices.scale = 1.0;
        for (i, o) in &n.updates {
            if let Some(v) = n.ins[*i as usize] {
                let from = source(sources, v);
                sources.insert(n.outs[*o as usize], from);
            }
        }
        Ok(())
    }

    /// Blocks that stand for several come behind each other. Views follow what they see, so that they cost nothing there.
    fn seams(&mut self, g: &Graph, sources: &HashMap<ValueId, Source>, prices: &mut Prices<'_>) -> Result<()> {
        let vars: HashMap<usize, usize> =
            self.calls.iter().enumerate().map(|(k, (at, _))| (*at, self.n_groups + k)).collect();
        for (at, slot, seam) in g.folds.all_seams().filter(|(at, ..)| !g.nodes[*at].is_view()) {
            let Some(me) = vars.get(&at).copied() else { continue };
            let from = source(sources, seam.own);
            let (have, want) = (self.layouts_of(from, prices), &self.calls[me - self.n_groups].1);
            let want: Vec<NdSbp> = want.iter().map(|p| p.ins[slot].clone()).collect();
            prices.scale = seam.times;
            self.price(from, &have, Some(me), &want, seam.own, prices)?;
        }
        prices.scale = 1.0;
        Ok(())
    }

    /// Adds the cost of bringing a value from one source's layout to another's.
    fn connect(&mut self, from: Source, to: Source, v: ValueId, prices: &mut Prices<'_>) -> Result<()> {
        let (have, want) = (self.layouts_of(from, prices), self.layouts_of(to, prices));
        let at = match to {
            Source::Group(k) | Source::Call(k, _) => Some(k),
            Source::Whole => None,
        };
        self.price(from, &have, at, &want, v, prices)
    }

    fn price(
        &mut self,
        from: Source,
        have: &[NdSbp],
        to: Option<usize>,
        want: &[NdSbp],
        v: ValueId,
        prices: &mut Prices<'_>,
    ) -> Result<()> {
        let mut table = Vec::with_capacity(have.len() * want.len());
        for f in have {
            for t in want {
                table.push(match prices.seconds(f, t, v)? {
                    seconds if seconds < IMPOSSIBLE => prices.scale * seconds,
                    seconds => seconds,
                });
            }
        }
        let from = match from {
            Source::Group(k) | Source::Call(k, _) => Some(k),
            Source::Whole => None,
        };
        match (from, to) {
            (Some(a), Some(b)) if a == b => {
                for i in 0..have.len() {
                    self.costs[a][i] += table[i * want.len() + i];
                }
            }
            (Some(a), Some(b)) => self.add_edge(a, b, &table, have.len(), want.len()),
            (Some(a), None) => self.costs[a].iter_mut().zip(&table).for_each(|(c, t)| *c += t),
            (None, Some(b)) => self.costs[b].iter_mut().zip(&table).for_each(|(c, t)| *c += t),
            (None, None) => {}
        }
        Ok(())
    }

    fn add_edge(&mut self, a: usize, b: usize, table: &[f64], n: usize, m: usize) {
        let edge = self.edges.entry((a.min(b), a.max(b))).or_insert_with(|| vec![0.0; n * m]);
        for i in 0..n {
            for j in 0..m {
                let at = if a < b { i * m + j } else { j * n + i };
                edge[at] += table[i * m + j];
            }
        }
    }

    fn layouts_of(&self, s: Source, prices: &Prices<'_>) -> Vec<NdSbp> {
        match s {
            Source::Group(k) => prices.groups[k].options.clone(),
            Source::Call(k, o) => self.calls[k - self.n_groups].1.iter().map(|p| p.outs[o].clone()).collect(),
            Source::Whole => vec![prices.mesh.hierarchy.iter().map(|_| Sbp::B).collect()],
        }
    }

    // ---- solutions

    fn cost(&self, at: &[usize]) -> f64 {
        let own: f64 = self.costs.iter().zip(at).map(|(c, i)| c[*i]).sum();
        own + self.edges.iter().map(|((a, b), t)| t[at[*a] * self.costs[*b].len() + at[*b]]).sum::<f64>()
    }

    /// The assignment that the rule makes of these options.
    fn assignment(&self, g: &Graph, mesh: &Mesh, groups: &[Group], start: &[usize]) -> Result<Vec<usize>> {
        let by_rule = chosen(g, mesh, &laid(groups, start, HashMap::new()))?;
        let mut at = start.to_vec();
        for (node, pins) in &self.calls {
            let own = by_rule.get(node).and_then(|c| pins.iter().position(|p| p == c));
            at.push(own.unwrap_or(0));
        }
        Ok(at)
    }

    /// The pins that make an assignment of what the rule would choose.
    fn pins(&self, g: &Graph, mesh: &Mesh, groups: &[Group], at: &[usize]) -> Result<HashMap<usize, Pin>> {
        let calls = self.calls.iter().zip(&at[self.n_groups..]);
        let wanted = calls.map(|((node, all), i)| (*node, all[*i].clone())).collect();
        pins_for(g, mesh, laid(groups, &at[..self.n_groups], HashMap::new()).values, &wanted)
    }

    /// The best assignment with the first variables fixed; `None` where a table would be too large.
    fn eliminate(&self, fixed: &[usize]) -> Option<Vec<usize>> {
        let sizes: Vec<usize> = self.costs.iter().map(Vec::len).collect();
        let own = self.costs.iter().enumerate().skip(fixed.len());
        let mut factors: Vec<Factor> = own.map(|(v, c)| Factor { vars: vec![v], table: c.clone() }).collect();
        for ((a, b), t) in &self.edges {
            let m = sizes[*b];
            factors.push(match (fixed.get(*a), fixed.get(*b)) {
                (Some(_), Some(_)) => continue,
                (Some(i), None) => Factor { vars: vec![*b], table: t[i * m..(i + 1) * m].to_vec() },
                (None, Some(j)) => Factor { vars: vec![*a], table: (0..sizes[*a]).map(|i| t[i * m + j]).collect() },
                (None, None) => Factor { vars: vec![*a, *b], table: t.clone() },
            });
        }
        let found = least(&sizes, factors, fixed.len()..sizes.len())?;
        Some(fixed.iter().copied().chain(found).collect())
    }

    /// Steps from an assignment until none helps.
    fn descend(&self, mut at: Vec<usize>) -> Vec<usize> {
        let mut best = self.cost(&at);
        loop {
            let mut better = at.clone();
            if let Some(calls) = self.eliminate(&better[..self.n_groups])
                && self.cost(&calls) < self.cost(&better)
            {
                better = calls;
            }
            self.steps(&mut better);
            let cost = self.cost(&better);
            if cost >= best - 1e-15 {
                return at;
            }
            (at, best) = (better, cost);
        }
    }

    /// The best options of each variable and of each pair that shares an edge, again and again.
    fn steps(&self, at: &mut [usize]) {
        let mut around: Vec<Vec<(usize, bool, &[f64])>> = vec![Vec::new(); self.costs.len()];
        for ((a, b), t) in &self.edges {
            around[*a].push((*b, true, t));
            around[*b].push((*a, false, t));
        }
        let of = |at: &[usize], v: usize, i: usize, but: usize| -> f64 {
            let edges = around[v].iter().filter(|(w, ..)| *w != but).map(|(w, first, t)| match first {
                true => t[i * self.costs[*w].len() + at[*w]],
                false => t[at[*w] * self.costs[v].len() + i],
            });
            self.costs[v][i] + edges.sum::<f64>()
        };
        let mut changed = true;
        while changed {
            changed = false;
            for v in 0..at.len() {
                let now = of(at, v, at[v], usize::MAX);
                let all = (0..self.costs[v].len()).map(|i| (of(at, v, i, usize::MAX), i));
                if let Some((cost, i)) = all.min_by(|a, b| a.0.total_cmp(&b.0))
                    && cost < now - 1e-15
                {
                    (at[v], changed) = (i, true);
                }
            }
            for ((a, b), t) in &self.edges {
                let m = self.costs[*b].len();
                let left: Vec<f64> = (0..self.costs[*a].len()).map(|i| of(at, *a, i, *b)).collect();
                let right: Vec<f64> = (0..m).map(|j| of(at, *b, j, *a)).collect();
                let pair = |i: usize, j: usize| left[i] + right[j] + t[i * m + j];
                let all = (0..left.len()).flat_map(|i| (0..m).map(move |j| (i, j)));
                let Some((i, j)) = all.min_by(|x, y| pair(x.0, x.1).total_cmp(&pair(y.0, y.1))) else { continue };
                if pair(i, j) < pair(at[*a], at[*b]) - 1e-15 {
                    (at[*a], at[*b], changed) = (i, j, true);
                }
            }
        }
    }
}

/// Seconds of changes of layout, kept.
struct Prices<'a> {
    g: &'a Graph,
    mesh: &'a Mesh,
    groups: &'a [Group],
    /// The share of what happens once a step in a micro-batch, and what prices are multiplied by now.
    once: f64,
    scale: f64,
    known: HashMap<(NdSbp, NdSbp, u64), f64>,
}

impl Prices<'_> {
    fn seconds(&mut self, from: &NdSbp, to: &NdSbp, v: ValueId) -> Result<f64> {
        if from == to {
            return Ok(0.0);
        }
        let whole = whole_bytes(self.g, v);
        let key = (from.clone(), to.clone(), whole as u64);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let seconds = self.mesh.moved(from, to, whole).map_or(IMPOSSIBLE, |(_, s)| s + CHANGE);
        self.known.insert(key, seconds);
        Ok(seconds)
    }
}

fn source(sources: &HashMap<ValueId, Source>, v: ValueId) -> Source {
    sources.get(&v).copied().unwrap_or(Source::Whole)
}

/// States follow their parameters; `each` is told the group and the state.
fn follow(g: &Graph, n: &Node, sources: &mut HashMap<ValueId, Source>, mut each: impl FnMut(usize, ValueId)) {
    for own in lists(n) {
        let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
        let Source::Group(k) = source(sources, home) else { continue };
        for v in own.iter().skip(1).filter_map(|i| n.ins[*i]) {
            if g.variables.of(v).is_some() && g.meta(v).sizes == g.meta(home).sizes {
                sources.insert(v, Source::Group(k));
                each(k, v);
            }
        }
    }
}

/// The layouts of groups by value.
fn laid(groups: &[Group], at: &[usize], pins: HashMap<usize, Pin>) -> Laid {
    let values = groups.iter().zip(at).flat_map(|(g, i)| g.members.iter().map(|v| (*v, g.options[*i].clone())));
    Laid { values: values.collect(), pins, ..Laid::default() }
}

/// Bytes of a value on one rank.
fn local(g: &Graph, mesh: &Mesh, v: ValueId, layout: &[Sbp]) -> f64 {
    let axes = mesh.hierarchy.iter().zip(layout).filter(|(_, s)| matches!(s, Sbp::S(_)));
    whole_bytes(g, v) / axes.map(|(n, _)| *n as f64).product::<f64>()
}
