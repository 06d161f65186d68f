//! Boxing between placements: every rank that needs a part gets it from ranks that hold it, by send and receive.

use super::axis::dense_cut;
use super::bytes::{bytes, bytes_mut, cut, host, host_empty, zeros};
use crate::mesh::{Part, part};
use crate::tensor::Spread;
use oneflow_base::{DType, Device, Dims, Error, Result, Sbp};
use oneflow_comm::{ProcessGroup, Request, Span, Work};
use oneflow_core::{Tensor, copy_into};

/// Of moves that run when they are called: they meet in the order of the calls.
pub const TAG: u32 = 0x0F10;

/// A tensor on its way between two placements.
pub struct Cross<'a> {
    pub sizes: &'a [i64],
    pub dtype: DType,
    /// Has no partial axis.
    pub from: Spread,
    pub to: Spread,
    pub tag: u32,
}

/// The shard under the new layout, in host memory, and the sends under way: they own what they send.
pub fn cross(local: Option<&Tensor>, c: &Cross<'_>, world: &dyn ProcessGroup) -> Result<(Option<Tensor>, Vec<Work>)> {
    let &Cross { sizes, dtype, from, to, tag } = c;
    let me = world.rank() as u32;
    let mut outgoing: Vec<Work> = Vec::new();
    let mut incoming: Vec<(Tensor, Part, Work)> = Vec::new();
    let mut out: Option<(Tensor, Part)> = None;
    if let Some(coords) = to.placement.coords(me) {
        let mine = part(sizes, to.placement, to.sbp, &coords);
        let made = match holds_value(to.sbp, &coords) {
            true => host_empty(dtype, &mine.sizes)?,
            false => zeros(dtype, Device::CPU, &mine.sizes)?,
        };
        out = Some((made, mine));
    }
    let held = local.map(host).transpose()?;
    for (i, rank) in to.placement.ranks.iter().copied().enumerate() {
        let Some(coords) = to.placement.coords(rank) else { continue };
        if !holds_value(to.sbp, &coords) {
            continue;
        }
        let wanted = part(sizes, to.placement, to.sbp, &coords);
        for (owner, has) in owners(from, sizes, rank, i) {
            if owner != me && rank != me {
                continue;
            }
            let Some(common) = wanted.meet(&has) else { continue };
            let inside = |of: &Part| -> Dims { common.starts.iter().zip(&of.starts).map(|(a, b)| a - b).collect() };
            let piece = match (&held, owner == me) {
                (Some(t), true) => Some(dense_cut(t, &inside(&has), &common.sizes)?),
                (None, true) => return Err(Error::runtime("boxing: this rank should hold a shard and does not")),
                _ => None,
            };
            match (piece, &out) {
                (Some(piece), Some((out, mine))) if rank == me => {
                    copy_into(&cut(out, &inside(mine), &common.sizes)?, &piece)?;
                }
                (Some(piece), _) => {
                    let request = Request::Send { data: Span::of(bytes(&piece)), dtype, dst: rank as usize, tag };
                    // SAFETY: the piece was made here and is kept until the work is complete.
                    let work = unsafe { world.issue(request)? };
                    work.keep_alive(Box::new(piece));
                    outgoing.push(work);
                }
                (None, _) => {
                    let buffer = host_empty(dtype, &common.sizes)?;
                    // SAFETY: the buffer was made here and is kept until the work is complete.
                    let data = Span::of_mut(unsafe { bytes_mut(&buffer) });
                    let request = Request::Recv { data, dtype, src: owner as usize, tag };
                    // SAFETY: as above.
                    let work = unsafe { world.issue(request)? };
                    work.keep_alive(Box::new(buffer.clone()));
                    incoming.push((buffer, common, work));
                }
            }
        }
    }
    for (buffer, common, work) in incoming {
        work.wait(None)?;
        if let Some((out, mine)) = &out {
            let at: Dims = common.starts.iter().zip(&mine.starts).map(|(a, b)| a - b).collect();
            copy_into(&cut(out, &at, &common.sizes)?, &buffer)?;
        }
    }
    Ok((out.map(|(t, _)| t), outgoing))
}

/// A partial result is the value on the first coordinate and zero elsewhere.
pub(super) fn holds_value(sbp: &[Sbp], coords: &[i64]) -> bool {
    sbp.iter().zip(coords).all(|(s, c)| !s.is_partial() || *c == 0)
}

/// The ranks that together hold the tensor for one receiver, and what each holds. Of replicas, the receiver itself where it
/// is one, else they take turns.
pub(super) fn owners(from: Spread, sizes: &[i64], receiver: u32, index: usize) -> Vec<(u32, Part)> {
    let h = &from.placement.hierarchy;
    let own = from.placement.coords(receiver);
    let replica = |axis: usize| own.as_ref().map_or(index as i64 % h[axis], |c| c[axis]);
    from.placement
        .ranks
        .iter()
        .filter_map(|r| Some((*r, from.placement.coords(*r)?)))
        .filter(|(_, c)| (0..h.len()).all(|a| matches!(from.sbp[a], Sbp::S(_)) || c[a] == replica(a)))
        .map(|(r, c)| (r, part(sizes, from.placement, from.sbp, &c)))
        .collect()
}
