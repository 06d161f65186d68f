//! Operations in captured graphs. While they are captured nothing runs; each launch of the graph numbers and records them anew,
//! and the group's thread watches their common end: a rank that does not launch its graph is found as one that does not come.

use crate::group::Shared;
use oneflow_base::{Error, Result};
use oneflow_comm::Described;
use oneflow_ep::Queue;
use oneflow_ep::cuda::graph::Launched;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The captures under way in which a group has operations, by the driver's number.
#[derive(Default)]
pub struct Captures(Mutex<Vec<(u64, Weak<Captured>)>>);

/// What one graph holds of one group.
struct Captured {
    group: Weak<Shared>,
    operations: Mutex<Vec<Described>>,
}

impl Captures {
    /// Adds operations that were captured on the group's current queue.
    pub fn add(&self, group: &Arc<Shared>, id: u64, operations: Vec<Described>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, captured)| captured.strong_count() > 0);
        let known = all.iter().find(|(of, _)| *of == id).and_then(|(_, captured)| captured.upgrade());
        let captured = known.unwrap_or_else(|| {
            let new = Arc::new(Captured { group: Arc::downgrade(group), operations: Mutex::default() });
            group.cuda.tell_of_launches(group.current(), new.clone());
            all.push((id, Arc::downgrade(&new)));
            new
        });
        captured.operations.lock().unwrap_or_else(PoisonError::into_inner).extend(operations);
    }
}

impl Captured {
    fn group(&self) -> Result<Arc<Shared>> {
        let gone = || Error::runtime("the launch of a captured graph: the process group of its collectives was closed");
        self.group.upgrade().ok_or_else(gone)
    }
}

impl Launched for Captured {
    fn before(&self) -> Result<()> {
        self.group()?.may_launch()
    }

    fn after(&self, queue: Queue) -> Result<()> {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        self.group()?.watch_launch(&operations, queue)
    }
}
