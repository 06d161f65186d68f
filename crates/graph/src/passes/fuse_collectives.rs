//! Collectives of one kind that follow each other in a group become one of several tensors: gradients are reduced in buckets, and
//! what a module gathers is gathered together.
//!
//! A bucket stands where the last of its collectives stood, and what reads the others' results comes after it. Members are
//! chosen by the order of collectives, by layouts and by whole sizes alone, which all ranks of the group have in common; so they
//! make the same buckets. Ranks cannot deadlock by it: a collective that all its ranks leave out is waited for by nobody.

use super::order::waits;
use crate::Config;
use crate::ir::{Graph, Kind, Node};
use crate::lowering::call_of;
use oneflow_base::{Arg, Attrs, DType, Result, Sbp};
use oneflow_core::Call;
use oneflow_global::boxing::{AxisMove, BOX_AXES, Wire, fits_a_bucket, lane, wire};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What members of a bucket have in common.
#[derive(Clone, PartialEq)]
struct Key {
    lane: usize,
    placement: u32,
    axis: usize,
    from: Sbp,
    to: Sbp,
    dtype: DType,
    again: u32,
    section: (usize, usize),
    /// It gathers what outlives runs, as modules do with parameters of which each rank has a slice.
    of_parameter: bool,
}

/// A bucket that may still grow.
struct Open {
    key: Key,
    members: Vec<usize>,
    bytes: u64,
    /// The members, and the nodes that must come after one.
    after: BTreeSet<usize>,
    works: bool,
}

/// A bucket holds no more than this part of all that is reduced or gathered, unless that is little: the others can hide behind
/// work when the last one cannot.
const SHARES: u64 = 8;
/// Bytes that are worth a message.
const LEAST: u64 = 256 << 10;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if config.streams == 0 || config.bucket_bytes == 0 || config.bucket_ops < 2 {
        return Ok(false);
    }
    let talks: Vec<Option<(usize, Option<AxisMove>)>> = g.nodes.iter().map(|n| talk(g, n)).collect::<Result<_>>()?;
    // Of each kind in a group, the bytes of all.
    let mut totals: HashMap<(usize, Sbp, Sbp), u64> = HashMap::new();
    for (lane, m) in talks.iter().flatten().filter_map(|(lane, m)| Some((*lane, m.as_ref()?))) {
        *totals.entry((lane, m.from, m.to)).or_default() += bytes(m);
    }
    let most = |k: &Key| {
        let share = totals.get(&(k.lane, k.from, k.to)).map_or(0, |t| t / SHARES);
        share.max(LEAST).min(config.bucket_bytes)
    };
    let before = waits(g, false);
    let (mut open, mut done): (Option<Open>, Vec<Open>) = (None, Vec::new());
    for at in 0..g.nodes.len() {
        if let Some((lane, m)) = &talks[at] {
            let key = m.as_ref().map(|m| key_of(g, at, *lane, m));
            let bytes = m.as_ref().map_or(0, bytes);
            let joins = open.as_ref().is_some_and(|o| {
                let waits = before[at].iter().any(|j| o.after.contains(j));
                let full = o.bytes + bytes > most(&o.key) || o.members.len() >= config.bucket_ops as usize;
                let apart = o.works && o.key.of_parameter;
                key.as_ref() == Some(&o.key) && !(waits || full || apart)
            });
            if !joins {
                done.extend(open.take());
                open = key.map(|key| Open { key, members: vec![], bytes: 0, after: BTreeSet::new(), works: false });
            }
            if let Some(o) = &mut open {
                o.members.push(at);
                o.after.insert(at);
                o.bytes += bytes;
            }
        } else if let Some(o) = &mut open {
            o.works |= !g.nodes[at].is_view();
            if before[at].iter().any(|j| o.after.contains(j)) {
                o.after.insert(at);
            }
        }
    }
    done.extend(open);
    done.retain(|o| o.members.len() > 1);
    apply(g, &done)?;
    Ok(!done.is_empty())
}

/// The group in which a node talks, and what it does along a mesh axis.
fn talk(g: &Graph, n: &Node) -> Result<Option<(usize, Option<AxisMove>)>> {
    let found = |c: &Call<'_>| {
        let Some(lane) = lane(c)? else { return Ok(None) };
        let m = if let Some(Wire::Axis(m)) = wire(c)? { Some(m) } else { None };
        let fits = |m: &AxisMove| m.others.is_empty() && fits_a_bucket(m.from, m.to);
        Ok(Some((lane, m.filter(fits))))
    };
    call_of(g, n, found)
}

fn bytes(m: &AxisMove) -> u64 {
    m.sizes.iter().product::<i64>() as u64 * m.dtype.size() as u64
}

fn key_of(g: &Graph, at: usize, lane: usize, m: &AxisMove) -> Key {
    let n = &g.nodes[at];
    let micro_batch = g.micro_batches.iter().filter(|b| **b <= at).count();
    let section = g.sections.iter().filter(|s| s.at <= at).count();
    let of_parameter = m.to == Sbp::B && n.ins.iter().flatten().all(|v| g.is_external(g.root(*v)));
    let (placement, axis, from, to) = (m.placement_id.0, m.axis, m.from, m.to);
    Key {
        lane,
        placement,
        axis,
        from,
        to,
        dtype: m.dtype,
        again: n.again,
        section: (micro_batch, section),
        of_parameter,
    }
}

/// Puts the buckets in place of their members.
fn apply(g: &mut Graph, buckets: &[Open]) -> Result<()> {
    // By the position of a last member: what stands there instead.
    let mut put: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    for o in buckets {
        let last = o.members[o.members.len() - 1];
        let mut nodes = vec![fused(g, &o.members)?];
        let later: Vec<usize> = o.after.range(..last).copied().filter(|i| !o.members.contains(i)).collect();
        nodes.extend(later.iter().map(|i| g.nodes[*i].clone()));
        put.insert(last, nodes);
        gone.extend(later.into_iter().chain(o.members.iter().copied()));
    }
    // Where a position of the trace is now: what was before it, and what was put there.
    let n_nodes = g.nodes.len();
    let mut moved = vec![0; n_nodes + 1];
    let mut nodes = Vec::with_capacity(g.nodes.len());
    for (i, n) in std::mem::take(&mut g.nodes).into_iter().enumerate() {
        moved[i] = nodes.len();
        if let Some(with) = put.remove(&i) {
            nodes.extend(with);
        } else if !gone.contains(&i) {
            nodes.push(n);
        }
    }
    moved[n_nodes] = nodes.len();
    g.nodes = nodes;
    g.micro_batches.iter_mut().for_each(|at| *at = moved[*at]);
    g.sections.iter_mut().for_each(|s| s.at = moved[s.at]);
    Ok(())
}

/// One node for several collectives; it makes their results.
fn fused(g: &Graph, members: &[usize]) -> Result<Node> {
    let nodes = || members.iter().map(|at| &g.nodes[*at]);
    let (mut sizes, mut out_sizes): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    let mut last: Option<Vec<i64>> = None;
    for n in nodes() {
        let Kind::Op { attrs, .. } = &n.kind else { continue };
        // Output sizes, sizes, then the words that all have in common.
        let args = attrs.args();
        out_sizes.extend(args[0].ints().unwrap_or(&[]));
        sizes.extend(args[1].ints().unwrap_or(&[]));
        last = Some(args[2..].iter().map(|a| a.int().unwrap_or(0)).collect());
    }
    let mut args = vec![Arg::Len(members.len() as u32), Arg::Ints(&out_sizes), Arg::Ints(&sizes)];
    args.extend(last.unwrap_or_default().into_iter().map(Arg::Int));
    let like = &g.nodes[members[members.len() - 1]];
    Ok(Node {
        kind: Kind::Op { op: &BOX_AXES, attrs: Attrs::new(&args) },
        ins: nodes().flat_map(|n| n.ins.iter().copied()).collect(),
        outs: nodes().flat_map(|n| n.outs.iter().copied()).collect(),
        updates: SmallVec::new(),
        stack: like.stack.clone(),
        again: like.again,
    })
}
