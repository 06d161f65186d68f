//! Which ranks run a step of a program with this one: what a session asks that issues collectives like other work of a device,
//! and that needs the consent of all these ranks to record them.

use super::bucket::BUCKET;
use super::traced::{STEP, StepParams};
use crate::mesh::{AxisGroups, groups_at};
use oneflow_base::{Device, PlacementId};
use oneflow_comm::{ProcessGroup, serves_device};
use oneflow_core::kernels::{Primitive, Word, Words};
use std::sync::Arc;

/// The ranks of a placement.
#[derive(Clone)]
pub struct Circle {
    /// As the placement has them: equal on all of its ranks, unlike its number.
    ranks: Vec<u32>,
    hierarchy: Vec<i64>,
    world: usize,
    axes: AxisGroups,
}

impl Circle {
    /// The groups of this rank along the mesh axes of more than one rank. All ranks are joined by these, one axis after another.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<dyn ProcessGroup>> {
        self.axes.iter().flatten()
    }

    /// By what circles are put into one order on all ranks.
    pub fn key(&self) -> (&[u32], &[i64], usize) {
        (&self.ranks, &self.hierarchy, self.world)
    }
}

/// The circle of a launch that changes the layout of shards along a mesh axis, on a device whose queues order that. `None` for
/// messages between placements, for groups that are gone, and where ranks meet in host memory.
pub fn circle(prim: &'static Primitive, params: &[Word], device: Device) -> Option<Circle> {
    let is_axis = std::ptr::eq(prim, &STEP) || std::ptr::eq(prim, &BUCKET);
    if !is_axis || device.is_cpu() || !serves_device(device) {
        return None;
    }
    // The words of a bucket are those of a step, with more sizes.
    let StepParams { placement, world, .. } = Words::new(params).all().ok()?;
    let id = PlacementId(placement as u32);
    let (placement, axes) = (id.get()?, groups_at(world, id)?);
    Some(Circle { ranks: placement.ranks.clone(), hierarchy: placement.hierarchy.to_vec(), world, axes })
}
