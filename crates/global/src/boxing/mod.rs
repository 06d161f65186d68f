//! The boxing planner: any layout of a global tensor into any other. One module for eager execution and for the compiler.
//!
//! Within one placement a change is a path of one-axis collectives, the cheapest by the cost table. Between placements parts
//! travel by send and receive. All ranks of the world call it in the same order, also those that hold nothing.

mod axis;
pub(crate) mod bucket;
pub(crate) mod bytes;
mod circle;
mod cost;
mod cross;
pub(crate) mod traced;
pub(crate) mod traced_cross;
mod wire;

pub use bucket::{BOX_AXES, fits_a_bucket};
pub use circle::{Circle, circle};
pub use cost::{Step, UNSUPPORTED, axis_cost, cheapest_path};

use crate::mesh::{axis_groups, my_coords, part};
use crate::tensor::{Spread, expect_global, make};
use oneflow_base::{Device, Error, Result, Sbp};
use oneflow_core::{Out, Tensor};
pub use traced::tracing;
pub use traced_cross::{pass_moves, traced_moves};
pub use wire::{AxisMove, CrossMove, Message, Transfer, Wire, lane, wire};

/// The position of a result of a bucket, which has as many as it has inputs.
fn nth_result(k: usize) -> Out {
    Out::nth(k)
}

/// The tensor under another placement or SBP: itself where nothing changes.
pub fn boxed(t: &Tensor, to: Spread) -> Result<Tensor> {
    let g = expect_global(t, "boxing")?;
    if g.spread == to {
        return Ok(t.clone());
    }
    let to = to.check(t.sizes(), "boxing")?;
    crate::fingerprints::boxing(t, g.spread, to);
    let one_placement = g.spread.placement_id == to.placement_id || same_parts(t.sizes(), g.spread, to);
    let local = if one_placement {
        within(g.local.as_ref(), t, g.spread, to.sbp)?
    } else {
        between(g.local.as_ref(), t, g.spread, to)?
    };
    make(t, t.sizes(), to, local)
}

/// Whether two placements of the same ranks give each the same part under the layout of the second: then it is one placement for
/// this tensor.
fn same_parts(sizes: &[i64], from: Spread, to: Spread) -> bool {
    let same = |rank: &u32| {
        let coords = to.placement.coords(*rank).unwrap_or_default();
        part(sizes, from.placement, to.sbp, &coords) == part(sizes, to.placement, to.sbp, &coords)
    };
    from.placement_id.of_ranks() == to.placement_id.of_ranks() && to.placement.ranks.iter().all(same)
}

fn within(local: Option<&Tensor>, t: &Tensor, from: Spread, to: &[Sbp]) -> Result<Option<Tensor>> {
    let hierarchy = &from.placement.hierarchy;
    let bytes = (t.numel() as usize * t.dtype().size()) as f64;
    let (path, _) = cheapest_path(from.sbp, to, bytes, hierarchy)?;
    let groups = axis_groups(from.placement_id, from.placement)?;
    let (Some(local), Some(coords)) = (local, my_coords(from.placement)) else { return Ok(None) };
    if local.device().is_meta() {
        return Tensor::empty(local.dtype(), local.device(), &part(t.sizes(), from.placement, to, &coords).sizes)
            .map(Some);
    }
    let mut cur: Vec<Sbp> = from.sbp.to_vec();
    let mut shard = local.clone();
    for step in path {
        let k = step.axis;
        cur[k] = Sbp::B;
        let whole = part(t.sizes(), from.placement, &cur, &coords).sizes;
        cur[k] = step.to;
        shard = if traced::tracing() {
            let out = part(t.sizes(), from.placement, &cur, &coords).sizes;
            traced::record(&shard, &whole, &out, k, step.from, step.to, from.placement_id)?
        } else {
            let axis = axis::Axis {
                n: hierarchy[k],
                coord: coords[k],
                parts: from.placement.parts,
                group: groups[k].as_ref(),
            };
            axis::step(&shard, &whole, step.from, step.to, &axis)?
        };
    }
    Ok(Some(shard))
}

fn between(local: Option<&Tensor>, t: &Tensor, from: Spread, to: Spread) -> Result<Option<Tensor>> {
    if to.sbp.iter().any(|s| matches!(s, Sbp::P(k) if *k != oneflow_base::PKind::Sum)) {
        return Err(Error::runtime(format!("no boxing to {:?} on another placement", to.sbp)));
    }
    // Partial axes are reduced where they are, each rank keeping a part where that is possible.
    let mut reduced = Vec::new();
    for (axis, s) in from.sbp.iter().enumerate() {
        let n = from.placement.hierarchy[axis];
        let free = |d: &usize| t.sizes()[*d] >= n && !from.sbp.contains(&Sbp::S(*d as u8));
        reduced.push(match s {
            Sbp::P(_) if !reduced.iter().any(|r| matches!(r, Sbp::S(_))) => {
                (0..t.ndim()).find(free).map_or(Sbp::B, |d| Sbp::S(d as u8))
            }
            Sbp::P(_) => Sbp::B,
            s => *s,
        });
    }
    let middle = from.with(&reduced)?;
    let local = if middle == from { local.cloned() } else { within(local, t, from, middle.sbp)? };
    let c = cross::Cross { sizes: t.sizes(), dtype: t.dtype(), from: middle, to, tag: cross::TAG };
    if traced::tracing() {
        return traced_cross::record(local.as_ref(), &c);
    }
    let (shard, sends) = cross::cross(local.as_ref(), &c, &*oneflow_comm::world())?;
    sends.iter().try_for_each(|work| work.wait(None))?;
    shard.map(|t| bytes::on(t, local_device(to.placement.kind))).transpose()
}

/// This rank's device of a kind.
pub fn local_device(kind: oneflow_base::DeviceType) -> Device {
    if kind == oneflow_base::DeviceType::CPU || kind == oneflow_base::DeviceType::META {
        return Device::new(kind, 0);
    }
    let local_rank = oneflow_comm::rendezvous::Launch::from_env().map_or(0, |launch| launch.local_rank);
    Device::new(kind, local_rank as u16)
}
