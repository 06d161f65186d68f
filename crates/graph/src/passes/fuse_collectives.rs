//! Collectives of one kind in a group become one of several tensors: gradients are reduced in buckets, and what a module gathers
//! is gathered together. Collectives of other kinds may stand between the members of a bucket.
//!
//! A bucket stands where the last of its collectives stood, and what reads the others' results comes after it. Members are
//! chosen by the order of collectives, by layouts and by whole sizes alone, which all ranks of the group have in common, and not
//! by copies that a rank makes of its part alone; so they make the same buckets. Ranks cannot deadlock by it: a collective that all its ranks leave out is waited for by nobody.
//!
//! Parameters of several modules are gathered together where they are not more than those of the largest module. Their bucket
//! stands where the first of them stood, whatever else the group does in between: gathers that come a module ahead
//! (`overlap.rs`) then hide behind about as much work as they take.

use super::order::{dependencies, works};
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use crate::lowering::call_of;
use oneflow_base::{Arg, Attrs, DType, Result, Sbp};
use oneflow_core::Call;
use oneflow_global::boxing::{AxisMove, BOX_AXES, Wire, fits_a_bucket, lane, wire};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What members of a bucket have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
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
    /// It stands where its first member stood; and the views that members need there.
    at_first: bool,
    views: BTreeSet<usize>,
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
    let before = dependencies(g);
    let (mut open, mut done): (Vec<Open>, Vec<Open>) = (Vec::new(), Vec::new());
    for at in 0..g.nodes.len() {
        let waits_for = |o: &Open| before[at].iter().any(|j| o.after.contains(j));
        let Some((lane, m)) = &talks[at] else {
            for o in &mut open {
                o.works |= works(&g.nodes[at]);
                if waits_for(o) {
                    o.after.insert(at);
                }
            }
            continue;
        };
        let key = m.as_ref().map(|m| key_of(g, at, *lane, m));
        let bytes = m.as_ref().map_or(0, bytes);
        // What a collective or work waits for must have come, and a module's gathers follow each other.
        let is_other = |o: &Open| key.as_ref() != Some(&o.key);
        let ends = |o: &mut Open| {
            waits_for(o) || o.key.of_parameter && (o.works || is_other(o)) || is_other(o) && is_read(g, o)
        };
        done.extend(open.extract_if(.., ends));
        let Some(key) = key else { continue };
        let full = |o: &Open| o.bytes + bytes > most(&o.key) || o.members.len() >= config.bucket_ops as usize;
        done.extend(open.extract_if(.., |o| o.key == key && full(o)));
        let o = match open.iter_mut().position(|o| o.key == key) {
            Some(k) => &mut open[k],
            None => {
                open.push(Open::new(key));
                let last = open.len() - 1;
                &mut open[last]
            }
        };
        o.members.push(at);
        o.after.insert(at);
        o.bytes += bytes;
    }
    done.extend(open);
    done.sort_by_key(|o| o.members[0]);
    let mut done = join_modules(g, done);
    done.retain(|o| o.members.len() > 1);
    apply(g, &done)?;
    Ok(!done.is_empty())
}

/// Whether work needs a member's result.
fn is_read(g: &Graph, o: &Open) -> bool {
    o.after.iter().any(|i| !o.members.contains(i) && works(&g.nodes[*i]))
}

impl Open {
    fn new(key: Key) -> Open {
        let (after, views) = (BTreeSet::new(), BTreeSet::new());
        Open { key, members: Vec::new(), bytes: 0, after, works: false, at_first: false, views }
    }
}

/// Gathers of modules that follow each other become one while they are not more than the largest module's.
fn join_modules(g: &Graph, buckets: Vec<Open>) -> Vec<Open> {
    // What the backward gathers again is computed in parts of its own.
    let alike = |o: &Open| Key { again: u32::from(o.key.again > 0), ..o.key.clone() };
    let mut largest: HashMap<Key, u64> = HashMap::new();
    for o in buckets.iter().filter(|o| o.key.of_parameter) {
        let most = largest.entry(alike(o)).or_default();
        *most = o.bytes.max(*most);
    }
    let makers: HashMap<ValueId, usize> =
        g.nodes.iter().enumerate().flat_map(|(i, n)| n.outs.iter().map(move |v| (*v, i))).collect();
    // By kind, the last bucket of parameters.
    let mut last: HashMap<Key, usize> = HashMap::new();
    let mut done: Vec<Open> = Vec::with_capacity(buckets.len());
    for o in buckets {
        if !o.key.of_parameter {
            done.push(o);
            continue;
        }
        let key = alike(&o);
        if let Some(before) = last.get(&key).map(|k| &mut done[*k])
            && before.bytes + o.bytes <= largest[&key]
            && let Some(views) = views_from(g, &makers, before.members[0], &o.members)
        {
            before.members.extend(o.members);
            before.bytes += o.bytes;
            before.views.extend(views);
            before.at_first = true;
        } else {
            last.insert(key, done.len());
            done.push(o);
        }
    }
    done
}

/// The views behind `first` that the members' operands come by; `None` where another value or an update stands in between.
fn views_from(g: &Graph, makers: &HashMap<ValueId, usize>, first: usize, members: &[usize]) -> Option<BTreeSet<usize>> {
    let mut views = BTreeSet::new();
    for at in members {
        let mut left: Vec<ValueId> = g.nodes[*at].ins.iter().flatten().copied().collect();
        while let Some(v) = left.pop() {
            let Some(i) = makers.get(&v).copied().filter(|i| *i > first) else { continue };
            if !g.nodes[i].is_view() {
                return None;
            }
            if views.insert(i) {
                left.extend(g.nodes[i].ins.iter().flatten());
            }
        }
        let own = |v: &ValueId| g.nodes[*at].ins.iter().flatten().any(|u| g.root(*u) == g.root(*v));
        let updates = |n: &Node| n.updates.iter().filter_map(|(i, _)| n.ins[*i as usize]).any(|v| own(&v));
        if g.nodes[first..*at].iter().any(updates) {
            return None;
        }
    }
    Some(views)
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
    let of_parameter = m.to == Sbp::B && n.reads_stored;
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
    // By the position of the member that keeps its place: what stands there instead.
    let mut put: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    for o in buckets.iter().filter(|o| o.at_first) {
        let mut nodes: Vec<Node> = o.views.iter().map(|i| g.nodes[*i].clone()).collect();
        nodes.push(fused(g, &o.members, o.members[0])?);
        put.insert(o.members[0], nodes);
        gone.extend(o.views.iter().chain(&o.members).copied());
    }
    // What reads several buckets comes behind the last of them.
    let mut later: BTreeMap<usize, usize> = BTreeMap::new();
    for o in buckets.iter().filter(|o| !o.at_first) {
        let last = o.members[o.members.len() - 1];
        for i in o.after.range(..last).filter(|i| !o.members.contains(i)) {
            later.entry(*i).and_modify(|at| *at = last.max(*at)).or_insert(last);
        }
        put.insert(last, vec![fused(g, &o.members, last)?]);
        gone.extend(&o.members);
    }
    for (i, last) in later {
        put.entry(last).or_default().push(g.nodes[i].clone());
        gone.insert(i);
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

/// One node for several collectives, in the place of this one; it makes their results.
fn fused(g: &Graph, members: &[usize], place: usize) -> Result<Node> {
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
    let like = &g.nodes[place];
    Ok(Node {
        kind: Kind::Op { op: &BOX_AXES, attrs: Attrs::new(&args) },
        ins: nodes().flat_map(|n| n.ins.iter().copied()).collect(),
        outs: nodes().flat_map(|n| n.outs.iter().copied()).collect(),
        updates: SmallVec::new(),
        stack: like.stack.clone(),
        again: like.again,
        reads_stored: members.iter().all(|at| g.nodes[*at].reads_stored),
    })
}
