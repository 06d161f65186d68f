//! An installed MPI: found when the program runs, by the two binary interfaces that there are (Open MPI's, and MPICH's, which
//! Intel MPI and MVAPICH share). Calls that do not wait, one at a time; knows no rank of a group and no message format.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// Names the library in place of the usual ones.
const VARIABLE: &str = "ONEFLOW_MPI_LIBRARY";
const OPEN_MPI: [&str; 2] = ["libmpi.so.40", "libmpi.so"];
const MPICH: [&str; 3] = ["libmpi.so.12", "libmpich.so.12", "libmpich.so"];
/// Calls come from several threads, one at a time.
const THREAD_SERIALIZED: c_int = 2;
const ERROR_STRING: usize = 8192;

/// A communicator, datatype, request or handler: a pointer with Open MPI, an integer of 32 bits with MPICH. Both travel in a
/// register, and what is written through a pointer fills the low bytes.
type Handle = usize;

macro_rules! functions {
    ($($name:ident as $symbol:literal ($($arg:ty),*);)*) => {
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> c_int,)* }
        impl Functions {
            fn of(library: &Library) -> Result<Functions, String> {
                Ok(Functions { $($name: {
                    // SAFETY: the symbol of a C library, with the type that the MPI standard gives it.
                    let found = unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> c_int>($symbol.as_bytes()) };
                    *found.map_err(|e| format!("lacks {}: {e}", $symbol))?
                },)* })
            }
        }
    };
}

functions! {
    initialized as "MPI_Initialized" (*mut c_int);
    init_thread as "MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    query_thread as "MPI_Query_thread" (*mut c_int);
    finalize as "MPI_Finalize" ();
    finalized as "MPI_Finalized" (*mut c_int);
    comm_dup as "MPI_Comm_dup" (Handle, *mut Handle);
    comm_rank as "MPI_Comm_rank" (Handle, *mut c_int);
    comm_size as "MPI_Comm_size" (Handle, *mut c_int);
    comm_get_attr as "MPI_Comm_get_attr" (Handle, c_int, *mut *mut c_int, *mut c_int);
    comm_set_errhandler as "MPI_Comm_set_errhandler" (Handle, Handle);
    isend as "MPI_Isend" (*const c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    irecv as "MPI_Irecv" (*mut c_void, c_int, Handle, c_int, c_int, Handle, *mut Handle);
    test as "MPI_Test" (*mut Handle, *mut c_int, *mut Status);
    cancel as "MPI_Cancel" (*mut Handle);
    error_string as "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    library_version as "MPI_Get_library_version" (*mut c_char, *mut c_int);
}

/// Larger than either interface's.
#[repr(C, align(8))]
#[derive(Default)]
struct Status([c_int; 16]);

/// What differs between the interfaces.
struct Abi {
    comm_world: Handle,
    byte: Handle,
    errors_return: Handle,
    any_source: c_int,
    tag_upper_bound: c_int,
    /// The place of the source in a status.
    source: usize,
}

pub(super) struct Mpi {
    functions: Functions,
    abi: Abi,
    comm: Handle,
    pub rank: usize,
    pub size: usize,
    /// The largest tag.
    pub largest_tag: c_int,
    pub version: String,
    /// One call at a time, of whichever thread.
    turn: Mutex<()>,
    /// Whether this process has to end it.
    is_ours: bool,
    _library: Library,
}

/// MPI must not be called any more.
static OVER: AtomicBool = AtomicBool::new(false);
/// Ending MPI after a failure would wait for ranks that wait for this one.
static FAILED: AtomicBool = AtomicBool::new(false);
static LOADED: OnceLock<Result<Mpi, String>> = OnceLock::new();

/// After this the process ends without MPI's own goodbye, which makes `mpirun` end the others.
pub(super) fn failed() {
    FAILED.store(true, Ordering::Relaxed);
}

/// Whether a library is there; starts nothing.
pub(crate) fn is_available() -> bool {
    LOADED.get().map_or_else(|| open().is_ok(), Result::is_ok)
}

/// Starts MPI, once; waits until all ranks of the job have.
pub(super) fn start() -> Result<&'static Mpi, String> {
    LOADED.get_or_init(begin).as_ref().map_err(Clone::clone)
}

fn names() -> Vec<String> {
    if let Some(name) = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()) {
        return vec![name];
    }
    // The library must be the launcher's.
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let names = match (is_set("OMPI_COMM_WORLD_SIZE"), is_set("PMI_SIZE") || is_set("PMI_RANK")) {
        (true, _) => OPEN_MPI.to_vec(),
        (_, true) => MPICH.to_vec(),
        _ => [&OPEN_MPI[..], &MPICH[..]].concat(),
    };
    names.into_iter().map(str::to_owned).collect()
}

fn open() -> Result<Library, String> {
    let mut said = Vec::new();
    for name in names() {
        // SAFETY: an MPI library's initializers are those that every MPI program runs. Its plugins look for its symbols
        // among all that are loaded.
        match unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return Ok(library),
            Err(e) => {
                let why = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
                said.push(if why.contains(&name) { why } else { format!("{name}: {why}") });
            }
        }
    }
    Err(format!("no MPI library ({}); {VARIABLE} names one", said.join("; ")))
}

impl Abi {
    fn of(library: &Library) -> Abi {
        let symbol = |name: &str| {
            // SAFETY: only the address of the object is taken.
            let found = unsafe { library.get::<*mut c_void>(name.as_bytes()) };
            found.ok().map(|symbol| symbol.into_raw() as Handle)
        };
        let open_mpi = (symbol("ompi_mpi_comm_world"), symbol("ompi_mpi_byte"), symbol("ompi_mpi_errors_return"));
        match open_mpi {
            (Some(comm_world), Some(byte), Some(errors_return)) => {
                Abi { comm_world, byte, errors_return, any_source: -1, tag_upper_bound: 0, source: 0 }
            }
            _ => Abi {
                comm_world: 0x4400_0000,
                byte: 0x4c00_010d,
                errors_return: 0x5400_0001,
                any_source: -2,
                tag_upper_bound: 0x6440_0001,
                source: 2,
            },
        }
    }
}

fn begin() -> Result<Mpi, String> {
    let library = open()?;
    let (functions, abi) = (Functions::of(&library)?, Abi::of(&library));
    let (mut is_on, mut threads, mut text, mut length) = (0, 0, vec![0 as c_char; ERROR_STRING], 0);
    // SAFETY: here and below the calls get what the standard asks for: valid places for results, no argument vector, handles
    // of this library.
    unsafe {
        (functions.library_version)(text.as_mut_ptr(), &mut length);
        (functions.initialized)(&mut is_on);
    }
    let version = short(&to_line(&text));
    let is_ours = is_on == 0;
    let code = if is_ours {
        // SAFETY: as above.
        unsafe { (functions.init_thread)(&mut 0, std::ptr::null_mut(), THREAD_SERIALIZED, &mut threads) }
    } else {
        // SAFETY: as above; somebody else in this process has started it.
        unsafe { (functions.query_thread)(&mut threads) }
    };
    if code != 0 || threads < THREAD_SERIALIZED {
        return Err(format!("{version} does not serve programs with threads (level {threads}, code {code})"));
    }
    let (mut comm, mut rank, mut size, mut bound, mut found) = (0, 0, 0, std::ptr::null_mut::<c_int>(), 0);
    // SAFETY: as above. The attribute's value is a pointer to an integer that lives as long as the library.
    let largest_tag = unsafe {
        let code = (functions.comm_dup)(abi.comm_world, &mut comm);
        if code != 0 {
            return Err(format!("{version}: MPI_Comm_dup failed with code {code}"));
        }
        (functions.comm_set_errhandler)(comm, abi.errors_return);
        (functions.comm_rank)(comm, &mut rank);
        (functions.comm_size)(comm, &mut size);
        (functions.comm_get_attr)(abi.comm_world, abi.tag_upper_bound, &mut bound, &mut found);
        // The standard's least.
        if found != 0 && !bound.is_null() { *bound } else { 32_767 }
    };
    if is_ours {
        // SAFETY: C's own; the function stays.
        unsafe { atexit(end) };
    }
    let (rank, size) = (rank as usize, size as usize);
    Ok(Mpi { functions, abi, comm, rank, size, largest_tag, version, turn: Mutex::new(()), is_ours, _library: library })
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
}

extern "C" fn end() {
    let Some(Ok(mpi)) = LOADED.get() else { return };
    let turn = mpi.turn();
    OVER.store(true, Ordering::Relaxed);
    if !mpi.is_ours || FAILED.load(Ordering::Relaxed) {
        return;
    }
    let mut is_over = 0;
    // SAFETY: MPI was started, and no other thread of ours calls it now or later: each looks at `OVER` in its turn.
    unsafe {
        (mpi.functions.finalized)(&mut is_over);
        if is_over == 0 {
            (mpi.functions.finalize)();
        }
    }
    drop(turn);
}

fn to_line(text: &[c_char]) -> String {
    // SAFETY: the buffer is longer than what MPI writes, and was filled with zeros.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
    text.lines().next().unwrap_or_default().to_owned()
}

/// The name and the version in what a library says of itself: it may go on with who built it.
fn short(version: &str) -> String {
    let words = version.split(',').next().unwrap_or_default().replace("Version:", "");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Mpi {
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_turn(&self) -> Result<MutexGuard<'_, ()>, String> {
        let turn = self.turn();
        if OVER.load(Ordering::Relaxed) { Err("MPI has been ended".to_owned()) } else { Ok(turn) }
    }

    fn check(&self, what: &str, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let (mut text, mut length) = (vec![0 as c_char; ERROR_STRING], 0);
        // SAFETY: room for more than the longest text of either interface.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr(), &mut length) };
        Err(format!("{what}: {}", to_line(&text)))
    }

    /// Sends these bytes, fewer than 2 GiB; they belong to the message until it is complete.
    pub fn send(&'static self, to: usize, tag: c_int, bytes: Vec<u8>) -> Result<Message, String> {
        let mut message = Message { mpi: self, request: 0, bytes, is_over: false, receives: false };
        let (at, count) = (message.bytes.as_ptr().cast(), message.bytes.len() as c_int);
        let _turn = self.live_turn()?;
        // SAFETY: the bytes are on the heap and stay there until the request is complete, or for good.
        let code = unsafe {
            (self.functions.isend)(at, count, self.abi.byte, to as c_int, tag, self.comm, &mut message.request)
        };
        message.is_over = code != 0;
        self.check("MPI_Isend", code)?;
        Ok(message)
    }

    /// Receives up to `most` bytes of one rank, or of any.
    pub fn receive(&'static self, from: Option<usize>, tag: c_int, most: usize) -> Result<Message, String> {
        let mut message = Message { mpi: self, request: 0, bytes: vec![0; most], is_over: false, receives: true };
        let from = from.map_or(self.abi.any_source, |rank| rank as c_int);
        let at = message.bytes.as_mut_ptr().cast();
        let _turn = self.live_turn()?;
        // SAFETY: as in `send`, and nobody looks at the bytes before the request is complete.
        let code = unsafe {
            (self.functions.irecv)(at, most as c_int, self.abi.byte, from, tag, self.comm, &mut message.request)
        };
        message.is_over = code != 0;
        self.check("MPI_Irecv", code)?;
        Ok(message)
    }
}

/// A message on its way. One that is dropped before it is complete leaves its bytes to MPI for good.
pub(super) struct Message {
    mpi: &'static Mpi,
    request: Handle,
    bytes: Vec<u8>,
    is_over: bool,
    receives: bool,
}

impl Message {
    /// The sender (of what was received), once the message is complete.
    pub fn test(&mut self) -> Result<Option<usize>, String> {
        let (mut flag, mut status) = (0, Status::default());
        let turn = self.mpi.live_turn()?;
        // SAFETY: a request of this library that is not complete yet.
        let code = unsafe { (self.mpi.functions.test)(&mut self.request, &mut flag, &mut status) };
        drop(turn);
        self.is_over = flag != 0 && code == 0;
        self.mpi.check("MPI_Test", code)?;
        Ok(self.is_over.then(|| status.0[self.mpi.abi.source] as usize))
    }

    /// What was received, with rubbish behind it where less came than there was room for.
    pub fn bytes(&self) -> &[u8] {
        if self.is_over { &self.bytes } else { &[] }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.receives
            && self.request != 0
            && let Ok(_turn) = self.mpi.live_turn()
        {
            // SAFETY: a request that is not complete. It stays allocated, with its bytes: MPI may still be writing.
            unsafe { (self.mpi.functions.cancel)(&mut self.request) };
        }
        std::mem::forget(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_library_is_named_in_few_words() {
        assert_eq!(short("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), "Open MPI v4.1.4");
        assert_eq!(short("MPICH Version:\t4.0.2"), "MPICH 4.0.2");
        assert_eq!(short(""), "");
    }
}
