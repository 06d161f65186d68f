//! Shared memory of tensors: a block of a device, its owner and its version.

use crate::transfer::transfers;
use crate::watch::watch_memory;
use oneflow_base::{Device, DeviceType, Error, Result};
use oneflow_ep::cpu::Reserved;
use oneflow_ep::{Block, Pinned, Queue, provider};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A counted reference to storage. Views share it.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

/// A reference to storage that does not keep it alive.
#[derive(Clone)]
pub struct WeakStorage(Weak<Inner>);

impl WeakStorage {
    /// The storage, if a tensor still has it.
    pub fn upgrade(&self) -> Option<Storage> {
        self.0.upgrade().map(Storage)
    }
}

struct Inner {
    device: Device,
    memory: UnsafeCell<Memory>,
    version: AtomicU32,
    /// Writes that the version does not count (`.data`).
    uncounted: AtomicU32,
    /// Which generation it belongs to (`Storage::generation`).
    generation: AtomicU64,
    /// Launches under way without the language's lock.
    pins: AtomicU32,
    /// `EXPORTED`, `CUT`.
    flags: AtomicU8,
    /// Memory that was replaced while a launch or another library used it; freed when nobody can use it any more.
    replaced: UnsafeCell<Vec<Memory>>,
}

/// Another library has the address of the memory.
const EXPORTED: u8 = 1;
/// The memory was once shrunk, so tensors may reach beyond it.
const CUT: u8 = 2;

struct Memory {
    ptr: *mut u8,
    bytes: usize,
    owner: Owner,
}

enum Owner {
    /// Memory of the device's provider.
    Block(Block),
    /// Somebody else's memory (NumPy, DLPack, a plan's arena), kept alive by this value.
    Foreign { _keep: Box<dyn Any + Send + Sync> },
    /// Memory of the host that a device copies by itself.
    Pinned { kind: DeviceType, _keep: Box<dyn Any + Send + Sync> },
    /// Pinned memory of the host that the storage's device reads and writes by itself (`move_to_host`).
    OnHost { _keep: Box<dyn Any + Send + Sync> },
    /// Addresses without memory (`reserve_from`).
    Reserved { _keep: Reserved },
    /// No memory: the size of a meta tensor's storage.
    Nobody,
}

impl Memory {
    /// New memory of a device, or of the host pinned for a type of device.
    fn new(device: Device, bytes: usize, pinned: Option<DeviceType>) -> Result<Memory> {
        if let Some(kind) = pinned
            && device.is_cpu()
        {
            let Pinned { ptr, keep } = provider(kind)?.pinned(bytes)?;
            return Ok(Memory { ptr, bytes, owner: Owner::Pinned { kind, _keep: keep } });
        }
        let block = provider(device.kind)?.alloc(device.index, bytes)?;
        watch_memory(device, block.ptr as usize, block.bytes as i64);
        Ok(Memory { ptr: block.ptr, bytes, owner: Owner::Block(block) })
    }

    fn pinned_for(&self) -> Option<DeviceType> {
        match self.owner {
            Owner::Pinned { kind, .. } => Some(kind),
            _ => None,
        }
    }
}

thread_local! {
    /// From this many bytes on, new storages of the host hold no memory.
    static RESERVE_FROM: Cell<usize> = const { Cell::new(usize::MAX) };
}
/// Whether any thread has ever reserved: until then launches ask nothing.
static RESERVED: AtomicBool = AtomicBool::new(false);

/// From now on this thread's storages on the host of so many bytes hold no memory, and kernels that would read or write one
/// do not run: for traces and dry runs of what does not fit here. Small results of such kernels are zeros. `usize::MAX` ends
/// it for new storages. Returns the former value.
pub fn reserve_from(bytes: usize) -> usize {
    if bytes != usize::MAX {
        RESERVED.store(true, Ordering::Relaxed);
    }
    RESERVE_FROM.replace(bytes)
}

/// The generation that new storages belong to.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Starts a new generation and returns it: storages made from now on, by any thread, belong to it or to a later one.
pub fn start_generation() -> u64 {
    GENERATION.fetch_add(1, Ordering::Relaxed) + 1
}

/// Returns true if some storage may hold no memory.
#[inline]
pub(crate) fn any_reserved() -> bool {
    RESERVED.load(Ordering::Relaxed)
}

// SAFETY: the memory is reached only through raw pointers whose users order their accesses; `memory` and `replaced` change only
// in `resize` and `move_into`, whose contract demands the language's lock. Launches that run without the lock hold a `Pin` and
// addresses that were read under it.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Storage {
    /// New, uninitialised memory.
    pub fn new(device: Device, bytes: usize) -> Result<Storage> {
        if device.is_meta() {
            return Ok(Self::make(device, Memory { ptr: std::ptr::null_mut(), bytes, owner: Owner::Nobody }));
        }
        if device.is_cpu() && bytes >= RESERVE_FROM.get() {
            let keep = Reserved::new(bytes)?;
            return Ok(Self::make(device, Memory { ptr: keep.ptr(), bytes, owner: Owner::Reserved { _keep: keep } }));
        }
        Ok(Self::make(device, Memory::new(device, bytes, transfers().pinned)?))
    }

    /// Storage over memory that `keep` owns.
    ///
    /// # Safety
    /// `ptr` is valid for reads and writes of `bytes` for as long as `keep` lives.
    pub unsafe fn foreign(device: Device, ptr: *mut u8, bytes: usize, keep: Box<dyn Any + Send + Sync>) -> Storage {
        // Others have no address for memory of no bytes, and a slice has one.
        let ptr = if ptr.is_null() && bytes == 0 { std::ptr::without_provenance_mut(64) } else { ptr };
        Self::make(device, Memory { ptr, bytes, owner: Owner::Foreign { _keep: keep } })
    }

    fn make(device: Device, memory: Memory) -> Storage {
        Storage(Arc::new(Inner {
            device,
            memory: UnsafeCell::new(memory),
            version: AtomicU32::new(0),
            uncounted: AtomicU32::new(0),
            generation: AtomicU64::new(GENERATION.load(Ordering::Relaxed)),
            pins: AtomicU32::new(0),
            flags: AtomicU8::new(0),
            replaced: UnsafeCell::new(Vec::new()),
        }))
    }

    #[inline]
    fn memory(&self) -> &Memory {
        // SAFETY: mutated only by `replace`, whose caller holds the lock under which all others read.
        unsafe { &*self.0.memory.get() }
    }
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.memory().ptr
    }
    #[inline]
    pub fn bytes(&self) -> usize {
        self.memory().bytes
    }
    #[inline]
    pub fn device(&self) -> Device {
        self.0.device
    }
    #[inline]
    pub fn version(&self) -> u32 {
        self.0.version.load(Ordering::Relaxed)
    }
    #[inline]
    pub fn bump_version(&self) {
        self.0.version.fetch_add(1, Ordering::Relaxed);
    }
    pub fn bump_uncounted(&self) {
        self.0.uncounted.fetch_add(1, Ordering::Relaxed);
    }
    /// A number that differs after every write by this library, those that the version does not count among them.
    pub fn writes(&self) -> u64 {
        (self.version() as u64) << 32 | self.0.uncounted.load(Ordering::Relaxed) as u64
    }
    /// The generation that was current when the storage was made, or that it was moved to since.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Relaxed)
    }
    /// Moves the storage to a later generation.
    pub fn set_generation(&self, generation: u64) {
        self.0.generation.fetch_max(generation, Ordering::Relaxed);
    }
    #[inline]
    pub fn same(&self, other: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// A reference that lets the storage go.
    pub fn downgrade(&self) -> WeakStorage {
        WeakStorage(Arc::downgrade(&self.0))
    }
    /// An address that identifies the storage while it lives, whatever its memory.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Number of handles on this storage.
    pub fn use_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Keeps the present memory for as long as the pin lives, whatever becomes of the storage.
    pub fn pin(&self) -> Pin {
        self.0.pins.fetch_add(1, Ordering::Relaxed);
        Pin(self.clone())
    }

    /// Notes that work of a queue uses the memory: what is freed here is handed out again only when that is done, too.
    pub fn record_use(&self, queue: Queue) {
        if let Owner::Block(block) = self.memory().owner
            && let Ok(p) = provider(self.device().kind)
        {
            p.record_use(self.device().index, block, queue);
        }
    }

    /// The type of device that the memory is pinned for by this library.
    pub fn pinned_for(&self) -> Option<DeviceType> {
        self.memory().pinned_for()
    }

    /// Notes that another library got the address, so that the memory can no longer be exchanged.
    pub fn set_exported(&self) {
        self.0.flags.fetch_or(EXPORTED, Ordering::Relaxed);
    }

    /// Whether others can write the memory without a new version: it is theirs, or they got its address.
    pub fn is_written_elsewhere(&self) -> bool {
        self.0.flags.load(Ordering::Relaxed) & EXPORTED != 0 || matches!(self.memory().owner, Owner::Foreign { .. })
    }

    /// Returns true if the memory was once shrunk: tensors over it may reach beyond its end.
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.0.flags.load(Ordering::Relaxed) & CUT != 0
    }

    /// Grows (or shrinks) the memory, keeping the common prefix. An error where the memory is not this storage's own, or
    /// where another library uses it.
    ///
    /// # Safety
    /// The caller holds the language's lock (or the only handle), and nobody keeps a pointer into the storage but launches
    /// that hold a `Pin`.
    pub unsafe fn resize(&self, bytes: usize) -> Result<()> {
        if !self.is_resizable() {
            return Err(Error::runtime("Trying to resize storage that is not resizable"));
        }
        let d = self.device();
        if d.is_meta() {
            // SAFETY: exclusive by this function's contract.
            unsafe { self.replace(Memory { ptr: std::ptr::null_mut(), bytes, owner: Owner::Nobody }) };
            return Ok(());
        }
        let p = provider(d.kind)?;
        let old = self.memory();
        let new = Memory::new(d, bytes, old.pinned_for())?;
        if bytes < old.bytes {
            self.0.flags.fetch_or(CUT, Ordering::Relaxed);
        }
        // SAFETY: both blocks are valid for the smaller of the two sizes and belong to the same device.
        unsafe { p.copy(p.queue(d.index), oneflow_ep::Copy::DeviceToDevice, new.ptr, old.ptr, old.bytes.min(bytes))? };
        // SAFETY: exclusive by this function's contract.
        unsafe { self.replace(new) };
        Ok(())
    }

    /// Moves the bytes into memory that `keep` owns (for example shared between processes).
    ///
    /// # Safety
    /// As for `resize` and `foreign`; this is host memory, and `ptr` is valid for as many bytes as there are here.
    pub unsafe fn move_into(&self, ptr: *mut u8, keep: Box<dyn Any + Send + Sync>) {
        let (from, bytes) = (self.ptr(), self.bytes());
        if bytes > 0 {
            // SAFETY: two blocks of host memory of this size, by this function's contract.
            unsafe { std::ptr::copy_nonoverlapping(from, ptr, bytes) };
        }
        // SAFETY: exclusive by this function's contract.
        unsafe { self.replace(Memory { ptr, bytes, owner: Owner::Foreign { _keep: keep } }) };
    }

    /// Moves the bytes of a device into pinned memory of the host. The device reads and writes them there, over its link to the
    /// host, and whoever knows the storage's address sees no difference.
    ///
    /// # Safety
    /// As for `resize`.
    ///
    /// # Errors
    /// NotImplementedError: the device has no pinned memory. OutOfMemoryError: the host has not so much.
    pub unsafe fn move_to_host(&self) -> Result<()> {
        let (device, bytes) = (self.device(), self.bytes());
        let p = provider(device.kind)?;
        let Pinned { ptr, keep } = p.pinned(bytes)?;
        // By the queue of threads that chose none, where programs run: the memory is handed out again when that is done with it.
        let queue = p.own_queue(device.index);
        p.order(p.queue(device.index), queue)?;
        // SAFETY: both are valid for so many bytes, and nobody touches either before the copy is done.
        unsafe { p.copy_async(queue, oneflow_ep::Copy::DeviceToHost, ptr, self.ptr(), bytes)? };
        p.synchronize(device.index)?;
        // SAFETY: exclusive by this function's contract.
        unsafe { self.replace(Memory { ptr, bytes, owner: Owner::OnHost { _keep: keep } }) };
        Ok(())
    }

    /// Returns true if `move_to_host` has moved the bytes.
    pub fn is_on_host(&self) -> bool {
        matches!(self.memory().owner, Owner::OnHost { .. })
    }

    /// Exchanges the memory. The old one is freed at once unless a launch or another library may still use it.
    ///
    /// # Safety
    /// As for `resize`.
    unsafe fn replace(&self, new: Memory) {
        // SAFETY: exclusive by this function's contract.
        let (old, replaced) =
            unsafe { (std::mem::replace(&mut *self.0.memory.get(), new), &mut *self.0.replaced.get()) };
        let exported = self.0.flags.load(Ordering::Relaxed) & EXPORTED != 0;
        // Acquire: what a launch that has dropped its pin did to the memory comes before it is freed.
        let in_use = self.0.pins.load(Ordering::Acquire) > 0;
        if in_use || exported {
            return replaced.push(old);
        }
        // SAFETY: nobody uses what was replaced, as has just been seen.
        replaced.drain(..).chain([old]).for_each(|m| unsafe { release(self.device(), &m) });
    }

    /// Returns true if it is addresses without memory.
    pub fn is_reserved(&self) -> bool {
        matches!(self.memory().owner, Owner::Reserved { .. })
    }

    /// Returns true if the memory is a provider's and not external.
    pub fn is_own(&self) -> bool {
        matches!(self.memory().owner, Owner::Block(_) | Owner::Pinned { .. } | Owner::Nobody)
    }

    /// Returns true if `resize` may exchange the memory: it is this storage's own, and no other library uses it.
    pub fn is_resizable(&self) -> bool {
        self.is_own() && self.0.flags.load(Ordering::Relaxed) & EXPORTED == 0
    }
}

/// Holds the memory that a storage has now for a launch that runs without the language's lock.
pub struct Pin(Storage);

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.0.pins.fetch_sub(1, Ordering::Release);
    }
}

/// Gives a provider's memory back. What others own goes with its owner.
///
/// # Safety
/// Nobody uses the memory any more, and this is called once for it.
unsafe fn release(device: Device, memory: &Memory) {
    if let Owner::Block(block) = memory.owner
        && let Ok(p) = provider(device.kind)
    {
        watch_memory(device, block.ptr as usize, -(block.bytes as i64));
        // SAFETY: the block came from this provider's `alloc`; the rest is this function's contract.
        unsafe { p.free(device.index, block) };
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let (device, replaced) = (self.device, std::mem::take(self.replaced.get_mut()));
        // SAFETY: the last handle is gone, so nobody uses any of it.
        [&*self.memory.get_mut()].into_iter().chain(&replaced).for_each(|m| unsafe { release(device, m) });
    }
}
