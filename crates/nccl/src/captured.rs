//! Operations in captured graphs. While they are captured nothing runs; each launch of the graph numbers and records them anew,
//! and the group's thread watches their common end: a rank that does not launch its graph is found as one that does not come.

use oneflow_base::{Error, Result};
use oneflow_comm::Described;
use oneflow_ep::Queue;
use oneflow_ep::cuda::graph::Launched;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A group that watches launches of graphs with its operations.
pub trait Watching: Send + Sync + 'static {
    /// Before a graph with operations of this group is launched.
    fn may_launch(&self) -> Result<()>;

    /// Watches the operations of a graph that was launched on a queue.
    fn watch_launch(self: Arc<Self>, operations: &[Described], queue: Queue) -> Result<()>;
}

/// The captures under way in which a group has operations, by the driver's number.
#[derive(Default)]
pub struct Captures(Mutex<Vec<(u64, Weak<Captured>)>>);

/// What one graph holds of one group.
struct Captured {
    group: Weak<dyn Watching>,
    operations: Mutex<Vec<Described>>,
}

impl Captures {
    /// Adds operations of a group to a capture; `tell` lets a new one hear of the graph's launches.
    pub fn add<G: Watching>(
        &self,
        group: &Arc<G>,
        id: u64,
        operations: Vec<Described>,
        tell: impl FnOnce(Arc<dyn Launched>),
    ) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, captured)| captured.strong_count() > 0);
        let known = all.iter().find(|(of, _)| *of == id).and_then(|(_, captured)| captured.upgrade());
        let captured = known.unwrap_or_else(|| {
            let group: Weak<dyn Watching> = Arc::<G>::downgrade(group);
            let new = Arc::new(Captured { group, operations: Mutex::default() });
            tell(new.clone());
            all.push((id, Arc::downgrade(&new)));
            new
        });
        captured.operations.lock().unwrap_or_else(PoisonError::into_inner).extend(operations);
    }
}

impl Captured {
    fn group(&self) -> Result<Arc<dyn Watching>> {
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
