//! The provider trait and the table of providers by device type.

use oneflow_base::{Device, DeviceType, Error, Result};
use std::sync::OnceLock;

/// A block of device memory. `tag` belongs to the provider's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub ptr: *mut u8,
    /// Usable bytes, at least as many as requested.
    pub bytes: usize,
    pub tag: u64,
}

// SAFETY: a block is a plain address; whoever holds it decides who may touch the memory.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// The queue (CUDA: stream) work is issued to. `raw` is the provider's handle, null for synchronous providers.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    pub device: Device,
    pub raw: *mut std::ffi::c_void,
}

// SAFETY: a queue handle may be used from any thread; ordering between threads is the caller's matter.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

/// Host memory that a device reads and writes by itself. Dropping `keep` gives it back.
pub struct Pinned {
    pub ptr: *mut u8,
    pub keep: Box<dyn std::any::Any + Send + Sync>,
}

/// Direction of a raw copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
}

/// Where the generator of random numbers stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub seed: u64,
    pub offset: u64,
}

/// A recording under way. Dropped before its end, it is given up, and nothing of it was done.
pub trait Recording {
    /// The queue to issue to.
    fn queue(&self) -> Queue;
    /// Ends the recording. An error: something that was issued cannot be recorded.
    fn end(self: Box<Self>) -> Result<Box<dyn Recorded>>;
}

/// Work that is issued as a whole, as often as wanted. Nobody needs to wait before it is dropped.
pub trait Recorded: Send {
    /// Issues the work to its device's own queue, its random numbers drawn from `now` on rather than from where the generator
    /// stood at the recording.
    fn issue(&mut self, queue: Queue, now: Position) -> Result<()>;
    /// Kernels and copies.
    fn n_parts(&self) -> usize;
}

/// The interface of a device. Methods are called with a valid device index (`< device_count()`).
pub trait Provider: Send + Sync {
    fn device_type(&self) -> DeviceType;
    fn device_count(&self) -> usize;
    /// The reason why there is no device; `None` if there is one.
    fn unavailable_reason(&self) -> Option<String> {
        None
    }
    /// Memory aligned to at least 64 bytes. For zero bytes the block is valid and non-null.
    fn alloc(&self, index: u16, bytes: usize) -> Result<Block>;
    /// Gives a block back.
    ///
    /// # Safety
    /// `block` came from `alloc` of the same device and nobody uses it any more (queued work on the device's
    /// current queue may).
    unsafe fn free(&self, index: u16, block: Block);
    /// Copies bytes in queue order, between devices in the order of both; a copy to the host returns when the bytes are there, a copy from the host when the
    /// source may be reused.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes`, on the side that the direction names.
    unsafe fn copy(&self, queue: Queue, how: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()>;
    /// As `copy`, and a copy between the device and memory of `pinned` returns when it is issued. That memory is handed out again
    /// only when the copy is done; until then nobody may write a source or read a destination.
    ///
    /// # Safety
    /// As for `copy`.
    unsafe fn copy_async(&self, queue: Queue, how: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy(queue, how, dst, src, bytes) }
    }
    /// Memory of the host for copies that are not waited for.
    fn pinned(&self, _bytes: usize) -> Result<Pinned> {
        Err(Error::not_implemented(format!("pinned memory for device type {:?}", self.device_type().name())))
    }
    /// Returns true if an address of the host lies in pinned memory.
    fn is_pinned(&self, _ptr: *const u8) -> bool {
        false
    }
    /// The calling thread's current queue of a device.
    fn queue(&self, index: u16) -> Queue;
    /// The queue of threads that chose none.
    fn own_queue(&self, index: u16) -> Queue {
        self.queue(index)
    }
    /// Later work of `then` waits for all that was issued to `first` so far.
    fn order(&self, _first: Queue, _then: Queue) -> Result<()> {
        Ok(())
    }
    /// Notes that work of `queue` uses a block, which is handed out again only when that is done, too.
    fn record_use(&self, _index: u16, _block: Block, _queue: Queue) {}
    /// Returns true if `begin_recording` is supported.
    fn can_record(&self) -> bool {
        false
    }
    /// Returns true if what is issued to a queue is recorded, rather than done.
    fn is_recorded(&self, _queue: Queue) -> bool {
        false
    }
    /// Records what is issued to the recording's queue from now on, with random numbers from `at`. What the work needs on the host,
    /// as the bytes of a copy, cannot be recorded: the call fails, and so does the recording's end. Memory that the work touches
    /// has the same addresses whenever it is issued; what is allocated for the recording's queue meanwhile stays.
    fn begin_recording(&'static self, _index: u16, _at: Position) -> Result<Box<dyn Recording>> {
        Err(Error::not_implemented(format!("recorded work on device type {:?}", self.device_type().name())))
    }
    /// Waits for everything issued to the device.
    fn synchronize(&self, index: u16) -> Result<()>;
    /// Bytes (in use by blocks, held by the allocator).
    fn memory(&self, index: u16) -> (usize, usize);
    /// Peak of the bytes in use since the last reset.
    fn peak_memory(&self, index: u16, reset: bool) -> usize;
    /// Number of `alloc` calls served, for tests that a planned run allocates nothing.
    fn n_allocs(&self, index: u16) -> u64;
    /// Returns cached free memory to the system.
    fn trim(&self, index: u16);
}

static TABLE: [OnceLock<&'static dyn Provider>; DeviceType::MAX] = [const { OnceLock::new() }; DeviceType::MAX];

/// Adds a provider; the first registration of a device type stays.
pub fn register(p: &'static dyn Provider) {
    let _ = TABLE[p.device_type().0 as usize].set(p);
}

/// The provider of a device type.
#[inline]
pub fn provider(kind: DeviceType) -> Result<&'static dyn Provider> {
    match TABLE.get(kind.0 as usize).and_then(OnceLock::get) {
        Some(p) => Ok(*p),
        None if kind == DeviceType::CPU => {
            register(crate::cpu::provider());
            Ok(crate::cpu::provider())
        }
        None if kind == DeviceType::CUDA => match crate::cuda::provider() {
            Some(cuda) => {
                register(cuda);
                Ok(cuda)
            }
            None => Err(Error::runtime(format!(
                "CUDA is not available: {}",
                crate::cuda::unavailable_reason().unwrap_or_default()
            ))),
        },
        None => Err(Error::runtime(format!("no execution provider is registered for device type {:?}", kind.name()))),
    }
}
