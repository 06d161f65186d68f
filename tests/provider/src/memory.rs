//! The provider: memory whose addresses the host cannot read, poisoned, guarded and counted.

use oneflow_base::{Device, DeviceType, Error, Result};
use oneflow_ep::{Block, Copy, Provider, Queue};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Added to a host address to make a device address: outside what any process can map, so that a host access is a crash.
const SHIFT: usize = 1 << 47;
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xA5;
/// Of fresh memory: NaN in every float dtype, far out of bounds as an index.
const POISON: u8 = 0xFF;

/// One device type of this kind.
pub struct Toy {
    kind: DeviceType,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Bytes by host address of every living block.
    live: BTreeMap<usize, usize>,
    in_use: usize,
    peak: usize,
    n_allocs: u64,
    n_broken: usize,
}

static TABLE: [OnceLock<&'static Toy>; DeviceType::MAX] = [const { OnceLock::new() }; DeviceType::MAX];

impl Toy {
    pub(crate) fn register(name: &'static str) -> Result<DeviceType> {
        let kind = DeviceType::register(name)?;
        let toy = TABLE[kind.0 as usize].get_or_init(|| Box::leak(Box::new(Toy { kind, state: Mutex::default() })));
        oneflow_ep::register(*toy);
        Ok(kind)
    }

    /// The registered device type.
    pub fn of(kind: DeviceType) -> Result<&'static Toy> {
        let toy = TABLE.get(kind.0 as usize).and_then(OnceLock::get);
        toy.copied().ok_or_else(|| Error::runtime(format!("{kind:?} is no device of this provider")))
    }

    /// Blocks around which something was written, so far.
    pub fn n_broken_guards(&self) -> usize {
        self.state().n_broken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The host's address of a device range, which must lie inside one living block.
    pub(crate) fn host(&self, device: *const u8, bytes: usize) -> Result<*mut u8> {
        let host = device.wrapping_sub(SHIFT);
        let at = host as usize;
        let state = self.state();
        let block = state.live.range(..=at).next_back();
        match block {
            Some((start, n)) if at + bytes <= start + n => Ok(host.cast_mut()),
            _ => Err(Error::runtime(format!("{:?}: {bytes} bytes at {device:?} lie in no block", self.kind))),
        }
    }

    fn layout(bytes: usize) -> Result<Layout> {
        let padded = bytes.checked_add(2 * GUARD).and_then(|n| Layout::from_size_align(n, GUARD).ok());
        padded.ok_or_else(|| Error::runtime(format!("cannot allocate {bytes} bytes")))
    }
}

impl Provider for Toy {
    fn device_type(&self) -> DeviceType {
        self.kind
    }

    fn device_count(&self) -> usize {
        1
    }

    fn alloc(&self, _: u16, bytes: usize) -> Result<Block> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout has a size; the three parts fill it.
        let host = unsafe {
            let start = std::alloc::alloc(layout);
            if start.is_null() {
                return Err(Error::runtime(format!("{:?}: out of memory for {bytes} bytes", self.kind)));
            }
            start.write_bytes(GUARD_BYTE, layout.size());
            let host = start.add(GUARD);
            host.write_bytes(POISON, bytes);
            host
        };
        let mut s = self.state();
        s.live.insert(host as usize, bytes);
        s.n_allocs += 1;
        s.in_use += bytes;
        s.peak = s.peak.max(s.in_use);
        Ok(Block { ptr: host.wrapping_add(SHIFT), bytes, tag: 0 })
    }

    unsafe fn free(&self, _: u16, block: Block) {
        let host = block.ptr.wrapping_sub(SHIFT);
        let mut s = self.state();
        let (Some(bytes), Ok(layout)) = (s.live.remove(&(host as usize)), Self::layout(block.bytes)) else {
            s.n_broken += 1;
            return;
        };
        s.in_use -= bytes;
        // SAFETY: the block is one of `alloc` and nobody uses it any more.
        unsafe {
            let start = host.sub(GUARD);
            let guards = [std::slice::from_raw_parts(start, GUARD), std::slice::from_raw_parts(host.add(bytes), GUARD)];
            s.n_broken += guards.concat().iter().any(|b| *b != GUARD_BYTE) as usize;
            std::alloc::dealloc(start, layout);
        }
    }

    unsafe fn copy(&self, _: Queue, how: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        let dst = if how == Copy::DeviceToHost { dst } else { self.host(dst, bytes)? };
        let src = if how == Copy::HostToDevice { src } else { self.host(src, bytes)? };
        // SAFETY: the sides of the host are valid by the contract, the others were looked up.
        unsafe { std::ptr::copy(src, dst, bytes) };
        Ok(())
    }

    fn queue(&self, index: u16) -> Queue {
        Queue { device: Device::new(self.kind, index), raw: std::ptr::null_mut() }
    }

    fn synchronize(&self, _: u16) -> Result<()> {
        Ok(())
    }

    fn memory(&self, _: u16) -> (usize, usize) {
        let s = self.state();
        (s.in_use, s.in_use)
    }

    fn peak_memory(&self, _: u16, reset: bool) -> usize {
        let mut s = self.state();
        let peak = s.peak;
        if reset {
            s.peak = s.in_use;
        }
        peak
    }

    fn n_allocs(&self, _: u16) -> u64 {
        self.state().n_allocs
    }

    fn trim(&self, _: u16) {}
}
