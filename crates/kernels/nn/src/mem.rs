//! Runs of floats: the loop over registers, parameters in the compute dtype, and a thread's scratch.

use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::{Acc, Float, Register, View};
use smallvec::SmallVec;
use std::cell::Cell;

/// Runs a body over `n` elements register by register: `$i` is the first element, `$k` how many, `$u` one of four
/// accumulators, so that additions do not wait for each other.
macro_rules! by_register {
    ($R:ty, $n:expr, |$i:ident, $k:ident, $u:ident| $body:block) => {{
        let (n, width) = ($n, <$R as oneflow_kernels_prim::Register>::WIDTH);
        let mut at = 0;
        while at + 4 * width <= n {
            for $u in 0..4 {
                let ($i, $k) = (at + $u * width, width);
                $body
            }
            at += 4 * width;
        }
        while at + width <= n {
            let ($i, $k, $u) = (at, width, 0usize);
            $body
            at += width;
        }
        if at < n {
            let ($i, $k, $u) = (at, n - at, 0usize);
            $body
        }
    }};
}

/// Outputs from this size on do not stay in the last cache; storing past the caches saves reading them first.
pub const STREAM_BYTES: usize = 32 << 20;

/// Whether rows from `p` on may be streamed: registers must not cross cache lines.
#[inline(always)]
pub fn aligned<T>(p: *const T) -> bool {
    (p as usize).is_multiple_of(64)
}

/// Orders streamed stores before whatever tells another thread about them.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

pub(crate) use by_register;

/// Four accumulators as one number.
#[inline(always)]
pub fn total<R: Register>(acc: [R; 4]) -> R::Elem {
    ((acc[0] + acc[1]) + (acc[2] + acc[3])).sum()
}

#[inline(always)]
pub fn greatest<R: Register>(acc: [R; 4]) -> R::Elem {
    acc[0].maximum(acc[1]).maximum(acc[2].maximum(acc[3])).max_of()
}

/// One element of a float view.
///
/// # Safety
/// The offset lies inside the view.
pub unsafe fn read(v: &View, offset: isize) -> Result<f64> {
    // SAFETY: by the caller.
    by_float!("read", v.dtype, T => Ok(unsafe { (*v.ptr.cast::<T>().offset(offset)).widen() }.to_f64()))
}

/// A 1-D run of parameters (a weight, a bias) in the compute dtype: the memory itself where it is that already.
pub enum Run<A: Acc> {
    None,
    Here(*const A),
    Cast(SmallVec<[A; 512]>),
}

impl<A: Acc> Run<A> {
    /// # Safety
    /// The view is valid for reads while the run lives.
    pub unsafe fn new(v: Option<View>) -> Result<Run<A>> {
        let Some(v) = v else { return Ok(Run::None) };
        if v.dtype == A::DTYPE && v.is_contiguous() {
            return Ok(Run::Here(v.ptr.cast()));
        }
        let grid = oneflow_kernels_prim::rows::Grid::new(v.sizes, [v.strides]);
        let mut cast = SmallVec::with_capacity(grid.len());
        by_float!("weight", v.dtype, T => {
            // SAFETY: the grid yields offsets inside the view.
            grid.each(0..grid.len(), |_, [o]| cast.push(A::of(unsafe { (*v.ptr.cast::<T>().offset(o)).widen() }.to_f64())));
            Ok(Run::Cast(cast))
        })
    }
    /// Null where there is none.
    pub fn ptr(&self) -> *const A {
        match self {
            Run::None => std::ptr::null(),
            Run::Here(p) => *p,
            Run::Cast(v) => v.as_ptr(),
        }
    }
}

/// Most bytes a thread keeps between calls.
const KEPT_BYTES: usize = 16 << 20;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Lends `bytes` of the thread's scratch, aligned to a cache line, with arbitrary content.
pub fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    thread_local!(static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) });
    // Taken out while in use: a nested call gets its own.
    let mut lines = SCRATCH.take();
    if lines.len() * 64 < bytes {
        lines.resize(bytes.div_ceil(64), Line([0; 64]));
    }
    let r = f(lines.as_mut_ptr().cast());
    // A very long row does not hold its memory for ever.
    if lines.len() * 64 <= KEPT_BYTES {
        SCRATCH.set(lines);
    }
    r
}
