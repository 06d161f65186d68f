//! The five loops around the micro-kernels.
//!
//! Block sizes follow from the shape and the instruction set alone; threads only share out tiles of C.

use std::marker::PhantomData;
use std::ops::Range;

use oneflow_base::{DType, Result, bf16, f16};

use crate::args::{Batch, GemmArgs, Mat};
use crate::bytes::{self, Byte};
use crate::epilogue::{Operand, Post, Sums, finish};
use crate::gemv::gemv;
use crate::integer::{self, Int};
use crate::kernel::{Ahead, Kernels, Onto, Tile, prefetch};
use crate::pack::{Bf16Pairs, Bf16Widened, F16Widened, F32, F64, GAP, Mode, Panel, Strip};
use crate::packed_b::Panels;
use crate::parallel::Parallel;
use crate::rounded::{self, RoundedPairs};
use crate::runs::Runs;
use crate::scratch::{self, Slot};
use crate::tasks::{Even, Tasks};
#[cfg(target_arch = "x86_64")]
use crate::tiles;
use oneflow_kernels_prim::rows::copy_run;
use oneflow_kernels_prim::{Acc, Float, Isa, isa};
use smallvec::SmallVec;

/// Computes the product on the tier in use. Errors before touching memory when no kernel takes the dtypes.
///
/// # Safety
/// Every element the arguments reach lies in memory of the stated dtype; C is writable and overlaps no input, except
/// that the residual may be C itself; no two indices of C are the same element.
pub unsafe fn gemm(args: &GemmArgs, par: &dyn Parallel) -> Result<()> {
    // SAFETY: the contract is the same.
    unsafe { gemm_with_isa(args, par, isa()) }
}

/// [`gemm`] on a tier of the caller's choice, at most the detected one.
///
/// # Safety
/// As [`gemm`].
pub unsafe fn gemm_with_isa(args: &GemmArgs, par: &dyn Parallel, isa: Isa) -> Result<()> {
    let isa = isa.min(Isa::best());
    if args.m == 0 || args.n == 0 || args.batch.iter().any(|d| d.size == 0) {
        return Ok(());
    }
    let mut swapped = Batch::new();
    let mut args = *args;
    args.fold_batch();
    // Columns of C contiguous is the kernels' case; rows contiguous, or a single column, is the same problem transposed.
    if args.packed.is_none() && (args.n == 1 && (args.m != 1 || args.c.cs != 1) || args.c.cs != 1 && args.c.rs == 1) {
        args = args.transposed(&mut swapped);
        args.fold_batch();
    }
    if args.k == 0 {
        args.alpha = 1.0;
    }
    let together = if rounded::used(&args, isa) { None } else { columns_together(args.dtype, isa) };
    if let Some([whole, last]) = args.without_last_column(together) {
        // SAFETY: the contract is the same.
        return unsafe { gemm_typed(&whole, par, isa).and_then(|()| gemm_with_isa(&last, par, isa)) };
    }
    // SAFETY: the contract is the same.
    unsafe { gemm_typed(&args, par, isa) }
}

/// Columns of a panel of a float dtype whose panels may be read in place.
fn columns_together(dtype: DType, isa: Isa) -> Option<usize> {
    match dtype {
        DType::F32 => Some(F32::kernels(isa).nr),
        DType::F64 => Some(F64::kernels(isa).nr),
        _ => None,
    }
}

unsafe fn gemm_typed(args: &GemmArgs, par: &dyn Parallel, isa: Isa) -> Result<()> {
    // SAFETY: the dtypes name the types behind the pointers.
    unsafe {
        match (args.dtype, args.dtype_c) {
            #[cfg(target_arch = "x86_64")]
            (DType::F32, DType::F32) if isa == Isa::Amx && rounded::used(args, isa) => tiles::rounded(args, par),
            (DType::F32, DType::F32) if rounded::used(args, isa) => run::<RoundedPairs, f32>(args, par, isa),
            (DType::F32, DType::F32) => run::<F32, f32>(args, par, isa),
            (DType::F64, DType::F64) => run::<F64, f64>(args, par, isa),
            #[cfg(target_arch = "x86_64")]
            (DType::BF16, DType::BF16) if tiles::takes(args, isa) => tiles::floats::<bf16>(args, par),
            #[cfg(target_arch = "x86_64")]
            (DType::BF16, DType::F32) if tiles::takes(args, isa) => tiles::floats::<f32>(args, par),
            (DType::BF16, DType::BF16) if isa >= Isa::Avx512Bf16 => run::<Bf16Pairs, bf16>(args, par, isa),
            (DType::BF16, DType::F32) if isa >= Isa::Avx512Bf16 => run::<Bf16Pairs, f32>(args, par, isa),
            (DType::BF16, DType::BF16) => run::<Bf16Widened, bf16>(args, par, isa),
            (DType::BF16, DType::F32) => run::<Bf16Widened, f32>(args, par, isa),
            (DType::F16, DType::F16) => run::<F16Widened, f16>(args, par, isa),
            (DType::F16, DType::F32) => run::<F16Widened, f32>(args, par, isa),
            #[cfg(target_arch = "x86_64")]
            (DType::I8, DType::I32) if args.epilogue.is_none() && tiles::takes(args, isa) => {
                tiles::bytes::<tiles::SignedBytes>(args, par)
            }
            #[cfg(target_arch = "x86_64")]
            (DType::U8, DType::I32) if args.epilogue.is_none() && tiles::takes(args, isa) => {
                tiles::bytes::<tiles::UnsignedBytes>(args, par)
            }
            (DType::I8, DType::I32) if args.epilogue.is_none() => run_bytes::<i8>(args, par, isa),
            (DType::U8, DType::I32) if args.epilogue.is_none() => run_bytes::<u8>(args, par, isa),
            (a, c) if a != c || !args.epilogue.is_none() => return args.unsupported(),
            (DType::I64, _) => run_int::<i64>(args, par, isa),
            (DType::I32, _) => run_int::<i32>(args, par, isa),
            (DType::I16, _) => run_int::<i16>(args, par, isa),
            (DType::I8, _) => run_int::<i8>(args, par, isa),
            (DType::U8, _) => run_int::<u8>(args, par, isa),
            _ => return args.unsupported(),
        }
    }
    Ok(())
}

unsafe fn run_int<T: Int>(args: &GemmArgs, par: &dyn Parallel, isa: Isa) {
    // SAFETY: the caller's contract.
    by_rows::<T, T>(args, par, &|args, mats, rows| unsafe { integer::rows::<T>(isa, args, mats, rows) });
}

unsafe fn run_bytes<T: Byte>(args: &GemmArgs, par: &dyn Parallel, isa: Isa) {
    // SAFETY: the caller's contract.
    by_rows::<T, i32>(args, par, &|args, mats, rows| unsafe { bytes::rows::<T>(isa, args, mats, rows) });
}

/// Computes some rows of one product, A, B and C of the batch.
type RowsFn<'a> = dyn Fn(&GemmArgs, (Mat, Mat, Mat), Range<usize>) + Sync + 'a;

/// Calls `f` for distinct rows and items of C. The unit of columns is n: no cut there.
fn by_rows<T, C>(args: &GemmArgs, par: &dyn Parallel, f: &RowsFn<'_>) {
    let shared = Shared(args);
    Tasks::new(args, par.threads(), args.n).run(args.batch, par, &|o, rows, _| {
        let args = shared.get();
        let at = |m: Mat, offset: isize| Mat { ptr: m.ptr.cast::<T>().wrapping_offset(offset).cast(), ..m };
        let c = Mat { ptr: args.c.ptr.cast::<C>().wrapping_offset(o.c).cast(), ..args.c };
        f(args, (at(args.a, o.a), at(args.b, o.b), c), rows);
    });
}

/// Arguments with raw pointers, lent to the tasks of one call.
struct Shared<'a>(&'a GemmArgs<'a>);
// SAFETY: tasks only read the arguments, and what they write through the pointers is disjoint.
unsafe impl Sync for Shared<'_> {}
impl<'a> Shared<'a> {
    fn get(&self) -> &'a GemmArgs<'a> {
        self.0
    }
}

/// Whether the padding of the columns to whole registers costs more than storing C across its rows.
fn wide_side_is_rows(args: &GemmArgs, lanes: usize) -> bool {
    let padding = |n: usize| n.next_multiple_of(lanes) - n;
    args.m > 1 && args.n > 1 && padding(args.n) * args.k > 2 * lanes * args.n && 16 * padding(args.m) < args.m
}

unsafe fn run<M: Mode, C: Float<Acc = <M::S as Float>::Acc>>(args: &GemmArgs, par: &dyn Parallel, isa: Isa) {
    let kernels = M::kernels(isa);
    let mut swapped = Batch::new();
    let runs = Runs::of(args, kernels.nr);
    let other;
    let args = match &runs {
        Some(runs) => {
            other = GemmArgs { n: args.n * runs.items, batch: &[], ..*args };
            &other
        }
        None if args.packed.is_none() && wide_side_is_rows(args, kernels.lanes) => {
            other = args.transposed(&mut swapped);
            &other
        }
        None => args,
    };
    let job = Job::<M, C> {
        isa,
        kernels,
        args,
        runs,
        packed: args.packed.map_or(std::ptr::null(), |b| b.panels.as_ptr().cast()),
        panelled: args.packed.is_some(),
        c: PhantomData,
    };
    let len = args.k.div_ceil(M::KU) * padded(args.n, kernels.nr, kernels.lanes);
    let by_rows = Tasks::of_rows(args, par.threads(), kernels.mc, len * size_of::<M::P>());
    let Some(tasks) = by_rows.filter(|_| job.runs.is_none()) else {
        // SAFETY: the caller's contract.
        return unsafe { job.run(&Tasks::new(args, par.threads(), kernels.nr), par) };
    };
    if M::DIRECT && args.b.cs == 1 && is_near::<M>(args.k * args.n) {
        // SAFETY: the caller's contract.
        return unsafe { job.run(&tasks, par) };
    }
    scratch::with(Slot::Whole, len * size_of::<M::P>(), |room| {
        let job = &Job { packed: room.cast_const().cast(), ..job };
        let panels = args.n.div_ceil(kernels.nr);
        let parts = if args.n * args.k < PACKED_ALONE { 1 } else { panels.min(2 * par.threads()) };
        par.run(parts, &|i| {
            let Job { args, packed, .. } = *job.get();
            let part = i * panels / parts..(i + 1) * panels / parts;
            // SAFETY: the room has a place for every panel, and tasks pack distinct ones.
            unsafe { pack_columns::<M>(isa, (args.k, args.n), args.b, part, packed.cast_mut()) }
        });
        // SAFETY: the caller's contract; B is packed.
        unsafe { job.run(&tasks, par) };
    });
}

/// A smaller B is packed before another thread would have come.
const PACKED_ALONE: usize = 1 << 14;

/// A typed problem with raw pointers, lent to the tasks of one call.
struct Job<'a, M: Mode, C> {
    isa: Isa,
    kernels: &'static Kernels<M::P, Sum<M>>,
    args: &'a GemmArgs<'a>,
    /// How the columns lie, where they are those of several products.
    runs: Option<Runs>,
    /// The whole of B, packed before; null where it is not.
    packed: *const M::P,
    /// It was packed before the call, in the order of [`PANEL`]s.
    panelled: bool,
    c: PhantomData<C>,
}

// SAFETY: tasks only read the problem, and what they write through its pointers is disjoint.
unsafe impl<M: Mode, C> Sync for Job<'_, M, C> {}

impl<M: Mode, C: Float<Acc = Sum<M>>> Job<'_, M, C> {
    /// For closures, which otherwise capture a pointer by itself.
    fn get(&self) -> &Self {
        self
    }

    unsafe fn run(&self, tasks: &Tasks, par: &dyn Parallel) {
        tasks.run(self.args.batch, par, &|o, rows, cols| {
            let Job { isa, kernels, args, runs, packed, panelled, .. } = *self.get();
            let product = Product::<M, C> {
                isa,
                kernels,
                k: args.k,
                n: args.n,
                a: Operand::new(args.a, o.a),
                b: Operand::new(args.b, o.b),
                alpha: Acc::of(args.alpha),
                beta: Acc::of(args.beta),
                runs,
                packed,
                panelled,
                bare: args.epilogue.is_none(),
                adds: args.epilogue.adds(),
                post: Post::new(Operand::new(args.c, o.c), &args.epilogue, (o.bias, o.residual, o.kept)),
                mode: PhantomData,
            };
            // SAFETY: the caller's contract; tasks write distinct tiles or items of C.
            unsafe {
                if args.m == 1 && packed.is_null() && (args.b.cs == 1 || args.b.rs == 1) {
                    product.single_row(cols)
                } else {
                    product.compute(rows, cols)
                }
            }
        });
    }
}

type Sum<M> = <<M as Mode>::S as Float>::Acc;

/// One product of the batch, typed.
struct Product<M: Mode, C: Float<Acc = Sum<M>>> {
    isa: Isa,
    kernels: &'static Kernels<M::P, Sum<M>>,
    k: usize,
    n: usize,
    a: Operand<M::S>,
    b: Operand<M::S>,
    alpha: Sum<M>,
    beta: Sum<M>,
    runs: Option<Runs>,
    /// The whole of B, packed before; null where it is not.
    packed: *const M::P,
    panelled: bool,
    /// Nothing comes after the sums.
    bare: bool,
    /// What comes after them is a bias a column, rows that are added, or both: the kernels begin with it.
    adds: bool,
    post: Post<C>,
    mode: PhantomData<M>,
}

/// Columns of a panel of float32 that is packed before the call, and what the last one is filled up to: whole registers of
/// every tier, so that the order is the same on all of them.
pub const PANEL: usize = 32;
pub const FILLED: usize = 16;

/// [`PANEL`] and [`FILLED`], or of wider numbers a panel of the kernels' own.
fn panel_of<P, A>(kernels: &Kernels<P, A>) -> (usize, usize) {
    if size_of::<P>() == 4 { (PANEL, FILLED) } else { (kernels.nr, kernels.lanes) }
}

/// Columns of all panels: whole ones, and a last one of whole registers.
fn padded(n: usize, nr: usize, lanes: usize) -> usize {
    n / nr * nr + (n % nr).next_multiple_of(lanes)
}

/// The whole of B in the order of the tiles, for [`PackedB`](crate::PackedB); `None` for a dtype without panels.
///
/// # Safety
/// Every element of the matrix lies in memory of the stated dtype.
pub(crate) unsafe fn pack_whole(dtype: DType, shape: (usize, usize), b: Mat, isa: Isa) -> Option<Panels> {
    // SAFETY: the dtype names the type behind the pointer.
    unsafe {
        Some(match dtype {
            DType::F32 => panels::<F32>(shape, b, isa),
            DType::F64 => panels::<F64>(shape, b, isa),
            #[cfg(target_arch = "x86_64")]
            DType::BF16 if isa == Isa::Amx => tiles::pack_whole(shape, b),
            DType::BF16 if isa >= Isa::Avx512Bf16 => panels::<Bf16Pairs>(shape, b, isa),
            DType::BF16 => panels::<Bf16Widened>(shape, b, isa),
            DType::F16 => panels::<F16Widened>(shape, b, isa),
            _ => return None,
        })
    }
}

unsafe fn panels<M: Mode>((k, n): (usize, usize), b: Mat, isa: Isa) -> Panels {
    let (steps, (panel, filled)) = (k.div_ceil(M::KU), panel_of(M::kernels(isa)));
    let mut out = Panels::new(steps * n.next_multiple_of(filled) * size_of::<M::P>());
    let (b, to) = (Operand::<M::S>::new(b, 0), out.as_mut_ptr().cast::<M::P>());
    for col in (0..n).step_by(panel) {
        let strip = Strip { src: b.at(0, col).cast_const(), ws: b.cs, ks: b.rs, width: panel.min(n - col), k };
        // SAFETY: the caller's contract; the buffer holds all panels, one after the other.
        unsafe { M::pack(isa, strip, to.add(col * steps), strip.width.next_multiple_of(filled)) };
    }
    out
}

/// Some panels of B, each to its place in the whole: those of one pass over k follow one another.
unsafe fn pack_columns<M: Mode>(isa: Isa, (k, n): (usize, usize), b: Mat, part: Range<usize>, to: *mut M::P) {
    let ker = M::kernels(isa);
    let b = Operand::<M::S>::new(b, 0);
    let cols = part.start * ker.nr..(part.end * ker.nr).min(n);
    let passes = Even::new(k.div_ceil(M::KU), ker.kc);
    for ks in (0..passes.parts).map(|i| passes.get(i)) {
        let to = to.wrapping_add(ks.start * padded(n, ker.nr, ker.lanes));
        let panel = |col: usize| {
            let width = ker.nr.min(n - col);
            let dst = to.wrapping_add(col * ks.len());
            Panel { at: col - cols.start, width, dst, dst_width: width.next_multiple_of(ker.lanes) }
        };
        let panels: SmallVec<[Panel<M::P>; 16]> = cols.clone().step_by(ker.nr).map(panel).collect();
        let start = ks.start * M::KU;
        let src = b.at(start, cols.start).cast_const();
        let strip = Strip { src, ws: b.cs, ks: b.rs, width: cols.len(), k: (ks.len() * M::KU).min(k - start) };
        // SAFETY: the strip lies in B; the panels, of whole registers, lie in the buffer.
        unsafe { M::pack_panels(isa, strip, &panels) };
    }
}

/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Bytes between lines that share a set of the first cache, and how many lines a set holds.
const SAME_SET: usize = 4096;
const WAYS: usize = 8;
/// An operand of at most this size stays in the second cache beside the tiles that read it.
const NEAR_BYTES: usize = 400 << 10;

fn is_near<M: Mode>(elements: usize) -> bool {
    elements * size_of::<M::S>() <= NEAR_BYTES
}

/// Most rows whose sums are kept outside C at a time: it bounds that buffer.
const SUM_ROWS: usize = 1024;

/// One pass over k of a block of C.
struct Pass<M: Mode> {
    /// Columns of the block and packed k of the pass.
    cols: Range<usize>,
    k: usize,
    first: bool,
    last: bool,
    b: *const M::P,
    direct_b: bool,
    /// Sums of all passes, where C itself cannot hold them; null where it can.
    sums: *mut Sum<M>,
    sums_rs: isize,
}

impl<M: Mode, C: Float<Acc = Sum<M>>> Product<M, C> {
    /// C can hold partial sums: same type, contiguous columns.
    fn sums_in_c(&self) -> bool {
        std::any::TypeId::of::<C>() == std::any::TypeId::of::<Sum<M>>() && self.post.c.cs == 1
    }

    unsafe fn single_row(&self, cols: Range<usize>) {
        if std::any::TypeId::of::<M::S>() == std::any::TypeId::of::<Sum<M>>() && self.a.cs == 1 {
            let x = self.a.at(0, 0).cast::<Sum<M>>().cast_const();
            // SAFETY: A's row of k neighbours is one of sums.
            return unsafe { gemv(self.isa, self.k, x, self.b, (self.alpha, self.beta), &self.post, cols) };
        }
        scratch::with(Slot::A, self.k * size_of::<Sum<M>>(), |x| {
            let x: *mut Sum<M> = x.cast();
            // SAFETY: A has k elements, as has the buffer.
            unsafe {
                for p in 0..self.k {
                    *x.add(p) = (*self.a.at(0, p)).widen();
                }
                gemv(self.isa, self.k, x, self.b, (self.alpha, self.beta), &self.post, cols);
            }
        })
    }

    /// Whether the kernels read A where it lies. Rows of neighbours cost them no more than a packed panel, unless the lines of
    /// a tile's rows fall into one set of the first cache; columns of neighbours do while all of it stays in the second cache.
    fn reads_a(&self, rows: usize, cols: usize) -> bool {
        let apart = !(self.a.rs as usize * size_of::<M::S>()).is_multiple_of(SAME_SET);
        let few_ways = self.kernels.mr <= WAYS;
        let in_order = self.a.cs == 1 && (apart || few_ways) || self.a.rs == 1 && is_near::<M>(self.k * rows);
        M::DIRECT && (in_order || cols <= 2 * self.kernels.nr)
    }

    /// Whether the kernels read B where it lies: packing pays when what is packed is read a few times, and from afar or in
    /// registers that lie in two lines.
    fn reads_b(&self, rows: usize, cols: usize) -> bool {
        let register = self.kernels.lanes * size_of::<M::S>();
        let whole = (self.b.ptr as usize | (self.b.rs as usize * size_of::<M::S>())).is_multiple_of(register);
        let near = is_near::<M>(self.k * cols) && (whole || rows <= 4 * self.kernels.mr);
        M::DIRECT
            && self.packed.is_null()
            && self.runs.is_none()
            && self.b.cs == 1
            && (near || rows <= 2 * self.kernels.mr)
    }

    unsafe fn compute(&self, rows: Range<usize>, cols: Range<usize>) {
        let ker = self.kernels;
        let passes = Even::new(self.k.div_ceil(M::KU), ker.kc);
        let needs_sums = passes.parts > 1 && !self.sums_in_c();
        if needs_sums && rows.len() > SUM_ROWS {
            for start in rows.clone().step_by(SUM_ROWS) {
                // SAFETY: the rows are some of this call's.
                unsafe { self.compute(start..(start + SUM_ROWS).min(rows.end), cols.clone()) };
            }
            return;
        }
        let direct_a = self.reads_a(rows.len(), cols.len());
        let direct_b = self.reads_b(rows.len(), cols.len());
        // A block of few rows is read once: keep its panel in L1 rather than packing all of B first.
        let nc = if rows.len() <= ker.mr { ker.nr } else { ker.nc };
        let blocks = Even::new(cols.len().div_ceil(ker.nr), nc / ker.nr);
        let kc = passes.largest();
        let b_len = if self.packed.is_null() { kc * blocks.largest() * ker.nr } else { 0 };
        let sums_len = if needs_sums { rows.len() * blocks.largest() * ker.nr } else { 0 };
        let size_p = size_of::<M::P>();
        scratch::with(Slot::C, sums_len * size_of::<Sum<M>>(), |sums| {
            scratch::with(Slot::B, b_len * size_p, |packed_b| {
                for block in 0..blocks.parts {
                    let panels = blocks.get(block);
                    let block_cols =
                        cols.start + panels.start * ker.nr..(cols.start + panels.end * ker.nr).min(cols.end);
                    for part in 0..passes.parts {
                        let ks = passes.get(part);
                        // Panels of a pass before this one's, and of this one before the block's.
                        let before = ks.start * padded(self.n, ker.nr, ker.lanes) + block_cols.start * ks.len();
                        let pass = Pass::<M> {
                            cols: block_cols.clone(),
                            k: ks.len(),
                            first: part == 0,
                            last: part + 1 == passes.parts,
                            b: if self.packed.is_null() { packed_b.cast() } else { self.packed.wrapping_add(before) },
                            direct_b,
                            sums: if needs_sums { sums.cast() } else { std::ptr::null_mut() },
                            sums_rs: (panels.len() * ker.nr) as isize,
                        };
                        // SAFETY: the ranges lie in the problem and the buffers hold a block each.
                        unsafe {
                            if self.packed.is_null() {
                                self.pack_b(&pass, ks.start, packed_b.cast());
                            }
                            self.row_blocks(&pass, ks.start, rows.clone(), direct_a);
                        }
                    }
                }
            })
        });
    }

    /// The strip of an operand from packed step `step` on, `k` packed steps long (the last may be half there).
    fn strip(&self, src: *const M::S, (ws, ks): (isize, isize), width: usize, step: usize, k: usize) -> Strip<M::S> {
        let start = step * M::KU;
        let k = (k * M::KU).min(self.k - start);
        Strip { src: src.wrapping_offset(start as isize * ks), ws, ks, width, k }
    }

    /// Packs the block's panels; with B read in place, only a last panel narrower than the kernels.
    unsafe fn pack_b(&self, pass: &Pass<M>, step: usize, dst: *mut M::P) {
        if let Some(runs) = self.runs {
            // SAFETY: the contract is the same.
            return unsafe { self.pack_runs(&runs, pass, step, dst) };
        }
        let ker = self.kernels;
        let first = pass.cols.start;
        let panels: SmallVec<[Panel<M::P>; 16]> = pass
            .cols
            .clone()
            .step_by(ker.nr)
            .map(|col| (col, ker.nr.min(pass.cols.end - col)))
            .filter(|&(_, width)| !(pass.direct_b && width == ker.nr))
            .map(|(col, width)| {
                let dst = dst.wrapping_add((col - first) * pass.k);
                Panel { at: col - first, width, dst, dst_width: width.next_multiple_of(ker.lanes) }
            })
            .collect();
        let strip = self.strip(self.b.at(0, first), (self.b.cs, self.b.rs), pass.cols.len(), step, pass.k);
        // SAFETY: the panels lie in the block's buffer, one after the other, all of whole registers.
        unsafe { M::pack_panels(self.isa, strip, &panels) };
    }

    /// As `pack_b`, of columns in runs.
    unsafe fn pack_runs(&self, runs: &Runs, pass: &Pass<M>, step: usize, dst: *mut M::P) {
        let (ker, first) = (self.kernels, pass.cols.start);
        let panel_at = |col: usize| dst.wrapping_add((col - first) * pass.k);
        let strip = |col: usize, width: usize| {
            let src = self.b.at(0, col).wrapping_offset(runs.shift(col, runs.b));
            self.strip(src, (self.b.cs, self.b.rs), width, step, pass.k)
        };
        let mut col = first;
        while col < pass.cols.end {
            // Panels that lie in one run are packed together.
            let in_run = runs.left(col).min(pass.cols.end - col);
            let ends = col + in_run == pass.cols.end;
            let whole = if ends { in_run } else { in_run / ker.nr * ker.nr };
            let panel = |at: usize| {
                let width = ker.nr.min(whole - at);
                Panel { at, width, dst: panel_at(col + at), dst_width: width.next_multiple_of(ker.lanes) }
            };
            let panels: SmallVec<[Panel<M::P>; 16]> = (0..whole).step_by(ker.nr).map(panel).collect();
            if whole > 0 {
                // SAFETY: the panels lie in the block's buffer, one after the other, all of whole registers.
                unsafe { M::pack_panels(self.isa, strip(col, whole), &panels) };
                col += whole;
                continue;
            }
            let width = ker.nr.min(pass.cols.end - col);
            // SAFETY: the panel lies in the block's buffer.
            unsafe { self.pack_pieces(runs, pass.k, (col, width), panel_at(col), strip) };
            col += width;
        }
    }

    /// One panel whose columns lie in several runs: packed run by run, and put together.
    unsafe fn pack_pieces(
        &self,
        runs: &Runs,
        k: usize,
        (col, width): (usize, usize),
        dst: *mut M::P,
        strip: impl Fn(usize, usize) -> Strip<M::S>,
    ) {
        let dst_width = width.next_multiple_of(self.kernels.lanes);
        scratch::with(Slot::Piece, k * dst_width * size_of::<M::P>(), |piece| {
            let piece: *mut M::P = piece.cast();
            runs.pieces(col, width, |at, n| {
                let padded = n.next_multiple_of(self.kernels.lanes);
                let panel = Panel { at: 0, width: n, dst: piece, dst_width: padded };
                // What lies behind the last piece are its zeros.
                let n_copied = if at + n == width { dst_width - at } else { n };
                // SAFETY: the strip lies in B; the pieces of every step lie in its row of the panel.
                unsafe {
                    M::pack_panels(self.isa, strip(col + at, n), &[panel]);
                    for p in 0..k {
                        copy_run(piece.add(p * padded), dst.add(p * dst_width + at), n_copied.min(padded));
                    }
                }
            });
        })
    }

    unsafe fn row_blocks(&self, pass: &Pass<M>, step: usize, rows: Range<usize>, direct_a: bool) {
        let ker = self.kernels;
        let panels = Even::new(rows.len(), ker.mr);
        let blocks = Even::new(panels.parts, ker.mc / ker.mr);
        let a_len = if direct_a { 0 } else { (pass.k * ker.mr + GAP) * blocks.largest() };
        scratch::with(Slot::A, a_len * size_of::<M::P>(), |packed_a| {
            let packed_a: *mut M::P = packed_a.cast();
            for block in 0..blocks.parts {
                let block = blocks.get(block);
                let (first_row, end) = (panels.get(block.start).start, panels.get(block.end - 1).end);
                let panel = |index: usize| {
                    let r = panels.get(index);
                    let gaps = (index - block.start) * GAP;
                    (rows.start + r.start, r.len(), packed_a.wrapping_add((r.start - first_row) * pass.k + gaps))
                };
                // SAFETY: the panels lie one after the other in the buffer.
                unsafe {
                    if !direct_a {
                        let first_row = rows.start + first_row;
                        let to = block.clone().map(panel).map(|(row, height, dst)| Panel {
                            at: row - first_row,
                            width: height,
                            dst,
                            dst_width: height,
                        });
                        let panels: SmallVec<[Panel<M::P>; 16]> = to.collect();
                        let height = panels.iter().map(|p| p.width).sum();
                        let src = self.a.at(first_row, 0);
                        let strip = self.strip(src, (self.a.rs, self.a.cs), height, step, pass.k);
                        M::pack_panels(self.isa, strip, &panels);
                    }
                    let mut tile_idx = 0;
                    for col in pass.cols.clone().step_by(ker.nr) {
                        for (row, height, packed) in block.clone().map(panel) {
                            let at = [row, height, col];
                            let packed = (!direct_a).then_some(packed.cast_const());
                            let ahead = match packed {
                                Some(_) => self.block_ahead(rows.start + end..rows.end, step, tile_idx),
                                None if col == pass.cols.start => self.rows_ahead(pass, row + height),
                                None => Ahead::NOTHING,
                            };
                            self.tile(pass, step, at, packed, rows.start, ahead);
                            tile_idx += 1;
                        }
                    }
                }
            }
        });
    }

    /// Asks for a tile of a matrix with C's shape.
    fn ask_for(&self, mat: &Operand<C>, [row, height, col]: [usize; 3]) {
        let mut at = mat.at(row, col);
        for _ in 0..height {
            prefetch(at);
            prefetch(at.wrapping_add(self.kernels.nr - 1));
            at = at.wrapping_offset(mat.rs);
        }
    }

    /// What the sums of a tile of C begin with: the bias and the rows that are added to the product.
    fn begin(&self, row: usize, height: usize, col: usize) -> Onto<Sum<M>> {
        if let Some(b) = self.post.bias.as_ref().filter(|b| b.cs == 0) {
            return Onto::Column(b.at(row, 0).cast_const().cast(), b.rs);
        }
        let bias = self.post.bias.as_ref().map(|b| b.at(0, col).cast_const().cast());
        let Some(residual) = &self.post.residual else { return bias.map_or(Onto::Nothing, Onto::Row) };
        let rows: *const Sum<M> = residual.at(row, col).cast_const().cast();
        self.ask_for(residual, [row, height, col]);
        bias.map_or(Onto::Rows(rows, residual.rs), |bias| Onto::RowAndRows(bias, rows, residual.rs))
    }

    /// The next tile's rows of A, where they follow one another.
    fn rows_ahead(&self, pass: &Pass<M>, row: usize) -> Ahead {
        if self.a.cs != 1 || self.a.rs as usize != pass.k {
            return Ahead::NOTHING;
        }
        Ahead { at: self.a.at(row, 0).cast_const().cast(), step: (self.kernels.mr * size_of::<M::S>()) as isize }
    }

    /// A line of every step of the next block of A, of the rows that are left: another one for each tile of this block.
    fn block_ahead(&self, left: Range<usize>, step: usize, tile_idx: usize) -> Ahead {
        let first = tile_idx * LINE / size_of::<M::S>();
        if self.a.rs != 1 || first >= self.kernels.mc.min(left.len()) {
            return Ahead::NOTHING;
        }
        let at = self.a.at(left.start + first, step * M::KU).cast_const().cast();
        Ahead { at, step: self.a.cs * (M::KU * size_of::<M::S>()) as isize }
    }

    #[inline]
    unsafe fn tile(
        &self,
        pass: &Pass<M>,
        step: usize,
        [row, height, col]: [usize; 3],
        packed_a: Option<*const M::P>,
        first_row: usize,
        ahead: Ahead,
    ) {
        let ker = self.kernels;
        let width = ker.nr.min(pass.cols.end - col);
        let n_registers = width.div_ceil(ker.lanes);
        let whole = width == n_registers * ker.lanes;
        // Where the kernel leaves its sums: C, the block's sums, or a tile on the stack.
        let (post, one_run) = match &self.runs {
            Some(runs) => (runs.post(&self.post, col), runs.left(col) >= width),
            None => (self.post, true),
        };
        let c = post.c.at(row, col);
        let mut stack = Stack([std::mem::MaybeUninit::<Sum<M>>::uninit(); 14 * 32]);
        let in_c = pass.sums.is_null() && whole && one_run && self.sums_in_c();
        let in_c = in_c && (!pass.first || self.beta == Acc::ZERO || self.beta == Acc::ONE);
        let add = !pass.first || self.beta != Acc::ZERO;
        let begins = self.adds && self.beta == Acc::ZERO;
        let in_c = in_c && (!pass.last || self.bare || begins);
        let onto = if in_c && begins && pass.first { self.begin(row, height, col) } else { Onto::c(add) };
        let (dst, dst_rs, onto) = if in_c {
            (c.cast::<Sum<M>>(), self.post.c.rs, onto)
        } else if !pass.sums.is_null() {
            let offset = (row - first_row) as isize * pass.sums_rs + (col - pass.cols.start) as isize;
            (pass.sums.wrapping_offset(offset), pass.sums_rs, Onto::c(!pass.first))
        } else {
            (stack.0.as_mut_ptr().cast(), ker.nr as isize, Onto::Nothing)
        };
        let (a, a_rs, a_cs, direct_a) = match packed_a {
            Some(ptr) => (ptr, 1, height as isize, 0),
            None => (self.a.at(row, step).cast_const().cast(), self.a.rs, self.a.cs, 1),
        };
        let (b, b_rs) = if pass.direct_b && width == ker.nr {
            (self.b.at(step, col).cast_const().cast(), self.b.rs)
        } else if self.panelled {
            let ((wide, filled), steps) = (panel_of(ker), self.k.div_ceil(M::KU));
            let panel = col / wide * wide;
            let width = wide.min(self.n - panel).next_multiple_of(filled);
            (self.packed.wrapping_add(panel * steps + step * width + (col - panel)), width as isize)
        } else {
            (pass.b.wrapping_add((col - pass.cols.start) * pass.k), (n_registers * ker.lanes) as isize)
        };
        let tile = Tile { k: pass.k, a, a_rs, a_cs, b, b_rs, c: dst, c_rs: dst_rs, alpha: self.alpha, onto, ahead };
        if !in_c && pass.last && self.post.c.cs == 1 {
            // The kernel asks for the place of its sums; what is written and added is needed right after.
            for mat in [Some(&post.c), post.kept.as_ref(), post.residual.as_ref()].into_iter().flatten() {
                self.ask_for(mat, [row, height, col]);
            }
        }
        // SAFETY: the panels are packed or read in place inside the operands; the destination holds a whole tile.
        unsafe {
            ker.table[direct_a][height - 1][n_registers - 1](&tile);
            if in_c || (!pass.sums.is_null() && !pass.last) {
                return;
            }
            let beta = if pass.first || !pass.sums.is_null() { self.beta } else { Acc::ONE };
            let (rows, cols) = (height, width);
            let last = if begins && pass.sums.is_null() { pass.first } else { pass.last };
            let sums = Sums { ptr: dst, rs: dst_rs, row, col, rows, cols, beta, last };
            let Some(runs) = self.runs.filter(|_| !one_run) else { return finish(self.isa, sums, &post) };
            runs.pieces(col, width, |at, cols| {
                let piece = Sums { ptr: dst.wrapping_add(at), col: col + at, cols, ..sums };
                finish(self.isa, piece, &runs.post(&self.post, col + at));
            });
        }
    }
}

#[repr(align(64))]
struct Stack<A>([std::mem::MaybeUninit<A>; 14 * 32]);
