//! cuSOLVER's C interface as far as decompositions need it, and cuBLAS's for triangular systems. Matrices lie column by column.

use super::discover::{self, Loaded, function_table};
use super::fft::{C_32F, C_64F, R_32F, R_64F};
use oneflow_base::{DType, Error, Result};
use std::ffi::{c_char, c_int, c_void};

type Raw = *mut c_void;
type Size = *mut usize;

/// The oldest release whose interface is known: that of CUDA 12.
const OLDEST: c_int = 11400;

function_table! {
    /// The part of cuSOLVER's C interface that is used.
    Table {
        version = "cusolverGetVersion": fn(*mut c_int) -> c_int;
        create = "cusolverDnCreate": fn(*mut Raw) -> c_int;
        create_params = "cusolverDnCreateParams": fn(*mut Raw) -> c_int;
        set_stream = "cusolverDnSetStream": fn(Raw, Raw) -> c_int;
        potrf_size = "cusolverDnXpotrf_bufferSize": fn(Raw, Raw, c_int, i64, c_int, Raw, i64, c_int, Size, Size) -> c_int;
        potrf = "cusolverDnXpotrf":
            fn(Raw, Raw, c_int, i64, c_int, Raw, i64, c_int, Raw, usize, Raw, usize, *mut c_int) -> c_int;
        getrf_size = "cusolverDnXgetrf_bufferSize": fn(Raw, Raw, i64, i64, c_int, Raw, i64, c_int, Size, Size) -> c_int;
        getrf = "cusolverDnXgetrf":
            fn(Raw, Raw, i64, i64, c_int, Raw, i64, *mut i64, c_int, Raw, usize, Raw, usize, *mut c_int) -> c_int;
        geqrf_size = "cusolverDnXgeqrf_bufferSize":
            fn(Raw, Raw, i64, i64, c_int, Raw, i64, c_int, Raw, c_int, Size, Size) -> c_int;
        geqrf = "cusolverDnXgeqrf":
            fn(Raw, Raw, i64, i64, c_int, Raw, i64, c_int, Raw, c_int, Raw, usize, Raw, usize, *mut c_int) -> c_int;
        syevd_size = "cusolverDnXsyevd_bufferSize":
            fn(Raw, Raw, c_int, c_int, i64, c_int, Raw, i64, c_int, Raw, c_int, Size, Size) -> c_int;
        syevd = "cusolverDnXsyevd": fn(
            Raw, Raw, c_int, c_int, i64, c_int, Raw, i64, c_int, Raw, c_int, Raw, usize, Raw, usize, *mut c_int,
        ) -> c_int;
        gesvd_size = "cusolverDnXgesvd_bufferSize": fn(
            Raw, Raw, c_char, c_char, i64, i64, c_int, Raw, i64, c_int, Raw, c_int, Raw, i64, c_int, Raw, i64, c_int, Size,
            Size,
        ) -> c_int;
        gesvd = "cusolverDnXgesvd": fn(
            Raw, Raw, c_char, c_char, i64, i64, c_int, Raw, i64, c_int, Raw, c_int, Raw, i64, c_int, Raw, i64, c_int, Raw,
            usize, Raw, usize, *mut c_int,
        ) -> c_int;
        sorgqr_size = "cusolverDnSorgqr_bufferSize": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, *mut c_int) -> c_int;
        dorgqr_size = "cusolverDnDorgqr_bufferSize": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, *mut c_int) -> c_int;
        cungqr_size = "cusolverDnCungqr_bufferSize": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, *mut c_int) -> c_int;
        zungqr_size = "cusolverDnZungqr_bufferSize": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, *mut c_int) -> c_int;
        sorgqr = "cusolverDnSorgqr": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, Raw, c_int, *mut c_int) -> c_int;
        dorgqr = "cusolverDnDorgqr": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, Raw, c_int, *mut c_int) -> c_int;
        cungqr = "cusolverDnCungqr": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, Raw, c_int, *mut c_int) -> c_int;
        zungqr = "cusolverDnZungqr": fn(Raw, c_int, c_int, c_int, Raw, c_int, Raw, Raw, c_int, *mut c_int) -> c_int;
    }
}

function_table! {
    /// The part of cuBLAS's C interface that is used.
    Blas {
        create = "cublasCreate_v2": fn(*mut Raw) -> c_int;
        set_stream = "cublasSetStream_v2": fn(Raw, Raw) -> c_int;
        set_workspace = "cublasSetWorkspace_v2": fn(Raw, Raw, usize) -> c_int;
        strsm = "cublasStrsm_v2":
            fn(Raw, c_int, c_int, c_int, c_int, c_int, c_int, Raw, Raw, c_int, Raw, c_int) -> c_int;
        dtrsm = "cublasDtrsm_v2":
            fn(Raw, c_int, c_int, c_int, c_int, c_int, c_int, Raw, Raw, c_int, Raw, c_int) -> c_int;
        ctrsm = "cublasCtrsm_v2":
            fn(Raw, c_int, c_int, c_int, c_int, c_int, c_int, Raw, Raw, c_int, Raw, c_int) -> c_int;
        ztrsm = "cublasZtrsm_v2":
            fn(Raw, c_int, c_int, c_int, c_int, c_int, c_int, Raw, Raw, c_int, Raw, c_int) -> c_int;
    }
}

/// The loaded libraries.
pub struct Solver {
    table: Table,
    blas: Blas,
}

/// Handles of the libraries for one stream. They live until the process ends. Used by one thread at a time.
pub struct Handle {
    solver: &'static Solver,
    raw: Raw,
    params: Raw,
    blas: Raw,
}

// SAFETY: handles are bound to a device, not to a thread, and are used through `&mut`.
unsafe impl Send for Handle {}

/// A decomposition of one matrix after the other, of the same dtype and sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Problem {
    /// Of the triangle that `upper` names, in place.
    Cholesky { n: i64, upper: bool },
    /// In place; without `pivots` no rows are exchanged.
    Lu { m: i64, n: i64 },
    /// In place, with `tau`.
    Qr { m: i64, n: i64 },
    /// The product of `k` reflectors, in place of a matrix of `n >= k` columns.
    Reflectors { m: i64, n: i64, k: i64 },
    /// Vectors in place of the matrix, if wanted.
    Eigen { n: i64, upper: bool, vectors: bool },
    /// `m >= n`; vectors: none, as many as there are values, or all.
    Singular { m: i64, n: i64, vectors: Vectors },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    No,
    Some,
    All,
}

/// Bytes beside the operands: (on the device, on the host).
pub type Workspace = (usize, usize);

/// Addresses of one matrix and of what belongs to it; those that a problem does not have are null.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    pub a: *mut u8,
    /// `tau` of reflectors, eigenvalues, or singular values.
    pub vector: *mut u8,
    pub pivots: *mut i64,
    pub u: *mut u8,
    pub vh: *mut u8,
    /// One number of 32 bits.
    pub info: *mut u8,
}

/// The libraries, loaded on first use; the error lists the searched paths. `majors`: of CUDA, the most wanted first.
pub fn solver_of(majors: &[u32]) -> Result<&'static Solver> {
    static LOADED: Loaded<Solver> = Loaded::new();
    LOADED.get(|| {
        // Its own number is one behind that of CUDA.
        let names: Vec<u32> = majors.iter().map(|m| m - 1).collect();
        let found = discover::open("cusolver", &names, &["libnvJitLink.so", "libcublas", "libcusparse.so"])?;
        let table = Table::load(&found)?;
        // SAFETY: the place is live.
        found.at_least("cuSOLVER", OLDEST, |v| unsafe { (table.version)(v) })?;
        let blas = Blas::load(&discover::open("cublas", majors, &[])?)?;
        Ok(Solver { table, blas })
    })
}

impl Solver {
    /// Handles for the current device of this thread.
    pub fn create(&'static self) -> Result<Handle> {
        let null = std::ptr::null_mut();
        let mut handle = Handle { solver: self, raw: null, params: null, blas: null };
        // SAFETY: the places are live.
        unsafe {
            check("create", (self.table.create)(&mut handle.raw))?;
            check("create parameters", (self.table.create_params)(&mut handle.params))?;
            check("create cuBLAS", (self.blas.create)(&mut handle.blas))?;
        }
        Ok(handle)
    }
}

/// The vendor's names of a dtype and of the real numbers behind it.
fn types(dtype: DType) -> Result<(c_int, c_int)> {
    Ok(match dtype {
        DType::F32 => (R_32F, R_32F),
        DType::F64 => (R_64F, R_64F),
        DType::C64 => (C_32F, R_32F),
        DType::C128 => (C_64F, R_64F),
        other => return Err(Error::not_implemented(format!("cuSOLVER has no {other}"))),
    })
}

fn small(n: i64) -> Result<c_int> {
    c_int::try_from(n).map_err(|_| Error::not_implemented(format!("cuSOLVER: a matrix with a dimension of {n}")))
}

impl Handle {
    /// What a problem needs. The operands are not touched.
    pub fn workspace(&mut self, problem: Problem, dtype: DType, at: &Operands) -> Result<Workspace> {
        let (t, h, p) = (&self.solver.table, self.raw, self.params);
        let ((d, r), a, v) = (types(dtype)?, at.a.cast::<c_void>(), at.vector.cast::<c_void>());
        let (mut device, mut host) = (0usize, 0usize);
        // SAFETY: the handle is live, the places are; addresses are only looked at.
        let code = unsafe {
            match problem {
                Problem::Cholesky { n, upper } => {
                    (t.potrf_size)(h, p, upper as c_int, n, d, a, n, d, &mut device, &mut host)
                }
                Problem::Lu { m, n } => (t.getrf_size)(h, p, m, n, d, a, m, d, &mut device, &mut host),
                Problem::Qr { m, n } => (t.geqrf_size)(h, p, m, n, d, a, m, d, v, d, &mut device, &mut host),
                Problem::Reflectors { m, n, k } => {
                    let f = match dtype {
                        DType::F32 => t.sorgqr_size,
                        DType::F64 => t.dorgqr_size,
                        DType::C64 => t.cungqr_size,
                        _ => t.zungqr_size,
                    };
                    let mut n_elements = 0;
                    let code = f(h, small(m)?, small(n)?, small(k)?, a, small(m)?, v, &mut n_elements);
                    device = n_elements.max(0) as usize * dtype.size();
                    code
                }
                Problem::Eigen { n, upper, vectors } => {
                    let (jobs, uplo) = (vectors as c_int, upper as c_int);
                    (t.syevd_size)(h, p, jobs, uplo, n, d, a, n, r, v, d, &mut device, &mut host)
                }
                Problem::Singular { m, n, vectors } => {
                    let (job, rows, (u, vh)) = (job(vectors), n, (at.u.cast(), at.vh.cast()));
                    let host = &mut host;
                    (t.gesvd_size)(h, p, job, job, m, n, d, a, m, r, v, d, u, m, d, vh, rows, d, &mut device, host)
                }
            }
        };
        check("workspace", code)?;
        Ok((device, host))
    }

    /// Enqueues the decomposition of one matrix.
    ///
    /// # Safety
    /// The addresses hold the problem's operands; `device` and `host` have the bytes of `workspace`, and `device` is used by no other
    /// work outside of `stream`, for which these handles are.
    pub unsafe fn launch(
        &mut self,
        problem: Problem,
        dtype: DType,
        at: &Operands,
        device: (*mut u8, usize),
        host: &mut [u8],
        stream: Raw,
    ) -> Result<()> {
        let (t, h, p) = (&self.solver.table, self.raw, self.params);
        let ((d, r), a, v) = (types(dtype)?, at.a.cast::<c_void>(), at.vector.cast::<c_void>());
        let (w, nw, info) = (device.0.cast::<c_void>(), device.1, at.info.cast::<c_int>());
        let (hw, nh) = (host.as_mut_ptr().cast::<c_void>(), host.len());
        // SAFETY: by the contract.
        let code = unsafe {
            check("set stream", (t.set_stream)(h, stream))?;
            match problem {
                Problem::Cholesky { n, upper } => (t.potrf)(h, p, upper as c_int, n, d, a, n, d, w, nw, hw, nh, info),
                Problem::Lu { m, n } => (t.getrf)(h, p, m, n, d, a, m, at.pivots, d, w, nw, hw, nh, info),
                Problem::Qr { m, n } => (t.geqrf)(h, p, m, n, d, a, m, d, v, d, w, nw, hw, nh, info),
                Problem::Reflectors { m, n, k } => {
                    let f = match dtype {
                        DType::F32 => t.sorgqr,
                        DType::F64 => t.dorgqr,
                        DType::C64 => t.cungqr,
                        _ => t.zungqr,
                    };
                    let n_elements = small((nw / dtype.size()) as i64)?;
                    f(h, small(m)?, small(n)?, small(k)?, a, small(m)?, v, w, n_elements, info)
                }
                Problem::Eigen { n, upper, vectors } => {
                    let (jobs, uplo) = (vectors as c_int, upper as c_int);
                    (t.syevd)(h, p, jobs, uplo, n, d, a, n, r, v, d, w, nw, hw, nh, info)
                }
                Problem::Singular { m, n, vectors } => {
                    let (job, u, vh) = (job(vectors), at.u.cast(), at.vh.cast());
                    (t.gesvd)(h, p, job, job, m, n, d, a, m, r, v, d, u, m, d, vh, n, d, w, nw, hw, nh, info)
                }
            }
        };
        check("decomposition", code)
    }

    /// Enqueues `b = inverse(a) b` of a triangle of `n` rows and `k` columns of b.
    ///
    /// # Safety
    /// The addresses hold the matrices; the workspace is used by no other work outside of `stream`.
    pub unsafe fn solve_triangle(
        &mut self,
        dtype: DType,
        (upper, unit): (bool, bool),
        (n, k): (i64, i64),
        (a, b): (*mut u8, *mut u8),
        workspace: (*mut u8, usize),
        stream: Raw,
    ) -> Result<()> {
        let (t, h) = (&self.solver.blas, self.blas);
        let (n, k) = (small(n)?, small(k)?);
        let (mut single, mut double) = ([1.0f32, 0.0], [1.0f64, 0.0]);
        let (f, one): (_, Raw) = match dtype {
            DType::F32 => (t.strsm, single.as_mut_ptr().cast()),
            DType::F64 => (t.dtrsm, double.as_mut_ptr().cast()),
            DType::C64 => (t.ctrsm, single.as_mut_ptr().cast()),
            _ => (t.ztrsm, double.as_mut_ptr().cast()),
        };
        const LEFT: c_int = 0;
        const AS_IT_IS: c_int = 0;
        // SAFETY: by the contract; the number is on the host, which is what handles expect.
        unsafe {
            check("set stream of cuBLAS", (t.set_stream)(h, stream))?;
            check("set workspace of cuBLAS", (t.set_workspace)(h, workspace.0.cast(), workspace.1))?;
            let code = f(h, LEFT, upper as c_int, AS_IT_IS, unit as c_int, n, k, one, a.cast(), n, b.cast(), n);
            check("triangular system", code)
        }
    }
}

fn job(vectors: Vectors) -> c_char {
    let letter = match vectors {
        Vectors::No => b'N',
        Vectors::Some => b'S',
        Vectors::All => b'A',
    };
    letter as c_char
}

fn check(what: &str, code: c_int) -> Result<()> {
    const NAMES: &[(c_int, &str)] = &[
        (1, "NOT_INITIALIZED"),
        (2, "ALLOC_FAILED"),
        (3, "INVALID_VALUE"),
        (4, "ARCH_MISMATCH"),
        (6, "EXECUTION_FAILED"),
        (7, "INTERNAL_ERROR"),
        (9, "NOT_SUPPORTED"),
    ];
    discover::check("cuSOLVER", what, code, NAMES)
}
