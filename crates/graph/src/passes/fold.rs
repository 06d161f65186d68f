//! Nodes that depend on nothing a run brings (a causal mask, position numbers) are computed once, at compile time.
//!
//! Their results become variables of the program. Plain fills stay: writing a constant costs less than reading it.

use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId, Variable};
use oneflow_base::{Arg, Result};
use oneflow_core::{Call, Kernel, Outs, ShapeOf, Tensor, Traits, dispatch};
use std::collections::{HashMap, HashSet};

/// A constant takes memory for good: larger ones are computed in every run.
const MAX_BYTES: u64 = 16 << 20;

pub fn run(g: &mut Graph, _: &Config) -> Result<bool> {
    let written: HashSet<ValueId> = g.writes.iter().map(|w| w.value).collect();
    let results: HashSet<ValueId> = g.outputs.iter().map(|v| g.root(*v)).collect();
    let updated: HashSet<ValueId> = g
        .nodes
        .iter()
        .flat_map(|n| n.updates.iter().filter_map(|(i, _)| n.ins[*i as usize]))
        .map(|v| g.root(v))
        .collect();
    // What is known: values of constant nodes, computed when one of them turns out to be worth keeping.
    let mut known: HashMap<ValueId, Tensor> = HashMap::new();
    let mut folded: HashSet<usize> = HashSet::new();
    for (at, n) in g.nodes.iter().enumerate() {
        // A fill reads the layout of its inputs, never their values.
        let read = !is_fill(n);
        let constant = !n.is_view() && is_pure(n) && n.ins.iter().flatten().all(|v| !read || known.contains_key(v));
        let small = n.outs.iter().all(|v| {
            // What a program keeps is contiguous: a result in the order of a transposed input is made in every run.
            let fits = g.bytes(g.root(*v)) <= MAX_BYTES && (n.is_view() || g.meta(*v).is_contiguous());
            fits && !written.contains(v) && !results.contains(v) && !updated.contains(v)
        });
        let view =
            n.is_view() && n.ins.iter().flatten().all(|v| known.contains_key(v)) && n.ins.iter().any(Option::is_some);
        if !(constant && small || view) {
            continue;
        }
        let Some(made) = evaluate(g, n, &known)? else { continue };
        if made
            .iter()
            .zip(&n.outs)
            .any(|(t, v)| t.sizes() != g.meta(*v).sizes.as_slice() || t.strides() != g.meta(*v).strides.as_slice())
        {
            continue;
        }
        known.extend(n.outs.iter().copied().zip(made));
        folded.insert(at);
    }
    // Kept: what a node that stays reads. A fill that such a node reads stays a fill.
    let fills: HashSet<ValueId> = g
        .nodes
        .iter()
        .enumerate()
        .filter(|(at, n)| folded.contains(at) && is_fill(n))
        .flat_map(|(_, n)| n.outs.iter().copied())
        .collect();
    let mut keep: Vec<ValueId> = Vec::new();
    for (at, n) in g.nodes.iter().enumerate() {
        for v in n.ins.iter().flatten().filter(|_| !folded.contains(&at)) {
            let root = g.root(*v);
            if known.contains_key(&root) && !fills.contains(&root) && !keep.contains(&root) {
                keep.push(root);
            }
        }
    }
    if keep.is_empty() {
        return Ok(false);
    }
    for root in &keep {
        if !g.varying.is_empty() {
            note_sized(g, *root, &folded);
        }
        let Some(storage) = known[root].storage() else { continue };
        let name = format!("constant.{}", g.variables.len());
        g.variables.push(Variable { name, value: *root, storage: storage.clone(), constant: true });
    }
    let kept: HashSet<ValueId> = keep.into_iter().collect();
    g.nodes.retain(|n| n.is_view() || !n.outs.iter().any(|v| kept.contains(v)));
    Ok(true)
}

/// Remembers how a constant is made that follows from the sizes at hand, so that it can be made at others.
fn note_sized(g: &mut Graph, root: ValueId, folded: &HashSet<usize>) {
    let (mut open, mut at) = (vec![root], Vec::new());
    while let Some(v) = open.pop() {
        let maker = folded.iter().copied().find(|i| g.nodes[*i].outs.contains(&v));
        if let Some(i) = maker.filter(|i| !at.contains(i)) {
            at.push(i);
            open.extend(g.nodes[i].ins.iter().flatten());
        }
    }
    at.sort_unstable();
    let nodes: Vec<Node> = at.into_iter().map(|i| g.nodes[i].clone()).collect();
    if nodes.iter().any(|n| n.outs.iter().any(|v| g.varying.contains(v))) {
        g.varying.insert(root);
        g.sized_constants.push((root, nodes));
    }
}

/// Puts back the nodes of constants that are other ones at other sizes, where something still reads them.
pub fn unfold(g: &mut Graph, config: &Config) -> Result<bool> {
    let sized = std::mem::take(&mut g.sized_constants);
    if sized.is_empty() {
        return Ok(false);
    }
    super::dead_code::run(g, config)?;
    let mut restored: Vec<Node> = Vec::new();
    for (root, nodes) in sized {
        if g.variables.of(root).is_none_or(|v| !v.constant) {
            continue;
        }
        g.variables.retain(|v| v.value != root);
        for n in nodes {
            if restored.iter().all(|m| m.outs != n.outs) {
                // Views and fills may have stayed; they come with what reads them.
                g.nodes.retain(|m| m.outs != n.outs);
                restored.push(n);
            }
        }
    }
    restored.sort_by_key(|n| n.outs.first().copied());
    for n in restored {
        // As early as can be: what a backward pass reads of a forward pass stays before the cut.
        let reads = |v: &ValueId| n.ins.iter().flatten().any(|x| x == v || g.root(*x) == *v);
        let at = g.nodes.iter().rposition(|m| m.outs.iter().any(reads)).map_or(0, |at| at + 1);
        g.nodes.insert(at, n);
    }
    Ok(true)
}

pub fn is_fill(n: &Node) -> bool {
    n.op().is_some_and(|o| matches!(o.kernel, Kernel::Prim { prim, .. } if prim.name == "fill"))
}

/// Returns true if its result follows from its inputs and arguments alone.
pub fn is_pure(n: &Node) -> bool {
    let Kind::Op { op, attrs } = &n.kind else { return false };
    let random = attrs.args().iter().any(|a| matches!(a, Arg::Rng { .. } | Arg::RngAt { .. }));
    let bad = [Traits::RANDOM, Traits::MUTATES, Traits::COLLECTIVE, Traits::HOST_SYNC];
    !random
        && n.outs.len() == 1
        && op.shape == ShapeOf::Inputs
        && matches!(op.kernel, Kernel::Elementwise(_) | Kernel::Prim { .. })
        && !bad.iter().any(|t| op.traits.has(*t))
}

/// Runs a node now.
pub fn evaluate(g: &Graph, n: &Node, known: &HashMap<ValueId, Tensor>) -> Result<Option<Vec<Tensor>>> {
    let Kind::Op { op, attrs } = &n.kind else { return Ok(None) };
    let given = |v: ValueId| match known.get(&v) {
        Some(t) => Ok(t.clone()),
        None => Tensor::shell(g.meta(v).dtype, g.meta(v).device, g.meta(v).sizes.clone(), g.meta(v).strides.clone()),
    };
    let ins: Vec<Option<Tensor>> = n.ins.iter().map(|v| v.map(given).transpose()).collect::<Result<_>>()?;
    let ins: Vec<Option<&Tensor>> = ins.iter().map(Option::as_ref).collect();
    let args = attrs.args();
    let mut outs = Outs::new();
    dispatch(&Call::new(op, &ins, &args), &mut outs)?;
    Ok(Some(outs.tensors().to_vec()))
}
