//! One row times a matrix. Bound by reading B once, so B is read where it lies and never packed.

use std::ops::Range;

use oneflow_kernels_prim::{Acc, Float, Isa, Lanes, Num, Reg, Register, Simd, WithSimd, dispatch};

use crate::epilogue::{Operand, Post, Sums, finish};

/// Columns summed together: eight registers on the widest tier.
const BLOCK: usize = 128;
/// Sums along k that are kept apart, so that none waits for the one before.
const CHAINS: usize = 4;

/// Columns `cols` of `post(alpha * x @ b)`, `x` one contiguous row of `k`; `b` is contiguous along either dimension.
///
/// # Safety
/// The operands cover the problem.
pub(crate) unsafe fn gemv<E: Float, C: Float<Acc = E::Acc>>(
    isa: Isa,
    k: usize,
    x: *const E::Acc,
    b: Operand<E>,
    (alpha, beta): (E::Acc, E::Acc),
    post: &Post<C>,
    cols: Range<usize>,
) {
    for col in cols.clone().step_by(BLOCK) {
        let n = BLOCK.min(cols.end - col);
        let mut sums = [E::Acc::ZERO; BLOCK];
        dispatch(isa.lanes(), Block::<E> { k, x, b, col, sums: &mut sums[..n] });
        for sum in &mut sums {
            *sum = alpha * *sum;
        }
        let sums = Sums { ptr: sums.as_ptr(), rs: 0, row: 0, col, rows: 1, cols: n, beta, last: true };
        // SAFETY: the columns lie in C; a block is a whole number of registers.
        unsafe { finish(isa, sums, post) };
    }
}

struct Block<'a, E: Float> {
    k: usize,
    x: *const E::Acc,
    b: Operand<E>,
    col: usize,
    sums: &'a mut [E::Acc],
}

impl<E: Float> WithSimd for Block<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        // One column that lies in one piece is a dot product.
        let column = self.sums.len() == 1 && self.b.rs == 1;
        // SAFETY: the contract of `gemv`.
        unsafe { if self.b.cs == 1 && !column { self.rows::<S>() } else { self.columns::<S>() } }
    }
}

impl<E: Float> Block<'_, E> {
    /// B's rows are contiguous: sums of neighbouring columns in registers, over all of k.
    #[inline(always)]
    unsafe fn rows<S: Simd>(&mut self) {
        let width = Reg::<S, E>::WIDTH;
        let mut col = 0;
        // SAFETY: every column read is below the block's end, every row below k.
        unsafe {
            while col < self.sums.len() {
                let left = self.sums.len() - col;
                if left >= 8 * width {
                    self.registers::<S, 8>(col);
                    col += 8 * width;
                } else if left >= width {
                    self.registers::<S, 1>(col);
                    col += width;
                } else {
                    let mut sum = Reg::<S, E>::splat(0.0);
                    for p in 0..self.k {
                        let b = E::load_partial::<S>(self.b.at(p, self.col + col), left);
                        sum = Reg::<S, E>::all_of(*self.x.add(p)).fma(b, sum);
                    }
                    sum.store_partial(self.sums.as_mut_ptr().add(col), left);
                    col += left;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn registers<S: Simd, const N: usize>(&mut self, col: usize) {
        let width = Reg::<S, E>::WIDTH;
        let mut sums = [Reg::<S, E>::splat(0.0); N];
        // SAFETY: the caller's N registers of columns lie in the block.
        unsafe {
            for p in 0..self.k {
                let (x, row) = (Reg::<S, E>::all_of(*self.x.add(p)), self.b.at(p, self.col + col));
                let mut i = 0;
                while i < N {
                    sums[i] = x.fma(E::load::<S>(row.add(i * width)), sums[i]);
                    i += 1;
                }
            }
            let mut i = 0;
            while i < N {
                sums[i].store(self.sums.as_mut_ptr().add(col + i * width));
                i += 1;
            }
        }
    }

    /// B's columns are contiguous: one dot product each. One after the other, though several side by side would share
    /// the loads of `x`: the processor fetches one long stream ahead at twice the speed of several short ones.
    #[inline(always)]
    unsafe fn columns<S: Simd>(&mut self) {
        let width = Reg::<S, E>::WIDTH;
        let (whole, strips) = (self.k / width * width, self.k / (CHAINS * width) * (CHAINS * width));
        for col in 0..self.sums.len() {
            let base = self.b.at(0, self.col + col).cast_const();
            let mut sums = [Reg::<S, E>::splat(0.0); CHAINS];
            // SAFETY: the column is below the block's end, every row below k.
            unsafe {
                let mut p = 0;
                while p < strips {
                    let mut i = 0;
                    while i < CHAINS {
                        let at = p + i * width;
                        sums[i] = Reg::<S, E>::load(self.x.add(at)).fma(E::load::<S>(base.add(at)), sums[i]);
                        i += 1;
                    }
                    p += CHAINS * width;
                }
                while p < whole {
                    sums[0] = Reg::<S, E>::load(self.x.add(p)).fma(E::load::<S>(base.add(p)), sums[0]);
                    p += width;
                }
                let mut sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
                while p < self.k {
                    sum = sum + *self.x.add(p) * (*base.add(p)).widen();
                    p += 1;
                }
                self.sums[col] = sum;
            }
        }
    }
}
