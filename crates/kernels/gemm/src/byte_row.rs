//! One row of bytes times a matrix. Bound by reading B once, so B is read where it lies and never packed.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::args::{GemmArgs, Mat};
use crate::bytes::Byte;
use crate::scratch::{self, Slot};
use oneflow_kernels_prim::{Isa, Simd, WithSimd, dispatch};

/// Columns summed together.
const BLOCK: usize = 256;

/// The row of C of the given row of A; `b` is contiguous along either dimension.
///
/// # Safety
/// The matrices cover the problem and C overlaps neither operand.
pub(crate) unsafe fn row<T: Byte>(isa: Isa, args: &GemmArgs, (a, b, c): (Mat, Mat, Mat), row: usize) {
    let (alpha, beta) = (args.alpha as i32, args.beta as i32);
    let from = a.ptr.cast::<T>().wrapping_offset(row as isize * a.rs);
    let to = c.ptr.cast::<i32>().wrapping_offset(row as isize * c.rs);
    // Whole registers of the row are read in steps of four, so zeros follow.
    scratch::with(Slot::A, args.k + 4, |room| {
        let x = room.cast::<T>();
        // SAFETY: the room holds the row and its zeros; all else by the caller.
        unsafe {
            room.add(args.k).write_bytes(0, 4);
            (0..args.k).for_each(|p| *x.add(p) = *from.offset(p as isize * a.cs));
            for col in (0..args.n).step_by(BLOCK) {
                let mut sums = [0i32; BLOCK];
                let n = BLOCK.min(args.n - col);
                let b = Operand { ptr: b.ptr.cast::<T>().wrapping_offset(col as isize * b.cs).cast_const(), ..of(b) };
                dots(isa, args.k, x, b, &mut sums[..n]);
                for (j, sum) in sums[..n].iter().enumerate() {
                    let c = to.offset((col + j) as isize * c.cs);
                    let old = if beta == 0 { 0 } else { beta.wrapping_mul(*c) };
                    *c = alpha.wrapping_mul(*sum).wrapping_add(old);
                }
            }
        }
    });
}

#[derive(Clone, Copy)]
struct Operand<T> {
    ptr: *const T,
    rs: isize,
    cs: isize,
}

fn of<T>(b: Mat) -> Operand<T> {
    Operand { ptr: b.ptr.cast::<T>().cast_const(), rs: b.rs, cs: b.cs }
}

/// The products of `x` and the first columns of `b`.
unsafe fn dots<T: Byte>(isa: Isa, k: usize, x: *const T, b: Operand<T>, sums: &mut [i32]) {
    #[cfg(target_arch = "x86_64")]
    if isa >= Isa::Avx512Bf16 && T::SIGNED {
        let b = Operand::<i8> { ptr: b.ptr.cast(), rs: b.rs, cs: b.cs };
        // SAFETY: the tier is there, and the elements are signed bytes; the rest is the caller's.
        return unsafe {
            match b.cs {
                1 => by_rows(k, x.cast(), b, sums),
                _ => by_columns(k, x.cast(), b, sums),
            }
        };
    }
    dispatch(isa.lanes(), Plain { k, x, b, sums });
}

struct Plain<'a, T> {
    k: usize,
    x: *const T,
    b: Operand<T>,
    sums: &'a mut [i32],
}

impl<T: Byte> WithSimd for Plain<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Plain { k, x, b, sums } = self;
        let product = |x: T, b: T| i32::from(x.wide()) * i32::from(b.wide());
        // SAFETY: every step is below k, every column one of B's.
        unsafe {
            if b.cs == 1 {
                for p in 0..k {
                    let (x, row) = (*x.add(p), b.ptr.offset(p as isize * b.rs));
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = sum.wrapping_add(product(x, *row.add(j)));
                    }
                }
            } else {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let column = b.ptr.offset(j as isize * b.cs);
                    *sum = (0..k).fold(0i32, |sum, p| sum.wrapping_add(product(*x.add(p), *column.add(p))));
                }
            }
        }
    }
}

/// What B's bytes, moved by 128 to be unsigned, add to every sum.
#[cfg(target_arch = "x86_64")]
unsafe fn excess(k: usize, x: *const i8) -> i32 {
    // SAFETY: the row has k elements.
    (0..k).fold(0i32, |sum, p| sum.wrapping_add(128 * i32::from(unsafe { *x.add(p) })))
}

/// B's rows are contiguous: quads of four rows are made in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn by_rows(k: usize, x: *const i8, b: Operand<i8>, sums: &mut [i32]) {
    // SAFETY: by the caller.
    let (n, excess) = (sums.len(), unsafe { excess(k, x) });
    let moved = _mm512_set1_epi8(-128);
    let masks: [u64; BLOCK / 64] = std::array::from_fn(|g| match n.saturating_sub(64 * g) {
        left @ 0..64 => (1 << left) - 1,
        _ => u64::MAX,
    });
    let mut quads = [[_mm512_setzero_si512(); 4]; BLOCK / 64];
    for p in (0..k).step_by(4) {
        // SAFETY: zeros follow the row; masks keep loads inside B's, and steps behind k are not read.
        unsafe {
            let x = _mm512_set1_epi32(x.add(p).cast::<i32>().read_unaligned());
            for (g, (sums, mask)) in quads.iter_mut().zip(masks).enumerate() {
                if 64 * g >= n {
                    break;
                }
                let row = |s: usize| {
                    let mask = if p + s < k { mask } else { 0 };
                    let row = b.ptr.wrapping_offset((p + s) as isize * b.rs).wrapping_add(64 * g);
                    _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, row), moved)
                };
                let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
                let (lo, hi) = (_mm512_unpacklo_epi8(r0, r1), _mm512_unpackhi_epi8(r0, r1));
                let (lo2, hi2) = (_mm512_unpacklo_epi8(r2, r3), _mm512_unpackhi_epi8(r2, r3));
                sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_unpacklo_epi16(lo, lo2), x);
                sums[1] = _mm512_dpbusd_epi32(sums[1], _mm512_unpackhi_epi16(lo, lo2), x);
                sums[2] = _mm512_dpbusd_epi32(sums[2], _mm512_unpacklo_epi16(hi, hi2), x);
                sums[3] = _mm512_dpbusd_epi32(sums[3], _mm512_unpackhi_epi16(hi, hi2), x);
            }
        }
    }
    // Each quarter of a register holds every fourth group of four columns.
    // SAFETY: both are plain numbers of the same size.
    let quads: [[[[i32; 4]; 4]; 4]; BLOCK / 64] = unsafe { std::mem::transmute(quads) };
    for (j, sum) in sums.iter_mut().enumerate() {
        *sum = quads[j / 64][j / 4 % 4][j / 16 % 4][j % 4].wrapping_sub(excess);
    }
}

/// B's columns are contiguous: one dot product each.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn by_columns(k: usize, x: *const i8, b: Operand<i8>, sums: &mut [i32]) {
    const CHAINS: usize = 4;
    // SAFETY: by the caller.
    let excess = unsafe { excess(k, x) };
    let moved = _mm512_set1_epi8(-128);
    for (j, sum) in sums.iter_mut().enumerate() {
        let column = b.ptr.wrapping_offset(j as isize * b.cs);
        let mut chains = [_mm512_setzero_si512(); CHAINS];
        for p in (0..k).step_by(64 * CHAINS) {
            for (i, chain) in chains.iter_mut().enumerate() {
                let at = p + 64 * i;
                let mask = match k.saturating_sub(at) {
                    left @ 0..64 => (1 << left) - 1,
                    _ => u64::MAX,
                };
                // SAFETY: the mask keeps both loads below k.
                unsafe {
                    let b = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, column.wrapping_add(at)), moved);
                    *chain = _mm512_dpbusd_epi32(*chain, b, _mm512_maskz_loadu_epi8(mask, x.wrapping_add(at)));
                }
            }
        }
        let [c0, c1, c2, c3] = chains;
        let all = _mm512_add_epi32(_mm512_add_epi32(c0, c1), _mm512_add_epi32(c2, c3));
        *sum = _mm512_reduce_add_epi32(all).wrapping_sub(excess);
    }
}
