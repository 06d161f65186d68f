//! cuFFT's C interface as far as transforms need it. Plans are kept by the kernels.

use super::discover::{self, Loaded, function_table};
use oneflow_base::Result;
use std::ffi::{c_int, c_void};

// Values of the vendor's `cudaDataType`.
pub const R_32F: c_int = 0;
pub const R_64F: c_int = 1;
pub const C_32F: c_int = 4;
pub const C_64F: c_int = 5;
const FORWARD: c_int = -1;
const INVERSE: c_int = 1;
/// The oldest release whose interface is known: that of CUDA 12.
const OLDEST: c_int = 11000;

function_table! {
    /// The part of cuFFT's C interface that is used.
    Table {
        version = "cufftGetVersion": fn(*mut c_int) -> c_int;
        create = "cufftCreate": fn(*mut c_int) -> c_int;
        destroy = "cufftDestroy": fn(c_int) -> c_int;
        set_auto_allocation = "cufftSetAutoAllocation": fn(c_int, c_int) -> c_int;
        set_stream = "cufftSetStream": fn(c_int, *mut c_void) -> c_int;
        set_work_area = "cufftSetWorkArea": fn(c_int, *mut c_void) -> c_int;
        make_plan_many = "cufftXtMakePlanMany": fn(
            c_int, c_int, *mut i64, *mut i64, i64, i64, c_int, *mut i64, i64, i64, c_int, i64, *mut usize, c_int,
        ) -> c_int;
        exec = "cufftXtExec": fn(c_int, *mut c_void, *mut c_void, c_int) -> c_int;
    }
}

/// The loaded library.
pub struct Fft {
    table: Table,
}

/// A transform of contiguous signals, one behind the other, of up to three dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signals {
    /// Of the real or the longer side.
    pub sizes: Vec<i64>,
    pub count: i64,
    /// Data types of what is read and written; a real one has half of the last dimension on its complex side.
    pub from: c_int,
    pub to: c_int,
}

/// A plan. One launch at a time.
pub struct Plan {
    fft: &'static Fft,
    raw: c_int,
    /// Bytes that a launch needs beside its operands.
    pub workspace: usize,
}

/// The library, loaded on first use; the error lists the searched paths. `majors`: of CUDA, the most wanted first.
pub fn fft_of(majors: &[u32]) -> Result<&'static Fft> {
    static LOADED: Loaded<Fft> = Loaded::new();
    LOADED.get(|| {
        // Its own number is one behind that of CUDA.
        let names: Vec<u32> = majors.iter().map(|m| m - 1).collect();
        let found = discover::open("cufft", &names, &[])?;
        let table = Table::load(&found)?;
        // SAFETY: the place is live.
        found.at_least("cuFFT", OLDEST, |v| unsafe { (table.version)(v) })?;
        Ok(Fft { table })
    })
}

impl Fft {
    /// A plan for the current device of this thread.
    pub fn plan(&'static self, signals: &Signals) -> Result<Plan> {
        let t = &self.table;
        let mut plan = Plan { fft: self, raw: 0, workspace: 0 };
        // SAFETY: the place is live.
        check("create a plan", unsafe { (t.create)(&mut plan.raw) })?;
        let (mut sizes, null) = (signals.sizes.clone(), std::ptr::null_mut());
        let wide = [signals.from, signals.to].iter().any(|t| matches!(*t, R_64F | C_64F));
        let exec = if wide { C_64F } else { C_32F };
        // SAFETY: the plan was just made; the sizes are as many as it is told, and read before the call returns.
        unsafe {
            check("set allocation", (t.set_auto_allocation)(plan.raw, 0))?;
            let (rank, from, to) = (sizes.len() as c_int, signals.from, signals.to);
            let sizes = sizes.as_mut_ptr();
            let (count, bytes) = (signals.count, &mut plan.workspace);
            let code = (t.make_plan_many)(plan.raw, rank, sizes, null, 1, 1, from, null, 1, 1, to, count, bytes, exec);
            check("plan", code)?;
        }
        Ok(plan)
    }
}

impl Plan {
    /// Enqueues the transform. A transform to real numbers overwrites what it reads.
    ///
    /// # Safety
    /// The addresses hold the plan's signals; the workspace has the plan's bytes and is used by no other work outside of `stream`.
    pub unsafe fn launch(
        &mut self,
        from: *mut u8,
        to: *mut u8,
        inverse: bool,
        workspace: *mut u8,
        stream: *mut c_void,
    ) -> Result<()> {
        let t = &self.fft.table;
        // SAFETY: by the contract.
        unsafe {
            check("set stream", (t.set_stream)(self.raw, stream))?;
            check("set workspace", (t.set_work_area)(self.raw, workspace.cast()))?;
            check("transform", (t.exec)(self.raw, from.cast(), to.cast(), if inverse { INVERSE } else { FORWARD }))
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: the plan is live and used no more.
        unsafe { (self.fft.table.destroy)(self.raw) };
    }
}

fn check(what: &str, code: c_int) -> Result<()> {
    const NAMES: &[(c_int, &str)] = &[
        (1, "CUFFT_INVALID_PLAN"),
        (2, "CUFFT_ALLOC_FAILED"),
        (3, "CUFFT_INVALID_TYPE"),
        (4, "CUFFT_INVALID_VALUE"),
        (5, "CUFFT_INTERNAL_ERROR"),
        (6, "CUFFT_EXEC_FAILED"),
        (7, "CUFFT_SETUP_FAILED"),
        (8, "CUFFT_INVALID_SIZE"),
        (13, "CUFFT_NO_WORKSPACE"),
        (14, "CUFFT_NOT_IMPLEMENTED"),
        (16, "CUFFT_NOT_SUPPORTED"),
    ];
    discover::check("cuFFT", what, code, NAMES)
}
