//! The CPU provider: host memory from a caching allocator, work done inline by the caller and its thread pool.

mod alloc;
mod futex;
mod pool;
mod reserved;

pub use pool::{MAX_THREADS, in_parallel_region, num_threads, parallel_for, set_num_threads, set_thread_num_threads};
pub use reserved::Reserved;

use crate::{Block, Copy, Provider, Queue};
use oneflow_base::{Device, DeviceType, Result};

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
    #[inline]
    fn alloc(&self, _: u16, bytes: usize) -> Result<Block> {
        alloc::alloc(bytes)
    }
    #[inline]
    unsafe fn free(&self, _: u16, block: Block) {
        // SAFETY: the same contract.
        unsafe { alloc::free(block) }
    }
    unsafe fn copy(&self, _: Queue, _: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        // SAFETY: both ranges are valid by the trait's contract; `copy` allows overlap.
        unsafe { std::ptr::copy(src, dst, bytes) };
        Ok(())
    }
    #[inline]
    fn queue(&self, _: u16) -> Queue {
        Queue { device: Device::CPU, raw: std::ptr::null_mut() }
    }
    fn synchronize(&self, _: u16) -> Result<()> {
        Ok(())
    }
    fn memory(&self, _: u16) -> (usize, usize) {
        alloc::memory()
    }
    fn peak_memory(&self, _: u16, reset: bool) -> usize {
        alloc::peak(reset)
    }
    fn n_allocs(&self, _: u16) -> u64 {
        alloc::n_allocs()
    }
    fn trim(&self, _: u16) {
        alloc::trim()
    }
}
