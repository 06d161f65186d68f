//! Elementwise ops that feed each other become one kernel, whose intermediate values never reach memory.
//!
//! Values inside a chain are kept in the compute dtype, so float32 and float64 results are bit for bit those of the single
//! ops, and half types round once instead of at each step.

use super::ops;
use crate::Config;
use crate::ir::{ChainStep, Graph, Kind, Node, ValueId};
use oneflow_base::{DType, Meta, Result};
use oneflow_core::{Call, Kernel, Outs, Tensor};
use oneflow_runtime::{Ref, expression, shell};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// Bounds of the primitive.
const MAX_INS: usize = 12;
const MAX_OUTS: usize = 4;
const MAX_STEPS: usize = 16;

/// A chain that still grows: members in order.
struct Open {
    members: Vec<Node>,
    compute: DType,
    made: HashSet<ValueId>,
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse {
        return Ok(false);
    }
    let before = g.nodes.len();
    let readers = count_readers(g);
    let nodes = std::mem::take(&mut g.nodes);
    let mut open: Vec<Open> = Vec::new();
    let mut out: Vec<Node> = Vec::with_capacity(before);
    for n in nodes {
        let compute = compute_dtype(g, &n, config)?;
        let reads = |c: &Open| n.ins.iter().flatten().any(|v| c.made.contains(v) || c.made.contains(&g.root(*v)));
        let Some(compute) = compute else {
            let all = !n.updates.is_empty();
            close(g, &mut open, &readers, &mut out, |c| all || reads(c));
            out.push(n);
            continue;
        };
        // Members lie in memory in one order, which the kernel then walks; which one, channels_last say, is no matter.
        let Meta { sizes, strides, .. } = g.meta(n.outs[0]);
        let alike =
            |m: &Meta| m.sizes == *sizes && (0..sizes.len()).all(|d| sizes[d] < 2 || m.strides[d] == strides[d]);
        // It joins the youngest chain it reads; others that it reads end before it.
        let join = open.iter().rposition(|c| {
            reads(c)
                && c.compute == compute
                && c.members[0].again == n.again
                && alike(g.meta(c.members[0].outs[0]))
                && n.ins.iter().flatten().all(|v| !c.made.contains(&g.root(*v)) || c.made.contains(v))
                && fits(g, c, &n, &readers)
        });
        let mut at = 0;
        close(g, &mut open, &readers, &mut out, |c| {
            at += 1;
            Some(at - 1) != join && reads(c)
        });
        let joined =
            open.iter_mut().rev().find(|c| join.is_some() && n.ins.iter().flatten().any(|v| c.made.contains(v)));
        match joined {
            Some(c) => {
                c.made.insert(n.outs[0]);
                c.members.push(n);
            }
            None => open.push(Open { compute, made: HashSet::from([n.outs[0]]), members: vec![n] }),
        }
    }
    close(g, &mut open, &readers, &mut out, |_| true);
    g.nodes = out;
    Ok(g.nodes.len() != before)
}

fn count_readers(g: &Graph) -> HashMap<ValueId, usize> {
    let mut readers: HashMap<ValueId, usize> = HashMap::new();
    for n in &g.nodes {
        n.ins.iter().flatten().for_each(|v| *readers.entry(*v).or_default() += 1);
    }
    g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)).for_each(|v| *readers.entry(*v).or_default() += 1);
    readers
}

/// The dtype an elementwise node computes in; `None` for nodes that cannot be part of a chain.
fn compute_dtype(g: &Graph, n: &Node, config: &Config) -> Result<Option<DType>> {
    let Kind::Op { op, attrs } = &n.kind else { return Ok(None) };
    let cast = config.fuse_cast && std::ptr::eq(*op, &ops::TO_COPY);
    if !(cast || matches!(op.kernel, Kernel::Elementwise(_))) || n.outs.len() != 1 {
        return Ok(None);
    }
    let shells: Vec<Option<Tensor>> =
        n.ins.iter().map(|v| v.map(|v| shell(g.meta(v), 0)).transpose()).collect::<Result<_>>()?;
    let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
    let args = attrs.args();
    let c = Call::new(op, &refs, &args);
    let mut outs = Outs::new();
    (op.infer)(&c, &mut outs)?;
    let Some((expr, params)) = expression(&c, &outs)? else { return Ok(None) };
    let compute = params.first().map(|w| w.dtype());
    // Inside a chain a value is not stored, hence not rounded to or cut to another dtype: only where the result's dtype
    // is the compute dtype does that make no difference. Half types round once.
    let exact = compute.is_some_and(|d| {
        let m = g.meta(n.outs[0]).dtype;
        m == d && !d.is_complex() || d == DType::F32 && matches!(m, DType::BF16 | DType::F16)
    });
    Ok(compute.filter(|_| exact && expr.nonzero.is_none()))
}

/// Members' results that somebody outside reads.
fn results(c: &[Node], readers: &HashMap<ValueId, usize>) -> Vec<ValueId> {
    let mut inside: HashMap<ValueId, usize> = HashMap::new();
    for n in c {
        n.ins.iter().flatten().for_each(|v| *inside.entry(*v).or_default() += 1);
    }
    c.iter()
        .map(|n| n.outs[0])
        .filter(|v| readers.get(v).copied().unwrap_or(0) > inside.get(v).copied().unwrap_or(0))
        .collect()
}

fn inputs(c: &[Node]) -> Vec<ValueId> {
    let made: HashSet<ValueId> = c.iter().map(|n| n.outs[0]).collect();
    let mut v = Vec::new();
    for i in c.iter().flat_map(|n| n.ins.iter().flatten()) {
        if !made.contains(i) && !v.contains(i) {
            v.push(*i);
        }
    }
    v
}

fn fits(_: &Graph, c: &Open, n: &Node, readers: &HashMap<ValueId, usize>) -> bool {
    let mut members = c.members.clone();
    members.push(n.clone());
    members.len() <= MAX_STEPS && inputs(&members).len() <= MAX_INS && results(&members, readers).len() <= MAX_OUTS
}

/// Ends the chains that `which` names, oldest first.
fn close(
    g: &Graph,
    open: &mut Vec<Open>,
    readers: &HashMap<ValueId, usize>,
    out: &mut Vec<Node>,
    mut which: impl FnMut(&Open) -> bool,
) {
    let mut kept = Vec::with_capacity(open.len());
    for c in open.drain(..) {
        if which(&c) {
            emit(g, c, readers, out);
        } else {
            kept.push(c);
        }
    }
    *open = kept;
}

fn emit(g: &Graph, c: Open, readers: &HashMap<ValueId, usize>, out: &mut Vec<Node>) {
    if c.members.len() == 1 {
        out.extend(c.members);
        return;
    }
    let (ins, outs) = (inputs(&c.members), results(&c.members, readers));
    let mut temps: HashMap<ValueId, u16> = HashMap::new();
    let mut steps = Vec::with_capacity(c.members.len());
    for n in &c.members {
        let Kind::Op { op, attrs } = &n.kind else { continue };
        let v = n.outs[0];
        let dtype = g.meta(v).dtype;
        let place = |v: ValueId, temps: &HashMap<ValueId, u16>| {
            if let Some(i) = ins.iter().position(|x| *x == v) {
                return Ref::In(i as u16);
            }
            match outs.iter().position(|x| *x == v) {
                Some(i) => Ref::Out(i as u16),
                None => Ref::Temp(temps.get(&v).copied().unwrap_or(0), g.meta(v).dtype),
            }
        };
        let step_ins: SmallVec<[Option<Ref>; 3]> = n.ins.iter().map(|v| v.map(|v| place(v, &temps))).collect();
        if !outs.contains(&v) {
            temps.insert(v, temps.len() as u16);
        }
        steps.push(ChainStep { op, attrs: attrs.clone(), ins: step_ins, out: place(v, &temps), dtype });
    }
    out.push(Node {
        kind: Kind::Chain(steps),
        ins: ins.into_iter().map(Some).collect(),
        outs: outs.into_iter().collect(),
        updates: SmallVec::new(),
        stack: c.members.last().and_then(|n| n.stack.clone()),
        again: c.members.iter().map(|n| n.again).max().unwrap_or(0),
        reads_stored: false,
    });
}
