//! The caching allocator of one GPU: segments from the driver, best fit with coalescing, one pool a stream.
//!
//! Freeing is a matter of the host: a block can be handed out again at once on the stream it belongs to, because work on a
//! stream runs in order. A block that other streams used, as `record_use` and the freeing thread's stream say, leaves first: it
//! is handed out again when events show that those streams are done with it, and no stream waits for another meanwhile. Sizes
//! follow what PyTorch does, so memory behaves as its users expect.

use super::driver_error;
use crate::Block;
use crate::best_fit::BestFit;
use cudarc::driver::{DriverError, result, sys};
use oneflow_base::{Error, Result};
use std::collections::HashMap;
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

#[derive(Default)]
struct State {
    chunks: BestFit,
    counters: Counters,
    /// Streams beside their own that use blocks, by block.
    users: HashMap<u32, Vec<UserStream>>,
    /// Freed blocks that other streams may still be using, in the order in which they were freed.
    leaving: Vec<Leaving>,
}

#[derive(Clone, Copy, PartialEq)]
struct UserStream(sys::CUstream);
// SAFETY: a stream handle may be used from any thread; streams are never destroyed.
unsafe impl Send for UserStream {}

/// A freed block with an event for each stream that used it.
struct Leaving {
    id: u32,
    events: Vec<sys::CUevent>,
}
// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Leaving {}

impl Leaving {
    /// Marks what was issued to the streams so far.
    fn new(id: u32, streams: &[UserStream]) -> Result<Leaving, DriverError> {
        let mut leaving = Leaving { id, events: Vec::with_capacity(streams.len()) };
        for stream in streams {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            leaving.events.push(event);
            // SAFETY: the event was just made; streams live until the process ends.
            unsafe { result::event::record(event, stream.0) }?;
        }
        Ok(leaving)
    }

    /// Drops the events that are reached; with `wait`, waits for them.
    fn is_gone(&mut self, wait: bool) -> bool {
        self.events.retain(|event| {
            // SAFETY: the event is live.
            let reached =
                unsafe { if wait { result::event::synchronize(*event) } else { result::event::query(*event) }.is_ok() };
            if reached {
                // SAFETY: as above, and it is used no more.
                let _ = unsafe { result::event::destroy(*event) };
            }
            !reached
        });
        self.events.is_empty()
    }
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
        DeviceMemory { index, state: Mutex::new(State::default()) }
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
        settle(&mut state, false);
        let taken = match state.chunks.take(pool, size, slack) {
            Some(t) => t,
            None => {
                let segment = match size {
                    _ if small => SMALL_SEGMENT,
                    ..LARGE => LARGE_SEGMENT,
                    _ => size.next_multiple_of(SMALL_SEGMENT),
                };
                if let Some(addr) = self.obtain(&mut state, pool, size, segment)? {
                    state.chunks.add_segment(pool, addr, segment);
                }
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

    /// Notes that work of a stream uses a block.
    pub fn record_use(&self, stream: sys::CUstream, block: Block) {
        let id = block.tag as u32;
        let mut state = self.lock();
        if state.chunks.pool_of(id).map(stream_of).is_none_or(|owner| owner == stream) {
            return;
        }
        let users = state.users.entry(id).or_default();
        if !users.contains(&UserStream(stream)) {
            users.push(UserStream(stream));
        }
    }

    /// Gives a block back whose last work is on `stream`. The device's context is current.
    pub fn free(&self, stream: sys::CUstream, block: Block) {
        let id = block.tag as u32;
        let mut state = self.lock();
        let Some(owner) = state.chunks.pool_of(id).map(stream_of) else { return };
        let mut users = state.users.remove(&id).unwrap_or_default();
        if owner != stream && !users.contains(&UserStream(stream)) {
            users.push(UserStream(stream));
        }
        state.counters.in_use -= block.bytes;
        if users.is_empty() {
            state.chunks.give(id);
            return;
        }
        match Leaving::new(id, &users) {
            Ok(leaving) => state.leaving.push(leaving),
            Err(_) => {
                // No event can be had: wait here.
                for stream in users {
                    // SAFETY: streams live until the process ends.
                    let _ = unsafe { result::stream::synchronize(stream.0) };
                }
                state.chunks.give(id);
            }
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
        let mut state = self.lock();
        settle(&mut state, true);
        release(&mut state);
    }

    /// A new segment; `None` where waiting for blocks that were leaving freed `wanted` bytes of `pool`.
    fn obtain(&self, state: &mut State, pool: u64, wanted: usize, bytes: usize) -> Result<Option<usize>> {
        // SAFETY: the context is current; the memory stays uninitialised until a kernel writes it.
        let mut got = unsafe { result::malloc_sync(bytes) };
        if is_out_of_memory(&got) {
            settle(state, true);
            if state.chunks.holds(pool, wanted) {
                return Ok(None);
            }
            release(state);
            // SAFETY: as above.
            got = unsafe { result::malloc_sync(bytes) };
        }
        match got {
            Ok(p) => {
                state.counters.held += bytes;
                Ok(Some(p as usize))
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

/// Takes back the blocks that all streams are done with; with `wait`, all of them. What an error keeps is never handed out again.
fn settle(state: &mut State, wait: bool) {
    if state.leaving.is_empty() {
        return;
    }
    let State { chunks, leaving, .. } = state;
    leaving.retain_mut(|block| {
        let gone = block.is_gone(wait);
        if gone {
            chunks.give(block.id);
        }
        !gone
    });
}

fn release(state: &mut State) {
    for (addr, bytes) in state.chunks.release(|_, _| true) {
        // SAFETY: the segment came from `obtain` and no chunk of it is in use; the driver waits for queued work.
        let _ = unsafe { result::free_sync(addr as sys::CUdeviceptr) };
        state.counters.held -= bytes;
    }
}
