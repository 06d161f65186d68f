//! A boxing step of several tensors at once, in one message each way: what the compiler makes of steps that follow each other.
//!
//! A bucket computes what its steps alone would: elements are packed, moved or reduced, and unpacked. A tensor whose shards lie
//! one after another and that is worth a message moves by itself between the operands' own memory, without a copy.

use super::axis::{Axis, Meeting, reduce_op};
use super::bytes::{narrow, span};
use super::nth_result;
use super::traced::{axis_of, decode, over};
use super::wire::goes_alone;
use crate::mesh::groups_at;
use crate::named::_box_axes as at;
use oneflow_base::{DeviceType, Dims, Error, PKind, PlacementId, Result, Sbp, contiguous_strides};
use oneflow_comm::Request;
use oneflow_core::kernels::{Launch, Primitive, Rest};
use oneflow_core::{Faces, Kernel, OpDef, Sig, Tensor, Traits, copy_into};

oneflow_core::kernels::params! {
    /// Of `BUCKET`: as of one step; the sizes of all tensors, one after another.
    BucketParams { axis: usize, source: i64, target: i64, placement: i64, world: usize, sizes: Rest<i64> }
}

pub(super) static BUCKET: Primitive = Primitive::new("box_axes");

pub static BOX_AXES: OpDef = OpDef {
    sig: Sig::parse(
        "_box_axes(Tensor[] inputs, int[] out_sizes, int[] sizes, int axis, int source, int target, int placement, int world) -> Tensor[]",
    ),
    doc: "One mesh axis of several shards under another layout; sizes as of `_box_axis`, those of all tensors in a row.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let mut left = c.ints(at::OUT_SIZES)?;
        for t in c.list(at::INPUTS).iter().flatten() {
            let (own, rest) =
                left.split_at_checked(t.ndim()).ok_or_else(|| Error::value("_box_axes(): sizes are missing"))?;
            outs.push(t.dtype(), t.device(), own)?;
            left = rest;
        }
        Ok(())
    },
    kernel: Kernel::Prim {
        prim: &BUCKET,
        lower: |c, outs, l| {
            for k in at::INPUTS.all(c.args) {
                l.input(k);
            }
            for k in 0..outs.len() {
                l.output(nth_result(k));
            }
            l.with(BucketParams {
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
    BUCKET.provide(DeviceType::CPU, run);
    BUCKET.provide(DeviceType::CUDA, run);
}

/// Returns true if steps of this kind can share a bucket.
pub fn fits_a_bucket(from: Sbp, to: Sbp) -> bool {
    matches!((from, to), (Sbp::P(_), Sbp::B | Sbp::S(_)) | (Sbp::S(_), Sbp::B))
}

unsafe fn run(l: &Launch<'_>) -> Result<()> {
    let BucketParams { axis, source, target, placement, world, sizes } = l.read()?;
    let (from, to, placement) = (decode(source), decode(target), PlacementId(placement as u32));
    let groups = groups_at(world, placement)
        .ok_or_else(|| Error::runtime("boxing in a plan: the process group it was traced with is gone"))?;
    let axis = axis_of(placement, axis, groups.get(axis).and_then(|g| g.as_ref()));
    let misfit = || Error::value(format!("plan: a bucket of boxing {from:?} to {to:?} does not fit its operands"));
    let mut left: &[i64] = &sizes.0;
    let mut tensors: Vec<Item> = Vec::with_capacity(l.ins.len());
    for k in 0..l.ins.len() {
        let (input, output) = (l.input(k)?, l.output(k)?);
        let (whole, rest) = left.split_at_checked(input.sizes.len()).ok_or_else(misfit)?;
        left = rest;
        // A plan may come from a file: its words are checked against its operands.
        let laid_out = |s: Sbp| {
            let mut out = Dims::from_slice(whole);
            if let Sbp::S(d) = s
                && let Some(z) = out.get_mut(d as usize)
            {
                *z = axis.own(*z).1;
            }
            out
        };
        let names_a_dim = |s: Sbp| !matches!(s, Sbp::S(d) if d as usize >= whole.len());
        let alike = tensors.first().is_none_or(|t| t.input.dtype() == input.dtype) && input.dtype == output.dtype;
        let sized = laid_out(from).as_slice() == input.sizes && laid_out(to).as_slice() == output.sizes;
        if !(names_a_dim(from) && names_a_dim(to) && alike && sized) {
            return Err(misfit());
        }
        // SAFETY: both tensors end with this function.
        let (input, output) = unsafe { (over(&input, l.queue.device)?, over(&output, l.queue.device)?) };
        tensors.push(Item { input, output, sizes: Dims::from_slice(whole) });
    }
    if !left.is_empty() || l.outs.len() != l.ins.len() || axis.group.map_or(1, |g| g.size() as i64) != axis.n {
        return Err(misfit());
    }
    if !fits_a_bucket(from, to) {
        return Err(misfit());
    }
    exchange(&tensors, from, to, &axis)
}

pub(super) struct Item {
    pub input: Tensor,
    pub output: Tensor,
    /// With the axis undone.
    pub sizes: Dims,
}

/// Makes the outputs of a step that fits a bucket.
pub(super) fn exchange(tensors: &[Item], from: Sbp, to: Sbp, axis: &Axis<'_>) -> Result<()> {
    let Some(first) = tensors.first() else { return Ok(()) };
    let meeting = Meeting::of(axis, &first.input, from.is_partial())?;
    let there = first.input.device() == meeting.device;
    let is_alone = |t: &&Item| there && goes_alone(&t.sizes, t.input.dtype(), from, to, tensors.len());
    let (alone, packed): (Vec<&Item>, Vec<&Item>) = tensors.iter().partition(is_alone);
    for t in alone {
        let (output, input, dtype) = (span(&t.output), span(&t.input), t.input.dtype());
        let counts = |d: u8| counts(&[t], d as usize, axis);
        meeting.run(match (from, to) {
            (Sbp::P(kind), Sbp::S(d)) => {
                Request::ReduceScatter { output, input, counts: counts(d), dtype, op: reduce_op(kind) }
            }
            (Sbp::P(kind), _) => {
                copy_into(&t.output, &t.input)?;
                Request::AllReduce { data: output, dtype, op: reduce_op(kind) }
            }
            (Sbp::S(d), _) => Request::AllGather { output, input, counts: counts(d), dtype },
            _ => return Ok(()),
        })?;
    }
    match (from, to) {
        _ if packed.is_empty() => Ok(()),
        (Sbp::P(kind), Sbp::S(d)) => reduce_scatter(&packed, d as usize, axis, &meeting, kind),
        (Sbp::P(kind), _) => all_reduce(&packed, &meeting, kind),
        (Sbp::S(d), _) => all_gather(&packed, d as usize, axis, &meeting),
        _ => Ok(()),
    }
}

fn flat(tensors: &[&Item], n: i64, at: &Meeting) -> Result<Tensor> {
    at.empty(tensors[0].input.dtype(), &[n])
}

/// The next elements of a flat buffer, in the shape of a tensor.
fn next(flat: &Tensor, sizes: &[i64], at: &mut i64) -> Result<Tensor> {
    let piece = flat.alias(Dims::from_slice(sizes), contiguous_strides(sizes), *at)?;
    *at += sizes.iter().product::<i64>();
    Ok(piece)
}

fn all_reduce(tensors: &[&Item], meeting: &Meeting, kind: PKind) -> Result<()> {
    let flat = flat(tensors, tensors.iter().map(|t| t.input.numel()).sum(), meeting)?;
    let mut at = 0;
    tensors.iter().try_for_each(|t| copy_into(&next(&flat, &t.sizes, &mut at)?, &t.input))?;
    meeting.run(Request::AllReduce { data: span(&flat), dtype: flat.dtype(), op: reduce_op(kind) })?;
    at = 0;
    tensors.iter().try_for_each(|t| copy_into(&t.output, &next(&flat, &t.sizes, &mut at)?))
}

/// Visits what each rank has of each tensor along `d`, rank by rank: a part of `whole` and its place in a flat buffer.
fn parts(
    tensors: &[&Item],
    d: usize,
    axis: &Axis<'_>,
    flat: &Tensor,
    whole: impl Fn(&Item) -> &Tensor,
    mut f: impl FnMut(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for rank in 0..axis.n {
        for t in tensors {
            let (start, len) = axis.part(t.sizes[d], rank);
            let part = narrow(whole(t), d, start, len)?;
            f(&part, &next(flat, part.sizes(), &mut at)?)?;
        }
    }
    Ok(())
}

/// By rank, the elements that it has of all tensors.
fn counts(tensors: &[&Item], d: usize, axis: &Axis<'_>) -> Vec<usize> {
    let of = |t: &&Item, rank| {
        let rest: i64 = t.sizes.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, s)| *s).product();
        (axis.part(t.sizes[d], rank).1 * rest) as usize
    };
    (0..axis.n).map(|rank| tensors.iter().map(|t| of(t, rank)).sum()).collect()
}

fn reduce_scatter(tensors: &[&Item], d: usize, axis: &Axis<'_>, meeting: &Meeting, kind: PKind) -> Result<()> {
    let packed = flat(tensors, tensors.iter().map(|t| t.input.numel()).sum(), meeting)?;
    parts(tensors, d, axis, &packed, |t| &t.input, |part, place| copy_into(place, part))?;
    let own = flat(tensors, tensors.iter().map(|t| t.output.numel()).sum(), meeting)?;
    let (output, input, counts) = (span(&own), span(&packed), counts(tensors, d, axis));
    meeting.run(Request::ReduceScatter { output, input, counts, dtype: own.dtype(), op: reduce_op(kind) })?;
    let mut at = 0;
    tensors.iter().try_for_each(|t| copy_into(&t.output, &next(&own, t.output.sizes(), &mut at)?))
}

fn all_gather(tensors: &[&Item], d: usize, axis: &Axis<'_>, meeting: &Meeting) -> Result<()> {
    let own = flat(tensors, tensors.iter().map(|t| t.input.numel()).sum(), meeting)?;
    let mut at = 0;
    tensors.iter().try_for_each(|t| copy_into(&next(&own, t.input.sizes(), &mut at)?, &t.input))?;
    let all = flat(tensors, tensors.iter().map(|t| t.output.numel()).sum(), meeting)?;
    let (output, input, counts) = (span(&all), span(&own), counts(tensors, d, axis));
    meeting.run(Request::AllGather { output, input, counts, dtype: all.dtype() })?;
    parts(tensors, d, axis, &all, |t| &t.output, copy_into)
}
