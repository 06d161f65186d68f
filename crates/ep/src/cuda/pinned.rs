//! Pinned host memory: pages that a GPU reads and writes by itself, so that a copy need not be waited for.
//!
//! Pinning costs the driver milliseconds, so freed blocks are kept for reuse. A block that copies of some stream may still read or
//! write leaves first: it is handed out again when events show that those streams are done with it.

use super::driver::{self, Code};
use super::{Cuda, Event, driver_error, graph};
use crate::Queue;
use oneflow_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

const SMALLEST: usize = 4096;

#[derive(Default)]
struct State {
    /// All blocks by address.
    blocks: BTreeMap<usize, HostBlock>,
    /// Addresses of free blocks by size.
    free: BTreeMap<usize, Vec<usize>>,
    /// Freed blocks that streams may still be using.
    leaving: Vec<(usize, Vec<Event>)>,
    /// Blocks freed while work was captured, when no event may be recorded for their streams.
    deferred: Vec<(usize, Vec<Queue>)>,
}

struct HostBlock {
    bytes: usize,
    /// Streams that copy from or to it.
    users: Vec<Queue>,
}

/// The pinned memory of the process; all devices may use it.
#[derive(Default)]
pub(super) struct PinnedMemory(Mutex<State>);

/// The size that is obtained for a request: four steps a doubling, so that blocks fit later requests.
fn rounded(bytes: usize) -> usize {
    let step = (bytes.max(SMALLEST).next_power_of_two() / 8).max(SMALLEST);
    bytes.max(1).next_multiple_of(step)
}

impl PinnedMemory {
    /// A block of at least so many bytes. A device's context is current.
    pub fn alloc(&self, cuda: &Cuda, bytes: usize) -> Result<*mut u8> {
        if bytes > isize::MAX as usize / 2 {
            return Err(out_of_memory(bytes));
        }
        let size = rounded(bytes);
        let mut state = self.lock();
        settle(cuda, &mut state, false);
        if let Some(addr) = state.take(size) {
            return Ok(addr as *mut u8);
        }
        // SAFETY: the context is current; the memory stays uninitialised, as that of any provider.
        let pin = || unsafe { driver::value(|p| driver::host_alloc(p, size, driver::HOST_PORTABLE)) };
        let obtain = || graph::outside_of_captures(pin);
        let mut got = obtain();
        if got.is_err() {
            settle(cuda, &mut state, true);
            if let Some(addr) = state.take(size) {
                return Ok(addr as *mut u8);
            }
            release(&mut state);
            got = obtain();
        }
        let addr = match got {
            Ok(p) => p as usize,
            Err(Code::OUT_OF_MEMORY) => return Err(out_of_memory(bytes)),
            Err(e) => return Err(driver_error("pin memory", e)),
        };
        state.blocks.insert(addr, HostBlock { bytes: size, users: Vec::new() });
        Ok(addr as *mut u8)
    }

    /// Gives a block back. Copies of it that were issued need not be done.
    pub fn free(&self, cuda: &Cuda, ptr: *mut u8) {
        let addr = ptr as usize;
        let mut state = self.lock();
        let Some(block) = state.blocks.get_mut(&addr) else { return };
        let users = std::mem::take(&mut block.users);
        if users.is_empty() {
            return state.give(addr);
        }
        if graph::is_any_capturing() {
            return state.deferred.push((addr, users));
        }
        state.leave(cuda, addr, users);
    }

    /// Notes that a copy of `queue` uses the block that an address lies in; false where it lies in none.
    pub fn record_use(&self, ptr: *const u8, bytes: usize, queue: Queue) -> bool {
        let mut state = self.lock();
        let Some((start, block)) = state.blocks.range_mut(..=ptr as usize).next_back() else { return false };
        if ptr as usize + bytes > start + block.bytes {
            return false;
        }
        if !block.users.iter().any(|user| user.raw == queue.raw) {
            block.users.push(queue);
        }
        true
    }

    /// Returns true if an address lies in a block.
    pub fn holds(&self, ptr: *const u8) -> bool {
        let state = self.lock();
        let block = state.blocks.range(..=ptr as usize).next_back();
        block.is_some_and(|(start, block)| (ptr as usize) < start + block.bytes)
    }

    /// Returns free blocks to the driver. A device's context is current.
    pub fn trim(&self, cuda: &Cuda) {
        let mut state = self.lock();
        settle(cuda, &mut state, true);
        release(&mut state);
    }

    /// Bytes (in all blocks, in free ones).
    pub fn bytes(&self) -> (usize, usize) {
        let state = self.lock();
        (state.blocks.values().map(|b| b.bytes).sum(), state.free.iter().map(|(size, list)| size * list.len()).sum())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    /// A free block of this size, or of one that is not much larger.
    fn take(&mut self, size: usize) -> Option<usize> {
        let list = self.free.range_mut(size..=size + size / 4).find(|(_, list)| !list.is_empty());
        list.and_then(|(_, list)| list.pop())
    }

    /// Keeps a freed block until the streams are done with it.
    fn leave(&mut self, cuda: &Cuda, addr: usize, users: Vec<Queue>) {
        let marked: Result<Vec<Event>> = users.iter().map(|queue| cuda.record(*queue)).collect();
        match marked {
            Ok(events) => self.leaving.push((addr, events)),
            // No event can be had: wait here. Without a device that answers, the block is never handed out again.
            Err(_) if users.iter().all(|queue| cuda.synchronize_queue(*queue).is_ok()) => self.give(addr),
            Err(_) => {}
        }
    }

    fn give(&mut self, addr: usize) {
        if let Some(block) = self.blocks.get(&addr) {
            self.free.entry(block.bytes).or_default().push(addr);
        }
    }
}

/// Takes back the blocks that all streams are done with; with `wait`, all of them. What an error keeps is never handed out again.
fn settle(cuda: &Cuda, state: &mut State, wait: bool) {
    // Events must neither be recorded for streams of a capture nor be asked while work is captured.
    if graph::is_any_capturing() {
        return;
    }
    for (addr, users) in std::mem::take(&mut state.deferred) {
        state.leave(cuda, addr, users);
    }
    let mut gone = Vec::new();
    state.leaving.retain_mut(|(addr, events)| {
        events.retain(|event| !if wait { event.synchronize().is_ok() } else { event.is_done().unwrap_or(false) });
        if events.is_empty() {
            gone.push(*addr);
        }
        !events.is_empty()
    });
    gone.into_iter().for_each(|addr| state.give(addr));
}

fn release(state: &mut State) {
    if graph::is_any_capturing() {
        return;
    }
    for addr in std::mem::take(&mut state.free).into_values().flatten() {
        state.blocks.remove(&addr);
        // SAFETY: the block came from `host_alloc` and nobody uses it.
        let _ = unsafe { driver::host_free(addr as *mut std::ffi::c_void) };
    }
}

#[cold]
fn out_of_memory(bytes: usize) -> Error {
    Error::out_of_memory(format!("CUDA out of memory. Tried to pin {bytes} bytes of host memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_by_at_most_a_quarter() {
        assert_eq!(rounded(0), 4096);
        assert_eq!(rounded(4097), 8192);
        for bytes in [1 << 16, (1 << 16) + 1, 100_000, 1 << 20, (3 << 20) + 5, 1 << 30] {
            let size = rounded(bytes);
            assert!(size >= bytes && size <= bytes + bytes / 4 + SMALLEST, "{bytes} {size}");
        }
    }
}
