//! Compiled kernels: one cached function a (device, key), launched with arguments on the stack.

use super::{Cuda, cubin, driver, driver_error};
use crate::Queue;
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::RwLock;

/// The entry point of every kernel source.
pub const ENTRY: &str = "entry";

/// A kernel's text, its entry `extern "C" __global__ void entry(..)`.
#[derive(Clone, Debug)]
pub struct Text {
    /// For messages.
    pub name: String,
    pub source: String,
    /// Compiler options besides the architecture.
    pub options: &'static [&'static str],
    /// The most shared memory that a launch asks for, in bytes. More than 48 KiB must be announced to the driver.
    pub shared: u32,
}

/// What a block may use without an announcement.
const COMMON_SHARED: u32 = 48 << 10;

/// The machine code of a text for an architecture, from the cache on disk or compiled now. Needs no GPU.
pub fn compile(text: &Text, arch: &str) -> Result<Vec<u8>> {
    cubin::load_or_compile(super::nvrtc()?, text, arch)
}

/// A kernel loaded on a device.
#[derive(Clone, Copy, Debug)]
pub struct Function(driver::Function);

// SAFETY: a function handle may be used from any thread; modules are never unloaded.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Loaded functions by device and key.
#[derive(Default)]
pub(super) struct Functions(RwLock<HashMap<(u16, u128), Function, BuildHasherDefault<KeyHasher>>>);

/// Keys are our own, so they need no hash that resists chosen ones, and each launch looks one up.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }
    /// Multiplies by the golden ratio, and folds the high bits, which all bits reach, into the low ones.
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
    #[inline]
    fn write_u16(&mut self, n: u16) {
        self.write_u64(n.into());
    }
    #[inline]
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
}

/// Launch dimensions of a kernel. Grids of up to 2^31 - 1 blocks in x, 65535 in y and z.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub blocks: [u32; 3],
    pub threads: [u32; 3],
    pub shared: u32,
}

impl Grid {
    /// Blocks of `threads` in one dimension.
    pub fn linear(blocks: u32, threads: u32) -> Grid {
        Grid { blocks: [blocks, 1, 1], threads: [threads, 1, 1], shared: 0 }
    }
}

/// Pointers to kernel arguments, for `Cuda::launch`: every argument is a place whose C layout is the kernel's parameter.
#[macro_export]
macro_rules! kernel_args {
    ($($arg:expr),* $(,)?) => { &mut [$((&raw const $arg).cast::<std::ffi::c_void>().cast_mut()),*] };
}

impl Cuda {
    /// The function of `key` on a device; its source is generated and compiled on first use.
    pub fn function(&self, index: u16, key: u128, text: impl FnOnce() -> Result<Text>) -> Result<Function> {
        let cache = &self.functions.0;
        if let Some(f) = cache.read().unwrap_or_else(|e| e.into_inner()).get(&(index, key)) {
            return Ok(*f);
        }
        // Two threads may compile the same text; the first stays.
        let f = self.load(index, &text()?)?;
        Ok(*cache.write().unwrap_or_else(|e| e.into_inner()).entry((index, key)).or_insert(f))
    }

    fn load(&self, index: u16, text: &Text) -> Result<Function> {
        let device = self.device(index)?;
        let load = |code: &[u8]| {
            let image = code.as_ptr().cast::<c_void>();
            // SAFETY: the image is machine code for this device or PTX with its closing zero, both from the compiler.
            super::graph::outside_of_captures(|| unsafe { driver::value(|p| driver::module_load(p, image)) })
        };
        let failed = |e| driver_error(&format!("load kernel {}", text.name), e);
        let code = cubin::load_or_compile(self.nvrtc, text, &device.arch)?;
        let module = load(&code).or_else(|_| {
            // The file on disk may be from another world: compile anew, once.
            cubin::forget(text, &device.arch);
            load(&cubin::load_or_compile(self.nvrtc, text, &device.arch)?).map_err(failed)
        })?;
        let entry = std::ffi::CString::new(ENTRY).map_err(|_| Error::runtime("kernel entry name"))?;
        let named = |p| {
            // SAFETY: the module is loaded and never unloaded.
            unsafe { driver::module_function(p, module, entry.as_ptr()) }
        };
        let function = driver::value(named).map_err(failed)?;
        if text.shared > COMMON_SHARED {
            let most = driver::FUNCTION_MAX_DYNAMIC_SHARED;
            // SAFETY: the function was just loaded.
            unsafe { driver::function_set_attribute(function, most, text.shared as i32) }.map_err(failed)?;
        }
        Ok(Function(function))
    }

    /// Enqueues a kernel.
    ///
    /// # Safety
    /// `args` points at the kernel's parameters, in order and of their C types; what they point at on the device stays
    /// valid until the work is done; the grid is one the kernel accepts.
    pub unsafe fn launch(&self, f: Function, queue: Queue, grid: Grid, args: &mut [*mut c_void]) -> Result<()> {
        if grid.blocks.contains(&0) {
            return Ok(());
        }
        self.device(queue.device.index)?;
        let ([x, y, z], [tx, ty, tz]) = (grid.blocks, grid.threads);
        let (stream, args, none) = (queue.raw.cast(), args.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: by the contract.
        unsafe { driver::launch_kernel(f.0, x, y, z, tx, ty, tz, grid.shared, stream, args, none) }
            .map_err(|e| driver_error("launch", e))
    }
}
