//! What a vendor's library keeps for each stream: handles, and plans that belong to them. They live until the process ends.

use crate::launch::cuda;
use oneflow_base::Result;
use oneflow_ep::Queue;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{LazyLock, Mutex};

/// By device and stream. One thread at a time uses them.
pub struct PerQueue<T>(LazyLock<Mutex<HashMap<(u16, usize), T>>>);

impl<T> PerQueue<T> {
    pub const fn new() -> PerQueue<T> {
        PerQueue(LazyLock::new(Default::default))
    }

    /// Calls `run` with the queue's own, which `make` makes on first use. The device's context is current in both.
    pub fn with<R>(
        &self,
        queue: Queue,
        make: impl FnOnce() -> Result<T>,
        run: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let cuda = cuda()?;
        cuda.device(queue.device.index)?;
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        run(match all.entry((queue.device.index, queue.raw as usize)) {
            Entry::Occupied(known) => known.into_mut(),
            // It may allocate.
            Entry::Vacant(place) => place.insert(cuda.outside_of_captures(make)?),
        })
    }
}
