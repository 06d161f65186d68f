//! What the parts of a step cost that pipeline stages are made of: units, the modules that the trace has marked, in the order of
//! their calls.
//!
//! A trace marks the forward of unit `k` as section `2 k`, what follows it outside of all units as `2 k + 1`, and the backward of
//! the unit as section `2 k` of the backward. Values that a unit gets as arguments may come from another stage; what ops outside
//! of units read has to be on one stage (`together`). Cuts nothing (`solve/stages.rs` does).

use crate::ir::{Graph, Node, ValueId};
use crate::layouts::{AtSeam, Laid, Mesh, lists, walked};
use crate::passes::fold::is_pure;
use oneflow_base::Result;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a unit costs one rank, in seconds and bytes.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// Of one micro-batch.
    pub forward: f64,
    pub backward: f64,
    /// Of the backward, what computes gradients of parameters alone: no other unit waits for it.
    pub weights: f64,
    /// Of the update, once a step, with the reductions of gradients; and of them alone.
    pub update: f64,
    pub reduction: f64,
    /// Parameters, states and inputs of a step, with what is made of parameters once a step; and gradients.
    pub fixed: f64,
    pub gradients: f64,
    /// What one micro-batch keeps from its forward to its backward, and the most that is alive beside that.
    pub saved: f64,
    pub working: f64,
    /// What one micro-batch keeps from its backward to that of parameters, where a schedule separates them.
    pub between: f64,
}

/// A value that a unit makes and a later one reads.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub from: usize,
    pub to: usize,
    pub bytes: f64,
    /// A gradient comes back.
    pub returns: bool,
}

/// The parts of a step.
#[derive(Clone, Debug, Default)]
pub struct Units {
    pub units: Vec<Unit>,
    pub flows: Vec<Flow>,
    /// First and last of units that one stage has to hold.
    pub together: Vec<(usize, usize)>,
    /// The unit with which a variable or an input lies.
    pub homes: HashMap<ValueId, usize>,
}

/// Which unit works on a node: in its forward (inside of it, or behind it), or in its backward.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub unit: usize,
    inside: bool,
    pub backward: bool,
}

/// The units of a graph whose trace has marked them, with these layouts.
pub fn units(g: &Graph, mesh: &Mesh, laid: &Laid) -> Result<Units> {
    let n_units = g.sections.iter().map(|s| s.stage as usize / 2 + 1).max().unwrap_or(1);
    let places = places(g);
    let w = walked(g, mesh, laid, false)?;
    let mut found = Units { units: vec![Unit::default(); n_units], ..Units::default() };
    let made: HashMap<ValueId, usize> =
        g.nodes.iter().enumerate().flat_map(|(i, n)| n.outs.iter().map(move |v| (*v, i))).collect();
    homes(g, &places, &mut found);

    let waited_for = waited_for(g, &places, &made);
    for (at, place) in places.iter().enumerate().filter(|(at, _)| g.nodes[*at].updates.is_empty()) {
        let unit = &mut found.units[place.unit];
        let seconds = if place.backward { &mut unit.backward } else { &mut unit.forward };
        *seconds += w.found.by_node[at];
        if place.backward && !waited_for[at] {
            unit.weights += w.found.by_node[at];
        }
    }
    let home_of = |homes: &HashMap<ValueId, usize>, v: ValueId| homes.get(&g.root(v)).copied().unwrap_or(0);
    for (parameter, own) in &w.found.by_parameter {
        let unit = &mut found.units[home_of(&found.homes, *parameter)];
        unit.update += own.update;
        unit.reduction += own.reduction;
        unit.backward += own.sum;
        unit.weights += own.sum;
    }
    for x in g.variables.iter() {
        found.units[home_of(&found.homes, x.value)].fixed += w.resident(x.value);
    }
    for v in &g.inputs {
        found.units[home_of(&found.homes, *v)].fixed += f64::from(laid.micro_batches) * w.kept(*v);
    }
    let gradients = w.gradients();
    for (parameter, gradient) in &gradients {
        found.units[home_of(&found.homes, *parameter)].gradients += w.kept(*gradient);
    }

    // What a later unit reads: outside of all units ops need their operands on one stage.
    let mut flows: BTreeMap<(ValueId, usize), (Flow, Option<Again>)> = BTreeMap::new();
    for (at, (n, place)) in g.nodes.iter().zip(&places).enumerate().filter(|(_, (_, p))| !p.backward) {
        for (slot, v) in n.ins.iter().enumerate().filter_map(|(i, v)| v.as_ref().map(|v| (i, v))) {
            let Some(from) = made.get(v).map(|i| places[*i].unit).filter(|from| *from < place.unit) else { continue };
            if !place.inside {
                found.together.push((from, place.unit));
            }
            let (bytes, returns) = (w.kept(g.root(*v)), g.meta(*v).dtype.is_float());
            let own = g.folds.seam(at, slot).map(|s| s.own);
            let again = own.and_then(|v| Some((places[*made.get(&v)?].unit, w.kept(g.root(v)))));
            flows.entry((g.root(*v), place.unit)).or_insert((Flow { from, to: place.unit, bytes, returns }, again));
        }
    }
    // What is made of the gradients of several units outside of the backward, such as a norm of all, has no stage either.
    for (n, place) in g.nodes.iter().zip(&places).filter(|(n, p)| p.backward && n.updates.is_empty()) {
        let from = n.ins.iter().flatten().filter_map(|v| made.get(v)).filter(|i| places[**i].backward);
        let units: HashSet<usize> = from.map(|i| places[*i].unit).collect();
        if n.ins.len() > 2 && units.len() > 1 {
            let last = units.iter().copied().max().unwrap_or(0);
            found.together.push((place.unit.min(units.iter().copied().min().unwrap_or(0)), last));
        }
    }

    // Memory: what outlives the forward, and the most beside it.
    let ends = w.ends();
    let moved = w.moved();
    let backward_from = places.iter().position(|p| p.backward).unwrap_or(g.nodes.len());
    let last: HashMap<ValueId, usize> = ends.iter().flat_map(|(at, all)| all.iter().map(move |v| (*v, *at))).collect();
    let counted: HashSet<ValueId> = gradients.values().copied().collect();
    let outlives = |v: ValueId| made.get(&v).is_some_and(|i| *i < backward_from && last[&v] >= backward_from);
    let once = once(g);
    let is_own = |v: &ValueId| !g.is_external(*v) && !counted.contains(v) && !outlives(*v);
    let (mut now, mut between) = (0.0, HashSet::new());
    for (at, n) in g.nodes.iter().enumerate() {
        let unit = places[at].unit;
        for v in w.fresh(n) {
            if outlives(v) && !g.is_external(v) {
                let unit = &mut found.units[unit];
                *if once.contains(&v) { &mut unit.fixed } else { &mut unit.saved } += w.kept(v);
            }
        }
        if places[at].backward && !waited_for[at] && n.updates.is_empty() {
            for v in n.ins.iter().flatten().map(|v| g.root(*v)) {
                let is_kept = |i: &usize| if places[*i].backward { waited_for[*i] } else { outlives(v) };
                if made.get(&v).is_some_and(is_kept) && !once.contains(&v) && between.insert(v) {
                    found.units[unit].between += w.kept(v);
                }
            }
        }
        now += w.fresh(n).filter(is_own).map(|v| w.kept(v)).sum::<f64>();
        let beside = if n.updates.is_empty() { moved.get(&at).copied().unwrap_or(0.0) } else { 0.0 };
        found.units[unit].working = found.units[unit].working.max(now + w.gathered(n) + beside);
        let gone =
            ends.get(&at).into_iter().flatten().filter(|v| is_own(v) && made.contains_key(v) && !w.is_update(**v));
        now -= gone.map(|v| w.kept(*v)).sum::<f64>();
    }
    found.units.iter_mut().for_each(|unit| unit.working += w.window());
    let extra: Vec<Extra> = w.found.at_seams.iter().map(|seam| Extra::of(seam, &places, &waited_for)).collect();
    Ok(unfolded(g, found, &extra, flows.into_values()))
}

/// What the copies of a block read of the copy before them, in place of what the first one reads: the unit that makes it, and bytes.
type Again = (usize, f64);

/// A change of layout where blocks meet, which a unit that stands for several has on average.
struct Extra {
    unit: usize,
    backward: bool,
    weights: bool,
    seam: AtSeam,
}

impl Extra {
    fn of(seam: &AtSeam, places: &[Place], waited_for: &[bool]) -> Extra {
        let Place { unit, backward, .. } = places[seam.node];
        Extra { unit, backward, weights: backward && !waited_for[seam.node], seam: *seam }
    }

    /// What copy `k` of `times` takes more than the average.
    fn add(&self, unit: &mut Unit, k: usize, times: usize) {
        let n = times as f64;
        let is_end = k == if self.seam.at_last { times - 1 } else { 0 };
        let share = if self.seam.is_outer { 1.0 / n } else { (n - 1.0) / n };
        let more = (f64::from(u8::from(is_end == self.seam.is_outer)) - share) * self.seam.seconds;
        *if self.backward { &mut unit.backward } else { &mut unit.forward } += more;
        if self.weights {
            unit.weights += more;
        }
    }
}

/// Whether the backward of an earlier unit waits for a node of a backward.
fn waited_for(g: &Graph, places: &[Place], made: &HashMap<ValueId, usize>) -> Vec<bool> {
    let mut found = vec![false; g.nodes.len()];
    for (at, n) in g.nodes.iter().enumerate().rev().filter(|(at, n)| places[*at].backward && n.updates.is_empty()) {
        for from in n.ins.iter().flatten().filter_map(|v| made.get(v)).filter(|i| places[**i].backward) {
            let (there, here) = (places[*from].unit, places[at].unit);
            found[*from] |= there > here || (there == here && found[at]);
        }
    }
    found
}

/// Values that follow from variables alone, such as parameters in another dtype: micro-batches share them.
fn once(g: &Graph) -> HashSet<ValueId> {
    let mut found: HashSet<ValueId> = g.variables.iter().map(|x| x.value).collect();
    for n in g.nodes.iter().filter(|n| n.updates.is_empty() && (n.is_view() || is_pure(n))) {
        if n.ins.iter().flatten().all(|v| found.contains(v)) {
            found.extend(&n.outs);
        }
    }
    found
}

/// The units of the whole graph, with what they read: each flow with the unit that the copies of a block read in its place.
fn unfolded(g: &Graph, mut found: Units, extra: &[Extra], flows: impl Iterator<Item = (Flow, Option<Again>)>) -> Units {
    if g.folds.is_empty() {
        found.flows = flows.map(|(flow, _)| flow).collect();
        return found;
    }
    let folded = std::mem::take(&mut found.units);
    // By unit of the folded graph: the numbers of its copies; and the run that it is in.
    let mut copies: Vec<Vec<usize>> = vec![Vec::new(); folded.len()];
    let mut run_of: Vec<Option<usize>> = vec![None; folded.len()];
    let mut unit = 0;
    while unit < folded.len() {
        let run = g.folds.runs.iter().position(|r| r.first_unit == unit);
        let (n, times) = run.map_or((1, 1), |k| (g.folds.runs[k].n_units, g.folds.runs[k].times));
        for k in 0..times {
            for own in unit..unit + n {
                copies[own].push(found.units.len());
                run_of[own] = run;
                let mut copy = folded[own].clone();
                extra.iter().filter(|e| e.unit == own && run.is_some()).for_each(|e| e.add(&mut copy, k, times));
                found.units.push(copy);
            }
        }
        unit += n;
    }
    for (flow, again) in flows {
        let (from, to) = (&copies[flow.from], &copies[flow.to]);
        let is_inner = run_of[flow.from].is_some() && run_of[flow.from] == run_of[flow.to];
        for (k, unit) in to.iter().enumerate() {
            let (from, bytes) = match again {
                _ if is_inner => (from[k], flow.bytes),
                Some((own, bytes)) if k > 0 => (copies[own][k - 1], bytes),
                _ => (from[from.len() - 1], flow.bytes),
            };
            found.flows.push(Flow { from, to: *unit, bytes, ..flow });
        }
    }
    let wide = |(a, b): &(usize, usize)| (copies[*a][0], copies[*b][copies[*b].len() - 1]);
    found.together = found.together.iter().map(wide).collect();
    let first = |(v, unit): (&ValueId, &usize)| (*v, copies[*unit][0]);
    found.homes = found.homes.iter().map(first).collect();
    found
}

pub(crate) fn places(g: &Graph) -> Vec<Place> {
    let mut sections = g.sections.iter().peekable();
    let mut now = Place { unit: 0, inside: false, backward: false };
    let mut place = |at: usize| {
        while let Some(s) = sections.next_if(|s| s.at <= at) {
            let backward = now.backward || s.backward;
            // Forwards that run again in the backward are a part of it.
            if backward == s.backward {
                now = Place { unit: s.stage as usize / 2, inside: s.stage.is_multiple_of(2), backward };
            }
        }
        now
    };
    (0..g.nodes.len()).map(&mut place).collect()
}

/// The units that variables and inputs lie with: of variables all that read them lie on one stage, of inputs the ops outside of
/// units. States follow their parameters.
fn homes(g: &Graph, places: &[Place], found: &mut Units) {
    let mut readers: BTreeMap<ValueId, Vec<Place>> = BTreeMap::new();
    for (n, place) in g.nodes.iter().zip(places).filter(|(n, p)| n.updates.is_empty() && !p.backward) {
        for root in n.ins.iter().flatten().map(|v| g.root(*v)).filter(|v| g.is_external(*v)) {
            readers.entry(root).or_default().push(*place);
        }
    }
    for (v, all) in &readers {
        let bound: Vec<usize> = match g.inputs.contains(v) {
            true => all.iter().filter(|p| !p.inside).map(|p| p.unit).collect(),
            false => all.iter().map(|p| p.unit).collect(),
        };
        let first = all.iter().map(|p| p.unit).min().unwrap_or(0);
        let (low, high) = (bound.iter().min().copied().unwrap_or(first), bound.iter().max().copied().unwrap_or(first));
        if low < high {
            found.together.push((low, high));
        }
        found.homes.insert(*v, low);
    }
    for n in g.nodes.iter().filter(|n| !n.updates.is_empty()) {
        follow(g, n, &mut found.homes);
    }
}

fn follow(g: &Graph, n: &Node, homes: &mut HashMap<ValueId, usize>) {
    for own in lists(n) {
        let Some(home) = own.first().and_then(|i| n.ins[*i]).and_then(|v| homes.get(&g.root(v)).copied()) else {
            continue;
        };
        for v in own.iter().skip(1).filter_map(|i| n.ins[*i]).filter(|v| g.is_external(*v)) {
            homes.insert(v, home);
        }
    }
}
