//! NCCL's C interface as far as process groups need it: communicators, and operations on them in the order of a stream.
//!
//! Communicators are never of the blocking kind: a call may return before it is done, and then the communicator is asked until
//! it is. So each wait has an end, and a communicator can be aborted at any time. Which ranks form one, and what becomes of an
//! operation that does not end, is not known here.

use super::discover::{self, Found, function_table};
use super::{Cuda, driver, driver_error};
use crate::Queue;
use oneflow_base::{Device, DeviceType, Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

type Handle = *mut c_void;

/// The first release whose communicators need not block and whose configuration has the fields below.
const OLDEST: c_int = 21_800;
const BYTES_OF_ID: usize = 128;

const SUCCESS: c_int = 0;
const INVALID_USAGE: c_int = 5;
const IN_PROGRESS: c_int = 7;

/// What ranks share that form a communicator.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId(pub [u8; BYTES_OF_ID]);

/// `ncclConfig_t` of release 2.18, which later ones accept.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

discover::any_bits!(UniqueId, Config);

/// An element type of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Type {
    I8 = 0,
    U8 = 1,
    I32 = 2,
    I64 = 4,
    F16 = 6,
    F32 = 7,
    F64 = 8,
    BF16 = 9,
}

/// A reduction of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Op {
    Sum = 0,
    Product = 1,
    Max = 2,
    Min = 3,
    Avg = 4,
}

/// One call; addresses are those of a device, counts are elements.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    AllReduce {
        from: *const u8,
        to: *mut u8,
        count: usize,
        of: Type,
        op: Op,
    },
    Broadcast {
        from: *const u8,
        to: *mut u8,
        count: usize,
        of: Type,
        root: usize,
    },
    Reduce {
        from: *const u8,
        to: *mut u8,
        count: usize,
        of: Type,
        op: Op,
        root: usize,
    },
    /// `count` elements of each rank.
    AllGather {
        from: *const u8,
        to: *mut u8,
        count: usize,
        of: Type,
    },
    /// `count` elements for each rank.
    ReduceScatter {
        from: *const u8,
        to: *mut u8,
        count: usize,
        of: Type,
        op: Op,
    },
    Send {
        from: *const u8,
        count: usize,
        of: Type,
        peer: usize,
    },
    Recv {
        to: *mut u8,
        count: usize,
        of: Type,
        peer: usize,
    },
}

function_table! {
    /// The part of NCCL's C interface that is used.
    Table {
        unique_id = "ncclGetUniqueId": fn(*mut UniqueId) -> c_int;
        init = "ncclCommInitRankConfig": fn(*mut Handle, c_int, UniqueId, c_int, *mut Config) -> c_int;
        finalize = "ncclCommFinalize": fn(Handle) -> c_int;
        destroy = "ncclCommDestroy": fn(Handle) -> c_int;
        abort = "ncclCommAbort": fn(Handle) -> c_int;
        async_error = "ncclCommGetAsyncError": fn(Handle, *mut c_int) -> c_int;
        error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
        last_error = "ncclGetLastError": fn(Handle) -> *const c_char;
        group_start = "ncclGroupStart": fn() -> c_int;
        group_end = "ncclGroupEnd": fn() -> c_int;
        all_reduce = "ncclAllReduce":
            fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        reduce = "ncclReduce":
            fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Handle, *mut c_void) -> c_int;
        all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Handle, *mut c_void) -> c_int;
        reduce_scatter = "ncclReduceScatter":
            fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        send = "ncclSend": fn(*const c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
        recv = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int;
    }
}

/// The loaded library.
pub struct Nccl {
    table: Table,
    /// As (2, 27, 5).
    pub version: (i32, i32, i32),
    pub path: PathBuf,
}

/// The library, loaded on first use; the error lists the searched paths and names the package.
pub fn nccl() -> Result<&'static Nccl> {
    static LOADED: OnceLock<Nccl> = OnceLock::new();
    static LOADING: Mutex<()> = Mutex::new(());
    if let Some(n) = LOADED.get() {
        return Ok(n);
    }
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(n) = LOADED.get() {
        return Ok(n);
    }
    // Only success is kept: directories may be named later.
    let found = discover::open("nccl", &[2], &[]).map_err(|e| {
        Error::runtime(format!(
            "{e}. It comes with pip install 'oneflow[cu12]' or 'oneflow[cu13]', as nvidia-nccl-cu12"
        ))
    })?;
    let loaded = Nccl::load(&found)?;
    Ok(LOADED.get_or_init(|| loaded))
}

impl Nccl {
    fn load(found: &Found) -> Result<Nccl> {
        let path = found.path.clone();
        // A function that only later releases have is not missed before the version is known.
        let version = version_of(found).map_err(Error::runtime)?;
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        if version < OLDEST {
            return Err(Error::runtime(format!(
                "NCCL {major}.{minor}.{patch} is too old, at least 2.18 is needed: {}. Newer releases come with \
                 pip install 'oneflow[cu12]' or 'oneflow[cu13]'",
                path.display()
            )));
        }
        let table = Table::load(found).map_err(Error::runtime)?;
        Ok(Nccl { table, version: (major, minor, patch), path })
    }

    /// A new id, for the ranks of one communicator.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; BYTES_OF_ID]);
        // SAFETY: the place is live and as large as the library's id.
        let code = unsafe { (self.table.unique_id)(&mut id) };
        if code == SUCCESS { Ok(id) } else { Err(self.error("ncclGetUniqueId", code, std::ptr::null_mut())) }
    }

    /// `comm` is live, or null: then the last error of this thread is told.
    fn error(&self, what: &str, code: c_int, comm: Handle) -> Error {
        let text = |p: *const c_char| {
            // SAFETY: the library's answers are null or C strings that live until its next call.
            (!p.is_null()).then(|| unsafe { CStr::from_ptr(p) }.to_string_lossy().trim().to_owned())
        };
        // SAFETY: any code may be asked about, and any live communicator.
        let (name, last) = unsafe { (text((self.table.error_string)(code)), text((self.table.last_error)(comm))) };
        let name = name.unwrap_or_else(|| "unknown code".into());
        let last = last.filter(|last| !last.is_empty()).map(|last| format!(": {last}")).unwrap_or_default();
        let hint = match code == INVALID_USAGE && last.contains("Duplicate GPU") {
            true => ". Two ranks use one GPU: give each its own, as with oneflow.cuda.set_device(local_rank)",
            false => "",
        };
        Error::runtime(format!("NCCL error: {what}: {name} ({code}){last}{hint}"))
    }
}

fn version_of(found: &Found) -> Result<c_int, String> {
    let mut version = 0;
    // SAFETY: the signature is the vendor's declaration of this symbol, and the place is live.
    let code = unsafe {
        let f = found.library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"ncclGetVersion\0");
        f.map_err(|e| format!("{}: {e}", found.path.display()))?(&mut version)
    };
    if code == SUCCESS { Ok(version) } else { Err(format!("{}: ncclGetVersion gave {code}", found.path.display())) }
}

/// Some ranks, each with one device. Dropped without an end, it is aborted.
pub struct Communicator {
    nccl: &'static Nccl,
    cuda: &'static Cuda,
    /// Where its operations run: a stream of its own, before those of kernels.
    pub queue: Queue,
    /// `None` once it was aborted or has ended. Held for one call.
    raw: Mutex<Option<Raw>>,
    /// Held by who issues, until the library has taken the operation.
    turn: Mutex<()>,
}

#[derive(Clone, Copy)]
struct Raw(Handle);
// SAFETY: the handle is used by one thread at a time, under the lock.
unsafe impl Send for Raw {}

/// The interval at which a communicator is asked that has not taken a call yet.
const PERIOD: Duration = Duration::from_micros(100);

impl Communicator {
    /// Forms one with all ranks that call this with the same id. `go_on` is asked while others have not come; its error ends
    /// the wait.
    pub fn form(
        cuda: &'static Cuda,
        device: u16,
        id: UniqueId,
        rank: usize,
        size: usize,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Communicator> {
        let nccl = nccl()?;
        let queue = cuda.new_urgent_queue(device)?;
        let undefined = c_int::MIN;
        let mut config = Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 21_801,
            blocking: 0,
            cga_cluster_size: undefined,
            min_ctas: undefined,
            max_ctas: undefined,
            net_name: std::ptr::null(),
            split_share: undefined,
        };
        let mut raw: Handle = std::ptr::null_mut();
        // SAFETY: the places are live; the device's context is current on this thread since the queue was made.
        let code = unsafe { (nccl.table.init)(&mut raw, size as c_int, id, rank as c_int, &mut config) };
        if raw.is_null() || (code != SUCCESS && code != IN_PROGRESS) {
            return Err(nccl.error("ncclCommInitRankConfig", code, std::ptr::null_mut()));
        }
        let made = Communicator { nccl, cuda, queue, raw: Mutex::new(Some(Raw(raw))), turn: Mutex::default() };
        made.settle("ncclCommInitRankConfig", code, go_on)?;
        Ok(made)
    }

    fn raw(&self) -> MutexGuard<'_, Option<Raw>> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one call on the communicator.
    fn call(&self, what: &str, f: impl FnOnce(&Table, Handle) -> c_int) -> Result<c_int> {
        let raw = self.raw();
        let Some(Raw(handle)) = *raw else { return Err(Error::runtime("NCCL: the communicator was aborted")) };
        match f(&self.nccl.table, handle) {
            code @ (SUCCESS | IN_PROGRESS) => Ok(code),
            code => Err(self.nccl.error(what, code, handle)),
        }
    }

    /// The state that the library has for it: what failed, or whether it is still busy with a call.
    fn state(&self, what: &str) -> Result<c_int> {
        self.call(what, |table, handle| {
            let mut state = SUCCESS;
            // SAFETY: the communicator is live, the place too.
            match unsafe { (table.async_error)(handle, &mut state) } {
                SUCCESS => state,
                code => code,
            }
        })
    }

    /// Waits until the library has done with a call.
    fn settle(&self, what: &str, code: c_int, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut code = code;
        while code == IN_PROGRESS {
            code = self.state(what)?;
            if code == IN_PROGRESS {
                go_on()?;
                std::thread::sleep(PERIOD);
            }
        }
        Ok(())
    }

    /// The error that an operation met after it was issued.
    pub fn check(&self) -> Result<()> {
        self.state("an operation that was issued").map(drop)
    }

    /// Issues calls to the queue, as one where there are several. `before` runs first, `after` when the library has taken them,
    /// both before anybody else issues to this communicator.
    ///
    /// # Safety
    /// The memory is of this communicator's device, as large as the counts say, and stays so until the queue has done the calls.
    pub unsafe fn issue<T>(
        &self,
        calls: &[Call],
        before: impl FnOnce() -> Result<()>,
        after: impl FnOnce() -> Result<T>,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<T> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.cuda.device(self.queue.device.index)?;
        before()?;
        let code = match calls {
            [] => SUCCESS,
            // SAFETY: the caller's promise.
            [call] => self.call(call.name(), |table, handle| unsafe { call.make(table, handle, self.queue.raw) })?,
            several => self.call(several[0].name(), |table, handle| {
                // SAFETY: the caller's promise. The group ends in any case; the first error counts.
                unsafe {
                    let mut code = (table.group_start)();
                    for call in several {
                        if code == SUCCESS || code == IN_PROGRESS {
                            code = call.make(table, handle, self.queue.raw);
                        }
                    }
                    let end = (table.group_end)();
                    if code == SUCCESS || code == IN_PROGRESS { end } else { code }
                }
            })?,
        };
        if let Some(first) = calls.first() {
            self.settle(first.name(), code, go_on)?;
        }
        after()
    }

    /// Ends what is under way. Later calls are errors.
    pub fn abort(&self) {
        let mut raw = self.raw();
        if let Some(Raw(handle)) = raw.take() {
            // SAFETY: the handle is live, and nobody has it any more. What it returns changes nothing.
            unsafe { (self.nccl.table.abort)(handle) };
        }
    }

    /// Ends the communicator when all its operations are over.
    pub fn end(&self, go_on: &dyn Fn() -> Result<()>) {
        // SAFETY: the handle is live.
        let code = self.call("ncclCommFinalize", |table, handle| unsafe { (table.finalize)(handle) });
        let settled = code.and_then(|code| self.settle("ncclCommFinalize", code, go_on));
        if settled.is_err() {
            return self.abort();
        }
        let mut raw = self.raw();
        if let Some(Raw(handle)) = raw.take() {
            // SAFETY: as in `abort`; all work has been finalized.
            unsafe { (self.nccl.table.destroy)(handle) };
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.abort();
    }
}

impl Call {
    fn name(&self) -> &'static str {
        match self {
            Call::AllReduce { .. } => "ncclAllReduce",
            Call::Broadcast { .. } => "ncclBroadcast",
            Call::Reduce { .. } => "ncclReduce",
            Call::AllGather { .. } => "ncclAllGather",
            Call::ReduceScatter { .. } => "ncclReduceScatter",
            Call::Send { .. } => "ncclSend",
            Call::Recv { .. } => "ncclRecv",
        }
    }

    /// # Safety
    /// As for `Communicator::issue`; the handle and the stream are live.
    unsafe fn make(&self, table: &Table, comm: Handle, stream: *mut c_void) -> c_int {
        // SAFETY: the caller's promise.
        unsafe {
            match *self {
                Call::AllReduce { from, to, count, of, op } => {
                    (table.all_reduce)(from.cast(), to.cast(), count, of as c_int, op as c_int, comm, stream)
                }
                Call::Broadcast { from, to, count, of, root } => {
                    (table.broadcast)(from.cast(), to.cast(), count, of as c_int, root as c_int, comm, stream)
                }
                Call::Reduce { from, to, count, of, op, root } => {
                    let (of, op, root) = (of as c_int, op as c_int, root as c_int);
                    (table.reduce)(from.cast(), to.cast(), count, of, op, root, comm, stream)
                }
                Call::AllGather { from, to, count, of } => {
                    (table.all_gather)(from.cast(), to.cast(), count, of as c_int, comm, stream)
                }
                Call::ReduceScatter { from, to, count, of, op } => {
                    (table.reduce_scatter)(from.cast(), to.cast(), count, of as c_int, op as c_int, comm, stream)
                }
                Call::Send { from, count, of, peer } => {
                    (table.send)(from.cast(), count, of as c_int, peer as c_int, comm, stream)
                }
                Call::Recv { to, count, of, peer } => {
                    (table.recv)(to.cast(), count, of as c_int, peer as c_int, comm, stream)
                }
            }
        }
    }
}

impl Cuda {
    /// A new queue of a device whose work comes before that of others where both could run. It lives until the process ends.
    fn new_urgent_queue(&self, index: u16) -> Result<Queue> {
        self.device(index)?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the places are live; the device's context is current.
        let stream = unsafe {
            let asked = driver::context_priorities(&mut least, &mut greatest);
            let flags = driver::STREAM_NON_BLOCKING;
            asked.and_then(|()| driver::value(|p| driver::stream_create_with_priority(p, flags, greatest)))
        }
        .map_err(|e| driver_error("create stream", e))?;
        Ok(Queue { device: Device::new(DeviceType::CUDA, index), raw: stream.cast() })
    }
}
