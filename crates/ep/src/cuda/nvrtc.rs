//! The run-time compiler: CUDA text in, machine code for one architecture out. Needs neither GPU nor driver.

use super::discover::{self, Found, function_table};
use oneflow_base::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

type Program = *mut c_void;

function_table! {
    /// The part of NVRTC's C interface that is used.
    Table {
        version = "nvrtcVersion": fn(*mut c_int, *mut c_int) -> c_int;
        n_archs = "nvrtcGetNumSupportedArchs": fn(*mut c_int) -> c_int;
        archs = "nvrtcGetSupportedArchs": fn(*mut c_int) -> c_int;
        create = "nvrtcCreateProgram": fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
        destroy = "nvrtcDestroyProgram": fn(*mut Program) -> c_int;
        compile = "nvrtcCompileProgram": fn(Program, c_int, *const *const c_char) -> c_int;
        cubin_size = "nvrtcGetCUBINSize": fn(Program, *mut usize) -> c_int;
        cubin = "nvrtcGetCUBIN": fn(Program, *mut c_char) -> c_int;
        ptx_size = "nvrtcGetPTXSize": fn(Program, *mut usize) -> c_int;
        ptx = "nvrtcGetPTX": fn(Program, *mut c_char) -> c_int;
        log_size = "nvrtcGetProgramLogSize": fn(Program, *mut usize) -> c_int;
        log = "nvrtcGetProgramLog": fn(Program, *mut c_char) -> c_int;
        error_string = "nvrtcGetErrorString": fn(c_int) -> *const c_char;
    }
}

/// The loaded compiler.
pub struct Nvrtc {
    table: Table,
    pub version: (i32, i32),
    path: PathBuf,
    /// Compute capabilities that it supports, as 10 * major + minor, ascending.
    archs: Vec<i32>,
}

/// The compiler, loaded on first use; the error lists the searched paths.
pub fn nvrtc() -> Result<&'static Nvrtc> {
    nvrtc_of(&[13, 12])
}

/// As `nvrtc`, with the releases that suit the driver.
pub(super) fn nvrtc_of(majors: &[u32]) -> Result<&'static Nvrtc> {
    static LOADED: OnceLock<Nvrtc> = OnceLock::new();
    static LOADING: Mutex<()> = Mutex::new(());
    if let Some(n) = LOADED.get() {
        return Ok(n);
    }
    let _one = LOADING.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(n) = LOADED.get() {
        return Ok(n);
    }
    // Only success is kept: directories may be named later.
    let found = discover::open("nvrtc", majors, &["libnvrtc-builtins.so"]).map_err(Error::runtime)?;
    let loaded = Nvrtc::load(&found)?;
    Ok(LOADED.get_or_init(|| loaded))
}

impl Nvrtc {
    fn load(found: &Found) -> Result<Nvrtc> {
        let table = Table::load(found).map_err(Error::runtime)?;
        let (mut major, mut minor, mut n) = (0, 0, 0);
        // SAFETY: the pointers are valid; the array has the number of entries the library asked for.
        let archs = unsafe {
            (table.version)(&mut major, &mut minor);
            (table.n_archs)(&mut n);
            let mut archs = vec![0; n.max(0) as usize];
            if !archs.is_empty() {
                (table.archs)(archs.as_mut_ptr());
            }
            archs.sort_unstable();
            archs
        };
        Ok(Nvrtc { table, version: (major, minor), path: found.path.clone(), archs })
    }

    /// Path of the library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The `-arch` for a compute capability: its own machine code, or the newest known virtual architecture below it,
    /// which the driver compiles on.
    pub fn arch_for(&self, major: i32, minor: i32) -> String {
        let cc = major * 10 + minor;
        if self.archs.contains(&cc) {
            // From Hopper on, the tensor cores are reached only through the architecture's own feature set.
            let own = if major >= 9 && major != 12 && minor == 0 { "a" } else { "" };
            return format!("sm_{cc}{own}");
        }
        let below = self.archs.iter().rev().find(|&&a| a <= cc).copied().unwrap_or(80);
        format!("compute_{below}")
    }

    /// Compiles to CUBIN for `sm_*`, to PTX (with its closing zero) for `compute_*`. The error holds the compiler's log.
    pub fn compile(&self, name: &str, source: &str, arch: &str, options: &[&str]) -> Result<Vec<u8>> {
        Ok(self.compile_with_log(name, source, arch, options)?.0)
    }

    /// As `compile`, and what the compiler said: with `--ptxas-options=-v`, the registers and the memory that a kernel takes.
    pub fn compile_with_log(
        &self,
        name: &str,
        source: &str,
        arch: &str,
        options: &[&str],
    ) -> Result<(Vec<u8>, String)> {
        let c = |s: &str| CString::new(s).map_err(|_| Error::runtime(format!("nvrtc: zero byte in {name:?}")));
        let (c_source, c_name) = (c(source)?, c(name)?);
        let mut args = vec![c(&format!("-arch={arch}"))?, c("-default-device")?, c("--std=c++17")?];
        for o in options {
            args.push(c(o)?);
        }
        let args: Vec<*const c_char> = args.iter().map(|a| a.as_ptr()).collect();
        let t = &self.table;
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: all strings live over the call; no headers are handed in.
        let code = unsafe {
            (t.create)(&mut program, c_source.as_ptr(), c_name.as_ptr(), 0, std::ptr::null(), std::ptr::null())
        };
        self.check(name, "create", code)?;
        // SAFETY: the program is live, the option strings too.
        let code = unsafe { (t.compile)(program, args.len() as c_int, args.as_ptr()) };
        let log = self.bytes(program, t.log_size, t.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_string();
        let result = if code != 0 {
            Err(Error::runtime(format!("nvrtc: {name} for {arch}: {}\n{log}", self.text(code))))
        } else if arch.starts_with("sm_") {
            self.bytes(program, t.cubin_size, t.cubin).map_err(|code| self.error(name, "cubin", code))
        } else {
            self.bytes(program, t.ptx_size, t.ptx).map_err(|code| self.error(name, "ptx", code))
        };
        // SAFETY: the program is live and used no more.
        unsafe { (t.destroy)(&mut program) };
        Ok((result?, log))
    }

    fn bytes(
        &self,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, c_int> {
        let mut n = 0usize;
        // SAFETY: the program is live; the buffer has the size that was asked for.
        unsafe {
            match size(program, &mut n) {
                0 => {}
                code => return Err(code),
            }
            let mut out = vec![0u8; n];
            match get(program, out.as_mut_ptr().cast()) {
                0 => Ok(out),
                code => Err(code),
            }
        }
    }

    fn check(&self, name: &str, what: &str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(name, what, code)) }
    }

    fn error(&self, name: &str, what: &str, code: c_int) -> Error {
        Error::runtime(format!("nvrtc: {name}: {what}: {}", self.text(code)))
    }

    fn text(&self, code: c_int) -> String {
        // SAFETY: the library gives a static string for any code.
        let p = unsafe { (self.table.error_string)(code) };
        if p.is_null() {
            return format!("unknown error ({code})");
        }
        // SAFETY: a non-null answer is a C string.
        format!("{} ({code})", unsafe { CStr::from_ptr(p) }.to_string_lossy())
    }
}
