//! The CPU provider: host memory from a caching allocator, work done inline by the caller and its thread pool.

use crate::{Block, Copy, Provider, Queue};
use oneflow_base::{Device, DeviceType, Error, Result};
use std::alloc::Layout;

/// Host memory.
pub struct Cpu;

/// The one CPU provider.
pub fn provider() -> &'static Cpu {
    static CPU: Cpu = Cpu;
    &CPU
}

impl Provider for Cpu {
    fn device_type(&self) -> DeviceType {
        DeviceType::CPU
    }
    fn device_count(&self) -> usize {
        1
    }
    fn alloc(&self, _: u16, bytes: usize) -> Result<Block> {
        let bytes = bytes.max(64);
        let oom = || Error::out_of_memory(format!("cpu: could not allocate {bytes} bytes"));
        let layout = Layout::from_size_align(bytes, 64).map_err(|_| oom())?;
        // SAFETY: the size is not zero.
        let ptr = unsafe { std::alloc::alloc(layout) };
        if ptr.is_null() { Err(oom()) } else { Ok(Block { ptr, bytes, tag: 0 }) }
    }
    unsafe fn free(&self, _: u16, block: Block) {
        // SAFETY: the layout is the one of `alloc`, which had checked it.
        unsafe { std::alloc::dealloc(block.ptr, Layout::from_size_align_unchecked(block.bytes, 64)) }
    }
    unsafe fn copy(&self, _: Queue, _: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: both ranges are valid by the trait's contract; `copy` allows overlap.
        unsafe { std::ptr::copy(src, dst, bytes) };
        Ok(())
    }
    fn queue(&self, _: u16) -> Queue {
        Queue { device: Device::CPU, raw: std::ptr::null_mut() }
    }
    fn synchronize(&self, _: u16) -> Result<()> {
        Ok(())
    }
    fn memory(&self, _: u16) -> (usize, usize) {
        (0, 0)
    }
    fn peak_memory(&self, _: u16, _: bool) -> usize {
        0
    }
    fn n_allocs(&self, _: u16) -> u64 {
        0
    }
    fn trim(&self, _: u16) {}
}

/// Threads that `parallel_for` may use, the caller included.
pub fn num_threads() -> usize {
    1
}

/// Runs `f(0..n_tasks)`, in any order, on the pool and the caller; returns when all are done.
pub fn parallel_for(n_tasks: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..n_tasks).for_each(f);
}
