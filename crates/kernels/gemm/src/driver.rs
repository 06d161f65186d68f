//! From arguments to products: dtypes, tiers, which operand is packed, and tasks for threads.
//!
//! Block sizes follow from the shape and the instruction set alone; threads only share out tiles of C.

use std::marker::PhantomData;
use std::ops::Range;

use oneflow_base::{DType, Result, bf16, f16};

use crate::args::{Batch, GemmArgs, Mat};
use crate::bytes::{self, Byte};
use crate::epilogue::{Operand, Post};
use crate::integer::{self, Int};
use crate::kernel::Kernels;
use crate::pack::{Bf16Pairs, Bf16Widened, F16Widened, F32, F64, Mode, Panel, Strip};
use crate::parallel::Parallel;
use crate::product::{Product, Sum, is_near};
use crate::rounded::{self, RoundedPairs};
use crate::runs::Runs;
use crate::scratch::{self, Slot};
use crate::sides;
use crate::tasks::{Even, Tasks};
#[cfg(target_arch = "x86_64")]
use crate::tiles;
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
        None if sides::turned::<M>(args, kernels) => {
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
                } else if packed.is_null() && runs.is_none() && sides::by_dots::<M>(args) {
                    product.few_rows(rows, cols)
                } else {
                    product.compute(rows, cols)
                }
            }
        });
    }
}

/// Columns of all panels: whole ones, and a last one of whole registers.
pub(crate) fn padded(n: usize, nr: usize, lanes: usize) -> usize {
    n / nr * nr + (n % nr).next_multiple_of(lanes)
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
