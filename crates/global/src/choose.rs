//! Which rows an op runs with: axis after axis, the row whose boxing is cheapest, kept for equal calls.
//!
//! A row that all inputs match costs nothing and wins. One rule goes beyond a table of boxing costs: a split that no input
//! brought along is charged what gathering it again costs. Without it a replicated activation that meets a partial sum would
//! be scattered, because scattering is half an all-reduce, and every later op would be tempted to gather weights instead.

use crate::boxing::{UNSUPPORTED, axis_cost};
use crate::rows::{Candidate, candidates, later_candidates, rule_of};
use crate::tensor::Spread;
use oneflow_base::{
    Arg, Attrs, DType, Dims, Error, NdSbpId, PKind, Parts, Placement, PlacementId, Result, Sbp, contiguous_strides,
};
use oneflow_core::{Call, Dest, Localize, OpDef, Outs, Row, Rows, Tensor};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The layouts of one call: one entry an input slot, one an output.
#[derive(Debug)]
pub struct Choice {
    pub ins: SmallVec<[NdSbpId; 4]>,
    pub outs: SmallVec<[NdSbpId; 2]>,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: usize,
    placement: PlacementId,
    ins: SmallVec<[Option<(DType, Dims, NdSbpId)>; 4]>,
    dest: SmallVec<[NdSbpId; 2]>,
    attrs: Attrs,
}

thread_local! {
    static CACHE: RefCell<HashMap<Key, Option<Rc<Choice>>>> = RefCell::new(HashMap::new());
}
/// Shapes that never come again must not fill the memory.
const CACHE_LIMIT: usize = 1 << 14;

/// Chooses layouts. With `dest`, outputs have those layouts, and so have inputs that are the destination (`fixed`, one flag a
/// slot); `None` where no row allows that.
pub fn choose(
    c: &Call<'_>,
    spreads: &[Option<Spread>],
    outs: &[Tensor],
    placement: Spread,
    dest: &[NdSbpId],
    fixed: u64,
) -> Result<Option<Rc<Choice>>> {
    let key = Key {
        op: c.op as *const OpDef as usize,
        placement: placement.placement_id,
        ins: c
            .ins
            .iter()
            .zip(spreads)
            .map(|(t, s)| t.zip(*s).map(|(t, s)| (t.dtype(), Dims::from_slice(t.sizes()), s.sbp_id)))
            .collect(),
        dest: SmallVec::from_slice(dest),
        attrs: key_attrs(c),
    };
    if let Some(found) = CACHE.with_borrow(|cache| cache.get(&key).cloned()) {
        return Ok(found);
    }
    let now: Layouts = spreads.iter().map(|s| s.map(|s| s.sbp)).collect();
    let chosen = decide(c, &now, outs, Axes::of(placement.placement), dest, fixed)?.map(Rc::new);
    CACHE.with_borrow_mut(|cache| {
        if cache.len() >= CACHE_LIMIT {
            cache.clear();
        }
        cache.insert(key, chosen.clone());
    });
    Ok(chosen)
}

/// The arguments without what changes with every call.
fn key_attrs(c: &Call<'_>) -> Attrs {
    let args: SmallVec<[Arg<'_>; 8]> = c
        .args
        .iter()
        .map(|a| match *a {
            Arg::Rng { .. } | Arg::RngAt { .. } => Arg::Rng { seed: 0, offset: 0 },
            a => a,
        })
        .collect();
    Attrs::new(&args)
}

/// The layouts that the eager rule chooses for a call over a mesh of these sizes; no rank needs to be there. `now`: those
/// that the inputs have.
pub fn rule(c: &Call<'_>, now: &[Option<&[Sbp]>], outs: &[Tensor], hierarchy: &[i64]) -> Result<Choice> {
    decide(c, now, outs, Axes::balanced(hierarchy), &[], 0)?
        .ok_or_else(|| Error::runtime(format!("{}(): no layout fits", c.name())))
}

/// All layouts that the op's rows offer for a call over a mesh of these sizes, each once.
pub fn choices(c: &Call<'_>, outs: &[Tensor], hierarchy: &[i64]) -> Result<Vec<Choice>> {
    choices_over(c, outs, Axes::balanced(hierarchy))
}

/// As `choices`, over any placement.
pub(crate) fn choices_over(c: &Call<'_>, outs: &[Tensor], mesh: Axes<'_>) -> Result<Vec<Choice>> {
    let mut found: Vec<Choice> = Vec::new();
    offer(c, outs, mesh, Sizes::of(c, outs), &[], &mut |rows| {
        let ids = |k: usize, of: fn(&Row) -> &[Sbp]| NdSbpId::of(&rows.iter().map(|r| of(r)[k]).collect::<Vec<_>>());
        let choice = Choice {
            ins: (0..c.ins.len()).map(|k| ids(k, |r| &r.ins)).collect(),
            outs: (0..outs.len()).map(|k| ids(k, |r| &r.outs)).collect(),
        };
        if !found.iter().any(|f| f.ins == choice.ins && f.outs == choice.outs) {
            found.push(choice);
        }
    })?;
    Ok(found)
}

/// Every sequence of rows, one an axis, behind those of the first axes.
fn offer(
    c: &Call<'_>,
    outs: &[Tensor],
    mesh: Axes<'_>,
    sizes: Sizes,
    before: &[Row],
    each: &mut dyn FnMut(&[Row]),
) -> Result<()> {
    let Some(&n) = mesh.hierarchy.get(before.len()) else {
        each(before);
        return Ok(());
    };
    for cand in sizes.candidates(c, outs, before.len(), mesh.parts)? {
        if sizes.fit(c, &cand, n, mesh.parts, &|_| Sbp::B) {
            let rows: Vec<Row> = before.iter().chain([&cand.row]).cloned().collect();
            offer(c, outs, mesh, sizes.after(&cand.row, n, mesh.parts), &rows, each)?;
        }
    }
    Ok(())
}

/// The sizes of a mesh and how its ranks share a dimension.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    hierarchy: &'a [i64],
    parts: Parts,
}

impl<'a> Axes<'a> {
    pub(crate) fn of(placement: &'a Placement) -> Axes<'a> {
        Axes { hierarchy: &placement.hierarchy, parts: placement.parts }
    }

    fn balanced(hierarchy: &'a [i64]) -> Axes<'a> {
        Axes { hierarchy, parts: Parts::Balanced }
    }
}

/// Sizes of inputs and outputs as some axes leave them: on the smallest shard of balanced ones, on the largest of chunks, which
/// may be the only one that is not empty.
#[derive(Clone)]
struct Sizes {
    ins: Vec<Dims>,
    outs: Vec<Dims>,
    /// The different sizes of shards of each input.
    shards: Vec<Vec<Dims>>,
}

impl Sizes {
    fn of(c: &Call<'_>, outs: &[Tensor]) -> Sizes {
        let ins: Vec<Dims> = c.ins.iter().map(|t| t.map_or(Dims::new(), |t| Dims::from_slice(t.sizes()))).collect();
        Sizes {
            shards: ins.iter().map(|z| vec![z.clone()]).collect(),
            ins,
            outs: outs.iter().map(|t| Dims::from_slice(t.sizes())).collect(),
        }
    }

    /// The rows that an op offers to a mesh axis.
    fn candidates(&self, c: &Call<'_>, outs: &[Tensor], axis: usize, parts: Parts) -> Result<Vec<Candidate>> {
        if axis > 0
            && let (Some(from), Some(to)) = (self.ins.first(), self.outs.first())
            && let Some(later) = later_candidates(c, outs, from, to, parts)?
        {
            return Ok(later);
        }
        candidates(c, outs, parts)
    }

    /// Whether `n` ranks can run a row, given the layouts that inputs have.
    fn fit(&self, c: &Call<'_>, cand: &Candidate, n: i64, parts: Parts, now: &dyn Fn(usize) -> Sbp) -> bool {
        let Row { ins, outs } = &cand.row;
        // No shard is empty, but for chunks: as in PyTorch, inputs that are split so already may stay so.
        let small = |kept: bool| parts == Parts::Chunks && cand.small && kept;
        let fits = |s: &Sbp, z: &Dims, kept: bool| splits(*s, z, n, cand.even, small(kept));
        // There is no greatest element of nothing.
        let ordered = outs.iter().any(|s| matches!(s, Sbp::P(PKind::Max | PKind::Min)));
        let filled = || (0..ins.len()).all(|i| self.least(i, ins[i], n, parts).is_none_or(|least| least > 0));
        ins.iter().zip(&self.ins).enumerate().all(|(i, (s, z))| fits(s, z, now(i) == *s))
            && outs.iter().zip(&self.outs).all(|(s, z)| fits(s, z, true))
            && (parts == Parts::Balanced || filled() || !ordered && self.takes_empty_shards(c, cand, n, parts))
    }

    /// The smallest part of the dimension by which a layout splits an input.
    fn least(&self, input: usize, s: Sbp, n: i64, parts: Parts) -> Option<i64> {
        let Sbp::S(d) = s else { return None };
        self.shards[input].iter().map(|z| parts.part(z[d as usize], n, n - 1).1).min()
    }

    /// Whether an op with rows of its own takes the smallest shards, which are empty: there is no convolution without a channel
    /// of its result.
    fn takes_empty_shards(&self, c: &Call<'_>, cand: &Candidate, n: i64, parts: Parts) -> bool {
        let mut args = Attrs::new(c.args);
        match (rule_of(c), c.op.sbp.localize, self.outs.first(), cand.row.outs.first()) {
            (Rows::Custom(_), Localize::None, ..) => {}
            (Rows::Custom(_), Localize::Sizes(at), Some(out), Some(s)) => {
                let mut sizes = out.clone();
                if let Sbp::S(d) = *s {
                    sizes[d as usize] = parts.part(sizes[d as usize], n, n - 1).1;
                }
                args = args.with(at.index(), Arg::Ints(&sizes));
            }
            _ => return true,
        }
        let args = args.args();
        let shard = |i: usize| {
            let (t, mut sizes) = (c.ins[i]?, self.ins[i].clone());
            if let (Sbp::S(d), Some(least)) = (cand.row.ins[i], self.least(i, cand.row.ins[i], n, parts)) {
                sizes[d as usize] = least;
            }
            let strides = contiguous_strides(&sizes);
            Tensor::shell(t.dtype(), t.device(), sizes, strides).ok()
        };
        let shards: Vec<Option<Tensor>> = (0..c.ins.len()).map(shard).collect();
        let ins: Vec<Option<&Tensor>> = shards.iter().map(Option::as_ref).collect();
        let call = Call { op: c.op, ins: &ins, args: &args, dest: Dest::Fresh };
        (c.op.infer)(&call, &mut Outs::new()).is_ok()
    }

    fn after(&self, row: &Row, n: i64, parts: Parts) -> Sizes {
        let mut next = self.clone();
        next.ins.iter_mut().zip(&row.ins).for_each(|(z, s)| shrink(z, *s, n, parts));
        next.outs.iter_mut().zip(&row.outs).for_each(|(z, s)| shrink(z, *s, n, parts));
        if parts == Parts::Chunks {
            next.shards.iter_mut().zip(&row.ins).for_each(|(shards, s)| *shards = pieces(shards, *s, n, parts));
        }
        next
    }
}

/// The layout of each input, where there is one.
type Layouts<'a> = SmallVec<[Option<&'a [Sbp]>; 4]>;

fn decide(
    c: &Call<'_>,
    layouts: &[Option<&[Sbp]>],
    outs: &[Tensor],
    mesh: Axes<'_>,
    dest: &[NdSbpId],
    fixed: u64,
) -> Result<Option<Choice>> {
    let mut rows = candidates(c, outs, mesh.parts)?;
    let dest: Vec<&[Sbp]> = dest.iter().map(|d| d.get().unwrap_or(&[])).collect();
    let mut sizes = Sizes::of(c, outs);
    let mut ins: Vec<Vec<Sbp>> = vec![Vec::new(); c.ins.len()];
    let mut to: Vec<Vec<Sbp>> = vec![Vec::new(); outs.len()];
    for (axis, &n) in mesh.hierarchy.iter().enumerate() {
        if axis > 0 {
            rows = sizes.candidates(c, outs, axis, mesh.parts)?;
        }
        let now = |i: usize| layouts[i].map_or(Sbp::B, |s| s[axis]);
        // On one rank nothing costs anything: it chooses as two do, so that results have the layouts they have on many.
        let of = n.max(2);
        let mut best: Option<(f64, &Candidate)> = None;
        for cand in &rows {
            let row = &cand.row;
            let fits_dest = dest.is_empty()
                || (row.outs.iter().zip(&dest).all(|(o, d)| *o == d[axis])
                    && (0..row.ins.len())
                        .all(|i| fixed.checked_shr(i as u32).unwrap_or(0) & 1 == 0 || row.ins[i] == now(i)));
            if !fits_dest || !sizes.fit(c, cand, n, mesh.parts, &now) {
                continue;
            }
            let mut cost = 0.0;
            let mut split_in = false;
            for (i, t) in c.ins.iter().enumerate() {
                if let Some(t) = t {
                    split_in |= matches!(now(i), Sbp::S(_));
                    cost += axis_cost(now(i), row.ins[i], bytes(t.dtype(), &sizes.ins[i]), of);
                }
            }
            if dest.is_empty() && !split_in {
                for (o, s) in row.outs.iter().enumerate() {
                    if matches!(s, Sbp::S(_)) {
                        cost += axis_cost(*s, Sbp::B, bytes(outs[o].dtype(), &sizes.outs[o]), of);
                    }
                }
            }
            if cost < UNSUPPORTED && best.is_none_or(|(b, _)| cost < b) {
                best = Some((cost, cand));
            }
        }
        let Some((_, cand)) = best else {
            if !dest.is_empty() {
                return Ok(None);
            }
            return Err(nothing_fits(c, layouts, &rows));
        };
        sizes = sizes.after(&cand.row, n, mesh.parts);
        ins.iter_mut().zip(&cand.row.ins).for_each(|(own, s)| own.push(*s));
        to.iter_mut().zip(&cand.row.outs).for_each(|(own, s)| own.push(*s));
    }
    Ok(Some(Choice {
        ins: ins.iter().map(|s| NdSbpId::of(s)).collect(),
        outs: to.iter().map(|s| NdSbpId::of(s)).collect(),
    }))
}

fn splits(s: Sbp, sizes: &[i64], n: i64, even: bool, small: bool) -> bool {
    match s {
        Sbp::S(d) => sizes.get(d as usize).is_some_and(|z| (small || *z >= n) && (!even || z % n == 0)),
        _ => true,
    }
}

/// The different sizes of the pieces of shards.
fn pieces(shards: &[Dims], s: Sbp, n: i64, parts: Parts) -> Vec<Dims> {
    let Sbp::S(d) = s else { return shards.to_vec() };
    let mut found: Vec<Dims> = Vec::new();
    for (shard, i) in shards.iter().flat_map(|z| (0..n).map(move |i| (z, i))) {
        let mut piece = shard.clone();
        piece[d as usize] = parts.part(shard[d as usize], n, i).1;
        if !found.contains(&piece) {
            found.push(piece);
        }
    }
    found
}

fn shrink(sizes: &mut Dims, s: Sbp, n: i64, parts: Parts) {
    if let Sbp::S(d) = s
        && let Some(z) = sizes.get_mut(d as usize)
    {
        let of = if parts == Parts::Balanced { n - 1 } else { 0 };
        *z = parts.part(*z, n, of).1;
    }
}

fn bytes(dtype: DType, sizes: &[i64]) -> f64 {
    sizes.iter().product::<i64>() as f64 * dtype.size() as f64
}

#[cold]
fn nothing_fits(c: &Call<'_>, layouts: &[Option<&[Sbp]>], rows: &[Candidate]) -> Error {
    let have: Vec<_> = layouts.iter().flatten().collect();
    let offered: Vec<String> = rows.iter().map(|r| format!("{:?} -> {:?}", r.row.ins, r.row.outs)).collect();
    Error::runtime(format!(
        "{}(): no SBP signature fits inputs with sbp {have:?} ({}); it offers {}",
        c.name(),
        c.describe(),
        offered.join(", ")
    ))
}
