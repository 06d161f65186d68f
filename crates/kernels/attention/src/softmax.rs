//! The softmax of some rows of scores, a block of keys after the other: a running maximum and sum of every row.

use crate::problem::{Dropout, Mask, Problem};
use oneflow_kernels_gemm::micro::{Block, GemmFloat, Matrix, store_row};
use oneflow_kernels_prim::{Acc, Lanes, Num, Reg, Register, Simd, WithSimd};
use std::ops::Range;

/// Some rows of one head.
pub struct HeadRows {
    pub batch: usize,
    pub head: usize,
    pub rows: Range<usize>,
}

/// Where a head's log-sum-exps go.
#[derive(Clone, Copy)]
pub struct Stats<A> {
    pub ptr: *mut A,
    pub step: isize,
}

/// Scores of a few rows to weights: mask, new maximum, exponentials, sums, dropout; earlier sums are rescaled.
pub struct Pass<'a, T: GemmFloat> {
    pub p: &'a Problem<T>,
    /// Batch, head, first row, first key.
    pub at: [usize; 4],
    pub height: usize,
    pub n: usize,
    /// Keys in whole registers.
    pub padded: usize,
    pub scores: Block<T::Acc>,
    /// What the scores are multiplied by first.
    pub scale: T::Acc,
    pub sums: Block<T::Acc>,
    pub vp: usize,
    pub max: *mut T::Acc,
    pub total: *mut T::Acc,
    pub factors: *mut T::Acc,
}

impl<T: GemmFloat> WithSimd for Pass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pass { p, at: [batch, head, row, key], n, padded, vp, .. } = self;
        let width = <Reg<S, T>>::WIDTH;
        let least = T::Acc::of(f64::NEG_INFINITY);
        for i in 0..self.height {
            let s = self.scores.at(i, 0);
            let seen = p.visible(row + i, key, n);
            // SAFETY: a row of scores holds `padded` numbers, one of sums `vp`; the mask covers every score.
            unsafe {
                if self.scale != T::Acc::ONE {
                    let scale = Reg::<S, T>::all_of(self.scale);
                    for j in (0..seen).step_by(width) {
                        (<Reg<S, T> as Register>::load(s.add(j)) * scale).store(s.add(j));
                    }
                }
                for j in seen..padded {
                    *s.add(j) = least;
                }
                apply_mask::<T>(&p.mask, [batch, head, row + i, key], s, seen);
                let mut m = [Reg::<S, T>::splat(f64::NEG_INFINITY); 2];
                let mut j = 0;
                while j + 2 * width <= padded {
                    m[0] = m[0].maximum(Register::load(s.add(j)));
                    m[1] = m[1].maximum(Register::load(s.add(j + width)));
                    j += 2 * width;
                }
                while j < padded {
                    m[0] = m[0].maximum(Register::load(s.add(j)));
                    j += width;
                }
                let old = *self.max.add(i);
                let new = m[0].maximum(m[1]).maximum(Register::all_of(old)).max_of();
                *self.max.add(i) = new;
                // A row that has seen nothing yet: its exponentials are zeros, not NaN.
                let base = Reg::<S, T>::all_of(if new == least { T::Acc::ZERO } else { new });
                let mut sum = [Reg::<S, T>::splat(0.0); 2];
                let mut j = 0;
                while j + 2 * width <= padded {
                    let a = (<Reg<S, T> as Register>::load(s.add(j)) - base).exp();
                    let b = (<Reg<S, T> as Register>::load(s.add(j + width)) - base).exp();
                    a.store(s.add(j));
                    b.store(s.add(j + width));
                    sum[0] = sum[0] + a;
                    sum[1] = sum[1] + b;
                    j += 2 * width;
                }
                while j < padded {
                    let a = (<Reg<S, T> as Register>::load(s.add(j)) - base).exp();
                    a.store(s.add(j));
                    sum[0] = sum[0] + a;
                    j += width;
                }
                let sum = (sum[0] + sum[1]).sum();
                if key == 0 {
                    *self.total.add(i) = sum;
                } else {
                    let shrink = (Reg::<S, T>::all_of(old) - base).exp();
                    let before = (Reg::<S, T>::all_of(*self.total.add(i)) * shrink).max_of();
                    *self.total.add(i) = before + sum;
                    let o = self.sums.at(i, 0);
                    for j in (0..vp).step_by(width) {
                        (<Reg<S, T> as Register>::load(o.add(j)) * shrink).store(o.add(j));
                    }
                }
                if let Some(d) = &p.dropout {
                    drop_row::<T>(d, [batch, head, row + i, key], s, seen, self.factors);
                }
            }
        }
    }
}

/// # Safety
/// `s` and `factors` hold `n` numbers.
#[inline(always)]
unsafe fn drop_row<T: GemmFloat>(d: &Dropout, at: [usize; 4], s: *mut T::Acc, n: usize, factors: *mut T::Acc) {
    // SAFETY: by the caller.
    unsafe {
        let f = std::slice::from_raw_parts_mut(factors, n);
        d.factors(at, f);
        for (j, f) in f.iter().enumerate() {
            *s.add(j) = *s.add(j) * *f;
        }
    }
}

/// Hides or biases the `n` scores of a row.
///
/// # Safety
/// `s` holds `n` numbers; the mask covers them.
#[inline(always)]
pub unsafe fn apply_mask<T: GemmFloat>(mask: &Mask<T>, [batch, head, row, key]: [usize; 4], s: *mut T::Acc, n: usize) {
    // SAFETY: by the caller.
    unsafe {
        match mask {
            Mask::None => {}
            Mask::Bool(m) => {
                let m = m.matrix(batch, head);
                let (from, least) = (m.at(row, key), T::Acc::of(f64::NEG_INFINITY));
                if m.cs == 1 {
                    for j in 0..n {
                        *s.add(j) = if *from.add(j) != 0 { *s.add(j) } else { least };
                    }
                } else {
                    for j in 0..n {
                        *s.add(j) = if *from.wrapping_offset(j as isize * m.cs) != 0 { *s.add(j) } else { least };
                    }
                }
            }
            Mask::Same(m) => {
                let m = m.matrix(batch, head);
                let from = m.at(row, key);
                for j in 0..n {
                    *s.add(j) = *s.add(j) + (*from.wrapping_offset(j as isize * m.cs)).widen();
                }
            }
            Mask::F32(m) => {
                let m = m.matrix(batch, head);
                let from = m.at(row, key);
                for j in 0..n {
                    *s.add(j) = *s.add(j) + T::Acc::of(*from.wrapping_offset(j as isize * m.cs) as f64);
                }
            }
        }
    }
}

/// Divides finished rows by their sums and stores them.
pub struct Finish<T: GemmFloat> {
    pub sums: Block<T::Acc>,
    pub vp: usize,
    pub n_rows: usize,
    pub max: *const T::Acc,
    pub total: *const T::Acc,
    pub out: Matrix<T>,
    pub stats: Stats<T::Acc>,
    pub first_row: usize,
}

impl<T: GemmFloat> WithSimd for Finish<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in 0..self.n_rows {
            let row = self.first_row + i;
            // SAFETY: the rooms hold the rows; the outputs are the launch's.
            unsafe {
                let (max, total) = (*self.max.add(i), *self.total.add(i));
                let (factor, stat) = if total == T::Acc::ZERO {
                    (T::Acc::ZERO, T::Acc::of(f64::INFINITY))
                } else {
                    let t = Reg::<S, T>::all_of(total);
                    ((Reg::<S, T>::splat(1.0) / t).max_of(), (t.log() + Register::all_of(max)).max_of())
                };
                store_row::<T, S>(self.sums.at(i, 0), self.out.at(row, 0), self.out.cs, self.vp, factor);
                *self.stats.ptr.wrapping_offset(row as isize * self.stats.step) = stat;
            }
        }
    }
}
