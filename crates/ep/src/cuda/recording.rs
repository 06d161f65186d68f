//! Recording for those that know providers alone, as the runtime: short captures on a queue that each device has for them.
//!
//! One recording at a time on a device. What all of them allocate comes from one private pool: their graphs are launched on the
//! device's own queue, one after the other, so they may use the same scratch memory.

use super::Cuda;
use super::graph::{Capture, Graph, Mode};
use crate::{Position, Queue, Recorded, Recording};
use oneflow_base::{Error, Result};
use std::sync::{Mutex, MutexGuard};

/// A device's queue for recordings, and their private pool.
#[derive(Default)]
pub(super) struct Recorder(Mutex<Option<(Queue, u32)>>);

struct UnderWay<'a> {
    capture: Capture,
    queue: Queue,
    own: Queue,
    at: Position,
    _one: MutexGuard<'a, Option<(Queue, u32)>>,
}

struct Whole {
    graph: Graph,
    own: Queue,
    at: Position,
    n_parts: usize,
}

impl Cuda {
    pub(super) fn begin_recording_at(&'static self, index: u16, at: Position) -> Result<Box<dyn Recording>> {
        let gpu = self.device(index)?;
        let mut one = gpu.recorder.0.lock().unwrap_or_else(|e| e.into_inner());
        let (queue, pool) = match *one {
            Some(known) => known,
            None => *one.insert((self.new_queue(index)?, self.new_private_pool())),
        };
        // What other threads do meanwhile is no concern of a capture on a queue that only this one issues to.
        let capture = self.begin_capture(queue, pool, Mode::ThreadLocal, None)?;
        Ok(Box::new(UnderWay {
            capture,
            queue,
            own: Queue { device: queue.device, raw: gpu.stream.0.cast() },
            at,
            _one: one,
        }))
    }
}

impl Recording for UnderWay<'_> {
    fn queue(&self) -> Queue {
        self.queue
    }

    fn end(self: Box<Self>) -> Result<Box<dyn Recorded>> {
        let UnderWay { capture, own, at, .. } = *self;
        let graph = capture.end()?;
        let n_parts = graph.n_nodes()?;
        Ok(Box::new(Whole { graph, own, at, n_parts }))
    }
}

impl Recorded for Whole {
    fn issue(&mut self, queue: Queue, now: Position) -> Result<()> {
        if queue.raw != self.own.raw {
            return Err(Error::runtime("recorded work is issued to its device's own queue"));
        }
        let moved = [now.offset.wrapping_sub(self.at.offset), self.at.seed, now.seed];
        self.graph.launch(queue, Some(moved))
    }

    fn n_parts(&self) -> usize {
        self.n_parts
    }
}
