//! What layouts of parameters and inputs cost: the eager rule of global tensors, run over a logical graph without ranks.
//!
//! The trace is that of one rank with the whole model, and has the ops that global tensors run (`Tracer::expand_as_global`).
//! Each op takes the layouts that the rule of eager execution chooses, so what is estimated here is what runs with these
//! layouts; a plan may say otherwise for single calls (pins). An update brings everything of a parameter to its layout. Counts
//! time, bytes on the wire and memory; searches nothing (`solve` does), and knows nothing of overlap.

use crate::ir::{Graph, Kind, Node, Seam, ValueId};
use crate::passes::fold::is_pure;
use oneflow_base::{NdSbp, NdSbpId, Result, Sbp};
use oneflow_core::{Call, Outs, Tensor, Ty};
use oneflow_global::boxing::{Transfer, cheapest_path};
use oneflow_global::pinned::Pin;
use oneflow_global::{Choice, choices, rule};
use oneflow_runtime::shell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// One mesh of ranks: how many there are on each axis, and how they reach each other.
#[derive(Clone, Debug)]
pub struct Mesh {
    pub hierarchy: Vec<i64>,
    /// Seconds before the first byte arrives, for each axis.
    pub latency: Vec<f64>,
    /// Bytes a second of one rank, for each axis: around a ring, and where each rank sends to each other one.
    pub bandwidth: Vec<f64>,
    pub exchange: Vec<f64>,
    /// Operations a second of a rank, and bytes a second of its memory.
    pub flops: f64,
    pub memory_bandwidth: f64,
}

/// A change of layout.
#[derive(Clone, Debug)]
pub struct Move {
    /// The node that needs it.
    pub node: usize,
    pub value: ValueId,
    pub from: NdSbp,
    pub to: NdSbp,
    /// That one rank sends, on all axes.
    pub bytes: f64,
    pub seconds: f64,
}

/// What a step costs one rank.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    pub compute_seconds: f64,
    pub move_seconds: f64,
    /// That a rank sends, for each axis.
    pub bytes: Vec<f64>,
    pub moves: Vec<Move>,
    /// Of parameters, states and other memory that outlives a step; and the most that is alive in a step, with them.
    pub fixed: f64,
    pub peak: f64,
    /// Of them what sums of gradients hold between micro-batches.
    pub gradients: f64,
    /// The share of each node in the seconds of one micro-batch, and what each parameter takes.
    pub by_node: Vec<f64>,
    pub by_parameter: HashMap<ValueId, Updating>,
    /// Changes of layout where blocks meet, which nodes that stand for several have on average.
    pub at_seams: Vec<AtSeam>,
}

/// The seconds that a parameter takes beside the nodes that read it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Updating {
    /// Of a step: its update, and of that what ranks send.
    pub update: f64,
    pub reduction: f64,
    /// To add the gradient of one micro-batch to those before it, on average.
    pub sum: f64,
}

/// A change of layout for what a block reads of the one before or behind it (`is_outer`: of what is outside of the run).
#[derive(Clone, Copy, Debug)]
pub struct AtSeam {
    pub node: usize,
    pub seconds: f64,
    pub is_outer: bool,
    /// The last block of a run reads what is outside, else the first.
    pub at_last: bool,
}

/// What is laid out: variables and inputs by value (those that are not named are replicated), calls by their nodes (the rule
/// decides for the others), what an optimizer keeps, and what lies elsewhere than on the device.
#[derive(Clone, Debug)]
pub struct Laid {
    pub values: HashMap<ValueId, NdSbp>,
    pub pins: HashMap<usize, Pin>,
    pub zero: Option<Zero>,
    /// How many micro-batches a step has, of which the graph is one: gradients are reduced, and parameters updated, once.
    pub micro_batches: u32,
    pub elsewhere: Elsewhere,
}

impl Default for Laid {
    fn default() -> Self {
        let (values, pins, elsewhere) = (HashMap::new(), HashMap::new(), Elsewhere::default());
        Laid { values, pins, zero: None, micro_batches: 1, elsewhere }
    }
}

/// Variables on a disk or on the host, as `GraphConfig.enable_offload` moves them.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    pub values: HashSet<ValueId>,
    /// Shards of fewer bytes stay.
    pub least: f64,
    /// Bytes a second of a device from there, and back; at the same time on the host.
    pub bandwidth: f64,
    pub on_host: bool,
    /// Bytes of what is on a disk that stay in memory.
    pub window: f64,
}

impl Elsewhere {
    /// Seconds until so many bytes have come, and so many have gone.
    fn seconds(&self, read: f64, written: f64) -> f64 {
        let bytes = if self.on_host { read.max(written) } else { read + written };
        if bytes > 0.0 { bytes / self.bandwidth } else { 0.0 }
    }
}

/// Slices in place of replicas, as `GraphConfig.enable_zero` makes them.
#[derive(Clone, Copy, Debug)]
pub struct Zero {
    pub stage: u8,
    /// Parameters of fewer elements stay whole.
    pub least: i64,
}

/// The estimate for these layouts.
pub fn estimate(g: &Graph, mesh: &Mesh, laid: &Laid) -> Result<Estimate> {
    walk(g, mesh, laid, false).map(|(found, _)| found)
}

/// The layouts of each call under the rule and the pins.
pub(crate) fn chosen(g: &Graph, mesh: &Mesh, laid: &Laid) -> Result<HashMap<usize, Pin>> {
    walk(g, mesh, laid, true).map(|(_, chosen)| chosen)
}

/// The pins of a whole graph with which its calls have the layouts of those that stand for them in a folded one.
pub fn unfolded(g: &Graph, folded: &Graph, mesh: &Mesh, laid: &Laid) -> Result<HashMap<usize, Pin>> {
    let all = chosen(folded, mesh, laid)?;
    let own = |at: usize| folded.folds.stands_for(at).and_then(|at| all.get(&at)).map(|pin| (at, pin.clone()));
    let wanted = (0..g.nodes.len()).filter_map(own).collect();
    pins_for(g, mesh, laid.values.clone(), &wanted)
}

/// Of the layouts that calls are to have, those that the rule would not choose: pins for calls that can be pinned.
pub(crate) fn pins_for(
    g: &Graph,
    mesh: &Mesh,
    values: HashMap<ValueId, NdSbp>,
    wanted: &HashMap<usize, Pin>,
) -> Result<HashMap<usize, Pin>> {
    let laid = Laid { values, ..Laid::default() };
    let wanted = Wanted { all: wanted, pins: HashMap::new() };
    let mut w = Walk { wanted: Some(wanted), ..Walk::over(g, mesh, &laid) };
    for n in &g.nodes {
        w.share(n)?;
    }
    for (at, n) in g.nodes.iter().enumerate() {
        w.node(at, n)?;
    }
    Ok(w.wanted.map(|w| w.pins).unwrap_or_default())
}

fn walk(g: &Graph, mesh: &Mesh, laid: &Laid, keep: bool) -> Result<(Estimate, HashMap<usize, Pin>)> {
    let w = walked(g, mesh, laid, keep)?;
    Ok((w.found, w.chosen.unwrap_or_default()))
}

/// The layouts of all values and what they cost.
pub(crate) fn walked<'a>(g: &'a Graph, mesh: &'a Mesh, laid: &'a Laid, keep: bool) -> Result<Walk<'a>> {
    let updated = g.nodes.iter().flat_map(|n| n.updates.iter().map(|(_, o)| n.outs[*o as usize])).collect();
    let mut w = Walk { chosen: keep.then(HashMap::new), updated, ..Walk::over(g, mesh, laid) };
    for n in &g.nodes {
        w.share(n)?;
    }
    for (at, n) in g.nodes.iter().enumerate() {
        w.node(at, n)?;
    }
    for write in &g.writes {
        let (from, to) = (w.layout(write.value), w.layout(write.target));
        w.change(g.nodes.len(), write.value, &from, &to, 1.0)?;
    }
    w.seams()?;
    w.memory();
    Ok(w)
}

/// The layouts that calls are to have, and pins for those that the rule would not choose.
struct Wanted<'a> {
    all: &'a HashMap<usize, Pin>,
    pins: HashMap<usize, Pin>,
}

impl Mesh {
    /// The bytes that a rank sends on each axis for a change of layout of a tensor of so many bytes, and the seconds.
    pub(crate) fn moved(&self, from: &NdSbp, to: &NdSbp, whole: f64) -> Result<(Vec<f64>, f64)> {
        let (path, _) = cheapest_path(from, to, whole, &self.hierarchy)?;
        let mut state = from.clone();
        let (mut sent, mut seconds) = (vec![0.0; self.hierarchy.len()], 0.0);
        for step in path {
            let others = self.hierarchy.iter().enumerate().filter(|(k, _)| *k != step.axis);
            let parts: f64 = others.filter(|(k, _)| matches!(state[*k], Sbp::S(_))).map(|(_, n)| *n as f64).product();
            let transfer = Transfer::of(&step, whole / parts, self.hierarchy[step.axis]);
            let bandwidth = if Transfer::is_ring(step.from, step.to) { &self.bandwidth } else { &self.exchange };
            seconds += transfer.seconds(self.latency[step.axis], bandwidth[step.axis]);
            sent[step.axis] += transfer.bytes;
            state[step.axis] = step.to;
        }
        Ok((sent, seconds))
    }
}

/// The layouts that a node's call could have, each with the seconds that a rank computes.
pub fn offers(g: &Graph, mesh: &Mesh, n: &Node) -> Result<Vec<(Pin, f64)>> {
    let laid = Laid::default();
    let w = Walk::over(g, mesh, &laid);
    w.called(n, |c, outs| {
        let all = choices(c, outs.tensors(), &mesh.hierarchy)?;
        Ok(all
            .iter()
            .map(pin_of)
            .map(|pin| (w.share_of_work(n, c, outs, &pin), pin))
            .map(|(s, pin)| (pin, s))
            .collect())
    })
}

/// The layouts that the rule gives a node of one input whose layout this is.
pub(crate) fn by_rule(g: &Graph, mesh: &Mesh, n: &Node, from: &NdSbp) -> Result<Pin> {
    let laid = Laid::default();
    let w = Walk::over(g, mesh, &laid);
    w.called(n, |c, outs| {
        let now: Vec<Option<&[Sbp]>> = n.ins.iter().map(|v| v.map(|_| from.as_slice())).collect();
        Ok(pin_of(&rule(c, &now, outs.tensors(), &mesh.hierarchy)?))
    })
}

/// A choice in words.
pub(crate) fn pin_of(choice: &Choice) -> Pin {
    let layout = |id: &NdSbpId| -> NdSbp { id.get().map(NdSbp::from_slice).unwrap_or_default() };
    Pin { ins: choice.ins.iter().map(layout).collect(), outs: choice.outs.iter().map(layout).collect() }
}

pub(crate) fn whole_bytes(g: &Graph, v: ValueId) -> f64 {
    let m = g.meta(v);
    m.sizes.iter().product::<i64>() as f64 * m.dtype.size() as f64
}

pub(crate) struct Walk<'a> {
    g: &'a Graph,
    mesh: &'a Mesh,
    layouts: HashMap<ValueId, NdSbp>,
    pins: &'a HashMap<usize, Pin>,
    zero: Option<Zero>,
    micro_batches: f64,
    elsewhere: &'a Elsewhere,
    /// Where a value is kept in another layout than ops use.
    held: HashMap<ValueId, NdSbp>,
    /// The bytes of a parameter's slice where a step also keeps the whole, from its forward to its backward.
    slices: HashMap<ValueId, f64>,
    whole: NdSbp,
    /// The layouts of each call, where somebody asks for them.
    chosen: Option<HashMap<usize, Pin>>,
    /// The layouts that calls are to have, and those of them that the rule did not choose.
    wanted: Option<Wanted<'a>>,
    /// Where blocks that stand for several meet themselves: the node, the layout that is needed, and whether the first block
    /// changes a layout there too.
    seams: Vec<(usize, Seam, NdSbp, bool)>,
    /// How often the memory of a move is there: not for those in the place of others, several times where one stands for several.
    copies: HashMap<usize, f64>,
    /// Values that an update wrote: they live where the old ones did.
    updated: HashSet<ValueId>,
    pub(crate) found: Estimate,
}

/// The lists of an update: everything of the parameter at one position.
pub(crate) fn lists(n: &Node) -> Vec<Vec<usize>> {
    let Kind::Op { op, attrs } = &n.kind else { return Vec::new() };
    let args = attrs.args();
    let ins: Vec<Option<&Tensor>> = vec![None; n.ins.len()];
    let c = Call::new(op, &ins, &args);
    let (mut at, mut arg, mut found) = (0, 0, Vec::<Vec<usize>>::new());
    for p in op.sig.params() {
        let len = c.n_inputs_of(p, arg);
        if p.ty == Ty::TensorList {
            found.resize(found.len().max(len), Vec::new());
            (0..len).for_each(|k| found[k].push(at + k));
        }
        at += len;
        arg += p.is_arg() as usize;
    }
    found
}

impl<'a> Walk<'a> {
    fn over(g: &'a Graph, mesh: &'a Mesh, laid: &'a Laid) -> Walk<'a> {
        Walk {
            g,
            mesh,
            layouts: laid.values.clone(),
            pins: &laid.pins,
            zero: laid.zero,
            micro_batches: laid.micro_batches.into(),
            elsewhere: &laid.elsewhere,
            held: HashMap::new(),
            slices: HashMap::new(),
            whole: mesh.hierarchy.iter().map(|_| Sbp::B).collect(),
            chosen: None,
            wanted: None,
            seams: Vec::new(),
            copies: HashMap::new(),
            updated: HashSet::new(),
            found: Estimate {
                bytes: vec![0.0; mesh.hierarchy.len()],
                by_node: vec![0.0; g.nodes.len()],
                ..Estimate::default()
            },
        }
    }

    pub(crate) fn layout(&self, v: ValueId) -> NdSbp {
        self.layouts.get(&v).unwrap_or(&self.whole).clone()
    }

    /// States have the layouts of their parameters, or of the slices that a rank keeps.
    fn share(&mut self, n: &Node) -> Result<()> {
        if n.updates.is_empty() {
            return Ok(());
        }
        for own in lists(n) {
            let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
            let slice = self.slice(home);
            let stage = self.zero.map_or(0, |z| z.stage);
            let layout = slice.clone().unwrap_or_else(|| self.layout(home));
            match (&slice, stage) {
                (Some(slice), 3..) => drop(self.held.insert(home, slice.clone())),
                (Some(slice), _) => drop(self.slices.insert(home, self.local(home, slice))),
                (None, _) => {}
            }
            for v in own.iter().skip(1).filter_map(|i| n.ins[*i]) {
                if self.g.meta(v).sizes != self.g.meta(home).sizes {
                    continue;
                }
                if self.g.variables.of(v).is_some() {
                    self.layouts.insert(v, layout.clone());
                } else if let (Some(slice), 2..) = (&slice, stage) {
                    self.held.insert(v, slice.clone());
                }
            }
        }
        Ok(())
    }

    /// The layout of a rank's slice of a parameter: along the first dimension that a replicating axis can split, those that no
    /// axis splits first. `None` where all of it stays.
    fn slice(&self, home: ValueId) -> Option<NdSbp> {
        let zero = self.zero?;
        let (mut layout, h) = (self.layout(home), &self.mesh.hierarchy);
        let mut sizes = self.g.meta(home).sizes.clone();
        if self.g.meta(home).numel() < zero.least {
            return None;
        }
        for (axis, s) in layout.iter().enumerate() {
            if let Sbp::S(d) = s {
                sizes[*d as usize] /= h[axis];
            }
        }
        let is_split = |d: &usize| layout.iter().zip(h).any(|(s, n)| *s == Sbp::S(*d as u8) && *n > 1);
        let mut dims: Vec<usize> = (0..sizes.len()).collect();
        dims.sort_by_key(is_split);
        let free = (0..layout.len()).filter(|axis| layout[*axis] == Sbp::B && h[*axis] > 1);
        let (axis, dim) = free.flat_map(|a| dims.iter().map(move |d| (a, *d))).find(|(a, d)| sizes[*d] >= h[*a])?;
        layout[axis] = Sbp::S(dim as u8);
        Some(layout)
    }

    fn node(&mut self, at: usize, n: &Node) -> Result<()> {
        if n.op().is_none() {
            return Ok(());
        }
        if !n.updates.is_empty() {
            return self.update(at, n);
        }
        let times = self.g.folds.times(at);
        let now: Vec<Option<NdSbp>> = n.ins.iter().map(|v| v.map(|v| self.layout(v))).collect();
        let (chosen, work) = self.called(n, |c, outs| {
            let seen: Vec<Option<&[Sbp]>> = now.iter().map(|s| s.as_deref()).collect();
            let chosen = match self.pins.get(&at) {
                Some(pin) => pin.clone(),
                None => pin_of(&rule(c, &seen, outs.tensors(), &self.mesh.hierarchy)?),
            };
            let work = self.share_of_work(n, c, outs, &chosen);
            Ok((chosen, work))
        })?;
        let work = work.max(self.elsewhere.seconds(self.read(n), 0.0));
        let chosen = self.as_wanted(at, chosen);
        for (i, v) in n.ins.iter().enumerate() {
            if let (Some(v), Some(from)) = (v, &now[i]) {
                let seam = self.g.folds.seam(at, i);
                let again = seam.map_or(0.0, |s| s.times);
                let seconds = self.change(at, *v, from, &chosen.ins[i], self.micro_batches * (times - again))?;
                let to = &chosen.ins[i];
                if let Some(seam) = seam {
                    self.found.at_seams.push(AtSeam { node: at, seconds, is_outer: true, at_last: seam.at_last });
                    self.seams.push((at, seam, to.clone(), from != to));
                }
            }
        }
        self.found.compute_seconds += self.micro_batches * times * work;
        self.found.by_node[at] += work;
        for (v, s) in n.outs.iter().zip(&chosen.outs) {
            self.layouts.insert(*v, s.clone());
        }
        if let Some(all) = &mut self.chosen {
            all.insert(at, chosen);
        }
        Ok(())
    }

    fn as_wanted(&mut self, at: usize, by_rule: Pin) -> Pin {
        let Some(wanted) = &mut self.wanted else { return by_rule };
        match wanted.all.get(&at).filter(|w| **w != by_rule && self.g.calls.contains_key(&at)) {
            Some(pin) => {
                wanted.pins.insert(at, pin.clone());
                pin.clone()
            }
            None => by_rule,
        }
    }

    /// Runs `f` on a node's call, as eager execution would make it, and its results.
    fn called<R>(&self, n: &Node, f: impl FnOnce(&Call<'_>, &Outs) -> Result<R>) -> Result<R> {
        let Kind::Op { op, attrs } = &n.kind else {
            return Err(oneflow_base::Error::runtime("layouts: a fused node in a logical graph"));
        };
        let shells: Vec<Option<Tensor>> = n
            .ins
            .iter()
            .map(|v| v.map(|v| shell(self.g.meta(v), self.g.values[v as usize].offset)).transpose())
            .collect::<Result<_>>()?;
        let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
        let args = attrs.args();
        let c = Call::new(op, &refs, &args);
        let mut outs = Outs::new();
        (op.infer)(&c, &mut outs)?;
        f(&c, &outs)
    }

    /// Seconds that a rank computes in a call with these layouts: axes on which one is split share the work.
    fn share_of_work(&self, n: &Node, c: &Call<'_>, outs: &Outs, chosen: &Pin) -> f64 {
        if n.is_view() {
            return 0.0;
        }
        let splits = |k: usize| chosen.ins.iter().chain(&chosen.outs).any(|s| matches!(s.get(k), Some(Sbp::S(_))));
        let axes = self.mesh.hierarchy.iter().enumerate().filter(|(k, _)| splits(*k));
        let share: f64 = axes.map(|(_, n)| *n as f64).product();
        let metas: Vec<_> = outs.tensors().iter().map(Tensor::meta).collect();
        let cost = (c.op.cost)(c, &metas);
        self.seconds_of_work(cost.flops / share, cost.bytes / share)
    }

    /// Optimizers: element by element, on the slices that the layout of the parameter leaves.
    fn update(&mut self, at: usize, n: &Node) -> Result<()> {
        let stage = self.zero.map_or(0, |z| z.stage);
        // A slice of a gradient is made of each micro-batch's.
        let times = self.micro_batches;
        // What one pass over others makes.
        let read: HashSet<ValueId> = n.ins.iter().flatten().map(|v| self.g.root(*v)).collect();
        let made = self.g.nodes.iter().filter(|n| n.outs.first().is_some_and(|v| read.contains(v)) && is_pure(n));
        let cast: HashSet<ValueId> = made.map(|n| n.outs[0]).collect();
        for own in lists(n) {
            let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
            let (before, n_moves) = (self.found.move_seconds, self.found.moves.len());
            let (whole, slice) = (self.layout(home), self.slice(home));
            let to = slice.clone().unwrap_or_else(|| whole.clone());
            let (mut bytes, mut is_cast, mut away) = (0.0, false, 0.0);
            // A variable may stand for several.
            let all = self.g.folds.variables(home);
            for v in own.iter().filter_map(|i| n.ins[*i]).filter(|v| self.g.meta(*v).sizes == self.g.meta(home).sizes) {
                let from = self.layout(v);
                let outlives = self.g.variables.of(v).is_some();
                match &slice {
                    Some(_) if stage == 1 && !outlives => self.change(at, v, &from, &whole, all)?,
                    Some(_) if !outlives => self.change(at, v, &from, &to, all * times)?,
                    Some(_) => 0.0,
                    None => self.change(at, v, &from, &to, all)?,
                };
                bytes += self.local(v, &to);
                away += self.away(v);
                is_cast |= !outlives && cast.contains(&self.g.root(v));
            }
            let mut fetched = 0.0;
            if slice.is_some() {
                // Once a step; or for a module's call, and once more for its backward.
                let n_gathers = if stage == 3 { 2.0 * times } else { 1.0 };
                self.change(at, home, &to, &whole, all * n_gathers)?;
                // The slice comes for each of them.
                fetched = n_gathers * self.elsewhere.seconds(self.away(home), 0.0);
            }
            // Gradients of further micro-batches are added to those of the first; by what makes them, if that is a pass over them.
            let touched = if is_cast { 1.0 } else { 3.0 };
            let added = (times - 1.0) * self.seconds_of_work(0.0, touched * self.local(home, &to));
            let work = self.seconds_of_work(bytes, 2.0 * bytes).max(self.elsewhere.seconds(away, away));
            self.found.compute_seconds += all * (work + added + fetched);
            let reduction = (self.found.move_seconds - before) / all;
            self.copies.extend((n_moves..self.found.moves.len()).map(|k| (k, all)));
            let own = self.found.by_parameter.entry(home).or_default();
            own.update += work + reduction + fetched;
            own.reduction += reduction;
            own.sum += added / times;
        }
        for (i, o) in &n.updates {
            if let Some(v) = n.ins[*i as usize] {
                let layout = self.layout(v);
                self.layouts.insert(n.outs[*o as usize], layout);
            }
        }
        Ok(())
    }

    fn seconds_of_work(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.mesh.flops).max(bytes / self.mesh.memory_bandwidth)
    }

    /// Bytes of a variable that this rank has elsewhere than on its device.
    fn away(&self, v: ValueId) -> f64 {
        if !self.elsewhere.values.contains(&v) {
            return 0.0;
        }
        let own = self.slices.get(&v).copied();
        let own = own.unwrap_or_else(|| self.local(v, self.held.get(&v).unwrap_or(&self.layout(v))));
        if own >= self.elsewhere.least { own } else { 0.0 }
    }

    /// Bytes that an op reads from there. Of what is gathered it reads the copy.
    fn read(&self, n: &Node) -> f64 {
        if self.elsewhere.values.is_empty() || !n.updates.is_empty() || n.is_view() {
            return 0.0;
        }
        let is_copied = |v: &ValueId| self.held.contains_key(v) || self.slices.contains_key(v);
        let roots: HashSet<ValueId> = n.ins.iter().flatten().map(|v| self.g.root(*v)).collect();
        roots.into_iter().filter(|v| !is_copied(v)).map(|v| self.away(v)).sum()
    }

    /// Bytes of a variable on a device between steps, and what its step keeps of it all the time.
    pub(crate) fn resident(&self, v: ValueId) -> f64 {
        self.kept(v) - self.away(v)
    }

    /// Bytes of what lies elsewhere that stay on the device all the same.
    pub(crate) fn window(&self) -> f64 {
        let all = self.g.variables.iter().map(|x| self.g.folds.variables(x.value) * self.away(x.value)).sum::<f64>();
        if self.elsewhere.on_host { 0.0 } else { all.min(self.elsewhere.window) }
    }

    /// Bytes of a value on one rank, as it is kept.
    pub(crate) fn kept(&self, v: ValueId) -> f64 {
        let slice = self.slices.get(&v).copied().unwrap_or(0.0);
        slice + self.held.get(&v).map_or_else(|| self.local(v, &self.layout(v)), |s| self.local(v, s))
    }

    /// Bytes of a value on one rank.
    fn local(&self, v: ValueId, layout: &[Sbp]) -> f64 {
        let m = self.g.meta(v);
        let whole = m.sizes.iter().product::<i64>() as f64 * m.dtype.size() as f64;
        let axes = self.mesh.hierarchy.iter().zip(layout).filter(|(_, s)| matches!(s, Sbp::S(_)));
        whole / axes.map(|(n, _)| *n as f64).product::<f64>()
    }

    /// A change of layout that happens this many times a step; returns the seconds of one.
    fn change(&mut self, node: usize, value: ValueId, from: &NdSbp, to: &NdSbp, times: f64) -> Result<f64> {
        if from == to {
            return Ok(0.0);
        }
        let whole = whole_bytes(self.g, value);
        let (by_axis, seconds) = self.mesh.moved(from, to, whole)?;
        self.found.bytes.iter_mut().zip(&by_axis).for_each(|(n, own)| *n += times * own);
        self.found.move_seconds += times * seconds;
        if self.g.nodes.get(node).is_some_and(|n| n.updates.is_empty()) {
            // The average of those that it stands for.
            self.found.by_node[node] += seconds * times / (self.micro_batches * self.g.folds.times(node));
        }
        let bytes = times * by_axis.iter().sum::<f64>();
        self.found.moves.push(Move {
            node,
            value,
            from: from.clone(),
            to: to.clone(),
            bytes,
            seconds: times * seconds,
        });
        Ok(seconds)
    }

    /// Blocks that stand for several come behind each other.
    fn seams(&mut self) -> Result<()> {
        for (at, Seam { own, times, at_last }, to, moves) in std::mem::take(&mut self.seams) {
            let from = self.layout(own);
            if moves && from != to {
                self.copies.insert(self.found.moves.len(), 0.0);
            }
            let seconds = self.change(at, own, &from, &to, self.micro_batches * times)?;
            self.found.at_seams.push(AtSeam { node: at, seconds, is_outer: false, at_last });
        }
        Ok(())
    }

    /// The most that is alive at once in the program's order.
    fn memory(&mut self) {
        let ends = self.ends();
        let moved = self.moved();
        let outside = |v: &ValueId| self.g.variables.of(*v).is_some();
        let folds = &self.g.folds;
        let held = self.g.variables.iter().map(|x| folds.variables(x.value) * self.resident(x.value)).sum::<f64>();
        let fixed = held + self.window();
        let mut now = fixed + self.micro_batches * self.g.inputs.iter().map(|v| self.kept(*v)).sum::<f64>();
        if self.micro_batches > 1.0 {
            // Sums of the gradients of earlier micro-batches.
            self.found.gradients = self.gradients().iter().map(|(p, v)| folds.variables(*p) * self.kept(*v)).sum();
            now += self.found.gradients;
        }
        let mut peak = now;
        let mut run = |now: &mut f64, nodes: Range<usize>| {
            for at in nodes {
                let n = &self.g.nodes[at];
                *now += self.fresh(n).map(|v| self.kept(v)).sum::<f64>();
                peak = peak.max(*now + self.gathered(n) + moved.get(&at).copied().unwrap_or(0.0));
                let gone = ends.get(&at).into_iter().flatten().filter(|v| !outside(v) && !self.g.inputs.contains(v));
                let made = |v: &&ValueId| !self.is_update(**v);
                *now -= gone.filter(made).map(|v| self.kept(*v)).sum::<f64>();
            }
        };
        let mut at = 0;
        while at < self.g.nodes.len() {
            let Some((nodes, times)) = folds.span(at) else {
                run(&mut now, at..at + 1);
                at += 1;
                continue;
            };
            // The first and the last of those that it stands for; each between adds what the first adds.
            let before = now;
            run(&mut now, nodes.clone());
            now += (times - 2) as f64 * (now - before);
            run(&mut now, nodes.clone());
            at = nodes.end;
        }
        self.found.fixed = fixed;
        self.found.peak = peak;
    }

    /// By the number of a node, the memories that it uses last.
    pub(crate) fn ends(&self) -> HashMap<usize, Vec<ValueId>> {
        let mut last: HashMap<ValueId, usize> = HashMap::new();
        for (at, n) in self.g.nodes.iter().enumerate() {
            n.ins.iter().flatten().chain(&n.outs).for_each(|v| {
                last.insert(self.g.root(*v), at);
            });
        }
        for v in self.g.outputs.iter().chain(self.g.writes.iter().map(|w| &w.value)) {
            last.insert(self.g.root(*v), self.g.nodes.len());
        }
        let mut ends: HashMap<usize, Vec<ValueId>> = HashMap::new();
        last.iter().for_each(|(v, at)| ends.entry(*at).or_default().push(*v));
        ends
    }

    /// By the number of a node, the bytes that changes of layout make for it.
    pub(crate) fn moved(&self) -> HashMap<usize, f64> {
        let mut moved: HashMap<usize, f64> = HashMap::new();
        for (k, m) in self.found.moves.iter().enumerate() {
            let copies = self.copies.get(&k).copied().unwrap_or(1.0);
            *moved.entry(m.node).or_default() += copies * self.local(m.value, &m.to);
        }
        moved
    }

    /// The memories that a node makes.
    pub(crate) fn fresh<'b>(&'b self, n: &'b Node) -> impl Iterator<Item = ValueId> + 'b {
        n.outs.iter().copied().filter(|v| self.g.is_root(*v) && !self.is_update(*v))
    }

    /// Of parameters in slices, the bytes that are gathered for a node; of those on the host, the copies that it reads.
    pub(crate) fn gathered(&self, n: &Node) -> f64 {
        let sliced = n.ins.iter().flatten().filter(|v| self.held.contains_key(v) && n.updates.is_empty());
        let copied = if self.elsewhere.on_host { self.read(n) } else { 0.0 };
        copied + sliced.map(|v| self.local(*v, &self.layout(*v))).sum::<f64>()
    }

    /// The memory of each parameter's gradient, by the parameter.
    pub(crate) fn gradients(&self) -> HashMap<ValueId, ValueId> {
        let mut found = HashMap::new();
        for n in self.g.nodes.iter().filter(|n| !n.updates.is_empty()) {
            for own in lists(n) {
                let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
                let same = |v: &ValueId| self.g.meta(*v).sizes == self.g.meta(home).sizes;
                let made = own.iter().skip(1).filter_map(|i| n.ins[*i]);
                let gradient = made.filter(same).find(|v| self.g.variables.of(*v).is_none());
                found.extend(gradient.map(|v| (home, self.g.root(v))));
            }
        }
        found
    }

    /// Whether a value is what an update wrote.
    pub(crate) fn is_update(&self, v: ValueId) -> bool {
        self.updated.contains(&v)
    }
}
