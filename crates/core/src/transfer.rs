//! How tensors of the calling thread come to the host's memory: whether new ones lie in pinned memory, which a device copies by
//! itself, and whether copies between host and device are waited for.
//!
//! What is asked for here is a matter of the call, so a guard holds it as long as the call runs. No op knows of it.

use oneflow_base::DeviceType;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// New storages of the host lie in memory pinned for this type of device.
    pub pinned: Option<DeviceType>,
    /// Copies between a device and pinned memory return when they are issued.
    pub non_blocking: bool,
}

thread_local! {
    static NOW: Cell<Transfers> = const { Cell::new(Transfers { pinned: None, non_blocking: false }) };
}
/// Whether any thread has ever asked: until then nobody looks.
static ANY: AtomicBool = AtomicBool::new(false);

/// While it lives, the calling thread's transfers are as asked.
pub struct TransfersGuard(Transfers, PhantomData<*const ()>);

pub fn with_transfers(new: Transfers) -> TransfersGuard {
    ANY.store(true, Ordering::Relaxed);
    TransfersGuard(NOW.replace(new), PhantomData)
}

impl Drop for TransfersGuard {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}

#[inline]
pub(crate) fn transfers() -> Transfers {
    if ANY.load(Ordering::Relaxed) { NOW.get() } else { Transfers::default() }
}
