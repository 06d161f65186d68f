//! The CUDA provider: memory, streams, copies and kernel launches of NVIDIA GPUs.
//!
//! Nothing is linked: the driver is opened by cudarc, the compiler and cuBLASLt by `discover`. If something is missing
//! there is no provider and `unavailable_reason` returns what was tried; no call here panics. The sources of kernels are
//! elsewhere.

mod alloc;
mod cubin;
pub mod cudnn;
pub mod cudnn_attention;
pub mod cudnn_rnn;
mod discover;
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
use cudarc::driver::{CudaContext, DriverError, result, sys};
use oneflow_base::{Device, DeviceType, Error, Result};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};

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
    context: Arc<CudaContext>,
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

struct Stream(sys::CUstream);
// SAFETY: a stream handle may be used from any thread; streams are never destroyed.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// A point in a queue's work.
pub struct Event {
    raw: sys::CUevent,
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
    STATE.get_or_init(|| {
        // cudarc panics on a missing library or symbol; both are asked for before, this is the second net.
        std::panic::catch_unwind(Cuda::open).unwrap_or_else(|p| {
            let text = p.downcast_ref::<String>().map_or("unknown panic", String::as_str);
            Err(format!("the CUDA driver could not be opened: {text}"))
        })
    })
}

#[cold]
fn driver_error(what: &str, e: DriverError) -> Error {
    graph::note_refused(what, e.0 as u32);
    let name = e.error_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_else(|_| format!("{}", e.0 as u32));
    let text = e.error_string().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    Error::runtime(format!("CUDA error: {what}: {text} ({name})"))
}

impl Cuda {
    fn open() -> Result<Cuda, String> {
        // SAFETY: only opens the library.
        if !unsafe { sys::is_culib_present() } {
            return Err(
                "no NVIDIA driver was found (tried: libcuda.so, libcuda.so.1 by the loader's search)".to_string()
            );
        }
        let text = |e: DriverError| {
            let e = driver_error("initialise", e);
            format!("the NVIDIA driver was found but cannot be used: {e}")
        };
        result::init().map_err(text)?;
        let n = result::device::get_count().map_err(text)?;
        if n <= 0 {
            return Err("the NVIDIA driver was found but no GPU (is CUDA_VISIBLE_DEVICES empty?)".into());
        }
        let mut version = 0;
        // SAFETY: the pointer is valid.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(text)?;
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
        let slot = self.devices.get(index as usize).ok_or_else(|| {
            Error::runtime(format!("CUDA error: invalid device ordinal {index}: there are {}", self.devices.len()))
        })?;
        if FORKED.load(Ordering::Relaxed) {
            return Err(Error::runtime(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
            ));
        }
        let gpu = match slot.get() {
            Some(g) => g,
            None => {
                let _one = self.opening.lock().unwrap_or_else(|e| e.into_inner());
                match slot.get() {
                    Some(g) => g,
                    None => {
                        let gpu = Gpu::open(index, self.nvrtc).map_err(|e| driver_error("open device", e))?;
                        slot.get_or_init(|| gpu)
                    }
                }
            }
        };
        // Another library of the process may have made another context current meanwhile.
        gpu.context.bind_to_thread().map_err(|e| driver_error("set device", e))?;
        Ok(gpu)
    }

    /// A new queue of a device. It lives until the process ends.
    pub fn new_queue(&self, index: u16) -> Result<Queue> {
        self.device(index)?;
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking);
        let raw = raw.map_err(|e| driver_error("create stream", e))?;
        Ok(Queue { device: Device::new(DeviceType::CUDA, index), raw: raw.cast() })
    }

    /// Makes a queue the calling thread's current one of its device; `None` restores the device's own.
    pub fn set_queue(&self, index: u16, queue: Option<Queue>) {
        choose(Device::new(DeviceType::CUDA, index), queue);
    }

    /// Marks the work issued to a queue so far.
    pub fn record(&self, queue: Queue) -> Result<Event> {
        self.record_with(queue, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    /// As `record`, and the device notes the time.
    pub fn record_time(&self, queue: Queue) -> Result<Event> {
        self.record_with(queue, sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    fn record_with(&self, queue: Queue, flags: sys::CUevent_flags) -> Result<Event> {
        self.device(queue.device.index)?;
        let raw = result::event::create(flags);
        let event = Event { raw: raw.map_err(|e| driver_error("create event", e))?, device: queue.device };
        // SAFETY: the event was just made; streams live until the process ends.
        unsafe { result::event::record(event.raw, queue.raw.cast()) }.map_err(|e| driver_error("record event", e))?;
        Ok(event)
    }

    /// Makes later work of `queue` wait for an event of any device.
    pub fn wait(&self, queue: Queue, event: &Event) -> Result<()> {
        self.device(queue.device.index)?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both handles are live.
        unsafe { result::stream::wait_event(queue.raw.cast(), event.raw, flags) }
            .map_err(|e| driver_error("wait for event", e))
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
        match unsafe { sys::cuStreamQuery(queue.raw.cast()) }.result() {
            Ok(()) => Ok(true),
            Err(DriverError(sys::cudaError_enum::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(e) => Err(driver_error(&format!("query stream of {}", queue.device), e)),
        }
    }

    /// Waits for the work of one queue. Faults that kernels reported meanwhile are raised here.
    pub fn synchronize_queue(&self, queue: Queue) -> Result<()> {
        let gpu = self.device(queue.device.index)?;
        // SAFETY: streams live until the process ends.
        unsafe { result::stream::synchronize(queue.raw.cast()) }.map_err(|e| driver_error("synchronize", e))?;
        gpu.faults.raise()
    }

    /// Bytes that the driver has free on a device, and how many there are.
    pub fn driver_memory(&self, index: u16) -> Result<(usize, usize)> {
        self.device(index)?;
        result::mem_get_info().map_err(|e| driver_error("query memory", e))
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
        unsafe { result::memset_d8_async(dst as sys::CUdeviceptr, value, bytes, queue.raw.cast()) }
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

    fn stream(&self, gpu: &Gpu, index: u16) -> sys::CUstream {
        let chosen = Chosen::now().queue_of(Device::new(DeviceType::CUDA, index));
        chosen.map_or(gpu.stream.0, |q| q.raw.cast())
    }
}

impl Gpu {
    fn open(index: u16, nvrtc: &Nvrtc) -> Result<Gpu, DriverError> {
        let context = CudaContext::new(index as usize)?;
        // SAFETY: no slice of cudarc is ever made, so there is nothing its events would order.
        unsafe { context.disable_event_tracking() };
        let compute_capability = context.compute_capability()?;
        let n = context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let total_memory = context.total_mem()?;
        let virtual_memory = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED;
        let expands = expandable::wanted() && context.attribute(virtual_memory)? != 0;
        Ok(Gpu {
            // Of the blocking kind: ordered with the legacy default stream, on which other libraries hand over tensors.
            stream: Stream(result::stream::create(result::stream::StreamKind::Default)?),
            memory: DeviceMemory::new(index, expands.then_some(total_memory)),
            faults: fault::Faults::new(index)?,
            recorder: Default::default(),
            arch: nvrtc.arch_for(compute_capability.0, compute_capability.1),
            name: context.name()?,
            compute_capability,
            n_multiprocessors: n.max(1) as u32,
            total_memory,
            context,
        })
    }
}

impl Event {
    /// Returns true if the work before it is done. An error is that of the work, not of the question.
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: the event is live.
        match unsafe { result::event::query(self.raw) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::cudaError_enum::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(e) => Err(driver_error(&format!("query event of {}", self.device), e)),
        }
    }

    /// Milliseconds from one event to a later one of the same device. Both note the time and are done.
    pub fn milliseconds_to(&self, later: &Event) -> Result<f32> {
        // SAFETY: both events are live.
        unsafe { result::event::elapsed(self.raw, later.raw) }
            .map_err(|e| driver_error(&format!("time between events of {} and {}", self.device, later.device), e))
    }

    /// Waits for the work before it.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is live.
        unsafe { result::event::synchronize(self.raw) }
            .map_err(|e| driver_error(&format!("wait for event of {}", self.device), e))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is live and used no more; waits that were issued stay valid.
        let _ = unsafe { result::event::destroy(self.raw) };
    }
}

/// Returns true if the driver has registered this host memory, in which case it reads it later, when the copy's turn comes.
fn is_pinned(src: *const u8) -> bool {
    let mut kind = 0u32;
    // SAFETY: the attribute is one 32-bit number; any address may be asked about.
    let known = unsafe {
        sys::cuPointerGetAttribute(
            (&raw mut kind).cast::<c_void>(),
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            src as sys::CUdeviceptr,
        )
    };
    known == sys::CUresult::CUDA_SUCCESS
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
    let known = unsafe {
        sys::cuPointerGetAttribute(
            (&raw mut index).cast::<c_void>(),
            sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
            ptr as sys::CUdeviceptr,
        )
    };
    (known == sys::CUresult::CUDA_SUCCESS).then_some(index as u16)
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
        let stream: sys::CUstream = queue.raw.cast();
        // A graph would read the memory again with each launch, when it may be gone.
        if how == Copy::HostToDevice && self.is_capturing(queue) {
            // SAFETY: streams live until the process ends. The question ends the capture.
            let refused = unsafe { result::stream::synchronize(stream) }.err();
            let code = sys::cudaError_enum::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            return Err(driver_error("copy HostToDevice", refused.unwrap_or(DriverError(code))));
        }
        let (to, from) = (dst as sys::CUdeviceptr, src as sys::CUdeviceptr);
        // SAFETY: both ranges are valid by the trait's contract.
        let done = unsafe {
            match how {
                Copy::HostToDevice => sys::cuMemcpyHtoDAsync_v2(to, src.cast(), bytes, stream),
                Copy::DeviceToHost => sys::cuMemcpyDtoHAsync_v2(dst.cast(), from, bytes, stream),
                // Unified addresses: the driver knows which devices they lie on.
                Copy::DeviceToDevice => sys::cuMemcpyAsync(to, from, bytes, stream),
            }
        };
        done.result().map_err(|e| driver_error(&format!("copy {how:?}"), e))?;
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
        let stream: sys::CUstream = queue.raw.cast();
        // SAFETY: both ranges are valid by the trait's contract; the block of the host is kept until the copy is done.
        let issued = unsafe {
            match how {
                Copy::HostToDevice => sys::cuMemcpyHtoDAsync_v2(dst as sys::CUdeviceptr, src.cast(), bytes, stream),
                _ => sys::cuMemcpyDtoHAsync_v2(dst.cast(), src as sys::CUdeviceptr, bytes, stream),
            }
        };
        issued.result().map_err(|e| driver_error(&format!("copy {how:?}"), e))
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
        let raw = match self.device(index) {
            Ok(gpu) => self.stream(gpu, index).cast(),
            // Whatever is issued to it reports the error.
            Err(_) => std::ptr::null_mut(),
        };
        Queue { device: Device::new(DeviceType::CUDA, index), raw }
    }

    fn own_queue(&self, index: u16) -> Queue {
        let raw = self.device(index).map_or(std::ptr::null_mut(), |gpu| gpu.stream.0.cast());
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
        gpu.context.synchronize().map_err(|e| driver_error("synchronize", e))?;
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
