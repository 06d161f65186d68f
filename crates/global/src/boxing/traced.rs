//! A boxing step as an op on shards: what a trace records, and what a plan runs on its own threads.
//!
//! Everything the step needs stands in its arguments. The group is found by the world that traced it, because a plan's
//! threads belong to no rank.

use super::axis::{Axis, step};
use super::bucket::{Item, exchange, fits_a_bucket};
use crate::mesh::groups_at;
use crate::named::_box_axis as at;
use oneflow_base::{Arg, Device, DeviceType, Dims, Error, PKind, Parts, PlacementId, Result, Sbp};
use oneflow_comm::ProcessGroup;
use oneflow_core::kernels::{Launch, Primitive, Rest, View};
use oneflow_core::{Call, Faces, Kernel, OpDef, Sig, Storage, Tensor, Traits, bit, copy_into, redispatch, tls};
use std::sync::Arc;

/// Whether calls are recorded and not run.
pub fn tracing() -> bool {
    tls().on >> bit::LAZY & 1 == 1
}

/// The layers a shard's op goes through: the local one, and above it the trace that is under way.
pub fn below() -> u32 {
    1 << bit::LOCAL | (tracing() as u32) << bit::LAZY
}

oneflow_core::kernels::params! {
    /// Of `STEP`: the words of the layouts, the placement's number, the address of the group of all ranks.
    StepParams { axis: usize, source: i64, target: i64, placement: i64, world: usize, sizes: Rest<i64> }
}

pub(super) static STEP: Primitive = Primitive::new("box_axis");

pub static BOX_AXIS: OpDef = OpDef {
    sig: Sig::parse(
        "_box_axis(Tensor input, int[] out_sizes, int[] sizes, int axis, int source, int target, int placement, int world) -> Tensor",
    ),
    doc: "One mesh axis of a shard under another layout; `sizes` are those with the axis undone.",
    faces: Faces::PRIVATE,
    infer: |c, outs| outs.push(c.t(at::INPUT)?.dtype(), c.t(at::INPUT)?.device(), c.ints(at::OUT_SIZES)?),
    kernel: Kernel::Prim {
        prim: &STEP,
        lower: |c, _, l| {
            l.input(at::INPUT).output(at::RESULT);
            l.with(StepParams {
                axis: c.int(at::AXIS)? as usize,
                source: c.int(at::SOURCE)?,
                target: c.int(at::TARGET)?,
                placement: c.int(at::PLACEMENT)?,
                world: c.int(at::WORLD)? as usize,
                sizes: c.ints(at::SIZES)?.iter().copied().collect(),
            });
            Ok(())
        },
    },
    traits: Traits::COLLECTIVE.or(Traits::NEEDS_CONTIGUOUS),
    ..OpDef::BASE
};

pub fn register() {
    STEP.provide(DeviceType::CPU, run);
    STEP.provide(DeviceType::CUDA, run);
}

/// Records a step.
pub fn record(
    shard: &Tensor,
    sizes: &[i64],
    out_sizes: &[i64],
    axis: usize,
    from: Sbp,
    to: Sbp,
    placement: PlacementId,
) -> Result<Tensor> {
    let args = [
        Arg::Ints(out_sizes),
        Arg::Ints(sizes),
        Arg::Int(axis as i64),
        Arg::Int(code(from)),
        Arg::Int(code(to)),
        Arg::Int(placement.0 as i64),
        Arg::Int(crate::mesh::world_address() as i64),
    ];
    let mut outs = oneflow_core::Outs::new();
    redispatch(&Call::new(&BOX_AXIS, &[Some(shard)], &args), below(), &mut outs)?;
    outs.into_tensors().pop().ok_or_else(|| Error::runtime("boxing gave no result"))
}

fn code(s: Sbp) -> i64 {
    match s {
        Sbp::S(d) => d as i64,
        Sbp::B => -1,
        Sbp::P(PKind::Sum) => -2,
        Sbp::P(PKind::Max) => -3,
        Sbp::P(PKind::Min) => -4,
    }
}

pub(super) fn decode(code: i64) -> Sbp {
    match code {
        -1 => Sbp::B,
        -2 => Sbp::P_SUM,
        -3 => Sbp::P(PKind::Max),
        -4 => Sbp::P(PKind::Min),
        d => Sbp::S(d as u8),
    }
}

/// A mesh axis of a placement, seen by the rank that is in its group.
pub(super) fn axis_of(placement: PlacementId, axis: usize, group: Option<&Arc<dyn ProcessGroup>>) -> Axis<'_> {
    let placement = placement.get();
    Axis {
        n: placement.and_then(|p| p.hierarchy.get(axis).copied()).unwrap_or(1),
        coord: group.map_or(0, |g| g.rank() as i64),
        parts: placement.map_or(Parts::default(), |p| p.parts),
        group,
    }
}

/// A tensor over a kernel's operand.
///
/// # Safety
/// The tensor does not outlive the launch.
pub(super) unsafe fn over(v: &View<'_>, device: Device) -> Result<Tensor> {
    let reach: i64 = v.sizes.iter().zip(v.strides).map(|(n, s)| (n - 1).max(0) * s).sum();
    let bytes = if v.sizes.contains(&0) { 0 } else { (reach + 1) as usize * v.dtype.size() };
    // SAFETY: the view is valid for the launch, which the tensor does not outlive.
    let storage = unsafe { Storage::foreign(device, v.ptr, bytes, Box::new(())) };
    Tensor::from_storage(storage, v.dtype, Dims::from_slice(v.sizes), Dims::from_slice(v.strides), 0)
}

unsafe fn run(l: &Launch<'_>) -> Result<()> {
    let StepParams { axis, source, target, placement, world, sizes } = l.read()?;
    let (from, to, placement) = (decode(source), decode(target), PlacementId(placement as u32));
    let sizes: Dims = sizes.0.into_iter().collect();
    let groups = groups_at(world, placement)
        .ok_or_else(|| Error::runtime("boxing in a plan: the process group it was traced with is gone"))?;
    let axis = axis_of(placement, axis, groups.get(axis).and_then(|g| g.as_ref()));
    // A plan may come from a file: its words are checked against its operands.
    let laid_out = |s: Sbp| {
        let mut out = sizes.clone();
        if let Sbp::S(d) = s
            && let Some(z) = out.get_mut(d as usize)
        {
            *z = axis.own(*z).1;
        }
        out
    };
    let names_a_dim = |s: Sbp| !matches!(s, Sbp::S(d) if d as usize >= sizes.len());
    let fits = names_a_dim(from)
        && names_a_dim(to)
        && axis.group.map_or(1, |g| g.size() as i64) == axis.n
        && laid_out(from).as_slice() == l.input(0)?.sizes
        && laid_out(to).as_slice() == l.output(0)?.sizes;
    if !fits {
        return Err(Error::value(format!("plan: boxing {from:?} to {to:?} does not fit its operands")));
    }
    // SAFETY: both tensors end with this function.
    let (input, output) = unsafe { (over(&l.input(0)?, l.queue.device)?, over(&l.output(0)?, l.queue.device)?) };
    if axis.n > 1 && fits_a_bucket(from, to) {
        return exchange(&[Item { input, output, sizes }], from, to, &axis);
    }
    copy_into(&output, &step(&input, &sizes, from, to, &axis)?)
}
