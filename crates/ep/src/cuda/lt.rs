//! cuBLASLt's C interface as far as matrix products need it. Plans and caches live with the kernels.

use super::discover::{self, function_table};
use oneflow_base::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock};

/// An opaque object of the library.
pub type Handle = *mut c_void;

/// The algorithm of one product; filled by the library.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Heuristic {
    pub algo: [u64; 8],
    pub workspace: usize,
    pub status: c_int,
    pub waves: f32,
    reserved: [c_int; 4],
}

super::discover::any_bits!(Heuristic);

// Values of the vendor's enums.
pub const COMPUTE_32F: c_int = 68;
pub const COMPUTE_64F: c_int = 70;
pub const R_32F: c_int = 0;
pub const R_64F: c_int = 1;
pub const R_16F: c_int = 2;
pub const R_16BF: c_int = 14;
pub const DESC_TRANS_A: c_int = 3;
pub const DESC_TRANS_B: c_int = 4;
pub const DESC_EPILOGUE: c_int = 7;
pub const DESC_BIAS_POINTER: c_int = 8;
pub const DESC_BIAS_TYPE: c_int = 26;
pub const LAYOUT_BATCH_COUNT: c_int = 5;
pub const LAYOUT_BATCH_STRIDE: c_int = 6;
pub const PREFERENCE_WORKSPACE: c_int = 1;
/// Minimum alignment in bytes of A, B, C and D: four consecutive numbers.
pub const PREFERENCE_ALIGNMENT: c_int = 5;
pub const EPILOGUE_DEFAULT: c_int = 1;
pub const EPILOGUE_RELU: c_int = 2;
pub const EPILOGUE_BIAS: c_int = 4;
/// What the bias pointer is given are sums of B over the products' inner dimension, one a column of D.
pub const EPILOGUE_BGRAD_B: c_int = 512;

function_table! {
    /// The part of cuBLASLt's C interface that is used.
    Table {
        create = "cublasLtCreate": fn(*mut Handle) -> c_int;
        status_string = "cublasLtGetStatusString": fn(c_int) -> *const c_char;
        desc_create = "cublasLtMatmulDescCreate": fn(*mut Handle, c_int, c_int) -> c_int;
        desc_destroy = "cublasLtMatmulDescDestroy": fn(Handle) -> c_int;
        desc_set = "cublasLtMatmulDescSetAttribute": fn(Handle, c_int, *const c_void, usize) -> c_int;
        layout_create = "cublasLtMatrixLayoutCreate": fn(*mut Handle, c_int, u64, u64, i64) -> c_int;
        layout_destroy = "cublasLtMatrixLayoutDestroy": fn(Handle) -> c_int;
        layout_set = "cublasLtMatrixLayoutSetAttribute": fn(Handle, c_int, *const c_void, usize) -> c_int;
        preference_create = "cublasLtMatmulPreferenceCreate": fn(*mut Handle) -> c_int;
        preference_destroy = "cublasLtMatmulPreferenceDestroy": fn(Handle) -> c_int;
        preference_set = "cublasLtMatmulPreferenceSetAttribute": fn(Handle, c_int, *const c_void, usize) -> c_int;
        heuristic = "cublasLtMatmulAlgoGetHeuristic":
            fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int) -> c_int;
        matmul = "cublasLtMatmul": fn(
            Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void, *const c_void, Handle,
            *mut c_void, Handle, *const [u64; 8], *mut c_void, usize, *mut c_void,
        ) -> c_int;
    }
}

/// The loaded library.
pub struct Lt {
    table: Table,
}

/// The library, loaded on first use; the error lists the searched paths.
pub fn lt() -> Result<&'static Lt> {
    lt_of(&[13, 12])
}

pub(super) fn lt_of(majors: &[u32]) -> Result<&'static Lt> {
    static LOADED: OnceLock<Lt> = OnceLock::new();
    static LOADING: Mutex<()> = Mutex::new(());
    if let Some(n) = LOADED.get() {
        return Ok(n);
    }
    let _one = LOADING.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(n) = LOADED.get() {
        return Ok(n);
    }
    let found = discover::open("cublasLt", majors, &[]).map_err(Error::runtime)?;
    let table = Table::load(&found).map_err(Error::runtime)?;
    Ok(LOADED.get_or_init(|| Lt { table }))
}

/// A descriptor that is destroyed with its owner.
pub struct Owned {
    raw: Handle,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    set: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int,
}

// SAFETY: descriptors are plain data behind the pointer; they are changed only through `&mut`.
unsafe impl Send for Owned {}
// SAFETY: as above; the library only reads them in a product.
unsafe impl Sync for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the object is live and used no more.
        unsafe { (self.destroy)(self.raw) };
    }
}

impl Owned {
    /// Sets an attribute of this C type.
    pub fn set<T: Copy>(&mut self, attribute: c_int, value: T) -> Result<()> {
        // SAFETY: the value is live and of the size handed over.
        let code = unsafe { (self.set)(self.raw, attribute, (&raw const value).cast(), size_of::<T>()) };
        lt()?.check("set attribute", code)
    }
}

/// The operands of a product D = alpha * A @ B + beta * C, column-major; C is D where it is not given.
pub struct Product<'a> {
    pub desc: &'a Owned,
    pub a: (&'a Owned, *const u8),
    pub b: (&'a Owned, *const u8),
    pub c: Option<(&'a Owned, *const u8)>,
    pub d: (&'a Owned, *mut u8),
}

impl Lt {
    /// A handle for the current device of this thread. It lives until the process ends.
    pub fn create(&self) -> Result<Handle> {
        let mut h: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is valid.
        self.check("create", unsafe { (self.table.create)(&mut h) })?;
        Ok(h)
    }

    pub fn desc(&self, compute: c_int, scale: c_int) -> Result<Owned> {
        let t = &self.table;
        // SAFETY: the pointer is valid.
        self.owned("descriptor", t.desc_destroy, t.desc_set, |h| unsafe { (t.desc_create)(h, compute, scale) })
    }

    pub fn layout(&self, dtype: c_int, rows: u64, cols: u64, ld: i64) -> Result<Owned> {
        let t = &self.table;
        // SAFETY: the pointer is valid.
        self.owned("layout", t.layout_destroy, t.layout_set, |h| unsafe { (t.layout_create)(h, dtype, rows, cols, ld) })
    }

    pub fn preference(&self) -> Result<Owned> {
        let t = &self.table;
        // SAFETY: the pointer is valid.
        self.owned("preference", t.preference_destroy, t.preference_set, |h| unsafe { (t.preference_create)(h) })
    }

    /// The library's first choice for a product; `None` where it has none.
    ///
    /// # Safety
    /// `handle` came from `create`.
    pub unsafe fn heuristic(&self, handle: Handle, p: &Product<'_>, preference: &Owned) -> Result<Option<Heuristic>> {
        let (mut best, mut n) = (Heuristic::default(), 0);
        let (a, b, d) = (p.a.0.raw, p.b.0.raw, p.d.0.raw);
        let c = p.c.map_or(d, |c| c.0.raw);
        // SAFETY: all objects are live; one result is asked for and has room.
        let code =
            unsafe { (self.table.heuristic)(handle, p.desc.raw, a, b, c, d, preference.raw, 1, &mut best, &mut n) };
        const NOT_SUPPORTED: c_int = 15;
        if code == NOT_SUPPORTED {
            return Ok(None);
        }
        self.check("heuristic", code)?;
        Ok((n > 0 && best.status == 0).then_some(best))
    }

    /// Enqueues the product.
    ///
    /// # Safety
    /// `handle` belongs to the device of `stream`; pointers and layouts are right; `alpha` and `beta` point at numbers of
    /// the scale type; the workspace is used by no other work outside of `stream`.
    pub unsafe fn matmul(
        &self,
        handle: Handle,
        p: &Product<'_>,
        alpha: *const c_void,
        beta: *const c_void,
        algo: &[u64; 8],
        workspace: (*mut u8, usize),
        stream: *mut c_void,
    ) -> Result<()> {
        let d = p.d.1.cast::<c_void>();
        let c = p.c.unwrap_or((p.d.0, p.d.1));
        // SAFETY: by the contract.
        let code = unsafe {
            (self.table.matmul)(
                handle,
                p.desc.raw,
                alpha,
                p.a.1.cast(),
                p.a.0.raw,
                p.b.1.cast(),
                p.b.0.raw,
                beta,
                c.1.cast(),
                c.0.raw,
                d,
                p.d.0.raw,
                algo,
                workspace.0.cast(),
                workspace.1,
                stream,
            )
        };
        self.check("matmul", code)
    }

    fn owned(
        &self,
        what: &str,
        destroy: unsafe extern "C" fn(Handle) -> c_int,
        set: unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> c_int,
        create: impl FnOnce(*mut Handle) -> c_int,
    ) -> Result<Owned> {
        let mut raw: Handle = std::ptr::null_mut();
        self.check(what, create(&mut raw))?;
        Ok(Owned { raw, destroy, set })
    }

    fn check(&self, what: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a static string for any code.
        let p = unsafe { (self.table.status_string)(code) };
        let text = if p.is_null() {
            "unknown status".into()
        } else {
            // SAFETY: a non-null answer is a C string.
            unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
        };
        Err(Error::runtime(format!("cublasLt: {what}: {text} ({code})")))
    }
}
