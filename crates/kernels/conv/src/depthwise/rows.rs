//! Rows of neighbours, and columns of taps over rows that follow each other: a row is loaded once for all taps that see it.

use super::layout::{Rows, TAPS};
use crate::element::madd;
use oneflow_base::bf16;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::{Reg, Register, Simd};
use std::any::TypeId;

/// Widens `n` neighbours into `room`, the rest of which becomes zero in part; a row of a register or more without a mask.
///
/// # Safety
/// Both have `n` elements, the second `room`.
#[inline(always)]
pub unsafe fn copy_row<T: GemmFloat, S: Simd>(from: *const T, n: usize, to: *mut T::Acc, room: usize) {
    let width = Reg::<S, T>::WIDTH;
    // SAFETY: by the caller; the last register may be copied twice in part.
    unsafe {
        if n < width {
            let row = T::load_partial::<S>(from, n);
            return if room < width { row.store_partial(to, n) } else { row.store(to) };
        }
        for i in (0..n).step_by(width) {
            let i = i.min(n - width);
            T::load::<S>(from.add(i)).store(to.add(i));
        }
    }
}

/// Stores `n` numbers, neighbours or `step` apart.
///
/// # Safety
/// Both have the elements.
#[inline(always)]
pub unsafe fn store_row<T: GemmFloat, S: Simd>(from: *const T::Acc, n: usize, to: *mut T, step: isize) {
    let width = Reg::<S, T>::WIDTH;
    // SAFETY: by the caller; the last register may be stored twice in part.
    unsafe {
        if step != 1 {
            return (0..n).for_each(|i| *to.offset(i as isize * step) = T::narrow(*from.add(i)));
        }
        if n < width {
            return T::store_partial::<S>(Register::load_partial(from, n), to, n);
        }
        for i in (0..n).step_by(width) {
            let i = i.min(n - width);
            T::store::<S>(Register::load(from.add(i)), to.add(i));
        }
    }
}

/// Widens `n` numbers, every other one of the source; other half types than bfloat16 by way of `wide`.
///
/// # Safety
/// The elements lie in memory that does not overlap; `wide` has twice as many.
#[inline(always)]
pub unsafe fn every_other<T: GemmFloat, S: Simd>(from: *const T, n: usize, to: *mut T::Acc, wide: *mut T::Acc) {
    // SAFETY: by the caller; bfloat16 is the upper half of f32, a pair of it 32 bits.
    unsafe {
        if TypeId::of::<T>() == TypeId::of::<bf16>() {
            let pairs = std::slice::from_raw_parts(from.cast::<[[u8; 2]; 2]>(), n - 1);
            let halves = std::slice::from_raw_parts_mut(to.cast::<u32>(), n - 1);
            halves.iter_mut().zip(pairs).for_each(|(to, [low, _])| *to = (u16::from_ne_bytes(*low) as u32) << 16);
        } else {
            let from = match TypeId::of::<T>() == TypeId::of::<T::Acc>() {
                true => from.cast(),
                false => {
                    copy_row::<T, S>(from, 2 * n - 1, wide, 2 * n - 1);
                    wide.cast_const()
                }
            };
            let (pairs, _) = std::slice::from_raw_parts(from, 2 * n - 1).as_chunks::<2>();
            let to = std::slice::from_raw_parts_mut(to, n - 1);
            pairs.iter().zip(to).for_each(|(pair, to)| *to = pair[0]);
        }
        *to.add(n - 1) = (*from.add(2 * n - 2)).widen();
    }
}

/// How many taps all columns have.
#[derive(Clone, Copy)]
pub enum Taps {
    Three,
    Five,
    /// Other numbers, or different ones.
    Any,
}

impl Taps {
    pub fn of(columns: impl Iterator<Item = usize> + Clone) -> Taps {
        let all = |n: usize| columns.clone().all(|c| c == n);
        match () {
            () if all(3) => Taps::Three,
            () if all(5) => Taps::Five,
            () => Taps::Any,
        }
    }
}

/// Adds a column's products to `R` rows of sums.
///
/// # Safety
/// Rows of the plane, `ld` apart, are readable from `x` on, one fewer than outputs and taps together; `by` has the weights.
#[inline(always)]
pub unsafe fn column<G: Register, const R: usize>(
    x: *const G::Elem,
    ld: usize,
    (by, n): (*const G::Elem, usize),
    sum: &mut [G; R],
) {
    // SAFETY: by the caller.
    unsafe {
        match n {
            1 => column_of::<G, R, 1>(x, ld, by, sum),
            2 => column_of::<G, R, 2>(x, ld, by, sum),
            3 => column_of::<G, R, 3>(x, ld, by, sum),
            5 => column_of::<G, R, 5>(x, ld, by, sum),
            _ => column_of::<G, R, TAPS>(x, ld, by, sum),
        }
    }
}

/// Rows that outputs and taps of a column see together, at most.
const SEEN: usize = Rows::MOST + TAPS - 1;

/// As `column`, of `K` taps.
///
/// # Safety
/// As `column`.
#[inline(always)]
pub unsafe fn column_of<G: Register, const R: usize, const K: usize>(
    x: *const G::Elem,
    ld: usize,
    by: *const G::Elem,
    sum: &mut [G; R],
) {
    // SAFETY: by the caller.
    unsafe {
        // No closure: it might stay a function without the instructions of its caller.
        let mut rows = [G::splat(0.0); SEEN];
        for r in 0..R + K - 1 {
            rows[r] = G::load(x.add(r * ld));
        }
        for k in 0..K {
            let by = G::all_of(*by.add(k));
            for r in 0..R {
                sum[r] = madd(rows[r + k], by, sum[r]);
            }
        }
    }
}

/// Adds to a column's sums, one register a tap, the products of `R` rows of gradients in `n` lanes; all if `WHOLE`.
///
/// # Safety
/// As `column`; lanes behind are not read.
#[inline(always)]
pub unsafe fn column_grad<G: Register, const R: usize, const WHOLE: bool>(
    x: *const G::Elem,
    ld: usize,
    n: usize,
    g: &[G; R],
    sums: &mut [G],
) {
    // SAFETY: by the caller.
    unsafe {
        match sums.len() {
            1 => column_grad_of::<G, R, WHOLE, 1>(x, ld, n, g, sums),
            2 => column_grad_of::<G, R, WHOLE, 2>(x, ld, n, g, sums),
            3 => column_grad_of::<G, R, WHOLE, 3>(x, ld, n, g, sums),
            5 => column_grad_of::<G, R, WHOLE, 5>(x, ld, n, g, sums),
            _ => column_grad_of::<G, R, WHOLE, TAPS>(x, ld, n, g, sums),
        }
    }
}

#[inline(always)]
unsafe fn column_grad_of<G: Register, const R: usize, const WHOLE: bool, const K: usize>(
    x: *const G::Elem,
    ld: usize,
    n: usize,
    g: &[G; R],
    sums: &mut [G],
) {
    let mut sum = [G::splat(0.0); K];
    sum.copy_from_slice(&sums[..K]);
    // SAFETY: by the caller. Lanes without a gradient are not multiplied: they may hold an infinity.
    unsafe {
        let mut rows = [G::splat(0.0); SEEN];
        for r in 0..R + K - 1 {
            rows[r] = if WHOLE { G::load(x.add(r * ld)) } else { G::load_partial(x.add(r * ld), n) };
        }
        for r in 0..R {
            for k in 0..K {
                sum[k] = madd(rows[r + k], g[r], sum[k]);
            }
        }
    }
    sums[..K].copy_from_slice(&sum);
}
