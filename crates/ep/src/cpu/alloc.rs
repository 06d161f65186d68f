//! The caching allocator of host memory.
//!
//! Small blocks (up to 256 KiB) come in size classes from lists of the calling thread, refilled in batches from shared
//! ones, which are cut from 2 MiB arenas. Large blocks are best fit with coalescing in segments of huge pages. Memory
//! goes back to the system only in `trim` or when the system has none left. Small blocks are never coalesced.

use crate::Block;
use crate::best_fit::BestFit;
use oneflow_base::{Error, Result};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once};

const ALIGN: usize = 64;
const ARENA: usize = 2 << 20;
const MAX_SMALL: usize = 256 << 10;
/// Segments for requests up to a quarter of it; larger requests get their own, so that they can be returned.
const SEGMENT: usize = 32 << 20;
/// Multiples of 64 up to 1 KiB, then four steps a doubling.
const N_CLASSES: usize = 16 + 8 * 4;
/// `Block::tag` of large blocks is `LARGE + chunk id`, of small ones the class.
const LARGE: u64 = 1 << 32;
/// How far a thread's counters may differ from the shared ones.
const FLUSH: i64 = 1 << 20;

/// The class of a size in 1..=MAX_SMALL.
#[inline]
fn class_of(bytes: usize) -> usize {
    if bytes <= 1024 {
        return (bytes - 1) / ALIGN;
    }
    // Position of the top bit of bytes - 1 (10 or more here), then the next two bits.
    let b = bytes - 1;
    let top = (usize::BITS - 1 - b.leading_zeros()) as usize;
    16 + (top - 10) * 4 + ((b >> (top - 2)) & 3)
}

const CLASS_BYTES: [usize; N_CLASSES] = {
    let mut t = [0; N_CLASSES];
    let mut i = 0;
    while i < N_CLASSES {
        t[i] = if i < 16 { (i + 1) * ALIGN } else { (256 << ((i - 16) / 4)) * ((i - 16) % 4 + 5) };
        i += 1;
    }
    t
};

/// Blocks of a class a thread keeps: at most 512 KiB and 64 blocks.
#[inline]
fn keep(class: usize) -> u32 {
    ((512 << 10) / CLASS_BYTES[class]).clamp(2, 64) as u32
}

/// A list of free blocks, linked through their first word.
#[derive(Clone, Copy)]
struct List {
    head: *mut u8,
    n: u32,
}

impl List {
    const EMPTY: List = List { head: std::ptr::null_mut(), n: 0 };

    /// # Safety
    /// `block` is free, at least 8 bytes, aligned, and in no other list.
    #[inline]
    unsafe fn push(&mut self, block: *mut u8) {
        // SAFETY: by the contract.
        unsafe { block.cast::<*mut u8>().write(self.head) };
        self.head = block;
        self.n += 1;
    }

    #[inline]
    fn pop(&mut self) -> Option<*mut u8> {
        let block = self.head;
        if block.is_null() {
            return None;
        }
        // SAFETY: a listed block holds the link to the next in its first word.
        self.head = unsafe { block.cast::<*mut u8>().read() };
        self.n -= 1;
        Some(block)
    }
}

/// The state that all threads share, under one lock that is taken once a batch.
struct Central {
    lists: [List; N_CLASSES],
    arena: *mut u8,
    arena_left: usize,
    large: BestFit,
}

// SAFETY: the lists hold free blocks that belong to nobody else.
unsafe impl Send for Central {}

static CENTRAL: Mutex<Central> = Mutex::new(Central {
    lists: [List::EMPTY; N_CLASSES],
    arena: std::ptr::null_mut(),
    arena_left: 0,
    large: BestFit::new(),
});

static HELD: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);
static N_ALLOCS: AtomicU64 = AtomicU64::new(0);

/// A thread's lists and its part of the counters. Only the thread itself writes; others read through `THREADS`.
struct Local {
    lists: UnsafeCell<[List; N_CLASSES]>,
    listed: Cell<bool>,
    in_use: AtomicI64,
    top: AtomicI64,
    n_allocs: AtomicU64,
}

/// The threads that have allocated or freed and are alive.
static THREADS: Mutex<Vec<LocalPtr>> = Mutex::new(Vec::new());
struct LocalPtr(*const Local);
// SAFETY: a thread takes its pointer out before its `Local` goes; only the atomic counters are read through it.
unsafe impl Send for LocalPtr {}

thread_local! {
    static LOCAL: Local = const {
        Local {
            lists: UnsafeCell::new([List::EMPTY; N_CLASSES]),
            listed: Cell::new(false),
            in_use: AtomicI64::new(0),
            top: AtomicI64::new(0),
            n_allocs: AtomicU64::new(0),
        }
    };
}

impl Local {
    #[inline]
    fn count_alloc(&self, bytes: usize) {
        // Plain loads and stores: nobody else writes these.
        let now = self.in_use.load(Relaxed) + bytes as i64;
        self.in_use.store(now, Relaxed);
        self.n_allocs.store(self.n_allocs.load(Relaxed) + 1, Relaxed);
        if now > self.top.load(Relaxed) {
            self.top.store(now, Relaxed);
            if now > FLUSH {
                self.flush();
            }
        }
        if !self.listed.get() {
            self.enlist();
        }
    }

    #[inline]
    fn count_free(&self, bytes: usize) {
        let now = self.in_use.load(Relaxed) - bytes as i64;
        self.in_use.store(now, Relaxed);
        if now < -FLUSH {
            self.flush();
        }
        if !self.listed.get() {
            self.enlist();
        }
    }

    /// Moves the bytes to the shared counters.
    #[cold]
    fn flush(&self) {
        let before = IN_USE.fetch_add(self.in_use.load(Relaxed), Relaxed);
        self.in_use.store(0, Relaxed);
        PEAK.fetch_max(before + self.top.load(Relaxed), Relaxed);
        self.top.store(0, Relaxed);
    }

    #[cold]
    fn enlist(&self) {
        self.listed.set(true);
        threads().push(LocalPtr(self));
    }
}

fn threads() -> MutexGuard<'static, Vec<LocalPtr>> {
    THREADS.lock().unwrap_or_else(|e| e.into_inner())
}

impl Drop for Local {
    fn drop(&mut self) {
        if self.listed.get() {
            let mut threads = threads();
            threads.retain(|t| !std::ptr::eq(t.0, self));
            self.flush();
            N_ALLOCS.fetch_add(self.n_allocs.load(Relaxed), Relaxed);
        }
        let mut central = central();
        for (class, list) in self.lists.get_mut().iter_mut().enumerate() {
            while let Some(block) = list.pop() {
                // SAFETY: the block was free in this thread's list and is in none now.
                unsafe { central.lists[class].push(block) };
            }
        }
    }
}

/// The lock, made safe for `fork`: both locks are held over it, so the child finds consistent lists.
fn central() -> MutexGuard<'static, Central> {
    type Guards = (MutexGuard<'static, Vec<LocalPtr>>, MutexGuard<'static, Central>);
    struct Held(UnsafeCell<Option<Guards>>);
    // SAFETY: touched only by the fork handlers, which run on the forking thread while it holds the locks.
    unsafe impl Sync for Held {}
    static HELD_OVER_FORK: Held = Held(UnsafeCell::new(None));
    extern "C" fn before() {
        let guards = (threads(), lock());
        // SAFETY: the locks are held, so no other thread is between `before` and `after`.
        unsafe { *HELD_OVER_FORK.0.get() = Some(guards) };
    }
    extern "C" fn after() {
        // SAFETY: as in `before`; the guards are moved out before they unlock.
        let guards = unsafe { (*HELD_OVER_FORK.0.get()).take() };
        drop(guards);
    }
    fn lock() -> MutexGuard<'static, Central> {
        CENTRAL.lock().unwrap_or_else(|e| e.into_inner())
    }
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handlers only take and give back the locks.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
    lock()
}

#[cold]
fn oom(bytes: usize) -> Error {
    Error::out_of_memory(format!("cpu: not enough memory: tried to allocate {bytes} bytes"))
}

/// Memory of at least `bytes`, aligned to 64.
#[inline]
pub fn alloc(bytes: usize) -> Result<Block> {
    if bytes > MAX_SMALL {
        return alloc_large(bytes);
    }
    let class = class_of(bytes.max(1));
    let size = CLASS_BYTES[class];
    let ptr = LOCAL.try_with(|local| {
        local.count_alloc(size);
        // SAFETY: only this thread touches its lists, and nothing below calls back into here.
        let list = unsafe { &mut (*local.lists.get())[class] };
        list.pop().or_else(|| refill(class, list, keep(class) / 2))
    });
    // A thread that is being torn down has no lists any more.
    let ptr = ptr.unwrap_or_else(|_| {
        count_direct(size as i64, 1);
        refill(class, &mut { List::EMPTY }, 1)
    });
    match ptr {
        Some(ptr) => Ok(Block { ptr, bytes: size, tag: class as u64 }),
        None => {
            let _ = LOCAL.try_with(|local| local.count_free(size));
            Err(oom(bytes))
        }
    }
}

/// Gives a block back, from any thread.
///
/// # Safety
/// `block` came from `alloc` and nobody uses it any more.
#[inline]
pub unsafe fn free(block: Block) {
    if block.tag >= LARGE {
        return free_large(block);
    }
    let class = block.tag as usize;
    let done = LOCAL.try_with(|local| {
        local.count_free(block.bytes);
        // SAFETY: only this thread touches its lists; the block is free by the contract.
        unsafe {
            let list = &mut (*local.lists.get())[class];
            list.push(block.ptr);
            if list.n > keep(class) {
                give_half(class, list);
            }
        }
    });
    if done.is_err() {
        count_direct(-(block.bytes as i64), 0);
        // SAFETY: the block is free by the contract.
        unsafe { central().lists[class].push(block.ptr) };
    }
}

fn count_direct(bytes: i64, n: u64) {
    let now = IN_USE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(now, Relaxed);
    N_ALLOCS.fetch_add(n, Relaxed);
}

/// One block, and up to `batch - 1` more into `list`.
#[cold]
fn refill(class: usize, list: &mut List, batch: u32) -> Option<*mut u8> {
    let size = CLASS_BYTES[class];
    let mut central = central();
    let c = &mut *central;
    let first = match c.lists[class].pop() {
        Some(block) => block,
        None => c.carve(size)?,
    };
    for _ in 1..batch {
        let block = match c.lists[class].pop() {
            Some(block) => block,
            // Cutting ahead is worth it only for blocks much smaller than an arena.
            None if size <= 4096 && c.arena_left >= size => match c.carve(size) {
                Some(block) => block,
                None => break,
            },
            None => break,
        };
        // SAFETY: the block is free and in no list.
        unsafe { list.push(block) };
    }
    Some(first)
}

/// # Safety
/// `list` is the calling thread's list of `class`.
#[cold]
unsafe fn give_half(class: usize, list: &mut List) {
    let mut central = central();
    for _ in 0..keep(class) / 2 {
        let Some(block) = list.pop() else { break };
        // SAFETY: the block was free in `list` and is in none now.
        unsafe { central.lists[class].push(block) };
    }
}

impl Central {
    /// A new block of a class's size from the current arena.
    fn carve(&mut self, size: usize) -> Option<*mut u8> {
        if self.arena_left < size {
            // What is left of the old arena goes to the classes that fit it, largest first.
            while self.arena_left >= ALIGN {
                let fits = CLASS_BYTES.iter().rposition(|&b| b <= self.arena_left)?;
                let block = self.cut(CLASS_BYTES[fits]);
                // SAFETY: the block was just cut from the arena.
                unsafe { self.lists[fits].push(block) };
            }
            self.arena = self.map(ARENA)?;
            self.arena_left = ARENA;
        }
        Some(self.cut(size))
    }

    fn cut(&mut self, size: usize) -> *mut u8 {
        let block = self.arena;
        // SAFETY: `size` is at most what is left of the arena.
        self.arena = unsafe { block.add(size) };
        self.arena_left -= size;
        block
    }

    /// Maps memory, returning cached memory to the system first where it has none left.
    fn map(&mut self, bytes: usize) -> Option<*mut u8> {
        map(bytes).or_else(|| {
            self.trim();
            map(bytes)
        })
    }

    fn trim(&mut self) {
        for (_, addr, bytes) in self.large.release(|_, _| true) {
            // SAFETY: the segment was mapped with this size and no chunk of it is in use.
            unsafe { libc::munmap(addr as *mut libc::c_void, bytes) };
            HELD.fetch_sub(bytes, Relaxed);
        }
    }
}

/// Maps `bytes` (a multiple of 2 MiB), aligned to 2 MiB, asking for huge pages.
fn map(bytes: usize) -> Option<*mut u8> {
    let padded = bytes.checked_add(ARENA)?;
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address of the system's choice.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), padded, prot, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    let addr = (base as usize).next_multiple_of(ARENA);
    let head = addr - base as usize;
    let tail = padded - head - bytes;
    // SAFETY: both cut-off ends lie in the fresh mapping, outside of what is kept.
    unsafe {
        if head > 0 {
            libc::munmap(base, head);
        }
        if tail > 0 {
            libc::munmap((addr + bytes) as *mut libc::c_void, tail);
        }
        libc::madvise(addr as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE);
    }
    HELD.fetch_add(bytes, Relaxed);
    Some(addr as *mut u8)
}

fn alloc_large(bytes: usize) -> Result<Block> {
    if bytes > isize::MAX as usize / 2 {
        return Err(oom(bytes));
    }
    let size = bytes.next_multiple_of(4096);
    // Up to an eighth too much is cheaper than a splinter nobody can use.
    let slack = (size / 8).max(MAX_SMALL / 4);
    let mut central = central();
    let taken = match central.large.take(0, size, slack) {
        Some(t) => t,
        None => {
            let segment = if size <= SEGMENT / 4 { SEGMENT } else { size.next_multiple_of(ARENA) };
            let segment = match central.map(segment) {
                Some(addr) => (addr, segment),
                None => {
                    let least = size.next_multiple_of(ARENA);
                    (central.map(least).ok_or_else(|| oom(bytes))?, least)
                }
            };
            central.large.add_segment(0, segment.0 as usize, segment.1);
            central.large.take(0, size, slack).ok_or_else(|| oom(bytes))?
        }
    };
    drop(central);
    if LOCAL.try_with(|local| local.count_alloc(taken.bytes)).is_err() {
        count_direct(taken.bytes as i64, 1);
    }
    Ok(Block { ptr: taken.addr as *mut u8, bytes: taken.bytes, tag: LARGE + taken.id as u64 })
}

fn free_large(block: Block) {
    central().large.give((block.tag - LARGE) as u32);
    if LOCAL.try_with(|local| local.count_free(block.bytes)).is_err() {
        count_direct(-(block.bytes as i64), 0);
    }
}

/// The sum over the living threads.
fn sum(f: impl Fn(&Local) -> i64) -> i64 {
    // SAFETY: a listed thread is alive: it takes itself out, under this lock, before it goes.
    threads().iter().map(|t| f(unsafe { &*t.0 })).sum()
}

/// Bytes (in use, held).
pub fn memory() -> (usize, usize) {
    let in_use = sum(|t| t.in_use.load(Relaxed)) + IN_USE.load(Relaxed);
    (in_use.max(0) as usize, HELD.load(Relaxed))
}

/// Highest number of bytes in use since the last reset. Every other living thread may add up to a mebibyte of error.
pub fn peak(reset: bool) -> usize {
    let _ = LOCAL.try_with(Local::flush);
    let (in_use, _) = memory();
    let peak = PEAK.load(Relaxed).max(in_use as i64) as usize;
    if reset {
        PEAK.store(in_use as i64, Relaxed);
    }
    peak
}

/// Blocks handed out so far, by all threads.
pub fn n_allocs() -> u64 {
    sum(|t| t.n_allocs.load(Relaxed) as i64) as u64 + N_ALLOCS.load(Relaxed)
}

/// Returns free large segments to the system.
pub fn trim() {
    central().trim();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_no_smaller_one() {
        for bytes in 1..=MAX_SMALL {
            let c = class_of(bytes);
            assert!(CLASS_BYTES[c] >= bytes && (c == 0 || CLASS_BYTES[c - 1] < bytes), "{bytes}");
            assert_eq!(CLASS_BYTES[c] % ALIGN, 0);
        }
        assert_eq!(class_of(MAX_SMALL), N_CLASSES - 1);
    }

    #[test]
    fn blocks_are_aligned_apart_and_counted() {
        let before = n_allocs();
        let sizes = [0, 1, 64, 65, 1000, 5000, 100_000, 300_000, 3 << 20, 40 << 20];
        let blocks: Vec<Block> = sizes.iter().map(|&n| alloc(n).unwrap()).collect();
        for (i, (b, &n)) in blocks.iter().zip(&sizes).enumerate() {
            assert!(b.bytes >= n && (b.ptr as usize).is_multiple_of(ALIGN));
            // SAFETY: the block is ours and this large.
            unsafe { b.ptr.write_bytes(i as u8, b.bytes) };
        }
        for (i, b) in blocks.iter().enumerate() {
            // SAFETY: as above.
            unsafe { assert!(*b.ptr == i as u8 && *b.ptr.add(b.bytes - 1) == i as u8) };
            // SAFETY: allocated above, used no more.
            unsafe { free(*b) };
        }
        assert!(n_allocs() >= before + sizes.len() as u64);
        assert!(peak(false) >= 43 << 20);
        assert!(memory().1 >= 43 << 20);
    }

    #[test]
    fn absurd_sizes_are_errors() {
        for bytes in [usize::MAX, isize::MAX as usize, 1 << 60, 1 << 46] {
            assert_eq!(alloc(bytes).unwrap_err().kind(), oneflow_base::ErrorKind::OutOfMemory);
        }
    }

    #[test]
    fn blocks_may_be_freed_by_another_thread() {
        for round in 0..20 {
            let blocks: Vec<Block> = (0..1000).map(|i| alloc((i * 37 + round) % 9000 + 1).unwrap()).collect();
            let other = std::thread::spawn(move || {
                let own: Vec<Block> = (0..1000).map(|i| alloc(i + 1).unwrap()).collect();
                // SAFETY: nobody uses the blocks any more.
                blocks.into_iter().for_each(|b| unsafe { free(b) });
                own
            });
            // SAFETY: the other thread has ended and left the blocks to us.
            other.join().unwrap().into_iter().for_each(|b| unsafe { free(b) });
        }
    }
}
