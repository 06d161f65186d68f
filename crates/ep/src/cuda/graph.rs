//! Captured graphs: work of streams that is recorded once, and launched again and again as a whole.
//!
//! While a stream is captured, what is issued to it is not done. Streams that wait for an event of it are captured with it and
//! must join it again before the end. Memory for such streams comes from a private pool, whose addresses stay valid as long as a
//! graph uses them. What needs a result on the host is refused by the driver and ends the capture: the error of the call names it,
//! and so does the error of `end_capture`.

use super::driver::{self, Code};
use super::{Cuda, driver_error};
use crate::{Block, Copy, Provider, Queue};
use oneflow_base::{Error, Result};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What other threads may do during a capture; the driver's modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No thread may make calls that could break a capture.
    Global,
    /// The capturing thread may not.
    ThreadLocal,
    /// All may.
    Relaxed,
}

/// Where kernels of a graph find how far the generator of random numbers has moved since the capture: three words on the device.
pub struct Drawn {
    cuda: &'static Cuda,
    queue: Queue,
    block: Block,
}

/// What has to know of each launch of a graph, as operations in it that other processes take part in.
pub trait Launched: Send + Sync {
    /// Before a launch; an error refuses it.
    fn before(&self) -> Result<()>;
    /// Behind a launch on `queue`.
    fn after(&self, queue: Queue) -> Result<()>;
}

/// A capture under way. Dropped before its end, it is given up.
pub struct Capture {
    cuda: &'static Cuda,
    queue: Queue,
    id: u64,
    pool: u32,
    drawn: Arc<Drawn>,
    is_over: bool,
}

/// A captured graph, ready for launches.
pub struct Graph {
    cuda: &'static Cuda,
    queue: Queue,
    graph: driver::Graph,
    exec: driver::GraphExec,
    pool: u32,
    drawn: Arc<Drawn>,
    draws: bool,
    told: Vec<Arc<dyn Launched>>,
}

// SAFETY: graphs are used by one thread at a time, as the driver demands: `launch` needs an exclusive reference.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// A capture as kernels ask for it.
struct Known {
    id: u64,
    drawn: usize,
    draws: bool,
    /// Told of the graph's launches.
    told: Vec<Arc<dyn Launched>>,
}

static N_CAPTURING: AtomicUsize = AtomicUsize::new(0);
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
/// The call that ended a capture early.
static ENDED_BY: Mutex<Option<String>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Vec<Known>> {
    KNOWN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns true if a stream of any device is captured.
#[inline]
pub(super) fn is_any_capturing() -> bool {
    N_CAPTURING.load(Ordering::Relaxed) > 0
}

/// The driver's number of the capture that a stream takes part in.
pub(super) fn capture_of(stream: driver::Stream) -> Option<u64> {
    let (mut status, mut id) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: both results are written to live places; the others are not asked for.
    let asked = unsafe { driver::stream_capture(stream, &mut status, &mut id, null, null.cast(), null.cast()) };
    (asked.is_ok() && status == driver::CAPTURE_ACTIVE).then_some(id)
}

/// Runs what a capture in the strictest mode would forbid though it touches none of its streams, as an allocation.
pub(super) fn outside_of_captures<T>(run: impl FnOnce() -> T) -> T {
    if !is_any_capturing() {
        return run();
    }
    let mut mode = driver::CAPTURE_RELAXED;
    // SAFETY: the place is live; the call exchanges the thread's mode with it.
    let exchanged = unsafe { driver::exchange_capture_mode(&mut mode) }.is_ok();
    let result = run();
    if exchanged {
        // SAFETY: as above.
        let _ = unsafe { driver::exchange_capture_mode(&mut mode) };
    }
    result
}

/// Notes the first call that a capture did not allow.
pub(super) fn note_refused(what: &str, code: Code) {
    let is_of_captures = (Code::CAPTURE_UNSUPPORTED.0..=Code::CAPTURE_WRONG_THREAD.0).contains(&code.0);
    if is_of_captures && code != Code::CAPTURE_INVALIDATED {
        ENDED_BY.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_with(|| what.to_string());
    }
}

impl Cuda {
    /// A number for a pool that graphs may share.
    pub fn new_private_pool(&self) -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if a queue's work is captured.
    pub fn is_capturing(&self, queue: Queue) -> bool {
        is_any_capturing() && capture_of(queue.raw.cast()).is_some()
    }

    /// For a kernel that draws random numbers: where it finds how far the generator has moved; null outside of captures. The words
    /// are the call's offset to add, the seed that they are for, and the seed in its place.
    pub fn drawn(&self, queue: Queue) -> *const u64 {
        if !is_any_capturing() {
            return std::ptr::null();
        }
        let id = capture_of(queue.raw.cast());
        let mut known = known();
        match known.iter_mut().find(|k| Some(k.id) == id) {
            Some(k) => {
                k.draws = true;
                k.drawn as *const u64
            }
            None => std::ptr::null(),
        }
    }

    /// The number of the capture that a queue's work belongs to; `None` outside of captures.
    pub fn capture(&self, queue: Queue) -> Option<u64> {
        if is_any_capturing() { capture_of(queue.raw.cast()) } else { None }
    }

    /// Lets `who` know of each launch of what a queue's capture makes.
    pub fn tell_of_launches(&self, queue: Queue, who: Arc<dyn Launched>) {
        let id = self.capture(queue);
        if let Some(k) = known().iter_mut().find(|k| Some(k.id) == id) {
            k.told.push(who);
        }
    }

    /// Captures what is issued to a queue from now on. `drawn`: of a graph that draws the same random numbers, as the forward of
    /// this graph's backward.
    pub fn begin_capture(
        &'static self,
        queue: Queue,
        pool: u32,
        mode: Mode,
        drawn: Option<Arc<Drawn>>,
    ) -> Result<Capture> {
        let gpu = self.device(queue.device.index)?;
        if queue.raw.cast() == gpu.stream.0 {
            return Err(Error::runtime(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default stream.)",
            ));
        }
        if self.is_capturing(queue) {
            return Err(Error::runtime("CUDA error: begin capture: the stream is captured already"));
        }
        let drawn = match drawn {
            Some(d) => d,
            None => {
                let d = Drawn { cuda: self, queue, block: self.alloc_on(queue, 24)? };
                d.set(queue, [0; 3])?;
                // Launches on other streams come after this. Faults of kernels are for those who wait for their results.
                // SAFETY: streams live until the process ends.
                unsafe { driver::stream_synchronize(queue.raw.cast()) }
                    .map_err(|e| driver_error("begin capture", e))?;
                Arc::new(d)
            }
        };
        let mode = match mode {
            Mode::Global => driver::CAPTURE_GLOBAL,
            Mode::ThreadLocal => driver::CAPTURE_THREAD_LOCAL,
            Mode::Relaxed => driver::CAPTURE_RELAXED,
        };
        *ENDED_BY.lock().unwrap_or_else(|e| e.into_inner()) = None;
        // SAFETY: streams live until the process ends.
        unsafe { driver::stream_begin_capture(queue.raw.cast(), mode) }
            .map_err(|e| driver_error("begin capture", e))?;
        N_CAPTURING.fetch_add(1, Ordering::Relaxed);
        let id = capture_of(queue.raw.cast()).unwrap_or(0);
        known().push(Known { id, drawn: drawn.block.ptr as usize, draws: false, told: Vec::new() });
        gpu.memory.begin_private(id, pool);
        Ok(Capture { cuda: self, queue, id, pool, drawn, is_over: false })
    }
}

impl Drawn {
    /// Writes the words in a queue's order.
    fn set(&self, queue: Queue, words: [u64; 3]) -> Result<()> {
        let bytes = size_of_val(&words);
        // SAFETY: the block holds the words; pageable memory is read before the call returns.
        unsafe { self.cuda.copy(queue, Copy::HostToDevice, self.block.ptr, words.as_ptr().cast(), bytes) }
    }
}

impl Drop for Drawn {
    fn drop(&mut self) {
        self.cuda.free_on(self.queue, self.block);
    }
}

impl Capture {
    /// Ends the capture.
    pub fn end(mut self) -> Result<Graph> {
        let (graph, known) = self.finish();
        let (draws, told) = known.map_or_else(Default::default, |k| (k.draws, k.told));
        let graph = graph.map_err(|e| {
            let ended_by = ENDED_BY.lock().unwrap_or_else(|e| e.into_inner()).take();
            let error = driver_error("end capture", e);
            match ended_by {
                Some(what) => Error::runtime(format!("{}; the capture was ended by: {what}", error.text())),
                None => error,
            }
        });
        let instantiated = graph.and_then(|graph| {
            let flags = driver::AUTO_FREE_ON_LAUNCH;
            // SAFETY: the graph was just captured.
            let exec = unsafe { driver::value(|p| driver::graph_instantiate(p, graph, flags)) };
            exec.map(|exec| (graph, exec)).map_err(|e| {
                // SAFETY: as above; nobody uses it any more.
                let _ = unsafe { driver::graph_destroy(graph) };
                driver_error("instantiate graph", e)
            })
        });
        let Capture { cuda, queue, pool, .. } = self;
        match instantiated {
            Ok((graph, exec)) => Ok(Graph { cuda, queue, graph, exec, pool, drawn: self.drawn.clone(), draws, told }),
            Err(e) => {
                cuda.release_private(queue, pool);
                Err(e)
            }
        }
    }

    pub fn drawn(&self) -> &Arc<Drawn> {
        &self.drawn
    }

    fn finish(&mut self) -> (Result<driver::Graph, Code>, Option<Known>) {
        self.is_over = true;
        let ended = self.cuda.device(self.queue.device.index);
        // SAFETY: streams live until the process ends.
        let graph = unsafe { driver::value(|p| driver::stream_end_capture(self.queue.raw.cast(), p)) };
        N_CAPTURING.fetch_sub(1, Ordering::Relaxed);
        if let Ok(gpu) = ended {
            gpu.memory.end_private(self.id);
        }
        let mut known = known();
        let at = known.iter().position(|k| k.id == self.id);
        (graph, at.map(|at| known.swap_remove(at)))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.is_over {
            if let (Ok(graph), _) = self.finish()
                && !graph.is_null()
            {
                // SAFETY: the graph was just captured and nobody uses it.
                let _ = unsafe { driver::graph_destroy(graph) };
            }
            self.cuda.release_private(self.queue, self.pool);
        }
    }
}

impl Graph {
    /// Issues the whole graph to a queue of its device. `moved`: how far the generator of random numbers has moved, as
    /// `Cuda::drawn` describes it; `None`: as at the last launch of the graph that this one follows.
    pub fn launch(&mut self, queue: Queue, moved: Option<[u64; 3]>) -> Result<()> {
        if queue.device != self.queue.device {
            let (of, at) = (queue.device, self.queue.device);
            return Err(Error::runtime(format!("a graph captured on {at} cannot be launched on a stream of {of}")));
        }
        self.cuda.device(queue.device.index)?;
        if self.draws {
            if let Some(words) = moved {
                self.drawn.set(queue, words)?;
            }
            self.cuda.record_use(queue.device.index, self.drawn.block, queue);
        }
        let is_captured = self.cuda.is_capturing(queue);
        for who in &self.told {
            match is_captured {
                true => self.cuda.tell_of_launches(queue, who.clone()),
                false => who.before()?,
            }
        }
        // SAFETY: the graph is live, its memory is kept by its pool.
        unsafe { driver::graph_launch(self.exec, queue.raw.cast()) }.map_err(|e| driver_error("launch graph", e))?;
        if is_captured { Ok(()) } else { self.told.iter().try_for_each(|who| who.after(queue)) }
    }

    pub fn drawn(&self) -> &Arc<Drawn> {
        &self.drawn
    }

    /// Whether kernels of the graph draw random numbers.
    pub fn draws(&self) -> bool {
        self.draws
    }

    pub fn n_nodes(&self) -> Result<usize> {
        let mut n = 0;
        // SAFETY: the graph is live; without a place for nodes only their number is asked for.
        unsafe { driver::graph_nodes(self.graph, std::ptr::null_mut(), &mut n) }
            .map_err(|e| driver_error("count nodes", e))?;
        Ok(n)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.cuda.device(self.queue.device.index).is_ok() {
            // SAFETY: nobody uses the handles any more; launches that were issued are completed.
            unsafe {
                let _ = driver::graph_exec_destroy(self.exec);
                let _ = driver::graph_destroy(self.graph);
            }
            self.cuda.release_private(self.queue, self.pool);
        }
    }
}

impl Cuda {
    fn release_private(&self, queue: Queue, pool: u32) {
        if let Ok(gpu) = self.device(queue.device.index) {
            gpu.memory.release_private(pool);
        }
    }
}
