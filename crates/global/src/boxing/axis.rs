//! One mesh axis changes its layout: one collective, with packing where the split dimension is not the leading one.

use super::bytes::{copy_at, cut, dense, dense_at, narrow, on, span, zeros};
use oneflow_base::{DType, Device, Dims, Error, PKind, Parts, Result, Sbp};
use oneflow_comm::{ProcessGroup, ReduceOp, Request, on_device, serves_device};
use oneflow_core::{Tensor, copy_into};
use std::sync::Arc;

/// This rank's place on the axis.
pub struct Axis<'a> {
    pub n: i64,
    pub coord: i64,
    /// How its ranks share a dimension.
    pub parts: Parts,
    /// Absent for an axis of one rank.
    pub group: Option<&'a Arc<dyn ProcessGroup>>,
}

impl Axis<'_> {
    /// Start and length of the part of a dimension that the rank at coordinate `i` has.
    pub fn part(&self, size: i64, i: i64) -> (i64, i64) {
        self.parts.part(size, self.n, i)
    }

    /// The part that this rank has.
    pub fn own(&self, size: i64) -> (i64, i64) {
        self.part(size, self.coord)
    }
}

/// The shard after the step. `sizes` are those of the tensor with this axis undone.
pub fn step(local: &Tensor, sizes: &[i64], from: Sbp, to: Sbp, axis: &Axis<'_>) -> Result<Tensor> {
    let device = local.device();
    let out = match (from, to) {
        (a, b) if a == b => return Ok(local.clone()),
        (Sbp::B, Sbp::S(d)) => {
            let (start, len) = axis.own(sizes[d as usize]);
            return dense(&narrow(local, d as usize, start, len)?);
        }
        (Sbp::B, Sbp::P(PKind::Sum)) if axis.coord == 0 => return dense(local),
        (Sbp::B, Sbp::P(PKind::Sum)) => return zeros(local.dtype(), device, sizes),
        (Sbp::S(d), Sbp::P(PKind::Sum)) => {
            let out = zeros(local.dtype(), device, sizes)?;
            let (start, len) = axis.own(sizes[d as usize]);
            copy_into(&narrow(&out, d as usize, start, len)?, local)?;
            return Ok(out);
        }
        _ if axis.n == 1 => return dense(local),
        (Sbp::P(kind), Sbp::B) => all_reduce(local, axis, kind)?,
        (Sbp::P(kind), Sbp::S(d)) => reduce_scatter(local, sizes, d as usize, axis, kind)?,
        (Sbp::S(d), Sbp::B) => all_gather(local, sizes, d as usize, axis)?,
        (Sbp::S(a), Sbp::S(b)) => all_to_all(local, sizes, a as usize, b as usize, axis)?,
        (a, b) => return Err(Error::runtime(format!("no boxing from {a:?} to {b:?}"))),
    };
    on(out, device)
}

/// Where the ranks of an axis exchange data.
pub(super) struct Meeting {
    group: Arc<dyn ProcessGroup>,
    pub(super) device: Device,
}

impl Meeting {
    /// On the shard's device where ranks can meet there, else in host memory. All ranks find the same: they have shards of one
    /// kind of device and dtype.
    pub(super) fn of(axis: &Axis<'_>, local: &Tensor, reduces: bool) -> Result<Meeting> {
        let group = axis.group.ok_or_else(|| Error::runtime("boxing: this rank is in no group of the mesh axis"))?;
        let device = local.device();
        // Devices add no short integers.
        let there = !device.is_cpu() && serves_device(device) && !(reduces && local.dtype() == DType::I16);
        match there {
            true => Ok(Meeting { group: on_device(group, device)?, device }),
            false => Ok(Meeting { group: group.clone(), device: Device::CPU }),
        }
    }

    pub(super) fn empty(&self, dtype: DType, sizes: &[i64]) -> Result<Tensor> {
        Tensor::empty(dtype, self.device, sizes)
    }

    pub(super) fn run(&self, request: Request) -> Result<()> {
        // SAFETY: the tensors of the request live until this returns, nobody else has the written one, and memory of a device
        // is given back in the order of this thread's queue, which comes after the operation.
        unsafe { self.group.run(request) }
    }
}

pub(super) fn reduce_op(kind: PKind) -> ReduceOp {
    match kind {
        PKind::Sum => ReduceOp::Sum,
        PKind::Max => ReduceOp::Max,
        PKind::Min => ReduceOp::Min,
    }
}

/// Elements of a dense tensor of `sizes` in which dimension `d` has each rank's length.
fn counts(sizes: &[i64], d: usize, axis: &Axis<'_>) -> Vec<usize> {
    let rest: i64 = sizes.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, s)| *s).product();
    (0..axis.n).map(|i| (axis.part(sizes[d], i).1 * rest) as usize).collect()
}

/// Returns true if the chunks along `d` are contiguous.
fn leading(sizes: &[i64], d: usize) -> bool {
    sizes[..d].iter().all(|s| *s == 1)
}

fn with_dim(sizes: &[i64], d: usize, n: i64) -> Dims {
    let mut out = Dims::from_slice(sizes);
    out[d] = n;
    out
}

/// Visits each rank's chunk along `d` of a dense flat buffer that holds the chunks one after the other.
fn pieces(
    flat: &Tensor,
    sizes: &[i64],
    d: usize,
    axis: &Axis<'_>,
    mut f: impl FnMut(&Tensor, i64, i64) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for i in 0..axis.n {
        let (start, len) = axis.part(sizes[d], i);
        let piece = with_dim(sizes, d, len);
        let count: i64 = piece.iter().product();
        let strides = oneflow_base::contiguous_strides(&piece);
        f(&flat.alias(piece, strides, at)?, start, len)?;
        at += count;
    }
    Ok(())
}

/// The chunks along `d`, one after the other.
fn pack(t: &Tensor, d: usize, axis: &Axis<'_>, device: Device) -> Result<Tensor> {
    if t.is_contiguous() && leading(t.sizes(), d) {
        return dense_at(t, device);
    }
    let t = dense_at(t, device)?;
    let flat = Tensor::empty(t.dtype(), device, &[t.numel()])?;
    pieces(&flat, t.sizes(), d, axis, |piece, start, len| copy_into(piece, &narrow(&t, d, start, len)?))?;
    Ok(flat)
}

/// A tensor of `sizes` from the chunks along `d`.
fn unpack(flat: Tensor, sizes: &[i64], d: usize, axis: &Axis<'_>) -> Result<Tensor> {
    if leading(sizes, d) {
        return flat.alias(Dims::from_slice(sizes), oneflow_base::contiguous_strides(sizes), 0);
    }
    let out = Tensor::empty(flat.dtype(), flat.device(), sizes)?;
    pieces(&flat, sizes, d, axis, |piece, start, len| copy_into(&narrow(&out, d, start, len)?, piece))?;
    Ok(out)
}

fn all_reduce(local: &Tensor, axis: &Axis<'_>, kind: PKind) -> Result<Tensor> {
    let at = Meeting::of(axis, local, true)?;
    let out = copy_at(local, at.device)?;
    at.run(Request::AllReduce { data: span(&out), dtype: out.dtype(), op: reduce_op(kind) })?;
    Ok(out)
}

fn reduce_scatter(local: &Tensor, sizes: &[i64], d: usize, axis: &Axis<'_>, kind: PKind) -> Result<Tensor> {
    let at = Meeting::of(axis, local, true)?;
    let packed = pack(local, d, axis, at.device)?;
    let (_, len) = axis.own(sizes[d]);
    let out = at.empty(local.dtype(), &with_dim(sizes, d, len))?;
    let (output, input, counts) = (span(&out), span(&packed), counts(sizes, d, axis));
    at.run(Request::ReduceScatter { output, input, counts, dtype: out.dtype(), op: reduce_op(kind) })?;
    Ok(out)
}

fn all_gather(local: &Tensor, sizes: &[i64], d: usize, axis: &Axis<'_>) -> Result<Tensor> {
    let at = Meeting::of(axis, local, false)?;
    let mine = dense_at(local, at.device)?;
    let flat = at.empty(local.dtype(), &[sizes.iter().product()])?;
    let (output, input, counts) = (span(&flat), span(&mine), counts(sizes, d, axis));
    at.run(Request::AllGather { output, input, counts, dtype: flat.dtype() })?;
    unpack(flat, sizes, d, axis)
}

fn all_to_all(local: &Tensor, sizes: &[i64], a: usize, b: usize, axis: &Axis<'_>) -> Result<Tensor> {
    let at = Meeting::of(axis, local, false)?;
    let packed = pack(local, b, axis, at.device)?;
    let (_, len) = axis.own(sizes[b]);
    let mine = with_dim(sizes, b, len);
    let flat = at.empty(local.dtype(), &[mine.iter().product()])?;
    let (send_counts, recv_counts) = (counts(local.sizes(), b, axis), counts(&mine, a, axis));
    let (output, input) = (span(&flat), span(&packed));
    at.run(Request::AllToAll { output, recv_counts, input, send_counts, dtype: flat.dtype() })?;
    unpack(flat, &mine, a, axis)
}

/// A dense copy of a box.
pub fn dense_cut(t: &Tensor, starts: &[i64], sizes: &[i64]) -> Result<Tensor> {
    dense(&cut(t, starts, sizes)?)
}
