//! Which rows an op runs with: axis after axis, the row whose boxing is cheapest, kept for equal calls.
//!
//! A row that all inputs match costs nothing and wins. One rule goes beyond a table of boxing costs: a split that no input
//! brought along is charged what gathering it again costs. Without it a replicated activation that meets a partial sum would
//! be scattered, because scattering is half an all-reduce, and every later op would be tempted to gather weights instead.

use crate::boxing::{UNSUPPORTED, axis_cost};
use crate::rows::{Candidate, candidates, later_candidates};
use crate::tensor::Spread;
use oneflow_base::{Attrs, DType, Dims, Error, NdSbpId, PlacementId, Result, Sbp, balanced_split};
use oneflow_core::{Call, OpDef, Tensor};
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
    // Sizes as the axes before this one leave them, on the smallest shard.
    let mut in_sizes: Vec<Dims> =
        c.ins.iter().map(|t| t.map_or(Dims::new(), |t| Dims::from_slice(t.sizes()))).collect();
    let mut out_sizes: Vec<Dims> = outs.iter().map(|t| Dims::from_slice(t.sizes())).collect();
    let mut ins: Vec<Vec<Sbp>> = vec![Vec::new(); c.ins.len()];
    let mut to: Vec<Vec<Sbp>> = vec![Vec::new(); outs.len()];
    for (axis, &n) in hierarchy.iter().enumerate() {
        if axis > 0
            && let (Some(from), Some(to)) = (in_sizes.first(), out_sizes.first())
            && let Some(later) = later_candidates(c, outs, from, to)?
        {
            rows = later;
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
            let fits = |s: &Sbp, sizes: &Dims| splits(*s, sizes, n, cand.even);
            let fits_shape = row.ins.iter().zip(&in_sizes).all(|(s, z)| fits(s, z))
                && row.outs.iter().zip(&out_sizes).all(|(s, z)| fits(s, z));
            if !fits_dest || !fits_shape {
                continue;
            }
            let mut cost = 0.0;
            let mut split_in = false;
            for (i, t) in c.ins.iter().enumerate() {
                if let Some(t) = t {
                    split_in |= matches!(now(i), Sbp::S(_));
                    cost += axis_cost(now(i), row.ins[i], bytes(t.dtype(), &in_sizes[i]), of);
                }
            }
            if dest.is_empty() && !split_in {
                for (o, s) in row.outs.iter().enumerate() {
                    if matches!(s, Sbp::S(_)) {
                        cost += axis_cost(*s, Sbp::B, bytes(outs[o].dtype(), &out_sizes[o]), of);
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
        for (i, s) in cand.row.ins.iter().enumerate() {
            shrink(&mut in_sizes[i], *s, n);
            ins[i].push(*s);
        }
        for (o, s) in cand.row.outs.iter().enumerate() {
            shrink(&mut out_sizes[o], *s, n);
            to[o].push(*s);
        }
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
