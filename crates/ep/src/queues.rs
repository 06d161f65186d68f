//! Which queues a thread has chosen in place of the devices' own, and how work moves from one choice to another in order.
//!
//! A thread that chose none pays one relaxed load, and no provider but one with queues is asked anything.

use crate::{Queue, provider};
use oneflow_base::{Device, Result};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The queues that a thread has chosen, at most one a device; cheap to clone. Devices without one use their own.
#[derive(Clone, Default)]
pub struct Chosen(Option<Arc<[Queue]>>);

/// Whether any thread has ever chosen a queue.
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CHOSEN: RefCell<Chosen> = const { RefCell::new(Chosen(None)) };
}

impl Chosen {
    /// Those of the calling thread.
    #[inline]
    pub fn now() -> Chosen {
        if !ANY.load(Ordering::Relaxed) {
            return Chosen(None);
        }
        CHOSEN.try_with(|c| c.borrow().clone()).unwrap_or_default()
    }

    pub fn queue_of(&self, device: Device) -> Option<Queue> {
        self.queues().iter().find(|q| q.device == device).copied()
    }

    fn queues(&self) -> &[Queue] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Makes them the calling thread's.
    fn set(&self) {
        if self.0.is_some() {
            ANY.store(true, Ordering::Relaxed);
        }
        let _ = CHOSEN.try_with(|c| *c.borrow_mut() = self.clone());
    }
}

impl PartialEq for Chosen {
    fn eq(&self, other: &Chosen) -> bool {
        let (a, b) = (self.queues(), other.queues());
        a.len() == b.len() && a.iter().all(|q| other.queue_of(q.device).is_some_and(|o| o.raw == q.raw))
    }
}

/// Makes `queue` the one that the calling thread issues a device's work to; `None`: the device's own.
pub fn choose(device: Device, queue: Option<Queue>) {
    let mut queues: Vec<Queue> = Chosen::now().queues().iter().filter(|q| q.device != device).copied().collect();
    queues.extend(queue);
    Chosen((!queues.is_empty()).then(|| queues.into())).set();
}

/// From now on the calling thread issues to `to`; what it issues there waits for all that was issued to its present queues.
pub fn switch(to: &Chosen) -> Result<()> {
    let from = Chosen::now();
    if from == *to {
        return Ok(());
    }
    let mut devices = from.queues().iter().chain(to.queues()).map(|q| q.device);
    let ordered = devices.try_for_each(|d| {
        let p = provider(d.kind)?;
        let queue = |c: &Chosen| c.queue_of(d).unwrap_or_else(|| p.own_queue(d.index));
        let (first, then) = (queue(&from), queue(to));
        if first.raw == then.raw { Ok(()) } else { p.order(first, then) }
    });
    to.set();
    ordered
}

/// While it lives, the calling thread issues to `to`; afterwards to what it had chosen before, in order.
pub struct Switched(Chosen);

impl Switched {
    pub fn to(to: &Chosen) -> Result<Switched> {
        let guard = Switched(Chosen::now());
        switch(to)?;
        Ok(guard)
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        // What cannot be ordered is a lost device: the next call on it says so.
        let _ = switch(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflow_base::DeviceType;

    fn queue(index: u16, raw: usize) -> Queue {
        Queue { device: Device::new(DeviceType::CUDA, index), raw: raw as *mut _ }
    }

    #[test]
    fn a_choice_is_per_device_and_compares_by_its_queues() {
        assert!(Chosen::now() == Chosen::default());
        let (a, b) = (queue(0, 8), queue(1, 16));
        choose(a.device, Some(a));
        choose(b.device, Some(b));
        let both = Chosen::now();
        assert_eq!(both.queue_of(b.device).map(|q| q.raw), Some(b.raw));
        choose(a.device, None);
        assert!(Chosen::now() != both && Chosen::now().queue_of(a.device).is_none());
        choose(a.device, Some(a));
        assert!(Chosen::now() == both);
        choose(a.device, None);
        choose(b.device, None);
        assert!(Chosen::now() == Chosen::default());
    }
}
