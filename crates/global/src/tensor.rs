//! The payload of a global tensor: where it lives, how it is laid out, and this rank's shard.
//!
//! The logical tensor carries sizes, dtype and device type of the whole and no storage.

use oneflow_base::{
    DType, Device, DeviceType, Dims, Error, NdSbpId, Placement, PlacementId, Result, Sbp, contiguous_strides,
};
use oneflow_core::{Ext, Tensor, bit};
use std::any::Any;
use std::sync::Arc;

/// A placement and one SBP a mesh axis: the type of a global tensor beyond shape and dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    pub placement_id: PlacementId,
    pub sbp_id: NdSbpId,
    pub placement: &'static Placement,
    pub sbp: &'static [Sbp],
}

impl Spread {
    /// Checks that the SBP has one entry a mesh axis.
    pub fn new(placement_id: PlacementId, sbp_id: NdSbpId) -> Result<Spread> {
        let placement = placement_id.get().ok_or_else(|| Error::value("unknown placement"))?;
        let sbp = sbp_id.get().ok_or_else(|| Error::value("unknown sbp"))?;
        if sbp.len() != placement.hierarchy.len() {
            return Err(Error::value(format!(
                "sbp {sbp:?} has {} entries, but {placement} has {} mesh axes",
                sbp.len(),
                placement.hierarchy.len()
            )));
        }
        Ok(Spread { placement_id, sbp_id, placement, sbp })
    }

    /// The same ranks under another SBP.
    pub fn with(self, sbp: &[Sbp]) -> Result<Spread> {
        Spread::new(self.placement_id, NdSbpId::of(sbp))
    }

    /// Every rank holds the whole.
    pub fn broadcast(placement: PlacementId) -> Result<Spread> {
        let n = placement.get().map_or(1, |p| p.hierarchy.len());
        Spread::new(placement, NdSbpId::of(&vec![Sbp::B; n]))
    }

    /// The layout of the gradient of a value with this layout.
    pub fn dual(self) -> Result<Spread> {
        let sbp: Vec<Sbp> = self.sbp.iter().map(|s| s.dual()).collect();
        self.with(&sbp)
    }

    /// Checks that splits name dimensions of the tensor.
    pub fn check(self, sizes: &[i64], op: &str) -> Result<Spread> {
        match self.sbp.iter().find(|s| matches!(s, Sbp::S(d) if *d as usize >= sizes.len())) {
            None => Ok(self),
            Some(s) => Err(Error::runtime(format!("{op}: {s} does not fit a tensor of shape {sizes:?}"))),
        }
    }
}

/// The payload.
pub struct GlobalTensor {
    pub spread: Spread,
    /// This rank's shard; `None` on ranks outside the placement.
    pub local: Option<Tensor>,
    /// A view whose input had to be boxed: it shares no memory with what it is a view of.
    pub detached_view: bool,
}

impl Ext for GlobalTensor {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn version(&self) -> u32 {
        self.local.as_ref().map_or(0, Tensor::version)
    }
    fn bump_version(&self) {
        if let Some(t) = &self.local {
            t.bump_version();
        }
    }
}

/// The payload of a global tensor.
pub fn global_of(t: &Tensor) -> Option<&GlobalTensor> {
    t.ext::<GlobalTensor>()
}

/// The payload, or an error that names the op.
pub fn expect_global<'a>(t: &'a Tensor, op: &str) -> Result<&'a GlobalTensor> {
    global_of(t).ok_or_else(|| {
        Error::runtime(format!(
            "{op}: expected a global tensor, but got a local one of shape {:?} (make it global with `to_global`)",
            t.sizes()
        ))
    })
}

/// Turns a shell that has the logical meta into a global tensor.
pub fn wrap(shell: &Tensor, spread: Spread, local: Option<Tensor>, detached_view: bool) {
    // SAFETY: a shell is fresh and not shared yet.
    unsafe { shell.set_ext(Arc::new(GlobalTensor { spread, local, detached_view }), bit::GLOBAL) };
}

/// A contiguous global tensor of these logical sizes, with the dtype of `like`.
pub fn make(like: &Tensor, sizes: &[i64], spread: Spread, local: Option<Tensor>) -> Result<Tensor> {
    make_of(like.dtype(), sizes, spread, local)
}

/// A contiguous global tensor of this dtype and these logical sizes.
pub fn make_of(dtype: DType, sizes: &[i64], spread: Spread, local: Option<Tensor>) -> Result<Tensor> {
    let device = logical_device(spread.placement.kind);
    let t = Tensor::shell(dtype, device, Dims::from_slice(sizes), contiguous_strides(sizes))?;
    wrap(&t, spread, local, false);
    Ok(t)
}

/// The device that a logical tensor reports.
pub fn logical_device(kind: DeviceType) -> Device {
    Device::new(kind, 0)
}
