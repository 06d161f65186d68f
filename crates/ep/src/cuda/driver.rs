//! The part of the driver's C interface that is used, opened when CUDA is first asked for.
//!
//! Codes, states and attributes are plain integers (`discover::AnyBits`): a newer driver may return values that nothing here
//! knows. A call before the driver was opened returns an error. What calls mean together is not known here. The numbers are those
//! of cudarc's bindings, which are not called: they return codes as enums.

use super::discover::{any_bits, takes_any_bits};
use cudarc::driver::sys;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// An error code of the driver, any integer but zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub c_int);

impl Code {
    pub const OUT_OF_MEMORY: Code = Code::of(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    pub const NOT_INITIALIZED: Code = Code::of(sys::CUresult::CUDA_ERROR_NOT_INITIALIZED);
    pub const NOT_READY: Code = Code::of(sys::CUresult::CUDA_ERROR_NOT_READY);
    pub const CAPTURE_UNSUPPORTED: Code = Code::of(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pub const CAPTURE_INVALIDATED: Code = Code::of(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    pub const CAPTURE_WRONG_THREAD: Code = Code::of(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);

    const fn of(known: sys::CUresult) -> Code {
        Code(known as c_int)
    }

    fn result(code: c_int) -> Result<(), Code> {
        if code == 0 { Ok(()) } else { Err(Code(code)) }
    }
}

pub type Context = *mut c_void;
pub type Stream = *mut c_void;
pub type Event = *mut c_void;
pub type Module = *mut c_void;
pub type Function = *mut c_void;
pub type Graph = *mut c_void;
pub type GraphExec = *mut c_void;
/// An address on a device.
pub type Address = sys::CUdeviceptr;
/// Physical memory that addresses can be mapped to.
pub type Physical = sys::CUmemGenericAllocationHandle;

/// A stream that does not wait for the legacy default stream.
pub const STREAM_NON_BLOCKING: c_uint = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
/// An event that notes no time.
pub const EVENT_DISABLE_TIMING: c_uint = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
/// Host memory that is pinned for all devices, and that kernels address.
pub const HOST_PORTABLE: c_uint = sys::CU_MEMHOSTALLOC_PORTABLE;
pub const HOST_DEVICEMAP: c_uint = sys::CU_MEMHOSTALLOC_DEVICEMAP;
/// States of a stream and modes of captures.
pub const CAPTURE_ACTIVE: c_int = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE as c_int;
pub const CAPTURE_GLOBAL: c_int = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL as c_int;
pub const CAPTURE_THREAD_LOCAL: c_int = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as c_int;
pub const CAPTURE_RELAXED: c_int = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int;
/// Flag of a graph that frees its own allocations when it is launched again.
pub const AUTO_FREE_ON_LAUNCH: u64 =
    sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.0 as u64;
/// Attributes of devices, of addresses and of functions.
pub const MULTIPROCESSORS: c_int = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int;
pub const CAPABILITY_MAJOR: c_int = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int;
pub const CAPABILITY_MINOR: c_int = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int;
pub const HAS_VIRTUAL_MEMORY: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED as c_int;
pub const ADDRESS_MEMORY_TYPE: c_int = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE as c_int;
pub const ADDRESS_DEVICE: c_int = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_int;
pub const FUNCTION_MAX_DYNAMIC_SHARED: c_int =
    sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as c_int;

/// Where memory lies: `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    kind: c_int,
    index: c_int,
}

/// `CUmemAllocationProp` of memory that stays on a device.
#[repr(C)]
pub struct PhysicalProperties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    win32: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
pub struct Access {
    location: Location,
    flags: c_int,
}

any_bits!(Location, PhysicalProperties, Access);
const _: () = {
    assert!(size_of::<Location>() == size_of::<sys::CUmemLocation>());
    assert!(size_of::<PhysicalProperties>() == size_of::<sys::CUmemAllocationProp>());
    assert!(size_of::<Access>() == size_of::<sys::CUmemAccessDesc>());
};

impl Location {
    pub fn device(index: u16) -> Location {
        Location { kind: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as c_int, index: index.into() }
    }
}

impl PhysicalProperties {
    pub fn pinned(location: Location) -> PhysicalProperties {
        let kind = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED as c_int;
        PhysicalProperties { kind, handle_types: 0, location, win32: std::ptr::null_mut(), flags: [0; 8] }
    }
}

impl Access {
    pub fn read_and_write(location: Location) -> Access {
        Access { location, flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as c_int }
    }
}

static TABLE: OnceLock<Result<Table, String>> = OnceLock::new();

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ident: $of:ty),* $(,)?);)*) => {
        struct Table { $($name: unsafe extern "C" fn($($of),*) -> c_int,)* }
        const _: () = { $($(takes_any_bits::<$of>();)*)* };

        impl Table {
            fn load(library: &'static Library) -> Result<Table, String> {
                Ok(Table { $($name: {
                    // SAFETY: the signature is the driver's C declaration of this symbol.
                    let f = unsafe {
                        library.get::<unsafe extern "C" fn($($of),*) -> c_int>(concat!($symbol, "\0").as_bytes())
                    };
                    *f.map_err(|e| format!("the NVIDIA driver is too old: {e}"))?
                },)* })
            }
        }

        $(
        /// As the driver's function of this name.
        ///
        /// # Safety
        /// Handles are live, addresses are those of what the call reads and writes.
        #[inline]
        pub unsafe fn $name($($arg: $of),*) -> Result<(), Code> {
            match TABLE.get() {
                // SAFETY: by the contract.
                Some(Ok(t)) => Code::result(unsafe { (t.$name)($($arg),*) }),
                _ => Err(Code::NOT_INITIALIZED),
            }
        }
        )*
    };
}

functions! {
    init = "cuInit"(flags: c_uint);
    driver_version = "cuDriverGetVersion"(version: *mut c_int);
    error_name = "cuGetErrorName"(code: c_int, text: *mut *const c_char);
    error_string = "cuGetErrorString"(code: c_int, text: *mut *const c_char);
    device_count = "cuDeviceGetCount"(n: *mut c_int);
    device_get = "cuDeviceGet"(device: *mut c_int, index: c_int);
    device_name = "cuDeviceGetName"(text: *mut c_char, room: c_int, device: c_int);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: c_int);
    device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int);
    context_retain = "cuDevicePrimaryCtxRetain"(context: *mut Context, device: c_int);
    context_current = "cuCtxGetCurrent"(context: *mut Context);
    context_make_current = "cuCtxSetCurrent"(context: Context);
    context_synchronize = "cuCtxSynchronize"();
    context_priorities = "cuCtxGetStreamPriorityRange"(least: *mut c_int, greatest: *mut c_int);
    stream_create = "cuStreamCreate"(stream: *mut Stream, flags: c_uint);
    stream_create_with_priority = "cuStreamCreateWithPriority"(stream: *mut Stream, flags: c_uint, priority: c_int);
    stream_synchronize = "cuStreamSynchronize"(stream: Stream);
    stream_query = "cuStreamQuery"(stream: Stream);
    stream_wait = "cuStreamWaitEvent"(stream: Stream, event: Event, flags: c_uint);
    stream_begin_capture = "cuStreamBeginCapture_v2"(stream: Stream, mode: c_int);
    stream_end_capture = "cuStreamEndCapture"(stream: Stream, graph: *mut Graph);
    stream_capture = "cuStreamGetCaptureInfo_v2"(
        stream: Stream, status: *mut c_int, id: *mut u64, graph: *mut Graph, from: *mut *const c_void, n: *mut usize,
    );
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut c_int);
    event_create = "cuEventCreate"(event: *mut Event, flags: c_uint);
    event_record = "cuEventRecord"(event: Event, stream: Stream);
    event_query = "cuEventQuery"(event: Event);
    event_synchronize = "cuEventSynchronize"(event: Event);
    event_elapsed = "cuEventElapsedTime"(ms: *mut f32, first: Event, last: Event);
    event_destroy = "cuEventDestroy_v2"(event: Event);
    memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    memory_alloc = "cuMemAlloc_v2"(address: *mut Address, bytes: usize);
    memory_free = "cuMemFree_v2"(address: Address);
    host_alloc = "cuMemHostAlloc"(memory: *mut *mut c_void, bytes: usize, flags: c_uint);
    host_free = "cuMemFreeHost"(memory: *mut c_void);
    host_address = "cuMemHostGetDevicePointer_v2"(address: *mut Address, memory: *mut c_void, flags: c_uint);
    address_attribute = "cuPointerGetAttribute"(value: *mut c_void, attribute: c_int, address: Address);
    address_reserve = "cuMemAddressReserve"(
        address: *mut Address, bytes: usize, alignment: usize, wanted: Address, flags: u64,
    );
    physical_create = "cuMemCreate"(memory: *mut Physical, bytes: usize, of: *const PhysicalProperties, flags: u64);
    physical_release = "cuMemRelease"(memory: Physical);
    map = "cuMemMap"(address: Address, bytes: usize, offset: usize, memory: Physical, flags: u64);
    set_access = "cuMemSetAccess"(address: Address, bytes: usize, access: *const Access, n: usize);
    unmap = "cuMemUnmap"(address: Address, bytes: usize);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(to: Address, from: *const c_void, bytes: usize, stream: Stream);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: Address, bytes: usize, stream: Stream);
    copy = "cuMemcpyAsync"(to: Address, from: Address, bytes: usize, stream: Stream);
    set_bytes = "cuMemsetD8Async"(to: Address, value: u8, n: usize, stream: Stream);
    module_load = "cuModuleLoadData"(module: *mut Module, image: *const c_void);
    module_function = "cuModuleGetFunction"(function: *mut Function, module: Module, name: *const c_char);
    function_set_attribute = "cuFuncSetAttribute"(function: Function, attribute: c_int, value: c_int);
    launch_kernel = "cuLaunchKernel"(
        function: Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared: c_uint, stream: Stream, args: *mut *mut c_void, extra: *mut *mut c_void,
    );
    graph_nodes = "cuGraphGetNodes"(graph: Graph, nodes: *mut *mut c_void, n: *mut usize);
    graph_instantiate = "cuGraphInstantiateWithFlags"(exec: *mut GraphExec, graph: Graph, flags: u64);
    graph_launch = "cuGraphLaunch"(exec: GraphExec, stream: Stream);
    graph_exec_destroy = "cuGraphExecDestroy"(exec: GraphExec);
    graph_destroy = "cuGraphDestroy"(graph: Graph);
}

/// Opens the driver; the reason where there is none.
pub fn open() -> Result<(), String> {
    let opened = TABLE.get_or_init(|| {
        // The driver is the system's: no directory of packages is searched for it.
        let library = ["libcuda.so.1", "libcuda.so"].iter().find_map(|name| {
            // SAFETY: the driver's initialisers have no preconditions.
            unsafe { Library::open(Some(*name), RTLD_NOW | RTLD_LOCAL) }.ok()
        });
        let none = "no NVIDIA driver was found (tried: libcuda.so.1, libcuda.so by the loader's search)";
        // Never closed: the driver keeps threads and exit handlers.
        Table::load(Box::leak(Box::new(library.ok_or(none)?)))
    });
    opened.as_ref().map(|_| ()).map_err(String::clone)
}

/// What a call writes to a place.
#[inline]
pub fn value<T: Value>(call: impl FnOnce(*mut T) -> Result<(), Code>) -> Result<T, Code> {
    let mut value = T::NONE;
    call(&raw mut value)?;
    Ok(value)
}

/// What calls write.
pub trait Value: Copy {
    const NONE: Self;
}
impl<T> Value for *mut T {
    const NONE: Self = std::ptr::null_mut();
}
macro_rules! zero_values {
    ($($of:ty),*) => { $(impl Value for $of { const NONE: Self = 0 as $of; })* };
}
zero_values!(c_int, u64, usize, f32);

/// Bytes of the current context's device: (free, all).
pub fn memory() -> Result<(usize, usize), Code> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the places are live.
    unsafe { memory_info(&mut free, &mut total) }?;
    Ok((free, total))
}

/// What the driver says of a code: (name, text). A code that it does not know has its number for a name.
pub fn describe(code: Code) -> (String, String) {
    let ask = |question: unsafe fn(c_int, *mut *const c_char) -> Result<(), Code>| {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the place is live; what the driver writes there is a text that stays.
        let known = unsafe { question(code.0, &mut text) }.is_ok() && !text.is_null();
        // SAFETY: as above.
        known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = ask(error_name).unwrap_or_else(|| format!("unknown error ({})", code.0));
    (name, ask(error_string).unwrap_or_else(|| "the driver does not describe this error".into()))
}
