//! What a recorded boxing step sends, for whoever prices or simulates a program: by its arguments alone, for any rank.
//!
//! Bytes are those that `comm` counts for up to 16 ranks, a ring's; the time of a step is the cost model's
//! (`Transfer::seconds`), which the planner of layouts shares.

use super::bucket::{BOX_AXES, fits_a_bucket};
use super::cost::Step;
use super::cross::{holds_value, owners};
use super::traced::{BOX_AXIS, decode};
use super::traced_cross::{RECEIVE, SEND};
use crate::mesh::{address, groups_at, lines, part};
use crate::named::{_box_axes, _box_axis, _cross_receive};
use crate::tensor::Spread;
use oneflow_base::{DType, Dims, Error, NdSbpId, Placement, PlacementId, Result, Sbp, balanced_split};
use oneflow_core::Call;

/// A boxing step of a program.
#[derive(Clone, Debug)]
pub enum Wire {
    Axis(AxisMove),
    Cross(CrossMove),
}

/// A collective along one mesh axis, or work of each rank alone where nothing is sent.
#[derive(Clone, Debug)]
pub struct AxisMove {
    pub placement_id: PlacementId,
    pub placement: &'static Placement,
    pub axis: usize,
    pub from: Sbp,
    pub to: Sbp,
    pub dtype: DType,
    /// Of this rank's tensor with the axis undone, and those of the other tensors of a bucket.
    pub sizes: Dims,
    pub others: Vec<Dims>,
}

/// A move between placements. All ranks know it by `number`.
#[derive(Clone, Debug)]
pub struct CrossMove {
    pub number: u32,
    pub from: Spread,
    pub to: Spread,
    pub dtype: DType,
    pub sizes: Dims,
}

/// One message of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub source: u32,
    pub target: u32,
    pub bytes: u64,
}

/// The alpha-beta cost of a collective step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Messages that follow one another.
    pub rounds: f64,
    /// Bytes that one rank sends.
    pub bytes: f64,
}

impl Transfer {
    /// Of a change of one axis of `n` ranks, of a tensor that has `bytes` bytes with the axis undone. Taking one's own part of
    /// what is there moves nothing, and neither does adding zeros to it.
    pub fn of(step: &Step, bytes: f64, n: i64) -> Transfer {
        let others = (n - 1) as f64;
        let rounds = others * if step.from.is_partial() && step.to == Sbp::B { 2.0 } else { 1.0 };
        let share = bytes * others / n as f64;
        match (step.from, step.to) {
            _ if n == 1 || step.from == step.to => Transfer::default(),
            (Sbp::S(_), Sbp::S(_)) => Transfer { rounds, bytes: share / n as f64 },
            (Sbp::S(_), Sbp::B) | (Sbp::P(_), Sbp::S(_)) => Transfer { rounds, bytes: share },
            (Sbp::P(_), Sbp::B) => Transfer { rounds, bytes: 2.0 * share },
            _ => Transfer::default(),
        }
    }

    /// Returns true if each rank sends to the next one alone; else each sends to every other one.
    pub fn is_ring(from: Sbp, to: Sbp) -> bool {
        !matches!((from, to), (Sbp::S(_), Sbp::S(_)))
    }

    /// The time over links of this latency in seconds and bandwidth in bytes a second.
    pub fn seconds(&self, latency: f64, bandwidth: f64) -> f64 {
        if self.rounds == 0.0 { 0.0 } else { latency * self.rounds + self.bytes / bandwidth }
    }
}

/// What a call of a program sends; `None` for calls that are no boxing step.
///
/// # Errors
/// ValueError: its arguments name no placement or layout.
pub fn wire(c: &Call<'_>) -> Result<Option<Wire>> {
    if std::ptr::eq(c.op, &BOX_AXIS) {
        use _box_axis as at;
        let placement_id = PlacementId(c.int(at::PLACEMENT)? as u32);
        let placement = placement_id.get().ok_or_else(|| Error::value("boxing over an unknown placement"))?;
        let axis = c.int(at::AXIS)? as usize;
        if axis >= placement.hierarchy.len() {
            return Err(Error::value(format!("{placement} has no mesh axis {axis}")));
        }
        return Ok(Some(Wire::Axis(AxisMove {
            placement_id,
            placement,
            axis,
            from: decode(c.int(at::SOURCE)?),
            to: decode(c.int(at::TARGET)?),
            dtype: c.t(at::INPUT)?.dtype(),
            sizes: Dims::from_slice(c.ints(at::SIZES)?),
            others: Vec::new(),
        })));
    }
    if std::ptr::eq(c.op, &BOX_AXES) {
        use _box_axes as at;
        let placement_id = PlacementId(c.int(at::PLACEMENT)? as u32);
        let placement = placement_id.get().ok_or_else(|| Error::value("boxing over an unknown placement"))?;
        let axis = c.int(at::AXIS)? as usize;
        if axis >= placement.hierarchy.len() {
            return Err(Error::value(format!("{placement} has no mesh axis {axis}")));
        }
        let (mut left, mut all) = (c.ints(at::SIZES)?, Vec::new());
        for t in c.list(at::INPUTS).iter().flatten() {
            let own = left.split_at_checked(t.ndim());
            let (own, rest) = own.ok_or_else(|| Error::value("a bucket of boxing without the sizes of a tensor"))?;
            all.push(Dims::from_slice(own));
            left = rest;
        }
        let mut all = all.into_iter();
        let empty = || Error::value("a bucket of boxing without a tensor");
        return Ok(Some(Wire::Axis(AxisMove {
            placement_id,
            placement,
            axis,
            from: decode(c.int(at::SOURCE)?),
            to: decode(c.int(at::TARGET)?),
            dtype: c.t(at::INPUTS.first())?.dtype(),
            sizes: all.next().ok_or_else(empty)?,
            others: all.collect(),
        })));
    }
    if std::ptr::eq(c.op, &SEND) || std::ptr::eq(c.op, &RECEIVE) {
        use _cross_receive as at;
        let spread = |placement: i64, sbp: i64| Spread::new(PlacementId(placement as u32), NdSbpId(sbp as u32));
        return Ok(Some(Wire::Cross(CrossMove {
            number: c.int(at::NUMBER)? as u32,
            from: spread(c.int(at::SOURCE)?, c.int(at::SOURCE_SBP)?)?,
            to: spread(c.int(at::TARGET)?, c.int(at::TARGET_SBP)?)?,
            dtype: c.arg(at::DTYPE).dtype().ok_or_else(|| Error::type_("a move without a dtype"))?,
            sizes: Dims::from_slice(c.ints(at::SIZES)?),
        })));
    }
    Ok(None)
}

/// The group in which a call of a program talks, by its address: calls of one group must keep their order. `None` for calls
/// that send nothing.
///
/// # Errors
/// ValueError: its arguments name no placement or layout.
pub fn lane(c: &Call<'_>) -> Result<Option<usize>> {
    Ok(match wire(c)? {
        Some(Wire::Axis(m)) if m.sends() => {
            let bucket = std::ptr::eq(c.op, &BOX_AXES);
            let world = c.int(if bucket { _box_axes::WORLD } else { _box_axis::WORLD })? as usize;
            let groups = groups_at(world, m.placement_id);
            let group = groups.as_ref().and_then(|g| g.get(m.axis)).and_then(Option::as_ref);
            Some(group.map_or(world, address))
        }
        Some(Wire::Axis(_)) | None => None,
        Some(Wire::Cross(_)) => Some(c.int(_cross_receive::WORLD)? as usize),
    })
}

/// Bytes of a tensor that are worth a message of its own.
const ALONE: u64 = 64 << 10;

/// Returns true if a tensor of these whole sizes, one of `n_tensors` of a step that fits a bucket, moves without being packed: its
/// shards lie one after another.
pub(super) fn goes_alone(sizes: &[i64], dtype: DType, from: Sbp, to: Sbp, n_tensors: usize) -> bool {
    let leading = |s: Sbp| !matches!(s, Sbp::S(d) if sizes.iter().take(d as usize).any(|n| *n != 1));
    let bytes = sizes.iter().product::<i64>() as u64 * dtype.size() as u64;
    (n_tensors == 1 || bytes >= ALONE) && leading(from) && leading(to)
}

impl AxisMove {
    /// The number of ranks that take part.
    pub fn n(&self) -> i64 {
        self.placement.hierarchy[self.axis]
    }

    /// Returns true if ranks talk; else each takes its part of what it has.
    pub fn sends(&self) -> bool {
        self.n() > 1 && self.from != self.to && self.from != Sbp::B && !self.to.is_partial()
    }

    /// The collective by its usual name.
    pub fn name(&self) -> &'static str {
        match (self.from, self.to) {
            _ if !self.sends() => "own part",
            (Sbp::P(_), Sbp::B) => "all_reduce",
            (Sbp::P(_), _) => "reduce_scatter",
            (_, Sbp::B) => "all_gather",
            _ => "all_to_all",
        }
    }

    /// The groups of ranks that talk.
    pub fn groups(&self) -> Vec<Vec<u32>> {
        lines(self.placement, self.axis)
    }

    pub fn transfer(&self) -> Transfer {
        let step = Step { axis: self.axis, from: self.from, to: self.to };
        let all = Transfer::of(&step, self.whole() as f64 * self.dtype.size() as f64, self.n());
        let n_packed = self.packed().count();
        let n_messages = 1 + self.others.len() - n_packed + n_packed.min(1);
        Transfer { rounds: all.rounds * n_messages as f64, ..all }
    }

    /// The tensors of the step: one, unless it is a bucket.
    pub fn tensors(&self) -> impl Iterator<Item = &Dims> {
        std::iter::once(&self.sizes).chain(&self.others)
    }

    /// The tensors that are packed into one message.
    fn packed(&self) -> impl Iterator<Item = &Dims> {
        let n_tensors = 1 + self.others.len();
        let alone = move |sizes: &Dims| {
            fits_a_bucket(self.from, self.to) && goes_alone(sizes, self.dtype, self.from, self.to, n_tensors)
        };
        self.tensors().filter(move |sizes| !alone(sizes))
    }

    /// Elements of all tensors with the axis undone.
    fn whole(&self) -> i64 {
        self.tensors().map(|sizes| self.elements(sizes)).sum()
    }

    /// Elements that the rank at `coord` has of all tensors under a layout.
    fn shards(&self, s: Sbp, coord: i64) -> i64 {
        self.tensors().map(|sizes| self.shard(sizes, s, coord).1).sum()
    }

    fn elements(&self, sizes: &[i64]) -> i64 {
        sizes.iter().product()
    }

    /// Elements of the shard of `sizes` that the rank at `coord` has under a layout.
    fn shard(&self, sizes: &[i64], s: Sbp, coord: i64) -> (Dims, i64) {
        let mut own = Dims::from_slice(sizes);
        if let Sbp::S(d) = s
            && let Some(z) = own.get_mut(d as usize)
        {
            *z = self.placement.parts.part(*z, self.n(), coord).1;
        }
        let n = self.elements(&own);
        (own, n)
    }

    /// Bytes that the rank at `coord` of its group sends.
    pub fn sent(&self, coord: i64) -> u64 {
        let (n, whole) = (self.n(), self.whole());
        let elements = match (self.from, self.to) {
            _ if !self.sends() => 0,
            (Sbp::S(_), Sbp::B) => self.shards(self.from, coord) * (n - 1),
            (Sbp::P(_), Sbp::S(_)) => whole - self.shards(self.to, coord),
            (Sbp::P(_), _) => {
                let own = balanced_split(whole, n, coord).1;
                whole - own + own * (n - 1)
            }
            _ => {
                let (sizes, n) = self.shard(&self.sizes, self.from, coord);
                n - self.shard(&sizes, self.to, coord).1
            }
        };
        elements as u64 * self.dtype.size() as u64
    }

    /// Bytes that the step takes on the rank at `coord` beside its input and its result.
    pub fn scratch(&self, coord: i64) -> u64 {
        let leading = |s: Sbp| matches!(s, Sbp::S(d) if self.sizes[..d as usize].iter().all(|n| *n == 1));
        let (have, make) = (self.shards(self.from, coord), self.shards(self.to, coord));
        if self.sends() && fits_a_bucket(self.from, self.to) {
            // What is packed, and where it is not the same what comes.
            let of = |s: Sbp| self.packed().map(|sizes| self.shard(sizes, s, coord).1).sum::<i64>();
            let come = if self.to == Sbp::B && self.from.is_partial() { 0 } else { of(self.to) };
            return (of(self.from) + come) as u64 * self.dtype.size() as u64;
        }
        let once = |skip: bool, n: i64| if skip { 0 } else { n };
        let elements = match (self.from, self.to) {
            (Sbp::S(_), Sbp::S(_)) if self.sends() => {
                once(leading(self.to), have) + make + once(leading(self.from), make)
            }
            _ => make,
        };
        elements as u64 * self.dtype.size() as u64
    }
}

impl CrossMove {
    /// Every message between two ranks.
    pub fn messages(&self) -> Vec<Message> {
        let (to, mut found) = (self.to.placement, Vec::new());
        for (i, rank) in to.ranks.iter().copied().enumerate() {
            let Some(coords) = to.coords(rank).filter(|c| holds_value(self.to.sbp, c)) else { continue };
            let wanted = part(&self.sizes, to, self.to.sbp, &coords);
            for (owner, has) in owners(self.from, &self.sizes, rank, i) {
                if owner == rank {
                    continue;
                }
                if let Some(common) = wanted.meet(&has) {
                    let bytes = common.sizes.iter().product::<i64>() as u64 * self.dtype.size() as u64;
                    found.push(Message { source: owner, target: rank, bytes });
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boxing::axis_cost;
    use oneflow_base::DeviceType;

    fn step(from: Sbp, to: Sbp, sizes: &[i64], n: u32) -> AxisMove {
        let placement = Placement::new(DeviceType::CPU, (0..n).collect(), &[n as i64]).unwrap();
        let placement_id = placement.id();
        let placement = placement_id.get().unwrap();
        AxisMove {
            placement_id,
            placement,
            axis: 0,
            from,
            to,
            dtype: DType::F32,
            sizes: Dims::from_slice(sizes),
            others: Vec::new(),
        }
    }

    #[test]
    fn all_ranks_together_send_what_the_table_says() {
        let cases = [(Sbp::P_SUM, Sbp::B), (Sbp::P_SUM, Sbp::S(0)), (Sbp::S(0), Sbp::B), (Sbp::S(0), Sbp::S(1))];
        for (from, to) in cases {
            for (sizes, n) in [([12, 8], 4), ([7, 5], 3)] {
                let m = step(from, to, &sizes, n);
                let bytes = (sizes[0] * sizes[1] * 4) as f64;
                let sent: u64 = (0..n as i64).map(|c| m.sent(c)).sum();
                let table = axis_cost(from, to, bytes, n as i64);
                // Uneven parts of a transposition overlap by other numbers than their mean.
                if sizes == [12, 8] || !matches!(to, Sbp::S(1)) {
                    assert_eq!(sent as f64, table, "{from:?} to {to:?} of {sizes:?} over {n}");
                }
                assert!((m.transfer().bytes - table / n as f64).abs() < 1e-9);
            }
        }
        assert_eq!(step(Sbp::B, Sbp::S(0), &[8], 2).sent(0), 0);
    }

    #[test]
    fn messages_of_a_move() {
        let place = |ranks: Vec<u32>| Placement::new(DeviceType::CPU, ranks, &[2]).unwrap().id();
        let spread = |p, s: Sbp| Spread::new(p, NdSbpId::of(&[s])).unwrap();
        let (a, b) = (place(vec![0, 1]), place(vec![2, 3]));
        let m = CrossMove {
            number: 1,
            from: spread(a, Sbp::S(0)),
            to: spread(b, Sbp::B),
            dtype: DType::F32,
            sizes: Dims::from_slice(&[4, 2]),
        };
        let found: Vec<_> = m.messages().into_iter().map(|m| (m.source, m.target, m.bytes)).collect();
        assert_eq!(found, [(0, 2, 16), (1, 2, 16), (0, 3, 16), (1, 3, 16)]);
    }
}
