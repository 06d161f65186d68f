//! Decompositions by cuSOLVER, triangular systems by cuBLAS: operands are brought into matrices that lie column by column, one behind
//! the other, and each is a call of the library.
//!
//! Without the libraries the host does it. What failed is read back only where the caller is to hear of it at once; else it is
//! reported at the next synchronisation.

use crate::elementwise::copy_views;
use crate::host;
use crate::launch::{Family, Key, Scratch, args, cuda, faults, gpu, linear, run};
use crate::per_queue::PerQueue;
use crate::text::Builder;
use oneflow_base::{DType, Dims, Error, Result, contiguous_strides};
use oneflow_ep::cuda::solver::{Handle, Operands, Problem, Vectors};
use oneflow_ep::cuda::{Fault, Grid, Text};
use oneflow_ep::{Copy, Provider, Queue};
use oneflow_kernels_prim::{
    self as prim, CholeskyParams, EighParams, Launch, LuFactorParams, SingularCheck, TriangularSolveParams, View,
};

const CLEAR: u64 = 0;
const PERMUTE: u64 = 1;
const CHECK: u64 = 2;
const NO_PIVOTS: u64 = 3;

pub fn text(part: u64) -> Text {
    Builder::new("solver").variant("PART", part).push(include_str!("text/solver.cu")).finish()
}

fn key(part: u64) -> Key {
    Key::new(Family::Solver).small(part)
}

/// Matrices (or vectors, as columns) one behind the other.
struct Columns {
    memory: Scratch,
    queue: Queue,
    dtype: DType,
    rows: i64,
    cols: i64,
    count: i64,
}

impl Columns {
    fn new(queue: Queue, dtype: DType, count: i64, rows: i64, cols: i64) -> Result<Columns> {
        let memory = Scratch::new(queue, (count * rows * cols).max(1), dtype.size())?;
        Ok(Columns { memory, queue, dtype, rows, cols, count })
    }

    /// A copy of a view's matrices.
    unsafe fn of(queue: Queue, v: &View<'_>, transposed: bool) -> Result<Columns> {
        let d = v.ndim() - 2;
        let (rows, cols) = if transposed { (v.sizes[d + 1], v.sizes[d]) } else { (v.sizes[d], v.sizes[d + 1]) };
        let c = Columns::new(queue, v.dtype, v.sizes[..d].iter().product(), rows, cols)?;
        // SAFETY: the caller's promise; the memory has room for the view's elements.
        unsafe { c.read(v, transposed)? };
        Ok(c)
    }

    fn at(&self, item: i64) -> *mut u8 {
        self.memory.ptr().wrapping_add((item * self.rows * self.cols) as usize * self.dtype.size())
    }

    /// How a view of these sizes lies here: its matrices, or transposed ones, of which it may have fewer rows and columns.
    fn strides(&self, sizes: &[i64], transposed: bool) -> Dims {
        let d = sizes.len() - 2;
        let lead = contiguous_strides(&sizes[..d]);
        let mut strides: Dims = lead.iter().map(|s| s * self.rows * self.cols).collect();
        strides.extend(if transposed { [self.rows, 1] } else { [1, self.rows] });
        strides
    }

    unsafe fn read(&self, v: &View<'_>, transposed: bool) -> Result<()> {
        let strides = self.strides(v.sizes, transposed);
        // SAFETY: the caller's promise.
        unsafe { copy_views(self.queue, &View { ptr: self.memory.ptr(), strides: &strides, ..*v }, v) }
    }

    unsafe fn write(&self, v: &View<'_>, transposed: bool) -> Result<()> {
        let strides = self.strides(v.sizes, transposed);
        // SAFETY: the caller's promise.
        unsafe { copy_views(self.queue, v, &View { ptr: self.memory.ptr(), strides: &strides, ..*v }) }
    }

    /// Vectors to a view whose last dimension they are; it may have another dtype.
    unsafe fn write_vectors(&self, v: &View<'_>) -> Result<()> {
        let strides = contiguous_strides(v.sizes);
        let from = View { ptr: self.memory.ptr(), dtype: self.dtype, sizes: v.sizes, strides: &strides };
        // SAFETY: the caller's promise.
        unsafe { copy_views(self.queue, v, &from) }
    }
}

/// Calls with the queue's handle, the device's context current.
fn with_handle<R>(queue: Queue, run: impl FnOnce(&mut Handle) -> Result<R>) -> Result<R> {
    static HANDLES: PerQueue<Handle> = PerQueue::new();
    let solver = cuda()?.solver().map_err(|e| Error::not_implemented(e.text()))?;
    HANDLES.with(queue, || solver.create(), run)
}

/// Solves each item: `at` names an item's operands, all but its info.
unsafe fn each(
    queue: Queue,
    problem: Problem,
    dtype: DType,
    count: i64,
    at: impl Fn(i64) -> Operands,
) -> Result<Columns> {
    let info = Columns::new(queue, DType::I32, count, 1, 1)?;
    with_handle(queue, |handle| {
        let (device, host) = handle.workspace(problem, dtype, &at(0))?;
        let workspace = Scratch::new(queue, device.max(1) as i64, 1)?;
        let mut on_host = vec![0u8; host];
        gpu(queue)?;
        for i in 0..count {
            let operands = Operands { info: info.at(i), ..at(i) };
            // SAFETY: by the caller's promise; the workspace has the bytes that were asked for, and calls follow each other.
            unsafe { handle.launch(problem, dtype, &operands, (workspace.ptr(), device), &mut on_host, queue.raw)? };
        }
        Ok(())
    })?;
    Ok(info)
}

const NOTHING: Operands = Operands {
    a: std::ptr::null_mut(),
    vector: std::ptr::null_mut(),
    pivots: std::ptr::null_mut(),
    u: std::ptr::null_mut(),
    vh: std::ptr::null_mut(),
    info: std::ptr::null_mut(),
};

/// Whether some item failed. Waits for the device.
unsafe fn has_failed(info: &Columns) -> Result<bool> {
    let mut read = vec![0i32; info.count as usize];
    let bytes = size_of_val(read.as_slice());
    // SAFETY: both hold a number for each item.
    unsafe { cuda()?.copy(info.queue, Copy::DeviceToHost, read.as_mut_ptr().cast(), info.memory.ptr(), bytes)? };
    Ok(read.iter().any(|code| *code != 0))
}

/// Reports items that failed at the next synchronisation.
unsafe fn report(info: &Columns, kind: i64, size: i64) -> Result<()> {
    let (at, count, fault) = (info.memory.ptr(), info.count, faults(info.queue)?);
    let grid = Grid::linear(1, 1);
    // SAFETY: the arguments are the template's.
    unsafe { run(info.queue, key(CHECK), || Ok(text(CHECK)), grid, args![at, count, kind, size, fault]) }
}

/// The dtypes that the library has; nothing to do for empty operands, which the host says in its own way.
fn takes(op: &str, l: &Launch<'_>) -> Result<DType> {
    let dtype = l.input(0)?.dtype;
    let known = matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128);
    let is_empty = l.ins.iter().chain(l.outs).flatten().any(|v| v.numel() == 0);
    if !known || is_empty {
        return Err(Error::not_implemented(format!("{op}: cuSOLVER takes no {dtype}, and nothing empty")));
    }
    cuda()?.solver().map_err(|e| Error::not_implemented(e.text()))?;
    Ok(dtype)
}

fn real_of(dtype: DType) -> DType {
    if matches!(dtype, DType::F32 | DType::C64) { DType::F32 } else { DType::F64 }
}

pub unsafe fn cholesky(l: &Launch<'_>) -> Result<()> {
    let (dtype, out) = (takes("cholesky", l)?, l.output(0)?);
    let CholeskyParams { upper, check } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe {
        let a = Columns::of(l.queue, &l.input(0)?, false)?;
        let n = a.rows;
        let info =
            each(l.queue, Problem::Cholesky { n, upper }, dtype, a.count, |i| Operands { a: a.at(i), ..NOTHING })?;
        if check && has_failed(&info)? {
            // The error in the host's words.
            return host::run_silently(&prim::CHOLESKY, l);
        }
        let (total, words) = (a.count * n * n, (dtype.size() / 4) as i32);
        let (at, upper) = (a.memory.ptr(), upper as i32);
        run(l.queue, key(CLEAR), || Ok(text(CLEAR)), linear(total), args![at, total, n, words, upper])?;
        a.write(&out, false)?;
        info.write_vectors(&l.output(1)?)
    }
}

pub unsafe fn lu_factor(l: &Launch<'_>) -> Result<()> {
    let dtype = takes("lu_factor", l)?;
    let LuFactorParams { pivot, check } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe {
        let a = Columns::of(l.queue, &l.input(0)?, false)?;
        let (m, n, k) = (a.rows, a.cols, a.rows.min(a.cols));
        let pivots = Columns::new(l.queue, DType::I64, a.count, k, 1)?;
        let info = each(l.queue, Problem::Lu { m, n }, dtype, a.count, |i| Operands {
            a: a.at(i),
            pivots: if pivot { pivots.at(i).cast() } else { std::ptr::null_mut() },
            ..NOTHING
        })?;
        if check != SingularCheck::None && has_failed(&info)? {
            return host::run_silently(&prim::LU_FACTOR, l);
        }
        if !pivot {
            let total = a.count * k;
            let at = pivots.memory.ptr();
            run(l.queue, key(NO_PIVOTS), || Ok(text(NO_PIVOTS)), linear(total), args![at, total, k])?;
        }
        a.write(&l.output(0)?, false)?;
        pivots.write_vectors(&l.output(1)?)?;
        info.write_vectors(&l.output(2)?)
    }
}

pub unsafe fn lu_permutation(l: &Launch<'_>) -> Result<()> {
    let (pivots, out) = (l.input(0)?, l.output(0)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let lead = out.ndim() - 1;
    let (count, m, k): (i64, i64, i64) = (out.sizes[..lead].iter().product(), out.sizes[lead], pivots.sizes[lead]);
    let held = Columns::new(l.queue, DType::I32, count, k, 1)?;
    let order = Columns::new(l.queue, DType::I64, count, m, 1)?;
    let strides = contiguous_strides(pivots.sizes);
    let fault = faults(l.queue)?;
    // SAFETY: the launch's contract; the arguments are the template's.
    unsafe {
        copy_views(l.queue, &View { ptr: held.memory.ptr(), strides: &strides, ..pivots }, &pivots)?;
        let (from, to) = (held.memory.ptr(), order.memory.ptr());
        run(l.queue, key(PERMUTE), || Ok(text(PERMUTE)), linear(count), args![from, to, count, k, m, fault])?;
        order.write_vectors(&out)
    }
}

pub unsafe fn triangular_solve(l: &Launch<'_>) -> Result<()> {
    let dtype = takes("triangular_solve", l)?;
    let TriangularSolveParams { upper, unitriangular } = l.read()?;
    // cuBLAS wants this much where it is captured, and on a Hopper more.
    const WORKSPACE: usize = 4 << 20;
    // SAFETY: the launch's contract.
    unsafe {
        let (a, b) = (Columns::of(l.queue, &l.input(0)?, false)?, Columns::of(l.queue, &l.input(1)?, false)?);
        let workspace = Scratch::new(l.queue, WORKSPACE as i64, 1)?;
        with_handle(l.queue, |handle| {
            for i in 0..b.count {
                // One matrix may be for all right sides.
                let (a_at, b_at) = (a.at(if a.count == 1 { 0 } else { i }), b.at(i));
                let (how, sizes) = ((upper, unitriangular), (b.rows, b.cols));
                let workspace = (workspace.ptr(), WORKSPACE);
                handle.solve_triangle(dtype, how, sizes, (a_at, b_at), workspace, l.queue.raw)?;
            }
            Ok(())
        })?;
        b.write(&l.output(0)?, false)
    }
}

pub unsafe fn geqrf(l: &Launch<'_>) -> Result<()> {
    let dtype = takes("geqrf", l)?;
    // SAFETY: the launch's contract.
    unsafe {
        let a = Columns::of(l.queue, &l.input(0)?, false)?;
        let (m, n) = (a.rows, a.cols);
        let tau = Columns::new(l.queue, dtype, a.count, m.min(n), 1)?;
        each(l.queue, Problem::Qr { m, n }, dtype, a.count, |i| Operands { a: a.at(i), vector: tau.at(i), ..NOTHING })?;
        a.write(&l.output(0)?, false)?;
        tau.write_vectors(&l.output(1)?)
    }
}

pub unsafe fn householder_product(l: &Launch<'_>) -> Result<()> {
    let (dtype, v, tau, out) = (takes("householder_product", l)?, l.input(0)?, l.input(1)?, l.output(0)?);
    let d = out.ndim() - 2;
    let (m, n, k) = (out.sizes[d], out.sizes[d + 1], tau.sizes[d]);
    if k > n || n > m || v.sizes[d + 1] < k {
        return Err(Error::not_implemented("householder_product: cuSOLVER takes no more reflectors than columns"));
    }
    // SAFETY: the launch's contract.
    unsafe {
        let a = Columns::new(l.queue, dtype, out.sizes[..d].iter().product(), m, n)?;
        let mut sizes: Dims = v.sizes.into();
        sizes[d + 1] = k;
        a.read(&View { sizes: &sizes, ..v }, false)?;
        let factors = Columns::new(l.queue, dtype, a.count, k, 1)?;
        let strides = contiguous_strides(tau.sizes);
        copy_views(l.queue, &View { ptr: factors.memory.ptr(), strides: &strides, ..tau }, &tau)?;
        let problem = Problem::Reflectors { m, n, k };
        each(l.queue, problem, dtype, a.count, |i| Operands { a: a.at(i), vector: factors.at(i), ..NOTHING })?;
        a.write(&out, false)
    }
}

pub unsafe fn eigh(l: &Launch<'_>) -> Result<()> {
    let dtype = takes("eigh", l)?;
    let EighParams { upper } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe {
        let a = Columns::of(l.queue, &l.input(0)?, false)?;
        let n = a.rows;
        let w = Columns::new(l.queue, real_of(dtype), a.count, n, 1)?;
        let v = l.opt_output(1);
        let problem = Problem::Eigen { n, upper, vectors: v.is_some() };
        let info = each(l.queue, problem, dtype, a.count, |i| Operands { a: a.at(i), vector: w.at(i), ..NOTHING })?;
        report(&info, Fault::EIGH, n)?;
        w.write_vectors(&l.output(0)?)?;
        v.map_or(Ok(()), |v| a.write(&v, false))
    }
}

pub unsafe fn svd(l: &Launch<'_>) -> Result<()> {
    let (dtype, x) = (takes("svd", l)?, l.input(0)?);
    let d = x.ndim() - 2;
    // The library wants at least as many rows as columns: else it gets the transposed matrix, whose vectors change places.
    let turned = x.sizes[d] < x.sizes[d + 1];
    let (u, vh) = (l.opt_output(0), l.opt_output(2));
    // SAFETY: the launch's contract.
    unsafe {
        let a = Columns::of(l.queue, &x, turned)?;
        let (m, n) = (a.rows, a.cols);
        let s = Columns::new(l.queue, real_of(dtype), a.count, n, 1)?;
        let wanted = |v: &Option<View<'_>>, side: usize| v.as_ref().is_some_and(|v| v.sizes[d + side] == m);
        let vectors = match (u.is_some() || vh.is_some(), if turned { wanted(&vh, 0) } else { wanted(&u, 1) }) {
            (false, _) => Vectors::No,
            (true, false) => Vectors::Some,
            (true, true) => Vectors::All,
        };
        let held = |rows, cols| {
            let (rows, cols) = if vectors == Vectors::No { (1, 1) } else { (rows, cols) };
            Columns::new(l.queue, dtype, a.count, rows, cols)
        };
        let left = held(m, if vectors == Vectors::All { m } else { n })?;
        let right = held(n, n)?;
        let problem = Problem::Singular { m, n, vectors };
        let info = each(l.queue, problem, dtype, a.count, |i| Operands {
            a: a.at(i),
            vector: s.at(i),
            u: left.at(i),
            vh: right.at(i),
            ..NOTHING
        })?;
        report(&info, Fault::SVD, n)?;
        s.write_vectors(&l.output(1)?)?;
        let (first, last) = if turned { (&right, &left) } else { (&left, &right) };
        u.map_or(Ok(()), |u| first.write(&u, turned))?;
        vh.map_or(Ok(()), |vh| last.write(&vh, turned))
    }
}
