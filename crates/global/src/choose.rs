//! Which rows an op runs with: axis after axis, the row whose boxing is cheapest, kept for equal calls.
//!
//! A row that all inputs match costs nothing and wins. One rule goes beyond a table of boxing costs: a split that no input
//! brought along is charged what gathering it again costs. Without it a replicated activation that meets a partial sum would
//! be scattered, because scattering is half an all-reduce, and every later op would be tempted to gather weights instead.

use crate::boxing::{UNSUPPORTED, axis_cost};
use crate::rows::{Candidate, candidates, later_candidates};
use crate::tensor::Spread;
use oneflow_base::{Attrs, DType, Dims, Error, NdSbpId, PlacementId, Result, Sbp, balanced_split};
use oneflow_core::{Call, OpDef, Row, Tensor};
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
    let chosen = decide(c, &now, outs, &placement.placement.hierarchy, dest, fixed)?.map(Rc::new);
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
    use oneflow_base::Arg;
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
    decide(c, now, outs, hierarchy, &[], 0)?.ok_or_else(|| Error::runtime(format!("{}(): no layout fits", c.name())))
}

/// All layouts that the op's rows offer for a call over a mesh of these sizes, each once.
pub fn choices(c: &Call<'_>, outs: &[Tensor], hierarchy: &[i64]) -> Result<Vec<Choice>> {
    let mut found: Vec<Choice> = Vec::new();
    offer(c, outs, hierarchy, Sizes::of(c, outs), &[], &mut |rows| {
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
    hierarchy: &[i64],
    sizes: Sizes,
    before: &[Row],
    each: &mut dyn FnMut(&[Row]),
) -> Result<()> {
    let Some(&n) = hierarchy.get(before.len()) else {
        each(before);
        return Ok(());
    };
    for cand in sizes.candidates(c, outs, before.len())? {
        if sizes.fit(&cand, n) {
            let rows: Vec<Row> = before.iter().chain([&cand.row]).cloned().collect();
            offer(c, outs, hierarchy, sizes.after(&cand.row, n), &rows, each)?;
        }
    }
    Ok(())
}

/// Sizes of inputs and outputs as some axes leave them, on the smallest shard.
#[derive(Clone)]
struct Sizes {
    ins: Vec<Dims>,
    outs: Vec<Dims>,
}

impl Sizes {
    fn of(c: &Call<'_>, outs: &[Tensor]) -> Sizes {
        Sizes {
            ins: c.ins.iter().map(|t| t.map_or(Dims::new(), |t| Dims::from_slice(t.sizes()))).collect(),
            outs: outs.iter().map(|t| Dims::from_slice(t.sizes())).collect(),
        }
    }

    /// The rows that an op offers to a mesh axis.
    fn candidates(&self, c: &Call<'_>, outs: &[Tensor], axis: usize) -> Result<Vec<Candidate>> {
        if axis > 0
            && let (Some(from), Some(to)) = (self.ins.first(), self.outs.first())
            && let Some(later) = later_candidates(c, outs, from, to)?
        {
            return Ok(later);
        }
        candidates(c, outs)
    }

    fn fit(&self, cand: &Candidate, n: i64) -> bool {
        let fits = |s: &Sbp, sizes: &Dims| splits(*s, sizes, n, cand.even);
        cand.row.ins.iter().zip(&self.ins).all(|(s, z)| fits(s, z))
            && cand.row.outs.iter().zip(&self.outs).all(|(s, z)| fits(s, z))
    }

    fn after(&self, row: &Row, n: i64) -> Sizes {
        let mut next = self.clone();
        next.ins.iter_mut().zip(&row.ins).for_each(|(z, s)| shrink(z, *s, n));
        next.outs.iter_mut().zip(&row.outs).for_each(|(z, s)| shrink(z, *s, n));
        next
    }
}

/// The layout of each input, where there is one.
type Layouts<'a> = SmallVec<[Option<&'a [Sbp]>; 4]>;

fn decide(
    c: &Call<'_>,
    layouts: &[Option<&[Sbp]>],
    outs: &[Tensor],
    hierarchy: &[i64],
    dest: &[NdSbpId],
    fixed: u64,
) -> Result<Option<Choice>> {
    let mut rows = candidates(c, outs)?;
    let dest: Vec<&[Sbp]> = dest.iter().map(|d| d.get().unwrap_or(&[])).collect();
    let mut sizes = Sizes::of(c, outs);
    let mut ins: Vec<Vec<Sbp>> = vec![Vec::new(); c.ins.len()];
    let mut to: Vec<Vec<Sbp>> = vec![Vec::new(); outs.len()];
    for (axis, &n) in hierarchy.iter().enumerate() {
        if axis > 0 {
            rows = sizes.candidates(c, outs, axis)?;
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
            if !fits_dest || !sizes.fit(cand, n) {
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
        sizes = sizes.after(&cand.row, n);
        ins.iter_mut().zip(&cand.row.ins).for_each(|(own, s)| own.push(*s));
        to.iter_mut().zip(&cand.row.outs).for_each(|(own, s)| own.push(*s));
    }
    Ok(Some(Choice {
        ins: ins.iter().map(|s| NdSbpId::of(s)).collect(),
        outs: to.iter().map(|s| NdSbpId::of(s)).collect(),
    }))
}

fn splits(s: Sbp, sizes: &[i64], n: i64, even: bool) -> bool {
    match s {
        // No shard is empty.
        Sbp::S(d) => sizes.get(d as usize).is_some_and(|z| *z >= n && (!even || z % n == 0)),
        _ => true,
    }
}

fn shrink(sizes: &mut Dims, s: Sbp, n: i64) {
    if let Sbp::S(d) = s
        && let Some(z) = sizes.get_mut(d as usize)
    {
        *z = balanced_split(*z, n, n - 1).1;
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
