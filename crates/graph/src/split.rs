//! One trace as two graphs: a forward part and a backward part that run at different times.
//!
//! What the backward part reads of the forward part becomes a result of the one and an input of the other. Everything
//! else stays as it was traced, but for attention, whose forward and backward are fused together.

use crate::Config;
use crate::ir::{Graph, Node, Value, ValueId};
use crate::passes;
use crate::trace::Traced;
use oneflow_base::{Error, Meta, Result};
use std::collections::HashSet;

/// Both parts, and how they hang together.
pub struct Parts {
    pub forward: Traced,
    pub backward: Traced,
    /// Inputs of the backward part: first these inputs of the forward part, then as many results of it as `n_saved` says
    /// (its last ones), then the gradients.
    pub saved_inputs: Vec<usize>,
    pub n_saved: usize,
}

/// Fuses what reaches across the cut, and gives back where the cut is then.
fn fuse(g: &mut Graph, cut: usize, config: &Config) -> Result<usize> {
    let forward: HashSet<ValueId> = g.nodes[..cut].iter().flat_map(|n| n.outs.iter().copied()).collect();
    passes::run(g, config, passes::Stage::BeforeSplit)?;
    // Whatever stands for a part of the forward ends with what that part gave.
    let last = g.nodes.iter().rposition(|n| n.outs.iter().any(|v| forward.contains(v)));
    Ok(last.map_or(0, |last| last + 1))
}

/// The roots of all values that these are computed from, themselves included.
fn sources(g: &Graph, of: &[ValueId]) -> HashSet<ValueId> {
    let mut needed: HashSet<ValueId> = of.iter().map(|v| g.root(*v)).collect();
    for node in g.nodes.iter().rev() {
        if node.outs.iter().any(|v| needed.contains(&g.root(*v))) {
            needed.extend(node.ins.iter().flatten().map(|v| g.root(*v)));
        }
    }
    needed
}

impl Traced {
    /// Takes the last `n_last` results off and returns a second graph that computes them alone, from the first `n_inputs`
    /// inputs, and writes nothing: what has to be known before a run. Its random numbers are those of the run that follows.
    pub fn take_last_results(mut self, n_last: usize, n_inputs: usize) -> Result<(Traced, Traced)> {
        let g = &mut self.graph;
        let n_kept = g.outputs.len().checked_sub(n_last);
        let n_kept = n_kept.ok_or_else(|| Error::runtime("the trace has fewer results than are taken off"))?;
        let mut before = Graph { name: format!("{}.before", g.name), ..g.clone() };
        before.outputs = g.outputs.split_off(n_kept);
        let needed = sources(g, &before.outputs);
        if g.inputs.iter().skip(n_inputs).any(|v| needed.contains(v)) {
            return Err(Error::not_implemented(
                "what has to be known before a run depends on what the run is given later",
            ));
        }
        before.inputs.truncate(n_inputs);
        before.writes.clear();
        before.micro_batches.clear();
        before.sections.clear();
        before.n_rng = 0;
        Ok((self, Traced { graph: before, cut: None }))
    }

    /// Cuts a trace where `Tracer::cut` said. Of its results the first `n_outputs` belong to the forward part.
    pub fn split(self, n_outputs: usize, config: &Config) -> Result<Parts> {
        let Some(mut cut) = self.cut else { return Err(Error::runtime("the trace has no backward part")) };
        let mut g = self.graph;
        cut.nodes = fuse(&mut g, cut.nodes, config)?;
        if g.writes.len() > cut.writes {
            return Err(Error::not_implemented(
                "a backward pass that writes to tensors from outside cannot be compiled",
            ));
        }
        let mut forward = Graph {
            name: g.name.clone(),
            values: g.values.clone(),
            variables: g.variables.clone(),
            varying: g.varying.clone(),
            ..Graph::default()
        };
        let mut backward = Graph { name: format!("{}.backward", g.name), ..forward.clone() };
        forward.nodes = g.nodes[..cut.nodes].to_vec();
        backward.nodes = g.nodes[cut.nodes..].to_vec();
        forward.inputs = g.inputs[..cut.inputs].to_vec();
        forward.outputs = g.outputs[..n_outputs].to_vec();
        backward.outputs = g.outputs[n_outputs..].to_vec();
        forward.writes = g.writes.clone();
        (forward.rng_start, forward.n_rng) = (g.rng_start, cut.rng - g.rng_start);
        (backward.rng_start, backward.n_rng) = (cut.rng, g.n_rng - forward.n_rng);

        let is_variable = |v: ValueId| g.variables.of(v).is_some();
        let written: HashSet<ValueId> = g.writes.iter().map(|w| w.target).collect();
        let mut own: HashSet<ValueId> = g.inputs[cut.inputs..].iter().copied().collect();
        own.extend(backward.nodes.iter().flat_map(|n| n.outs.iter().copied().filter(|v| g.is_root(*v))));
        let mut saved: Vec<ValueId> = Vec::new();
        let reads = backward.nodes.iter().filter(|n| !n.is_view()).flat_map(|n| n.ins.iter().flatten());
        for root in reads.chain(&backward.outputs).map(|v| g.root(*v)) {
            // A view belongs to where its root was made, whichever part made the view.
            let outside = is_variable(root);
            if written.contains(&root) && (outside || g.inputs.contains(&root)) {
                return Err(Error::not_implemented(
                    "the backward pass reads what a tensor held before the forward pass wrote to it",
                ));
            }
            if !outside && !own.contains(&root) && !saved.contains(&root) {
                saved.push(root);
            }
        }
        let (inputs, made): (Vec<ValueId>, Vec<ValueId>) = saved.into_iter().partition(|v| g.inputs.contains(v));
        let saved_inputs = inputs.iter().filter_map(|v| forward.inputs.iter().position(|i| i == v)).collect();
        backward.inputs.extend(&inputs);
        for root in &made {
            // Handed over flat: runs take contiguous inputs, whatever the layout of a value.
            let n = (g.bytes(*root) / g.meta(*root).dtype.size() as u64) as i64;
            let m = g.meta(*root);
            let flat = Meta::contiguous(m.dtype, m.device, &[n]);
            let out = forward.values.len() as ValueId;
            forward.values.push(Value { meta: flat.clone(), offset: 0, root: *root });
            forward.nodes.push(Node::view_of(*root, out, &flat));
            forward.outputs.push(out);
            let input = backward.values.len() as ValueId;
            backward.values.push(Value { meta: flat, offset: 0, root: input });
            for v in &mut backward.values {
                if v.root == *root {
                    v.root = input;
                }
            }
            backward.nodes.insert(0, Node::view_of(input, *root, m));
            backward.inputs.push(input);
        }
        backward.inputs.extend(&g.inputs[cut.inputs..]);
        Ok(Parts {
            forward: Traced { graph: forward, cut: None },
            backward: Traced { graph: backward, cut: None },
            saved_inputs,
            n_saved: made.len(),
        })
    }
}
