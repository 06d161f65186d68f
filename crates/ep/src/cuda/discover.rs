//! Finds and opens the vendor libraries, and remembers what was tried.
//!
//! Order: `ONEFLOW_CUDA_LIB_DIRS`, the directories handed in from Python (pip's packages), `CUDA_HOME`, `CUDA_PATH`,
//! `/usr/local/cuda`, then the loader's own search. Only versioned names: an unversioned link may lead to another release.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use oneflow_base::Error;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

static SEARCH_DIRS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Directories to search before the system's, most wanted first. Called from Python before the first use of CUDA.
pub fn set_search_dirs(dirs: Vec<PathBuf>) {
    *SEARCH_DIRS.lock().unwrap_or_else(|e| e.into_inner()) = dirs;
}

fn directories() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(list) = std::env::var_os("ONEFLOW_CUDA_LIB_DIRS") {
        dirs.extend(std::env::split_paths(&list).filter(|p| !p.as_os_str().is_empty()));
    }
    dirs.extend(SEARCH_DIRS.lock().unwrap_or_else(|e| e.into_inner()).iter().cloned());
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    for home in homes.chain([PathBuf::from("/usr/local/cuda")]) {
        dirs.extend(["lib64", "lib", "targets/x86_64-linux/lib"].map(|d| home.join(d)));
    }
    dirs
}

/// A library that stays open until the process ends.
pub struct Found {
    pub library: &'static Library,
    /// Path of the library; a bare name if the loader found it.
    pub path: PathBuf,
}

/// Opens the first of `lib{stem}.so.{major}` over directories and majors, or returns what was tried. `helpers` are name
/// prefixes of libraries of the same directory to open before it.
pub fn open(stem: &str, majors: &[u32], helpers: &[&str]) -> Result<Found, String> {
    let mut tried = Vec::new();
    for &major in majors {
        let name = format!("lib{stem}.so.{major}");
        for dir in directories() {
            // The library looks for its companions beside itself, so a link must be followed here.
            let Ok(path) = dir.join(&name).canonicalize() else {
                if dir.is_dir() {
                    tried.push(format!("{}: no {name}", dir.display()));
                }
                continue;
            };
            open_helpers(&path, helpers);
            match dlopen(&path) {
                Ok(library) => return Ok(Found { library, path }),
                Err(e) => tried.push(format!("{}: {e}", path.display())),
            }
        }
        match dlopen(Path::new(&name)) {
            Ok(library) => return Ok(Found { library, path: name.into() }),
            Err(e) => tried.push(format!("{name}: {e}")),
        }
    }
    tried.dedup();
    Err(format!("lib{stem} was not found (tried: {})", tried.join("; ")))
}

fn open_helpers(beside: &Path, prefixes: &[&str]) {
    let Some(entries) = beside.parent().and_then(|d| std::fs::read_dir(d).ok()) else { return };
    for entry in entries.flatten() {
        if prefixes.iter().any(|p| entry.file_name().to_string_lossy().starts_with(p)) {
            // Releases that find their helpers themselves lose nothing where this fails.
            let _ = dlopen(&entry.path());
        }
    }
}

fn dlopen(path: &Path) -> Result<&'static Library, String> {
    // SAFETY: these are the vendor's libraries, whose initialisers have no preconditions.
    match unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) } {
        // Never closed: the libraries keep threads and exit handlers.
        Ok(lib) => Ok(Box::leak(Box::new(lib))),
        Err(e) => Err(std::error::Error::source(&e).map_or_else(|| e.to_string(), |s| s.to_string())),
    }
}

/// A library that is loaded on first use and stays, or the reason why it is missing.
pub struct Loaded<T>(OnceLock<Result<T, String>>);

impl<T> Loaded<T> {
    pub const fn new() -> Self {
        Loaded(OnceLock::new())
    }
    /// What `load` made when it was first asked for.
    pub fn get(&'static self, load: impl FnOnce() -> Result<T, String>) -> oneflow_base::Result<&'static T> {
        self.0.get_or_init(load).as_ref().map_err(Error::runtime)
    }
}

impl Found {
    /// Refuses a release that is too old, or one that does not say its version.
    pub fn at_least(&self, name: &str, oldest: c_int, version: impl FnOnce(&mut c_int) -> c_int) -> Result<(), String> {
        let mut have = 0;
        let code = version(&mut have);
        if code == 0 && have >= oldest {
            return Ok(());
        }
        let path = self.path.display();
        Err(format!("{path}: {name} {have} is too old, at least {oldest} is needed (code {code})"))
    }
}

/// An error of a library's call; `names` are those of its codes.
pub fn check(library: &str, what: &str, code: c_int, names: &[(c_int, &str)]) -> oneflow_base::Result<()> {
    if code == 0 {
        return Ok(());
    }
    let name = names.iter().find(|(c, _)| *c == code).map_or("unknown code", |(_, name)| name);
    Err(Error::runtime(format!("{library} error: {what}: {name} ({code})")))
}

/// What foreign functions may take, return and write: any bits are a value. A newer library may answer with codes that nobody
/// here knows, for which an enum would be undefined.
pub(super) trait AnyBits {}

macro_rules! any_bits {
    ($($of:ty),* $(,)?) => { $(impl $crate::cuda::discover::AnyBits for $of {})* };
}
pub(super) use any_bits;

any_bits!((), u8, i8, c_int, u32, i64, u64, usize, f32, c_void);
impl<T: AnyBits, const N: usize> AnyBits for [T; N] {}
impl<T: AnyBits> AnyBits for *const T {}
impl<T: AnyBits> AnyBits for *mut T {}

pub(super) const fn takes_any_bits<T: AnyBits>() {}

/// Declares a table of C functions and how to fill it from an open library.
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident { $($field:ident = $symbol:literal: fn($($arg:ty),* $(,)?) -> $ret:ty;)* }) => {
        $(#[$doc])*
        pub(super) struct $table { $(pub $field: unsafe extern "C" fn($($arg),*) -> $ret,)* }
        const _: () = {
            use $crate::cuda::discover::takes_any_bits;
            $($(takes_any_bits::<$arg>();)* takes_any_bits::<$ret>();)*
        };
        impl $table {
            pub fn load(found: &$crate::cuda::discover::Found) -> Result<Self, String> {
                Ok($table { $($field: {
                    // SAFETY: the signature is the vendor's C declaration of this symbol.
                    let f = unsafe { found.library.get::<unsafe extern "C" fn($($arg),*) -> $ret>(concat!($symbol, "\0").as_bytes()) };
                    *f.map_err(|e| format!("{}: {e}", found.path.display()))?
                },)* })
            }
        }
    };
}
pub(super) use function_table;
