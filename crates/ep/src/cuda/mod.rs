//! The CUDA provider: memory, streams, copies and kernel launches of NVIDIA GPUs.
//!
//! Nothing is linked: the driver is opened by `driver`, the compiler and cuBLASLt by `discover`. If something is missing
//! there is no provider and `unavailable_reason` returns what was tried; no call here panics. The sources of kernels are
//! elsewhere.

mod alloc;
mod cubin;
pub mod cudnn;
pub mod cudnn_attention;
pub mod cudnn_rnn;
mod discover;
mod driver;
mod expandable;
mod fault;
pub mod fft;
pub mod graph;
mod kernel;
pub mod lt;
pub mod nccl;
mod nvrtc;
mod pinned;
mod recording;
pub mod solver;
mod stats;

pub use cubin::directory as cubin_directory;
pub use discover::set_search_dirs;
pub use fault::Fault;
pub use kernel::{ENTRY, Function, Grid, Text, compile};
pub use nvrtc::{Nvrtc, nvrtc};
pub use stats::{BlockInfo, BlockState, Kind, SIZES, SegmentInfo, Stat, Stats};

use crate::queues::{Chosen, choose};
use crate::{Block, Copy, Pinned, Position, Provider, Queue, Recording};
use alloc::DeviceMemory;
use driver::{Address, Code};
use oneflow_base::{Device, DeviceType, Error, Result};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock};

/// All GPUs of the process.
pub struct Cuda {
    devices: Vec<OnceLock<Gpu>>,
    opening: Mutex<()>,
    /// Releases of CUDA whose libraries the driver runs, the most wanted first.
    majors: Vec<u32>,
    nvrtc: &'static Nvrtc,
    lt: &'static lt::Lt,
    functions: kernel::Functions,
    pinned: pinned::PinnedMemory,
}

/// One GPU, opened on first use.
pub struct Gpu {
    context: Context,
    /// The stream of threads that chose none.
    stream: Stream,
    memory: DeviceMemory,
    faults: fault::Faults,
    recorder: recording::Recorder,
    /// `-arch` of the run-time compiler.
    pub arch: String,
    pub name: String,
    pub compute_capability: (i32, i32),
    pub n_multiprocessors: u32,
    pub total_memory: usize,
}

/// The primary context of a device, kept until the process ends.
struct Context(driver::Context);
// SAFETY: a context may be current on any threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

struct Stream(driver::Stream);
// SAFETY: a stream handle may be used from any thread; streams are never destroyed.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// A point in a queue's work.
pub struct Event {
    raw: driver::Event,
    device: Device,
}
// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

static FORKED: AtomicBool = AtomicBool::new(false);

/// The provider; `None` where CUDA cannot be used.
pub fn provider() -> Option<&'static Cuda> {
    state().as_ref().ok()
}

pub fn is_available() -> bool {
    provider().is_some()
}

/// The reason why CUDA is unavailable; `None` if it is available.
pub fn unavailable_reason() -> Option<String> {
    state().as_ref().err().cloned()
}

fn state() -> &'static Result<Cuda, String> {
    static STATE: OnceLock<Result<Cuda, String>> = OnceLock::new();
    STATE.get_or_init(Cuda::open)
}

#[cold]
fn driver_error(what: &str, e: Code) -> Error {
    graph::note_refused(what, e);
    let (name, text) = driver::describe(e);
    Error::runtime(format!("CUDA error: {what}: {text} ({name})"))
}

impl Cuda {
    fn open() -> Result<Cuda, String> {
        driver::open()?;
        let text = |e: Code| {
            let e = driver_error("initialise", e);
            format!("the NVIDIA driver was found but cannot be used: {e}")
        };
        // SAFETY: opening has no preconditions.
        let n = unsafe { driver::init(0).and_then(|()| driver::value(|p| driver::device_count(p))) }.map_err(text)?;
        if n <= 0 {
            return Err("the NVIDIA driver was found but no GPU (is CUDA_VISIBLE_DEVICES empty?)".into());
        }
        // SAFETY: as above.
        let version: c_int = unsafe { driver::value(|p| driver::driver_version(p)) }.map_err(text)?;
        // A driver runs what was built for its own major release or an older one.
        let majors: Vec<u32> = [13, 12].into_iter().filter(|&m| m <= (version / 1000).max(12) as u32).collect();
        let nvrtc = nvrtc::nvrtc_of(&majors).map_err(|e| e.to_string())?;
        let lt = lt::lt_of(&majors).map_err(|e| e.to_string())?;
        extern "C" fn in_child() {
            FORKED.store(true, Ordering::Relaxed);
        }
        static AT_FORK: Once = Once::new();
        // SAFETY: the handler only stores to an atomic.
        AT_FORK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        let devices = (0..n.min(u16::MAX as i32)).map(|_| OnceLock::new()).collect();
        Ok(Cuda {
            devices,
            opening: Mutex::new(()),
            majors,
            nvrtc,
            lt,
            functions: Default::default(),
            pinned: Default::default(),
        })
    }

    pub fn nvrtc(&self) -> &'static Nvrtc {
        self.nvrtc
    }

    pub fn lt(&self) -> &'static lt::Lt {
        self.lt
    }

    /// cuFFT, loaded on first use; an error where there is none.
    pub fn fft(&self) -> Result<&'static fft::Fft> {
        fft::fft_of(&self.majors)
    }

    /// cuSOLVER and cuBLAS, loaded on first use; an error where one is missing.
    pub fn solver(&self) -> Result<&'static solver::Solver> {
        solver::solver_of(&self.majors)
    }

    /// cuDNN, loaded on first use; an error where there is none.
    pub fn cudnn(&self) -> Result<&'static cudnn::Cudnn> {
        cudnn::cudnn()
    }

    /// A device, opened on first use, its context current on this thread.
    pub fn device(&self, index: u16) -> Result<&Gpu> {
        let gpu = self.gpu(index)?;
        // Another library of the process may have made another context current meanwhile.
        gpu.context.make_current().map_err(|e| driver_error("set device", e))?;
        Ok(gpu)
    }

    /// A device, opened on first use.
    fn gpu(&self, index: u16) -> Result<&Gpu> {
        let slot = self.devices.get(index as usize).ok_or_else(|| {
            Error::runtime(format!("CUDA error: invalid device ordinal {index}: there are {}", self.devices.len()))
        })?;
        if FORKED.load(Ordering::Relaxed) {
            return Err(Error::runtime(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
            ));
        }
        if let Some(gpu) = slot.get() {
            return Ok(gpu);
        }
        let _one = self.opening.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(gpu) = slot.get() {
            return Ok(gpu);
        }
        let gpu = Gpu::open(index, self.nvrtc).map_err(|e| driver_error("open device", e))?;
        Ok(slot.get_or_init(|| gpu))
    }

    /// A new queue of a device. It lives until the process ends.
    pub fn new_queue(&self, index: u16) -> Result<Queue> {
        self.device(index)?;
        // SAFETY: the device's context is current.
        let raw = unsafe { driver::value(|p| driver::stream_create(p, driver::STREAM_NON_BLOCKING)) }
            .map_err(|e| driver_error("create stream", e))?;
        Ok(Queue { device: Device::new(DeviceType::CUDA, index), raw: raw.cast() })
    }

    /// Makes a queue the calling thread's current one of its device; `None` restores the device's own.
    pub fn set_queue(&self, index: u16, queue: Option<Queue>) {
        choose(Device::new(DeviceType::CUDA, index), queue);
    }

    /// Marks the work issued to a queue so far.
    pub fn record(&self, queue: Queue) -> Result<Event> {
        self.record_with(queue, driver::EVENT_DISABLE_TIMING)
    }

    /// As `record`, and the device notes the time.
    pub fn record_time(&self, queue: Queue) -> Result<Event> {
        self.record_with(queue, 0)
    }

    fn record_with(&self, queue: Queue, flags: u32) -> Result<Event> {
        self.device(queue.device.index)?;
        // SAFETY: the device's context is current.
        let raw = unsafe { driver::value(|p| driver::event_create(p, flags)) };
        let event = Event { raw: raw.map_err(|e| driver_error("create event", e))?, device: queue.device };
        // SAFETY: the event was just made; streams live until the process ends.
        unsafe { driver::event_record(event.raw, queue.raw.cast()) }.map_err(|e| driver_error("record event", e))?;
        Ok(event)
    }

    /// Makes later work of `queue` wait for an event of any device.
    pub fn wait(&self, queue: Queue, event: &Event) -> Result<()> {
        self.device(queue.device.index)?;
        // SAFETY: both handles are live.
        unsafe { driver::stream_wait(queue.raw.cast(), event.raw, 0) }.map_err(|e| driver_error("wait for event", e))
    }

    /// Raises an error at the next synchronisation of a device, as for values that kernels find wrong.
    pub fn report(&self, index: u16, error: Error) {
        if let Some(gpu) = self.opened(index) {
            gpu.faults.report(error);
        }
    }

    /// Runs what a capture of another thread would forbid though it touches none of its queues, as a question about an event.
    pub fn outside_of_captures<T>(&self, run: impl FnOnce() -> T) -> T {
        graph::outside_of_captures(run)
    }

    /// Returns true if the work of one queue is done. An error is that of the work, or of a question within a capture.
    pub fn is_done(&self, queue: Queue) -> Result<bool> {
        self.device(queue.device.index)?;
        // SAFETY: streams live until the process ends.
        match unsafe { driver::stream_query(queue.raw.cast()) } {
            Ok(()) => Ok(true),
            Err(Code::NOT_READY) => Ok(false),
            Err(e) => Err(driver_error(&format!("query stream of {}", queue.device), e)),
        }
    }

    /// Waits for the work of one queue. Faults that kernels reported meanwhile are raised here.
    pub fn synchronize_queue(&self, queue: Queue) -> Result<()> {
        let gpu = self.device(queue.device.index)?;
        // SAFETY: streams live until the process ends.
        unsafe { driver::stream_synchronize(queue.raw.cast()) }.map_err(|e| driver_error("synchronize", e))?;
        gpu.faults.raise()
    }

    /// Bytes that the driver has free on a device, and how many there are.
    pub fn driver_memory(&self, index: u16) -> Result<(usize, usize)> {
        self.device(index)?;
        driver::memory().map_err(|e| driver_error("query memory", e))
    }

    /// Where kernels of a device report wrong values: a `Fault` in memory that host and device share.
    pub fn faults(&self, index: u16) -> Result<*mut Fault> {
        Ok(self.device(index)?.faults.on_device())
    }

    /// Sets `bytes` bytes to `value` in queue order.
    ///
    /// # Safety
    /// The range is valid on the queue's device.
    pub unsafe fn memset(&self, queue: Queue, dst: *mut u8, value: u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.device(queue.device.index)?;
        // SAFETY: by the contract.
        unsafe { driver::set_bytes(dst as Address, value, bytes, queue.raw.cast()) }
            .map_err(|e| driver_error("memset", e))
    }

    /// Memory for work on a queue; a kernel's scratch.
    pub fn alloc_on(&self, queue: Queue, bytes: usize) -> Result<Block> {
        self.device(queue.device.index)?.memory.alloc(queue.raw.cast(), bytes)
    }

    /// Gives memory back whose last work was issued to `queue`; it need not be done.
    pub fn free_on(&self, queue: Queue, block: Block) {
        if let Ok(gpu) = self.device(queue.device.index) {
            gpu.memory.free(queue.raw.cast(), block);
        }
    }

    fn stream(&self, gpu: &Gpu, index: u16) -> driver::Stream {
        let chosen = Chosen::now().queue_of(Device::new(DeviceType::CUDA, index));
        chosen.map_or(gpu.stream.0, |q| q.raw.cast())
    }
}

impl Gpu {
    fn open(index: u16, nvrtc: &Nvrtc) -> Result<Gpu, Code> {
        let mut name = [0u8; 256];
        // SAFETY: the driver is initialised; the name's place is as large as is said.
        let (device, context, total_memory) = unsafe {
            let device: c_int = driver::value(|p| driver::device_get(p, index.into()))?;
            let context = Context(driver::value(|p| driver::context_retain(p, device))?);
            driver::device_name(name.as_mut_ptr().cast(), name.len() as c_int - 1, device)?;
            (device, context, driver::value(|p| driver::device_memory(p, device))?)
        };
        context.make_current()?;
        let attribute = |which| {
            // SAFETY: an attribute is one integer.
            unsafe { driver::value(|p| driver::device_attribute(p, which, device)) }
        };
        let compute_capability = (attribute(driver::CAPABILITY_MAJOR)?, attribute(driver::CAPABILITY_MINOR)?);
        let n = attribute(driver::MULTIPROCESSORS)?;
        let expands = expandable::wanted() && attribute(driver::HAS_VIRTUAL_MEMORY)? != 0;
        Ok(Gpu {
            // Of the blocking kind: ordered with the legacy default stream, on which other libraries hand over tensors.
            // SAFETY: the context is current.
            stream: Stream(unsafe { driver::value(|p| driver::stream_create(p, 0)) }?),
            memory: DeviceMemory::new(index, expands.then_some(total_memory)),
            faults: fault::Faults::new(index)?,
            recorder: Default::default(),
            arch: nvrtc.arch_for(compute_capability.0, compute_capability.1),
            name: CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy().into_owned(),
            compute_capability,
            n_multiprocessors: n.max(1) as u32,
            total_memory,
            context,
        })
    }
}

impl Context {
    /// Makes it the calling thread's. Another library of the process may have made another one current.
    fn make_current(&self) -> Result<(), Code> {
        // SAFETY: the context is kept; the place is live.
        unsafe {
            match driver::value(|p| driver::context_current(p))? == self.0 {
                true => Ok(()),
                false => driver::context_make_current(self.0),
            }
        }
    }
}

impl Event {
    /// Returns true if the work before it is done. An error is that of the work, not of the question.
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is live.
        match unsafe { driver::event_query(self.raw) } {
            Ok(()) => Ok(true),
            Err(Code::NOT_READY) => Ok(false),
            Err(e) => Err(driver_error(&format!("query event of {}", self.device), e)),
        }
    }

    /// Milliseconds from one event to a later one of the same device. Both note the time and are done.
    pub fn milliseconds_to(&self, later: &Event) -> Result<f32> {
        // SAFETY: both events are live.
        unsafe { driver::value(|p| driver::event_elapsed(p, self.raw, later.raw)) }
            .map_err(|e| driver_error(&format!("time between events of {} and {}", self.device, later.device), e))
    }

    /// Waits for the work before it.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is live.
        unsafe { driver::event_synchronize(self.raw) }
            .map_err(|e| driver_error(&format!("wait for event of {}", self.device), e))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is live and used no more; waits that were issued stay valid.
        let _ = unsafe { driver::event_destroy(self.raw) };
    }
}

/// Returns true if the driver has registered this host memory, in which case it reads it later, when the copy's turn comes.
fn is_pinned(src: *const u8) -> bool {
    let mut kind = 0u32;
    // SAFETY: the attribute is one 32-bit number; any address may be asked about.
    unsafe { driver::address_attribute((&raw mut kind).cast(), driver::ADDRESS_MEMORY_TYPE, src as Address) }.is_ok()
}

/// Owns a block of pinned memory.
struct PinnedBlock(usize);

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        // A forked child has no driver to ask; the block stays where it is.
        if !FORKED.load(Ordering::Relaxed)
            && let Some(cuda) = provider()
        {
            cuda.pinned.free(cuda, self.0 as *mut u8);
        }
    }
}

/// The device that memory belongs to; `None` for memory that the driver does not know.
fn owner_of(ptr: *const u8) -> Option<u16> {
    let mut index = 0i32;
    // SAFETY: the attribute is one 32-bit number; any address may be asked about.
    let known = unsafe { driver::address_attribute((&raw mut index).cast(), driver::ADDRESS_DEVICE, ptr as Address) };
    known.is_ok().then_some(index as u16)
}

impl Cuda {
    /// Of a copy from another device, the queue that the calling thread uses there.
    fn source_queue(&self, queue: Queue, src: *const u8) -> Option<Queue> {
        if self.devices.len() < 2 {
            return None;
        }
        let index = owner_of(src)?;
        (index != queue.device.index).then(|| self.queue(index))
    }
}

impl Provider for Cuda {
    fn device_type(&self) -> DeviceType {
        DeviceType::CUDA
    }

    fn device_count(&self) -> usize {
        self.devices.len()
    }

    fn alloc(&self, index: u16, bytes: usize) -> Result<Block> {
        let gpu = self.device(index)?;
        gpu.memory.alloc(self.stream(gpu, index), bytes)
    }

    unsafe fn free(&self, index: u16, block: Block) {
        // In a forked child and at the driver's end there is nothing to give back to.
        if let Ok(gpu) = self.device(index) {
            gpu.memory.free(self.stream(gpu, index), block);
        }
    }

    unsafe fn copy(&self, queue: Queue, how: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // The source's queue may still be writing, and must not write on before the copy is done.
        let source = if how == Copy::DeviceToDevice { self.source_queue(queue, src) } else { None };
        if let Some(source) = source {
            self.order(source, queue)?;
        }
        self.device(queue.device.index)?;
        let stream: driver::Stream = queue.raw.cast();
        // A graph would read the memory again with each launch, when it may be gone.
        if how == Copy::HostToDevice && self.is_capturing(queue) {
            // SAFETY: streams live until the process ends. The question ends the capture.
            let refused = unsafe { driver::stream_synchronize(stream) }.err();
            return Err(driver_error("copy HostToDevice", refused.unwrap_or(Code::CAPTURE_UNSUPPORTED)));
        }
        let (to, from) = (dst as Address, src as Address);
        // SAFETY: both ranges are valid by the trait's contract.
        let done = unsafe {
            match how {
                Copy::HostToDevice => driver::copy_to_device(to, src.cast(), bytes, stream),
                Copy::DeviceToHost => driver::copy_to_host(dst.cast(), from, bytes, stream),
                // Unified addresses: the driver knows which devices they lie on.
                Copy::DeviceToDevice => driver::copy(to, from, bytes, stream),
            }
        };
        done.map_err(|e| driver_error(&format!("copy {how:?}"), e))?;
        // Pageable memory has been staged when the call returns.
        if how == Copy::DeviceToHost || (how == Copy::HostToDevice && is_pinned(src)) {
            self.synchronize_queue(queue)?;
        }
        source.map_or(Ok(()), |source| self.order(queue, source))
    }

    unsafe fn copy_async(&self, queue: Queue, how: Copy, dst: *mut u8, src: *const u8, bytes: usize) -> Result<()> {
        let host = match how {
            Copy::HostToDevice => src,
            Copy::DeviceToHost => dst.cast_const(),
            Copy::DeviceToDevice => std::ptr::null(),
        };
        // Memory that others pinned could be gone before the copy's turn comes.
        if bytes == 0 || !self.pinned.record_use(host, bytes, queue) {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(queue, how, dst, src, bytes) };
        }
        self.device(queue.device.index)?;
        let stream: driver::Stream = queue.raw.cast();
        // SAFETY: both ranges are valid by the trait's contract; the block of the host is kept until the copy is done.
        let issued = unsafe {
            match how {
                Copy::HostToDevice => driver::copy_to_device(dst as Address, src.cast(), bytes, stream),
                _ => driver::copy_to_host(dst.cast(), src as Address, bytes, stream),
            }
        };
        issued.map_err(|e| driver_error(&format!("copy {how:?}"), e))
    }

    fn pinned(&self, bytes: usize) -> Result<Pinned> {
        // Memory is pinned for all devices, whichever context is current; one that is open already costs nothing.
        let opened = (0..self.devices.len() as u16).find(|i| self.opened(*i).is_some());
        self.device(opened.unwrap_or(0))?;
        let ptr = self.pinned.alloc(self, bytes)?;
        Ok(Pinned { ptr, keep: Box::new(PinnedBlock(ptr as usize)) })
    }

    fn is_pinned(&self, ptr: *const u8) -> bool {
        self.pinned.holds(ptr) || ((0..self.devices.len() as u16).any(|i| self.opened(i).is_some()) && is_pinned(ptr))
    }

    fn queue(&self, index: u16) -> Queue {
        let raw = match self.gpu(index) {
            Ok(gpu) => self.stream(gpu, index).cast(),
            // Whatever is issued to it reports the error.
            Err(_) => std::ptr::null_mut(),
        };
        Queue { device: Device::new(DeviceType::CUDA, index), raw }
    }

    fn own_queue(&self, index: u16) -> Queue {
        let raw = self.gpu(index).map_or(std::ptr::null_mut(), |gpu| gpu.stream.0.cast());
        Queue { device: Device::new(DeviceType::CUDA, index), raw }
    }

    fn order(&self, first: Queue, then: Queue) -> Result<()> {
        let event = self.record(first)?;
        self.wait(then, &event)
    }

    fn record_use(&self, index: u16, block: Block, queue: Queue) {
        if let Some(gpu) = self.opened(index) {
            gpu.memory.record_use(queue.raw.cast(), block);
        }
    }

    fn can_record(&self) -> bool {
        true
    }

    fn is_recorded(&self, queue: Queue) -> bool {
        self.is_capturing(queue)
    }

    fn begin_recording(&'static self, index: u16, at: Position) -> Result<Box<dyn Recording>> {
        self.begin_recording_at(index, at)
    }

    fn synchronize(&self, index: u16) -> Result<()> {
        let gpu = self.device(index)?;
        // SAFETY: the device's context is current.
        unsafe { driver::context_synchronize() }.map_err(|e| driver_error("synchronize", e))?;
        gpu.faults.raise()
    }

    fn memory(&self, index: u16) -> (usize, usize) {
        let now = self.memory_stats(index);
        (now.all(Kind::AllocatedBytes).current as usize, now.all(Kind::ReservedBytes).current as usize)
    }

    fn peak_memory(&self, index: u16, reset: bool) -> usize {
        let peak = self.memory_stats(index).all(Kind::AllocatedBytes).peak;
        if reset {
            self.reset_memory_stats(index, true, false);
        }
        peak as usize
    }

    fn n_allocs(&self, index: u16) -> u64 {
        self.memory_stats(index).all(Kind::Allocation).allocated
    }

    fn trim(&self, index: u16) {
        if self.opened(index).is_some()
            && let Ok(gpu) = self.device(index)
        {
            gpu.memory.trim();
            self.pinned.trim(self);
        }
    }
}

impl Cuda {
    fn opened(&self, index: u16) -> Option<&Gpu> {
        self.devices.get(index as usize).and_then(OnceLock::get)
    }

    /// What the allocator of a device has counted.
    pub fn memory_stats(&self, index: u16) -> Stats {
        self.opened(index).map(|g| g.memory.stats()).unwrap_or_default()
    }

    /// Starts new peaks, or new sums of what came and went.
    pub fn reset_memory_stats(&self, index: u16, peaks: bool, sums: bool) {
        if let Some(gpu) = self.opened(index) {
            gpu.memory.reset(peaks, sums);
        }
    }

    /// The allocator's segments, by address.
    pub fn memory_snapshot(&self, index: u16) -> Vec<SegmentInfo> {
        self.opened(index).map(|g| g.memory.snapshot()).unwrap_or_default()
    }

    /// The share of a device's memory that its allocator may hold.
    pub fn set_memory_fraction(&self, index: u16, fraction: f64) -> Result<()> {
        let gpu = self.device(index)?;
        gpu.memory.set_limit(if fraction < 1.0 { (gpu.total_memory as f64 * fraction).max(1.0) as usize } else { 0 });
        Ok(())
    }

    pub fn memory_fraction(&self, index: u16) -> Result<f64> {
        let gpu = self.device(index)?;
        Ok(match gpu.memory.limit() {
            0 => 1.0,
            limit => limit as f64 / gpu.total_memory as f64,
        })
    }

    /// Bytes of pinned host memory: (obtained from the driver, free for reuse).
    pub fn pinned_bytes(&self) -> (usize, usize) {
        self.pinned.bytes()
    }
}
