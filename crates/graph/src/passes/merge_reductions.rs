//! All-reduces whose results are only added up become one all-reduce of the sum.
//!
//! A gradient is brought to its parameter's layout when it is accumulated. With micro-batches that would reduce a replicated
//! parameter's gradient once for each of them; here partial sums are added first, and reduced once a step. Reductions that leave
//! a rank its slice stay where they are: a slice is kept to save memory, which a whole partial sum would take again.

use super::fusion::pattern::{Uses, node};
use super::fusion::residual::is_plain_add;
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::{Result, Sbp};
use oneflow_core::{Call, Tensor};
use oneflow_global::boxing::{Wire, wire};
use oneflow_runtime::shell;
use std::collections::{BTreeSet, HashSet};

pub fn run(g: &mut Graph, _: &Config) -> Result<bool> {
    let mut removed: BTreeSet<usize> = BTreeSet::new();
    // A merged reduction may be added to the next one: sums of several micro-batches are merged from the first on. It makes
    // the value that the sum made, so makers and readers of what is looked at later stay the same.
    let uses = Uses::of(g);
    // What a write may change must not be read later than it was.
    let written: HashSet<ValueId> = (g.nodes.iter())
        .flat_map(|n| n.updates.iter().filter_map(|(i, _)| n.ins[*i as usize]))
        .map(|v| g.root(v))
        .collect();
    for at in 0..g.nodes.len() {
        if let Some((first, second)) = reduced_summands(g, &uses, &written, at)? {
            merge(g, first, second, at)?;
            removed.insert(first);
        }
    }
    remove(g, &removed);
    Ok(!removed.is_empty())
}

/// The all-reduces, in order, whose results this node adds, where nobody else reads them.
fn reduced_summands(g: &Graph, uses: &Uses, written: &HashSet<ValueId>, at: usize) -> Result<Option<(usize, usize)>> {
    let n = &g.nodes[at];
    if n.ins.len() != 2 || n.ins[0] == n.ins[1] || !is_plain_add(g, n) {
        return Ok(None);
    }
    let maker = |v: Option<ValueId>| v.filter(|v| uses.once(*v) && g.is_root(*v)).and_then(|v| uses.made_at(v));
    let (Some(a), Some(b)) = (maker(n.ins[0]), maker(n.ins[1])) else { return Ok(None) };
    let (first, second) = (a.min(b), a.max(b));
    let (x, y) = (&g.nodes[first], &g.nodes[second]);
    let (Kind::Op { attrs: left, .. }, Kind::Op { attrs: right, .. }) = (&x.kind, &y.kind) else { return Ok(None) };
    let inputs = [x, y].map(|n| n.ins.first().copied().flatten());
    let steady = inputs.iter().flatten().all(|v| !g.is_external(g.root(*v)) && !written.contains(&g.root(*v)));
    let alike = left == right && inputs[0].zip(inputs[1]).is_some_and(|(a, b)| g.meta(a) == g.meta(b));
    let plain = [x, y, n].iter().all(|n| n.again == 0);
    let merges = alike && plain && steady && is_all_reduce(g, x)? && is_all_reduce(g, y)?;
    Ok(merges.then_some((first, second)))
}

fn is_all_reduce(g: &Graph, n: &Node) -> Result<bool> {
    let Kind::Op { op, attrs } = &n.kind else { return Ok(false) };
    let shells: Vec<Option<Tensor>> = n
        .ins
        .iter()
        .map(|v| v.map(|v| shell(g.meta(v), g.values[v as usize].offset)).transpose())
        .collect::<Result<_>>()?;
    let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
    let args = attrs.args();
    Ok(matches!(wire(&Call::new(op, &refs, &args))?, Some(Wire::Axis(m)) if m.from == Sbp::P_SUM && m.to == Sbp::B))
}

/// The second reduction's place gets the sum, the sum's place the reduction; the first reduction's place stays empty.
fn merge(g: &mut Graph, first: usize, second: usize, at: usize) -> Result<()> {
    let (sum, reduction) = (g.nodes[at].clone(), g.nodes[second].clone());
    let (op, args) = match &sum.kind {
        Kind::Op { op, attrs } => (*op, attrs.clone()),
        Kind::Chain(_) => return Ok(()),
    };
    let ins = [g.nodes[first].ins[0], reduction.ins[0]];
    let added = node(g, op, &ins, &args.args(), &sum)?;
    let reduced = Node { ins: added.outs.iter().map(|v| Some(*v)).collect(), outs: sum.outs.clone(), ..reduction };
    g.nodes[first].ins.clear();
    g.nodes[first].outs.clear();
    g.nodes[second] = added;
    g.nodes[at] = reduced;
    Ok(())
}

/// Takes nodes out; positions of micro-batches and sections move with the others.
fn remove(g: &mut Graph, gone: &BTreeSet<usize>) {
    let moved = |at: usize| at - gone.range(..at).count();
    g.micro_batches.iter_mut().for_each(|at| *at = moved(*at));
    g.sections.iter_mut().for_each(|s| s.at = moved(s.at));
    let mut at = 0..;
    g.nodes.retain(|_| at.next().is_none_or(|i| !gone.contains(&i)));
}
