//! What layouts of parameters and inputs cost: the eager rule of global tensors, run over a logical graph without ranks.
//!
//! The trace is that of one rank with the whole model, and has the ops that global tensors run (`Tracer::expand_as_global`).
//! Each op takes the layouts that the rule of eager execution chooses, so what is estimated here is what runs with these
//! layouts. An update brings everything of a parameter to its layout. Counts time, bytes on the wire and memory; searches
//! nothing, and knows nothing of overlap.

use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::{NdSbp, Result, Sbp};
use oneflow_core::{Call, Outs, Tensor, Ty};
use oneflow_global::boxing::{Transfer, cheapest_path};
use oneflow_global::rule;
use oneflow_runtime::shell;
use std::collections::HashMap;

/// One mesh of ranks: how many there are on each axis, and how they reach each other.
#[derive(Clone, Debug)]
pub struct Mesh {
    pub hierarchy: Vec<i64>,
    /// Seconds before the first byte arrives, for each axis.
    pub latency: Vec<f64>,
    /// Bytes a second of one rank, for each axis.
    pub bandwidth: Vec<f64>,
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
}

/// The estimate for these layouts of variables and inputs; those that are not named are replicated.
pub fn estimate(g: &Graph, mesh: &Mesh, given: &HashMap<ValueId, NdSbp>) -> Result<Estimate> {
    let whole: NdSbp = mesh.hierarchy.iter().map(|_| Sbp::B).collect();
    let mut w = Walk {
        g,
        mesh,
        layouts: given.clone(),
        whole,
        found: Estimate { bytes: vec![0.0; mesh.hierarchy.len()], ..Estimate::default() },
    };
    for n in &g.nodes {
        w.share(n);
    }
    for (at, n) in g.nodes.iter().enumerate() {
        w.node(at, n)?;
    }
    for write in &g.writes {
        let (from, to) = (w.layout(write.value), w.layout(write.target));
        w.change(g.nodes.len(), write.value, &from, &to)?;
    }
    w.memory();
    Ok(w.found)
}

struct Walk<'a> {
    g: &'a Graph,
    mesh: &'a Mesh,
    layouts: HashMap<ValueId, NdSbp>,
    whole: NdSbp,
    found: Estimate,
}

/// The lists of an update: everything of the parameter at one position.
fn lists(n: &Node) -> Vec<Vec<usize>> {
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

impl Walk<'_> {
    fn layout(&self, v: ValueId) -> NdSbp {
        self.layouts.get(&v).unwrap_or(&self.whole).clone()
    }

    /// States have the layouts of their parameters.
    fn share(&mut self, n: &Node) {
        if n.updates.is_empty() {
            return;
        }
        for own in lists(n) {
            let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
            let layout = self.layout(home);
            for v in own.iter().skip(1).filter_map(|i| n.ins[*i]) {
                if self.g.variables.of(v).is_some() && self.g.meta(v).sizes == self.g.meta(home).sizes {
                    self.layouts.insert(v, layout.clone());
                }
            }
        }
    }

    fn node(&mut self, at: usize, n: &Node) -> Result<()> {
        let Kind::Op { op, attrs } = &n.kind else { return Ok(()) };
        if !n.updates.is_empty() {
            return self.update(at, n);
        }
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
        let now: Vec<Option<NdSbp>> = n.ins.iter().map(|v| v.map(|v| self.layout(v))).collect();
        let seen: Vec<Option<&[Sbp]>> = now.iter().map(|s| s.as_deref()).collect();
        let chosen = rule(&c, &seen, outs.tensors(), &self.mesh.hierarchy)?;
        let layout = |id: oneflow_base::NdSbpId| -> NdSbp { id.get().map(NdSbp::from_slice).unwrap_or_default() };
        let ins: Vec<NdSbp> = chosen.ins.iter().map(|s| layout(*s)).collect();
        let to: Vec<NdSbp> = chosen.outs.iter().map(|s| layout(*s)).collect();
        for (i, v) in n.ins.iter().enumerate() {
            if let (Some(v), Some(from)) = (v, &now[i]) {
                self.change(at, *v, from, &ins[i])?;
            }
        }
        // Axes on which ranks share the work.
        let splits = |k: usize| ins.iter().chain(&to).any(|s| matches!(s.get(k), Some(Sbp::S(_))));
        let share: f64 =
            self.mesh.hierarchy.iter().enumerate().filter(|(k, _)| splits(*k)).map(|(_, n)| *n as f64).product();
        if !n.is_view() {
            let metas: Vec<_> = outs.tensors().iter().map(Tensor::meta).collect();
            let cost = (op.cost)(&c, &metas);
            self.work(cost.flops / share, cost.bytes / share);
        }
        for (v, s) in n.outs.iter().zip(to) {
            self.layouts.insert(*v, s);
        }
        Ok(())
    }

    /// Optimizers: element by element, on the slices that the layout of the parameter leaves.
    fn update(&mut self, at: usize, n: &Node) -> Result<()> {
        for own in lists(n) {
            let Some(home) = own.first().and_then(|i| n.ins[*i]) else { continue };
            let to = self.layout(home);
            let mut bytes = 0.0;
            for v in own.iter().filter_map(|i| n.ins[*i]).filter(|v| self.g.meta(*v).sizes == self.g.meta(home).sizes) {
                let from = self.layout(v);
                self.change(at, v, &from, &to)?;
                bytes += self.local(v, &to);
            }
            self.work(bytes, 2.0 * bytes);
        }
        for (i, o) in &n.updates {
            if let Some(v) = n.ins[*i as usize] {
                let layout = self.layout(v);
                self.layouts.insert(n.outs[*o as usize], layout);
            }
        }
        Ok(())
    }

    fn work(&mut self, flops: f64, bytes: f64) {
        self.found.compute_seconds += (flops / self.mesh.flops).max(bytes / self.mesh.memory_bandwidth);
    }

    /// Bytes of a value on one rank.
    fn local(&self, v: ValueId, layout: &[Sbp]) -> f64 {
        let m = self.g.meta(v);
        let whole = m.sizes.iter().product::<i64>() as f64 * m.dtype.size() as f64;
        let axes = self.mesh.hierarchy.iter().zip(layout).filter(|(_, s)| matches!(s, Sbp::S(_)));
        whole / axes.map(|(n, _)| *n as f64).product::<f64>()
    }

    fn change(&mut self, node: usize, value: ValueId, from: &NdSbp, to: &NdSbp) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let m = self.g.meta(value);
        let whole = m.sizes.iter().product::<i64>() as f64 * m.dtype.size() as f64;
        let (path, _) = cheapest_path(from, to, whole, &self.mesh.hierarchy)?;
        let mut state = from.clone();
        let (mut sent, mut seconds) = (0.0, 0.0);
        for step in path {
            let n = self.mesh.hierarchy[step.axis];
            let others = self.mesh.hierarchy.iter().enumerate().filter(|(k, _)| *k != step.axis);
            let parts: f64 = others.filter(|(k, _)| matches!(state[*k], Sbp::S(_))).map(|(_, n)| *n as f64).product();
            let transfer = Transfer::of(&step, whole / parts, n);
            seconds += transfer.seconds(self.mesh.latency[step.axis], self.mesh.bandwidth[step.axis]);
            self.found.bytes[step.axis] += transfer.bytes;
            sent += transfer.bytes;
            state[step.axis] = step.to;
        }
        self.found.move_seconds += seconds;
        self.found.moves.push(Move { node, value, from: from.clone(), to: to.clone(), bytes: sent, seconds });
        Ok(())
    }

    /// The most that is alive at once in the program's order.
    fn memory(&mut self) {
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
        let mut moved: HashMap<usize, f64> = HashMap::new();
        for m in &self.found.moves {
            *moved.entry(m.node).or_default() += self.local(m.value, &m.to);
        }
        let outside = |v: &ValueId| self.g.variables.of(*v).is_some();
        let fixed: f64 = self.g.variables.iter().map(|x| self.local(x.value, &self.layout(x.value))).sum();
        let mut now = fixed + self.g.inputs.iter().map(|v| self.local(*v, &self.layout(*v))).sum::<f64>();
        let mut peak = now;
        for (at, n) in self.g.nodes.iter().enumerate() {
            let updated = |v: &ValueId| n.updates.iter().any(|(_, o)| n.outs[*o as usize] == *v);
            let fresh = n.outs.iter().filter(|v| self.g.is_root(**v) && !updated(v));
            now += fresh.map(|v| self.local(*v, &self.layout(*v))).sum::<f64>();
            peak = peak.max(now + moved.get(&at).copied().unwrap_or(0.0));
            let gone = ends.get(&at).into_iter().flatten().filter(|v| !outside(v) && !self.g.inputs.contains(v));
            let made = |v: &&ValueId| !self.is_update(**v);
            now -= gone.filter(made).map(|v| self.local(*v, &self.layout(*v))).sum::<f64>();
        }
        self.found.fixed = fixed;
        self.found.peak = peak;
    }

    /// Whether a value is what an update wrote: it lives where the old one did.
    fn is_update(&self, v: ValueId) -> bool {
        self.g.nodes.iter().any(|n| n.updates.iter().any(|(_, o)| n.outs[*o as usize] == v))
    }
}
