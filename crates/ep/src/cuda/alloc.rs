//! The caching allocator of one GPU: segments from the driver, best fit with coalescing, one pool a stream.
//!
//! Freeing is a matter of the host: a block can be handed out again at once on the stream it belongs to, because work on a
//! stream runs in order. A block that other streams used, as `record_use` and the freeing thread's stream say, leaves first: it
//! is handed out again when events show that those streams are done with it, and no stream waits for another meanwhile. Sizes
//! follow what PyTorch does, so memory behaves as its users expect. What a captured graph allocates comes from a private pool,
//! which keeps its addresses for the graph's replays.

use super::driver::{self, Address, Code};
use super::expandable::Expandable;
use super::stats::{BlockInfo, BlockState, Kind, SegmentInfo, Stats};
use super::{driver_error, graph};
use crate::Block;
use crate::best_fit::{BestFit, Part};
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard};

const ROUND: usize = 512;
const SMALL: usize = 1 << 20;
const SMALL_SEGMENT: usize = 2 << 20;
const LARGE_SEGMENT: usize = 20 << 20;
const LARGE: usize = 10 << 20;
/// A large chunk's remainder below this stays with it.
const LARGE_SLACK: usize = 1 << 20;

#[derive(Default)]
struct State {
    chunks: BestFit,
    stats: Stats,
    /// What the upper bits of a chunk's pool mean.
    pools: Vec<PoolOf>,
    /// Bytes that were asked for, by block.
    requested: Vec<usize>,
    /// Streams beside their own that use blocks, by block.
    users: HashMap<u32, Vec<UserStream>>,
    /// Freed blocks that other streams may still be using, in the order in which they were freed.
    leaving: Vec<Leaving>,
    /// Blocks freed while work was captured, when no event may be recorded for their streams.
    deferred: Vec<(u32, Vec<UserStream>)>,
    /// Captures under way: (the driver's number, private pool).
    captures: Vec<(u64, u32)>,
    /// Graphs that use a private pool.
    n_graphs: HashMap<u32, usize>,
    /// The most bytes that may be obtained from the driver; zero: as many as there are.
    limit: usize,
    /// Pools whose memory grows at its end, where that was asked for.
    expandable: HashMap<u64, Expandable>,
}

/// Whose blocks a pool holds: a stream's, outside or in a private pool (zero: outside).
#[derive(Clone, Copy, PartialEq)]
struct PoolOf {
    stream: UserStream,
    private: u32,
}

#[derive(Clone, Copy, PartialEq)]
struct UserStream(driver::Stream);
// SAFETY: a stream handle may be used from any thread; streams are never destroyed.
unsafe impl Send for UserStream {}

/// A freed block with an event for each stream that used it.
struct Leaving {
    id: u32,
    events: Vec<driver::Event>,
}
// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Leaving {}

impl Leaving {
    /// Marks what was issued to the streams so far.
    fn new(id: u32, streams: &[UserStream]) -> Result<Leaving, Code> {
        let mut leaving = Leaving { id, events: Vec::with_capacity(streams.len()) };
        for stream in streams {
            // SAFETY: the context is current.
            let event = unsafe { driver::value(|p| driver::event_create(p, driver::EVENT_DISABLE_TIMING)) }?;
            leaving.events.push(event);
            // SAFETY: the event was just made; streams live until the process ends.
            unsafe { driver::event_record(event, stream.0) }?;
        }
        Ok(leaving)
    }

    /// Drops the events that are reached; with `wait`, waits for them.
    fn is_gone(&mut self, wait: bool) -> bool {
        self.events.retain(|event| {
            // SAFETY: the event is live.
            let asked = unsafe { if wait { driver::event_synchronize(*event) } else { driver::event_query(*event) } };
            let reached = asked.is_ok();
            if reached {
                // SAFETY: as above, and it is used no more.
                let _ = unsafe { driver::event_destroy(*event) };
            }
            !reached
        });
        self.events.is_empty()
    }
}

/// Memory of one device.
pub struct DeviceMemory {
    index: u16,
    /// The device's memory, where pools are to grow at their end.
    expands: Option<usize>,
    state: Mutex<State>,
}

impl State {
    /// The key of a pool.
    fn pool(&mut self, of: PoolOf, small: bool) -> u64 {
        let at = self.pools.iter().position(|p| *p == of).unwrap_or_else(|| {
            self.pools.push(of);
            self.pools.len() - 1
        });
        (at as u64) << 1 | small as u64
    }

    fn of(&self, pool: u64) -> PoolOf {
        self.pools[(pool >> 1) as usize]
    }

    /// The private pool that a stream's allocations go to.
    fn private(&self, stream: driver::Stream) -> u32 {
        if self.captures.is_empty() {
            return 0;
        }
        let capture = graph::capture_of(stream);
        self.captures.iter().find(|(id, _)| Some(*id) == capture).map_or(0, |(_, pool)| *pool)
    }

    /// Hands a chunk back to its pool.
    fn give(&mut self, id: u32, bytes: usize, small: bool) {
        self.stats.sub(Kind::Active, small, 1);
        self.stats.sub(Kind::ActiveBytes, small, bytes);
        self.chunks.give(id);
        note_splits(&self.chunks, &mut self.stats);
    }
}

impl DeviceMemory {
    /// `expands`: the device's memory, where it has virtual memory and pools are to grow at their end.
    pub fn new(index: u16, expands: Option<usize>) -> DeviceMemory {
        DeviceMemory { index, expands, state: Mutex::new(State::default()) }
    }

    /// A block for work on `stream`. The device's context is current.
    pub fn alloc(&self, stream: driver::Stream, bytes: usize) -> Result<Block> {
        let mut state = self.lock();
        if bytes > isize::MAX as usize / 2 {
            return Err(self.out_of_memory(&mut state, bytes));
        }
        let size = bytes.max(1).next_multiple_of(ROUND);
        let small = size <= SMALL;
        settle(&mut state, false);
        let of = PoolOf { stream: UserStream(stream), private: state.private(stream) };
        let (pool, slack) = (state.pool(of, small), if small { ROUND - 1 } else { LARGE_SLACK });
        let taken = match state.chunks.take(pool, size, slack) {
            Some(t) => t,
            None => {
                let segment = match size {
                    _ if small => SMALL_SEGMENT,
                    ..LARGE => LARGE_SEGMENT,
                    _ => size.next_multiple_of(SMALL_SEGMENT),
                };
                self.obtain(&mut state, pool, bytes, size, segment)?;
                match state.chunks.take(pool, size, slack) {
                    Some(taken) => taken,
                    None => return Err(self.out_of_memory(&mut state, bytes)),
                }
            }
        };
        let at = taken.id as usize;
        if state.requested.len() <= at {
            state.requested.resize(at + 1, 0);
        }
        state.requested[at] = bytes;
        let stats = &mut state.stats;
        stats.add(Kind::Allocation, small, 1);
        stats.add(Kind::AllocatedBytes, small, taken.bytes);
        stats.add(Kind::RequestedBytes, small, bytes);
        stats.add(Kind::Active, small, 1);
        stats.add(Kind::ActiveBytes, small, taken.bytes);
        let State { chunks, stats, .. } = &mut *state;
        note_splits(chunks, stats);
        Ok(Block { ptr: taken.addr as *mut u8, bytes: taken.bytes, tag: taken.id as u64 })
    }

    /// Notes that work of a stream uses a block.
    pub fn record_use(&self, stream: driver::Stream, block: Block) {
        let id = block.tag as u32;
        let mut state = self.lock();
        if state.chunks.pool_of(id).is_none_or(|pool| state.of(pool).stream.0 == stream) {
            return;
        }
        let users = state.users.entry(id).or_default();
        if !users.contains(&UserStream(stream)) {
            users.push(UserStream(stream));
        }
    }

    /// Gives a block back whose last work is on `stream`. The device's context is current.
    pub fn free(&self, stream: driver::Stream, block: Block) {
        let id = block.tag as u32;
        let mut state = self.lock();
        let Some(pool) = state.chunks.pool_of(id) else { return };
        let (owner, small) = (state.of(pool).stream, pool & 1 == 1);
        let mut users = state.users.remove(&id).unwrap_or_default();
        if owner.0 != stream && !users.contains(&UserStream(stream)) {
            users.push(UserStream(stream));
        }
        let requested = state.requested[id as usize];
        state.stats.sub(Kind::Allocation, small, 1);
        state.stats.sub(Kind::AllocatedBytes, small, block.bytes);
        state.stats.sub(Kind::RequestedBytes, small, requested);
        if users.is_empty() {
            return state.give(id, block.bytes, small);
        }
        if graph::is_any_capturing() {
            return state.deferred.push((id, users));
        }
        state.leave(id, users);
    }

    pub fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Starts new peaks, or new sums of what came and went.
    pub fn reset(&self, peaks: bool, sums: bool) {
        let mut state = self.lock();
        if peaks {
            state.stats.reset_peak();
        }
        if sums {
            state.stats.reset_accumulated();
        }
    }

    /// The most bytes that may be obtained from the driver; zero: no limit.
    pub fn set_limit(&self, bytes: usize) {
        self.lock().limit = bytes;
    }

    pub fn limit(&self) -> usize {
        self.lock().limit
    }

    /// From now on, allocations for streams of a capture come from a private pool, which is kept for one graph more.
    pub fn begin_private(&self, capture: u64, pool: u32) {
        let mut state = self.lock();
        state.captures.push((capture, pool));
        *state.n_graphs.entry(pool).or_default() += 1;
    }

    pub fn end_private(&self, capture: u64) {
        self.lock().captures.retain(|(id, _)| *id != capture);
    }

    /// One graph less uses a private pool. Its memory goes back to the driver with the next `trim` when none is left.
    pub fn release_private(&self, pool: u32) {
        let mut state = self.lock();
        if let Some(n) = state.n_graphs.get_mut(&pool) {
            *n -= 1;
            if *n == 0 {
                state.n_graphs.remove(&pool);
            }
        }
    }

    /// All segments and their blocks, by address.
    pub fn snapshot(&self) -> Vec<SegmentInfo> {
        let state = self.lock();
        let pending = |id: u32| {
            state.leaving.iter().any(|l| l.id == id) || state.deferred.iter().any(|(deferred, _)| *deferred == id)
        };
        let block = |p: &Part| BlockInfo {
            address: p.addr,
            bytes: p.bytes,
            requested: if p.used { state.requested[p.id as usize] } else { 0 },
            state: match p.used {
                false => BlockState::Free,
                true if pending(p.id) => BlockState::PendingFree,
                true => BlockState::Allocated,
            },
        };
        let mut segments: Vec<SegmentInfo> = (state.chunks.segments().into_iter())
            .map(|(pool, parts)| SegmentInfo {
                address: parts[0].addr,
                stream: state.of(pool).stream.0 as usize,
                is_small: pool & 1 == 1,
                private_pool: state.of(pool).private,
                is_expandable: state.expandable.contains_key(&pool),
                blocks: parts.iter().map(block).collect(),
            })
            .collect();
        segments.sort_by_key(|s| s.address);
        segments
    }

    /// Returns free segments to the driver. The device's context is current.
    pub fn trim(&self) {
        let mut state = self.lock();
        settle(&mut state, true);
        release(&mut state);
    }

    /// Makes `wanted` bytes of `pool` free: from the driver, or by waiting for blocks that were leaving. `asked`: before rounding.
    fn obtain(&self, state: &mut State, pool: u64, asked: usize, wanted: usize, segment: usize) -> Result<()> {
        let add = |state: &mut State| match self.expands {
            Some(total) => self.expand(state, pool, wanted, total),
            None => add_segment(state, pool, segment),
        };
        let mut got = add(state);
        if is_out_of_memory(&got) {
            state.stats.n_retries += 1;
            settle(state, true);
            if state.chunks.holds(pool, wanted) {
                return Ok(());
            }
            release(state);
            got = add(state);
        }
        match got {
            Ok(()) => Ok(()),
            Err(_) if is_out_of_memory(&got) => Err(self.out_of_memory(state, asked)),
            Err(e) => Err(driver_error("allocate", e)),
        }
    }

    /// Maps memory at the end of a pool's segment, so that its free end holds `wanted` bytes.
    fn expand(&self, state: &mut State, pool: u64, wanted: usize, total: usize) -> Result<(), Code> {
        let granule = if pool & 1 == 1 { SMALL_SEGMENT } else { LARGE_SEGMENT };
        let State { chunks, stats, expandable, limit, .. } = state;
        let memory = match expandable.entry(pool) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Expandable::new(self.index, granule, total)?),
        };
        let end = memory.head.map(|head| chunks.tail(head)).filter(|tail| !tail.used);
        let bytes = memory.rounded(wanted - end.map_or(0, |tail| tail.bytes));
        check_limit(stats, *limit, bytes)?;
        memory.grow(bytes)?;
        match memory.head {
            Some(head) => chunks.extend(head, bytes),
            None => {
                memory.head = Some(chunks.add_segment(pool, memory.base(), bytes));
                stats.add(Kind::Segment, pool & 1 == 1, 1);
            }
        }
        note_obtained(stats, pool, bytes);
        Ok(())
    }

    #[cold]
    fn out_of_memory(&self, state: &mut State, bytes: usize) -> Error {
        state.stats.n_out_of_memory += 1;
        let gib = |b: usize| format!("{:.2} GiB", b as f64 / (1u64 << 30) as f64);
        let size = |b: usize| match b {
            0..0x40_0000 => format!("{:.2} KiB", b as f64 / 1024.0),
            0x40_0000..0x4000_0000 => format!("{:.2} MiB", b as f64 / (1u64 << 20) as f64),
            _ => gib(b),
        };
        let system = match driver::memory() {
            Ok((free, total)) => format!(" of {} in total {} are free;", gib(total), gib(free)),
            Err(_) => String::new(),
        };
        let limit = match state.limit {
            0 => String::new(),
            limit => format!("; at most {} may be held (set_per_process_memory_fraction)", gib(limit)),
        };
        let now = |kind| gib(state.stats.all(kind).current as usize);
        Error::out_of_memory(format!(
            "CUDA out of memory. Tried to allocate {} on cuda:{};{system} {} are in use by tensors and {} are held by the \
             allocator{limit}",
            size(bytes),
            self.index,
            now(Kind::AllocatedBytes),
            now(Kind::ReservedBytes)
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn is_out_of_memory<T>(r: &Result<T, Code>) -> bool {
    matches!(r, Err(Code::OUT_OF_MEMORY))
}

impl State {
    /// Keeps a freed block until the streams are done with it.
    fn leave(&mut self, id: u32, users: Vec<UserStream>) {
        match Leaving::new(id, &users) {
            Ok(leaving) => self.leaving.push(leaving),
            Err(_) => {
                // No event can be had: wait here.
                for stream in users {
                    // SAFETY: streams live until the process ends.
                    let _ = unsafe { driver::stream_synchronize(stream.0) };
                }
                self.give_whole(id);
            }
        }
    }

    fn give_whole(&mut self, id: u32) {
        if let Some((pool, bytes)) = self.chunks.pool_of(id).zip(self.chunks.bytes_of(id)) {
            self.give(id, bytes, pool & 1 == 1);
        }
    }
}

/// Takes back the blocks that all streams are done with; with `wait`, all of them. What an error keeps is never handed out again.
fn settle(state: &mut State, wait: bool) {
    // Events must neither be recorded for streams of a capture nor be asked while work is captured.
    if (state.leaving.is_empty() && state.deferred.is_empty()) || graph::is_any_capturing() {
        return;
    }
    for (id, users) in std::mem::take(&mut state.deferred) {
        state.leave(id, users);
    }
    let mut gone = Vec::new();
    state.leaving.retain_mut(|block| {
        let is_gone = block.is_gone(wait);
        if is_gone {
            gone.push(block.id);
        }
        !is_gone
    });
    gone.into_iter().for_each(|id| state.give_whole(id));
}

fn check_limit(stats: &Stats, limit: usize, bytes: usize) -> Result<(), Code> {
    let held = stats.all(Kind::ReservedBytes).current as usize;
    match limit != 0 && held + bytes > limit {
        true => Err(Code::OUT_OF_MEMORY),
        false => Ok(()),
    }
}

fn note_obtained(stats: &mut Stats, pool: u64, bytes: usize) {
    stats.add(Kind::ReservedBytes, pool & 1 == 1, bytes);
    stats.n_obtained += 1;
}

/// A segment from the driver. The device's context is current.
fn add_segment(state: &mut State, pool: u64, bytes: usize) -> Result<(), Code> {
    check_limit(&state.stats, state.limit, bytes)?;
    // SAFETY: the context is current; the memory stays uninitialised until a kernel writes it.
    let addr = graph::outside_of_captures(|| unsafe { driver::value(|p| driver::memory_alloc(p, bytes)) })?;
    state.chunks.add_segment(pool, addr as usize, bytes);
    state.stats.add(Kind::Segment, pool & 1 == 1, 1);
    note_obtained(&mut state.stats, pool, bytes);
    Ok(())
}

fn release(state: &mut State) {
    // The driver waits for the whole device before it takes memory back.
    if graph::is_any_capturing() {
        return;
    }
    let State { chunks, stats, pools, n_graphs, expandable, .. } = state;
    let is_kept = |pool: u64| n_graphs.contains_key(&pools[(pool >> 1) as usize].private);
    if !expandable.is_empty() {
        return shrink(chunks, stats, expandable, is_kept);
    }
    for (pool, addr, bytes) in chunks.release(|pool, _| !is_kept(pool)) {
        // SAFETY: the segment came from `obtain` and no chunk of it is in use; the driver waits for queued work.
        let _ = unsafe { driver::memory_free(addr as Address) };
        let small = pool & 1 == 1;
        stats.sub(Kind::Segment, small, 1);
        stats.sub(Kind::ReservedBytes, small, bytes);
        stats.n_returned += 1;
    }
}

/// Gives the free ends of expandable pools back, whole granules.
fn shrink(
    chunks: &mut BestFit,
    stats: &mut Stats,
    expandable: &mut HashMap<u64, Expandable>,
    is_kept: impl Fn(u64) -> bool,
) {
    // Unmapping does not wait for work that uses the memory.
    // SAFETY: waits for the current context.
    if unsafe { driver::context_synchronize() }.is_err() {
        return;
    }
    for (pool, memory) in expandable.iter_mut().filter(|(pool, _)| !is_kept(**pool)) {
        let Some(head) = memory.head else { continue };
        let tail = chunks.tail(head);
        let (before, small) = (memory.mapped(), pool & 1 == 1);
        let kept = if tail.used { before } else { memory.rounded(tail.addr - memory.base()) };
        if kept >= before {
            continue;
        }
        if chunks.cut(head, memory.base() + kept) {
            memory.head = None;
            stats.sub(Kind::Segment, small, 1);
        }
        memory.shrink(kept);
        stats.sub(Kind::ReservedBytes, small, before - kept);
        stats.n_returned += 1;
    }
    note_splits(chunks, stats);
}

fn note_splits(chunks: &BestFit, stats: &mut Stats) {
    for ((n, bytes), small) in chunks.splits().into_iter().zip([false, true]) {
        stats.set(Kind::InactiveSplit, small, n);
        stats.set(Kind::InactiveSplitBytes, small, bytes);
    }
}
