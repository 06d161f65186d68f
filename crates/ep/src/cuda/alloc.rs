//! The caching allocator of one GPU: segments from the driver, best fit with coalescing, one pool a stream.
//!
//! Freeing is a matter of the host: a block can be handed out again at once on the stream it belongs to, because work on a
//! stream runs in order. Sizes follow what PyTorch does, so memory behaves as its users expect.

use super::driver_error;
use crate::Block;
use crate::best_fit::BestFit;
use cudarc::driver::{DriverError, result, sys};
use oneflow_base::{Error, Result};
use std::sync::{Mutex, MutexGuard};

const ROUND: usize = 512;
const SMALL: usize = 1 << 20;
const SMALL_SEGMENT: usize = 2 << 20;
const LARGE_SEGMENT: usize = 20 << 20;
const LARGE: usize = 10 << 20;
/// A large chunk's remainder below this stays with it.
const LARGE_SLACK: usize = 1 << 20;

/// Counters, all in bytes but the last.
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub in_use: usize,
    pub held: usize,
    pub peak: usize,
    pub n_allocs: u64,
}

struct State {
    chunks: BestFit,
    counters: Counters,
}

/// Memory of one device.
pub struct DeviceMemory {
    index: u16,
    state: Mutex<State>,
}

/// A stream's handle and the size kind in one number. Handles are pointers, or the driver's small numbers.
fn pool(stream: sys::CUstream, small: bool) -> u64 {
    ((stream as u64) << 1) | small as u64
}

fn stream_of(pool: u64) -> sys::CUstream {
    (pool >> 1) as sys::CUstream
}

impl DeviceMemory {
    pub fn new(index: u16) -> DeviceMemory {
        DeviceMemory { index, state: Mutex::new(State { chunks: BestFit::new(), counters: Counters::default() }) }
    }

    /// A block for work on `stream`. The device's context is current.
    pub fn alloc(&self, stream: sys::CUstream, bytes: usize) -> Result<Block> {
        if bytes > isize::MAX as usize / 2 {
            return Err(self.out_of_memory(bytes, &self.lock().counters));
        }
        let size = bytes.max(1).next_multiple_of(ROUND);
        let small = size <= SMALL;
        let (pool, slack) = (pool(stream, small), if small { ROUND - 1 } else { LARGE_SLACK });
        let mut state = self.lock();
        let taken = match state.chunks.take(pool, size, slack) {
            Some(t) => t,
            None => {
                let segment = match size {
                    _ if small => SMALL_SEGMENT,
                    ..LARGE => LARGE_SEGMENT,
                    _ => size.next_multiple_of(SMALL_SEGMENT),
                };
                let addr = self.obtain(&mut state, segment)?;
                state.chunks.add_segment(pool, addr, segment);
                let taken = state.chunks.take(pool, size, slack);
                taken.ok_or_else(|| self.out_of_memory(bytes, &state.counters))?
            }
        };
        let c = &mut state.counters;
        c.in_use += taken.bytes;
        c.peak = c.peak.max(c.in_use);
        c.n_allocs += 1;
        Ok(Block { ptr: taken.addr as *mut u8, bytes: taken.bytes, tag: taken.id as u64 })
    }

    /// Gives a block back whose last work is on `stream`. The device's context is current.
    pub fn free(&self, stream: sys::CUstream, block: Block) {
        let id = block.tag as u32;
        let mut state = self.lock();
        let Some(owner) = state.chunks.pool_of(id).map(stream_of) else { return };
        if owner != stream {
            // What comes next on the owner's stream must wait for what the freeing stream still has to do.
            wait_for(owner, stream);
        }
        if state.chunks.give(id) {
            state.counters.in_use -= block.bytes;
        }
    }

    pub fn counters(&self) -> Counters {
        self.lock().counters
    }

    pub fn reset_peak(&self) {
        let mut s = self.lock();
        s.counters.peak = s.counters.in_use;
    }

    /// Returns free segments to the driver. The device's context is current.
    pub fn trim(&self) {
        release(&mut self.lock());
    }

    fn obtain(&self, state: &mut State, bytes: usize) -> Result<usize> {
        // SAFETY: the context is current; the memory stays uninitialised until a kernel writes it.
        let mut got = unsafe { result::malloc_sync(bytes) };
        if is_out_of_memory(&got) {
            release(state);
            // SAFETY: as above.
            got = unsafe { result::malloc_sync(bytes) };
        }
        match got {
            Ok(p) => {
                state.counters.held += bytes;
                Ok(p as usize)
            }
            Err(_) if is_out_of_memory(&got) => Err(self.out_of_memory(bytes, &state.counters)),
            Err(e) => Err(driver_error("allocate", e)),
        }
    }

    #[cold]
    fn out_of_memory(&self, bytes: usize, c: &Counters) -> Error {
        let gib = |b: usize| format!("{:.2} GiB", b as f64 / (1u64 << 30) as f64);
        let system = match result::mem_get_info() {
            Ok((free, total)) => format!(" of {} in total {} are free;", gib(total), gib(free)),
            Err(_) => String::new(),
        };
        Error::out_of_memory(format!(
            "CUDA out of memory. Tried to allocate {} on cuda:{};{system} {} are in use by tensors and {} are held by the \
             allocator",
            gib(bytes),
            self.index,
            gib(c.in_use),
            gib(c.held)
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn is_out_of_memory<T>(r: &Result<T, DriverError>) -> bool {
    matches!(r, Err(DriverError(sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY)))
}

fn release(state: &mut State) {
    for (addr, bytes) in state.chunks.release(|_, _| true) {
        // SAFETY: the segment came from `obtain` and no chunk of it is in use; the driver waits for queued work.
        let _ = unsafe { result::free_sync(addr as sys::CUdeviceptr) };
        state.counters.held -= bytes;
    }
}

/// Makes `stream` wait for all work issued to `other` so far; failing that, waits here.
pub fn wait_for(stream: sys::CUstream, other: sys::CUstream) {
    let through_event = || {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        // SAFETY: the event was just made; streams live until the process ends. Destroying a recorded event is allowed,
        // the driver keeps what it needs.
        unsafe {
            let done = result::event::record(event, other).and_then(|()| {
                result::stream::wait_event(stream, event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
            });
            result::event::destroy(event).and(done)
        }
    };
    if through_event().is_err() {
        // SAFETY: streams live until the process ends.
        let _ = unsafe { result::stream::synchronize(other) };
    }
}
