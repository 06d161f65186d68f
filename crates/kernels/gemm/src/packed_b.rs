//! Entries for callers that multiply often by one matrix, or many pairs at once.

use std::sync::Mutex;

use oneflow_base::{DType, Error, Result};

use crate::args::{GemmArgs, Mat};
use crate::driver::gemm_with_isa;
use crate::epilogue::Operand;
use crate::kernel::Kernels;
use crate::pack::{Bf16Pairs, Bf16Widened, F16Widened, F32, F64, Mode, Strip};
use crate::parallel::{Parallel, Serial};
#[cfg(target_arch = "x86_64")]
use crate::tiles;
use oneflow_kernels_prim::{Isa, isa};

/// Columns of a panel of float32 that is packed before the call, and what the last one is filled up to: whole registers of
/// every tier, so that the order is the same on all of them.
pub const PANEL: usize = 32;
pub const FILLED: usize = 16;

/// [`PANEL`] and [`FILLED`], or of wider numbers a panel of the kernels' own.
pub(crate) fn panel_of<P, A>(kernels: &Kernels<P, A>) -> (usize, usize) {
    if size_of::<P>() == 4 { (PANEL, FILLED) } else { (kernels.nr, kernels.lanes) }
}

/// A matrix B in the order the micro-kernels read it, for any number of products. Opaque: the order of float32 is the same
/// on every machine, that of others belongs to the instruction set it was packed for.
pub struct PackedB {
    pub(crate) panels: Panels,
    pub(crate) dtype: DType,
    pub(crate) isa: Isa,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// Packed elements behind one another.
pub(crate) enum Panels {
    /// Aligned to a cache line, with the spare bytes that packing may write.
    Owned { bytes: Vec<u8>, start: usize },
    /// In memory of the caller's.
    Lent(*const u8),
}

// SAFETY: panels are only read once they are packed, and whoever lends some keeps them as they are.
unsafe impl Send for Panels {}
// SAFETY: as above.
unsafe impl Sync for Panels {}

impl Panels {
    pub fn new(bytes: usize) -> Panels {
        let bytes = vec![0u8; bytes + 2 * 64];
        let start = bytes.as_ptr().align_offset(64);
        Panels::Owned { bytes, start }
    }
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Panels::Owned { bytes, start } => bytes[*start..].as_mut_ptr(),
            Panels::Lent(ptr) => ptr.cast_mut(),
        }
    }
    pub fn as_ptr(&self) -> *const u8 {
        match self {
            Panels::Owned { bytes, start } => bytes[*start..].as_ptr(),
            Panels::Lent(ptr) => *ptr,
        }
    }
}

impl PackedB {
    /// A `k x n` matrix of float32 that lies in panels already: [`PANEL`](crate::PANEL) columns, row after row, then the next;
    /// the last one filled up to a multiple of [`FILLED`](crate::FILLED).
    ///
    /// # Safety
    /// The panels stay as they are for as long as this lives.
    pub unsafe fn lent((k, n): (usize, usize), panels: *const f32) -> PackedB {
        PackedB { panels: Panels::Lent(panels.cast()), dtype: DType::F32, isa: isa(), k, n }
    }

    /// Packs a `k x n` matrix of a float dtype for the tier in use.
    ///
    /// # Safety
    /// Every element of the matrix lies in memory of the stated dtype.
    pub unsafe fn new(dtype: DType, (k, n): (usize, usize), b: Mat) -> Result<PackedB> {
        // SAFETY: the contract is the same.
        unsafe { Self::with_isa(dtype, (k, n), b, isa()) }
    }

    /// [`PackedB::new`] for a tier of the caller's choice.
    ///
    /// # Safety
    /// As [`PackedB::new`].
    pub unsafe fn with_isa(dtype: DType, (k, n): (usize, usize), b: Mat, isa: Isa) -> Result<PackedB> {
        let isa = isa.min(Isa::best());
        // SAFETY: the contract is the same.
        match unsafe { pack_whole(dtype, (k, n), b, isa) } {
            Some(panels) => Ok(PackedB { panels, dtype, isa, k, n }),
            None => Err(Error::not_implemented(format!("matmul: no packed form of {}", dtype.name()))),
        }
    }
}

/// The whole of B in the order of the tiles; `None` for a dtype without panels.
///
/// # Safety
/// Every element of the matrix lies in memory of the stated dtype.
unsafe fn pack_whole(dtype: DType, shape: (usize, usize), b: Mat, isa: Isa) -> Option<Panels> {
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

/// [`gemm`](crate::gemm) with a B that was packed before; `args.b` is not read. The result is the same, bit for bit, as
/// that of the product of the same shape that is computed in tiles.
///
/// # Safety
/// As [`gemm`](crate::gemm), without B.
pub unsafe fn gemm_packed(args: &GemmArgs, b: &PackedB, par: &dyn Parallel) -> Result<()> {
    if b.dtype != args.dtype || (b.k, b.n) != (args.k, args.n) {
        return Err(Error::runtime(format!(
            "matmul: B was packed as {} x {} of {}, not {} x {} of {}",
            b.k,
            b.n,
            b.dtype.name(),
            args.k,
            args.n,
            args.dtype.name()
        )));
    }
    if args.batch.iter().any(|d| d.b != 0) {
        return Err(Error::runtime("matmul: a packed B is one matrix for the whole batch"));
    }
    // SAFETY: the contract is the same; B comes from the packed panels.
    unsafe { gemm_with_isa(&GemmArgs { packed: Some(b), ..*args }, par, b.isa) }
}

/// Products of any shapes, side by side: as many at a time as there are threads.
///
/// # Safety
/// As [`gemm`](crate::gemm) for each, and no C overlaps another problem's matrices.
pub unsafe fn gemm_grouped(problems: &[GemmArgs], par: &dyn Parallel) -> Result<()> {
    let isa = isa();
    if problems.len() < par.threads() {
        // SAFETY: the contract is the same.
        return problems.iter().try_for_each(|p| unsafe { gemm_with_isa(p, par, isa) });
    }
    struct Shared<'a>(&'a [GemmArgs<'a>]);
    // SAFETY: tasks only read the arguments, and what they write through the pointers is disjoint by the contract.
    unsafe impl Sync for Shared<'_> {}
    impl<'a> Shared<'a> {
        fn get(&self, i: usize) -> &'a GemmArgs<'a> {
            &self.0[i]
        }
    }
    let (shared, failed) = (Shared(problems), Mutex::new(None));
    par.run(problems.len(), &|i| {
        // SAFETY: the contract is the same.
        if let Err(e) = unsafe { gemm_with_isa(shared.get(i), &Serial, isa) } {
            *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
        }
    });
    failed.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}
