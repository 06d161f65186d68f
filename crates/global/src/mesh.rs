//! The parts of each rank, and the process groups along mesh axes.

use oneflow_base::{Dims, Error, Placement, PlacementId, Result, Sbp};
use oneflow_comm::{Kind, ProcessGroup, world};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};

/// A box inside the logical tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub starts: Dims,
    pub sizes: Dims,
}

impl Part {
    /// The whole.
    pub fn whole(sizes: &[i64]) -> Part {
        Part { starts: sizes.iter().map(|_| 0).collect(), sizes: Dims::from_slice(sizes) }
    }
    pub fn is_empty(&self) -> bool {
        self.sizes.contains(&0)
    }
    /// The intersection of two parts; `None` if it is empty.
    pub fn meet(&self, other: &Part) -> Option<Part> {
        let mut out = self.clone();
        for d in 0..self.sizes.len() {
            let end = (self.starts[d] + self.sizes[d]).min(other.starts[d] + other.sizes[d]);
            out.starts[d] = self.starts[d].max(other.starts[d]);
            out.sizes[d] = end - out.starts[d];
            if out.sizes[d] <= 0 {
                return None;
            }
        }
        Some(out)
    }
}

/// The part at these mesh coordinates: axis after axis, as the placement shares a dimension.
pub fn part(sizes: &[i64], placement: &Placement, sbp: &[Sbp], coords: &[i64]) -> Part {
    let mut p = Part::whole(sizes);
    for (axis, s) in sbp.iter().enumerate() {
        if let Sbp::S(d) = *s
            && let Some(n) = p.sizes.get_mut(d as usize)
        {
            let (start, len) = placement.parts.part(*n, placement.hierarchy[axis], coords[axis]);
            *n = len;
            p.starts[d as usize] += start;
        }
    }
    p
}

/// This rank's mesh coordinates.
pub fn my_coords(placement: &Placement) -> Option<Dims> {
    placement.coords(world().rank() as u32)
}

type Group = Arc<dyn ProcessGroup>;
/// One group a mesh axis: the ranks that differ from this one in that coordinate only.
pub type AxisGroups = Arc<Vec<Option<Group>>>;

struct Entry {
    world: Weak<dyn ProcessGroup>,
    axes: AxisGroups,
}

/// By address of the world group, as ranks may be threads of one process, and by the number that placements of the same ranks
/// share.
static GROUPS: LazyLock<Mutex<HashMap<(usize, PlacementId), Entry>>> = LazyLock::new(Mutex::default);

fn table() -> MutexGuard<'static, HashMap<(usize, PlacementId), Entry>> {
    GROUPS.lock().unwrap_or_else(|e| e.into_inner())
}

pub fn address(world: &Group) -> usize {
    Arc::as_ptr(world).cast::<()>() as usize
}

/// The groups of a placement. Made on first use, which is the same point of the program on every rank of the world.
pub fn axis_groups(id: PlacementId, placement: &Placement) -> Result<AxisGroups> {
    let world = world();
    let key = (address(&world), id.of_ranks());
    if let Some(e) = table().get(&key)
        && e.world.upgrade().is_some_and(|w| Arc::ptr_eq(&w, &world))
    {
        return Ok(e.axes.clone());
    }
    let mine = placement.coords(world.rank() as u32);
    let whole: Vec<u32> = (0..world.size() as u32).collect();
    let mut axes = Vec::new();
    for axis in 0..placement.hierarchy.len() {
        if placement.hierarchy.len() == 1 && placement.ranks == whole {
            axes.push(Some(world.clone()));
            continue;
        }
        let mut own = None;
        for line in lines(placement, axis) {
            let ranks: Vec<usize> = line.iter().map(|r| *r as usize).collect();
            // A line of one rank never communicates.
            if ranks.len() > 1
                && let Some(group) = world.new_group(&ranks, true)?
                && mine.is_some()
            {
                own = Some(group);
            }
        }
        axes.push(own);
    }
    let axes = Arc::new(axes);
    let mut table = table();
    table.retain(|_, e| e.world.strong_count() > 0);
    table.insert(key, Entry { world: Arc::downgrade(&world), axes: axes.clone() });
    Ok(axes)
}

/// Gives a placement these groups, one a mesh axis, in place of groups of its own: parts of a mesh have those of the whole.
/// Nothing is sent, so ranks may do it at different points of the program. Groups that a placement has stay.
pub fn adopt_axis_groups(id: PlacementId, placement: &Placement, groups: Vec<Option<Group>>) -> Result<()> {
    if groups.len() != placement.hierarchy.len() {
        return Err(Error::value(format!("{} groups were given for the mesh axes of {placement}", groups.len())));
    }
    let Some(coords) = placement.coords(world().rank() as u32) else {
        return Err(Error::value(format!("this rank is not part of {placement}")));
    };
    for (axis, group) in groups.iter().enumerate() {
        let line = lines(placement, axis).into_iter().find(|l| l.contains(&(world().rank() as u32)));
        let ranks: Option<Vec<u32>> = group.as_ref().map(|g| g.ranks().iter().map(|r| *r as u32).collect());
        if ranks.is_some() && ranks != line || group.is_none() && placement.hierarchy[axis] > 1 {
            return Err(Error::value(format!(
                "the group of axis {axis} of {placement} at {coords:?} has the ranks {ranks:?}, expected {line:?}"
            )));
        }
    }
    let world = world();
    let key = (address(&world), id.of_ranks());
    let mut table = table();
    table.retain(|_, e| e.world.strong_count() > 0);
    table.entry(key).or_insert_with(|| Entry { world: Arc::downgrade(&world), axes: Arc::new(groups) });
    Ok(())
}

/// The lines of ranks along an axis, in row-major order of the other coordinates.
pub(crate) fn lines(placement: &Placement, axis: usize) -> Vec<Vec<u32>> {
    let n = placement.hierarchy[axis] as usize;
    let inner: usize = placement.hierarchy[axis + 1..].iter().product::<i64>() as usize;
    let outer = placement.ranks.len() / (n * inner).max(1);
    let mut out = Vec::new();
    for o in 0..outer {
        for i in 0..inner {
            out.push((0..n).map(|k| placement.ranks[(o * n + k) * inner + i]).collect());
        }
    }
    out
}

/// A plan's reference to its world.
pub fn world_address() -> usize {
    address(&world())
}

/// The groups that the world at this address has created, for threads that belong to no rank.
pub fn groups_at(world: usize, id: PlacementId) -> Option<AxisGroups> {
    table().get(&(world, id.of_ranks())).filter(|e| e.world.strong_count() > 0).map(|e| e.axes.clone())
}

fn all_groups() -> Vec<Group> {
    let world = world();
    let mut out: Vec<Group> = vec![world.clone()];
    let at = address(&world);
    for ((w, _), e) in table().iter() {
        if *w == at {
            out.extend(e.axes.iter().flatten().filter(|g| !Arc::ptr_eq(g, &world)).cloned());
        }
    }
    out
}

/// Payload bytes this rank put on the wire and operations it issued, by kind, over the world and all mesh axes.
pub fn wire_counters() -> Vec<(Kind, u64, u64)> {
    let groups = all_groups();
    Kind::ALL
        .into_iter()
        .map(|k| {
            let sum = |f: &dyn Fn(&Group) -> u64| groups.iter().map(f).sum();
            (k, sum(&|g| g.counters().bytes(k)), sum(&|g| g.counters().calls(k)))
        })
        .collect()
}

/// Sets the counters to zero.
pub fn reset_wire_counters() {
    all_groups().iter().for_each(|g| g.counters().reset());
}

/// Closes the mesh groups of this rank's world: before the world itself is closed.
pub fn close_groups() {
    crate::boxing::traced_cross::flush(&world());
    let at = address(&world());
    let mut table = table();
    let keys: Vec<_> = table.keys().filter(|(w, _)| *w == at).copied().collect();
    let world = world();
    for k in keys {
        if let Some(e) = table.remove(&k) {
            e.axes.iter().flatten().filter(|g| !Arc::ptr_eq(g, &world)).for_each(|g| g.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflow_base::{DeviceType, Parts};

    #[test]
    fn lines_of_a_mesh() {
        let p = Placement::new(DeviceType::CPU, vec![0, 1, 2, 3, 4, 5], &[2, 3]).unwrap();
        assert_eq!(lines(&p, 0), [[0, 3], [1, 4], [2, 5]]);
        assert_eq!(lines(&p, 1), [[0, 1, 2], [3, 4, 5]]);
    }

    #[test]
    fn parts_nest_axis_after_axis() {
        let mesh = Placement::new(DeviceType::CPU, vec![0, 1, 2, 3], &[2, 2]).unwrap();
        let check = |parts: Parts, sbp: [Sbp; 2], coords: [i64; 2], starts: [i64; 2], sizes: [i64; 2]| {
            let p = part(&[5, 4], &mesh.with_parts(parts), &sbp, &coords);
            assert_eq!((p.starts.as_slice(), p.sizes.as_slice()), (&starts[..], &sizes[..]), "{parts:?}");
        };
        for parts in Parts::ALL {
            check(parts, [Sbp::S(0), Sbp::S(0)], [0, 1], [2, 0], [1, 4]);
            check(parts, [Sbp::S(1), Sbp::B], [1, 1], [0, 2], [5, 2]);
        }
        let over = Placement::new(DeviceType::CPU, (0..4).collect(), &[4, 1]).unwrap();
        let sizes =
            |parts: Parts, at: i64| part(&[5], &over.with_parts(parts), &[Sbp::S(0), Sbp::B], &[at, 0]).sizes[0];
        assert_eq!((sizes(Parts::Balanced, 3), sizes(Parts::Chunks, 3)), (1, 0));
    }
}
