//! Shared memory of tensors: a block of a device, its owner and its version.

use crate::watch::watch_memory;
use oneflow_base::{Device, Result};
use oneflow_ep::{Block, provider};
use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A counted reference to storage. Views share it.
#[derive(Clone)]
pub struct Storage(Arc<Inner>);

struct Inner {
    device: Device,
    memory: UnsafeCell<Memory>,
    version: AtomicU32,
}

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
}

// SAFETY: the memory is reached only through raw pointers whose users order their accesses; `memory` itself changes only in
// `resize`, whose contract demands that nobody else uses the storage meanwhile.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Storage {
    /// New, uninitialised memory.
    pub fn new(device: Device, bytes: usize) -> Result<Storage> {
        let block = provider(device.kind)?.alloc(device.index, bytes)?;
        watch_memory(device, block.ptr as usize, block.bytes as i64);
        Ok(Self::make(device, Memory { ptr: block.ptr, bytes, owner: Owner::Block(block) }))
    }

    /// Storage over memory that `keep` owns.
    ///
    /// # Safety
    /// `ptr` is valid for reads and writes of `bytes` for as long as `keep` lives.
    pub unsafe fn foreign(device: Device, ptr: *mut u8, bytes: usize, keep: Box<dyn Any + Send + Sync>) -> Storage {
        Self::make(device, Memory { ptr, bytes, owner: Owner::Foreign { _keep: keep } })
    }

    fn make(device: Device, memory: Memory) -> Storage {
        Storage(Arc::new(Inner { device, memory: UnsafeCell::new(memory), version: AtomicU32::new(0) }))
    }

    #[inline]
    fn memory(&self) -> &Memory {
        // SAFETY: mutated only by `resize`, whose caller guarantees that no other use is under way.
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
    #[inline]
    pub fn same(&self, other: &Storage) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
    /// An address that identifies the storage while it lives, whatever its memory.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
    /// Number of handles on this storage.
    pub fn use_count(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Grows (or shrinks) the memory, keeping the common prefix.
    ///
    /// # Safety
    /// No other thread uses this storage, and nobody keeps a pointer into it.
    pub unsafe fn resize(&self, bytes: usize) -> Result<()> {
        let d = self.device();
        let p = provider(d.kind)?;
        let block = p.alloc(d.index, bytes)?;
        watch_memory(d, block.ptr as usize, block.bytes as i64);
        let old = self.memory();
        // SAFETY: both blocks are valid for the smaller of the two sizes and belong to the same device.
        unsafe {
            p.copy(p.queue(d.index), oneflow_ep::Copy::DeviceToDevice, block.ptr, old.ptr, old.bytes.min(bytes))?
        };
        let new = Memory { ptr: block.ptr, bytes, owner: Owner::Block(block) };
        // SAFETY: exclusive by this function's contract.
        let old = unsafe { std::mem::replace(&mut *self.0.memory.get(), new) };
        release(d, old);
        Ok(())
    }

    /// Moves the bytes into memory that `keep` owns (shared between processes, say).
    ///
    /// # Safety
    /// As for `resize` and `foreign`; this is host memory, and `ptr` is valid for as many bytes as there are here.
    pub unsafe fn move_into(&self, ptr: *mut u8, keep: Box<dyn Any + Send + Sync>) {
        let (from, bytes) = (self.ptr(), self.bytes());
        if bytes > 0 {
            // SAFETY: two blocks of host memory of this size, by this function's contract.
            unsafe { std::ptr::copy_nonoverlapping(from, ptr, bytes) };
        }
        let new = Memory { ptr, bytes, owner: Owner::Foreign { _keep: keep } };
        // SAFETY: exclusive by this function's contract.
        let old = unsafe { std::mem::replace(&mut *self.0.memory.get(), new) };
        release(self.device(), old);
    }

    /// Whether the memory is a provider's, not somebody else's.
    pub fn is_own(&self) -> bool {
        matches!(self.memory().owner, Owner::Block(_))
    }
}

fn release(device: Device, memory: Memory) {
    if let Owner::Block(block) = memory.owner
        && let Ok(p) = provider(device.kind)
    {
        watch_memory(device, block.ptr as usize, -(block.bytes as i64));
        // SAFETY: the block came from this provider's `alloc` and its last owner lets go of it here.
        unsafe { p.free(device.index, block) };
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Owner::Block(block) = &self.memory.get_mut().owner {
            let block = *block;
            if let Ok(p) = provider(self.device.kind) {
                watch_memory(self.device, block.ptr as usize, -(block.bytes as i64));
                // SAFETY: the block came from this provider's `alloc`, and no handle is left.
                unsafe { p.free(self.device.index, block) };
            }
        }
    }
}
