//! A few rows times a matrix whose columns are contiguous: dot products along k, several at a time. B is read where it lies,
//! each column once: packing it would take longer than the product.

use std::ops::Range;

use oneflow_kernels_prim::{Acc, Float, Isa, Lanes, Num, Reg, Register, Simd, WithSimd, dispatch};

use crate::epilogue::{Operand, Post, Sums, finish};
use crate::tasks::Even;

/// Most rows.
pub(crate) const MOST: usize = 8;
/// Rows that share the loads of some columns, and columns whose sums are kept apart beside them.
const ROWS: usize = 4;
const COLUMNS: [usize; ROWS + 1] = [0, 4, 4, 3, 3];
/// Columns stored together: whole registers of every tier.
const BLOCK: usize = 48;

/// Columns `cols` of `post(alpha * x @ b + beta * c)`. Every element is summed in the same order, whichever its neighbours.
///
/// # Safety
/// The operands cover `rows` rows of `k` and the columns; the rows of `x` and the columns of `b` are contiguous.
pub(crate) unsafe fn few_rows<E: Float, C: Float<Acc = E::Acc>>(
    isa: Isa,
    k: usize,
    x: Operand<E::Acc>,
    b: Operand<E>,
    (alpha, beta): (E::Acc, E::Acc),
    post: &Post<C>,
    (rows, cols): (Range<usize>, Range<usize>),
) {
    for col in cols.clone().step_by(BLOCK) {
        let n = BLOCK.min(cols.end - col);
        let mut sums = [[E::Acc::ZERO; BLOCK]; MOST];
        dispatch(isa.lanes(), Block::<E> { k, x, b, rows: rows.clone(), cols: col..col + n, alpha, sums: &mut sums });
        let ptr = sums.as_ptr().cast();
        let sums = Sums { ptr, rs: BLOCK as isize, row: rows.start, col, rows: rows.len(), cols: n, beta, last: true };
        // SAFETY: the block lies in C; rows of sums are whole registers.
        unsafe { finish(isa, sums, post) };
    }
}

struct Block<'a, E: Float> {
    k: usize,
    x: Operand<E::Acc>,
    b: Operand<E>,
    rows: Range<usize>,
    cols: Range<usize>,
    alpha: E::Acc,
    sums: &'a mut [[E::Acc; BLOCK]; MOST],
}

impl<E: Float> WithSimd for Block<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        let groups = Even::new(self.rows.len(), ROWS);
        let step = COLUMNS[groups.largest()];
        let mut col = 0;
        while col < self.cols.len() {
            let together = if self.cols.len() - col < step { 1 } else { step };
            for group in (0..groups.parts).map(|i| groups.get(i)) {
                // SAFETY: the contract of `few_rows`: rows and columns of the operands.
                unsafe {
                    match (group.len(), together) {
                        (4, 3) => self.tile::<S, 4, 3>(group.start, col),
                        (3, 3) => self.tile::<S, 3, 3>(group.start, col),
                        (2, 3) => self.tile::<S, 2, 3>(group.start, col),
                        (2, 4) => self.tile::<S, 2, 4>(group.start, col),
                        _ => self.one_by_one::<S>(group, col..col + together),
                    }
                }
            }
            col += together;
        }
    }
}

impl<E: Float> Block<'_, E> {
    #[inline(always)]
    unsafe fn one_by_one<S: Simd>(&mut self, rows: Range<usize>, cols: Range<usize>) {
        for row in rows {
            for col in cols.clone() {
                // SAFETY: the caller's rows and columns.
                unsafe { self.tile::<S, 1, 1>(row, col) };
            }
        }
    }

    /// `R` rows from `row` on times `N` columns from `col` on, counted in the block.
    #[inline(always)]
    unsafe fn tile<S: Simd, const R: usize, const N: usize>(&mut self, row: usize, col: usize) {
        let width = Reg::<S, E>::WIDTH;
        let x: [*const E::Acc; R] = std::array::from_fn(|r| self.x.at(row + r, 0).cast_const());
        let b: [*const E; N] = std::array::from_fn(|c| self.b.at(0, self.cols.start + col + c).cast_const());
        let mut sums = [[Reg::<S, E>::splat(0.0); N]; R];
        let mut p = 0;
        // SAFETY: every step read is below k, of rows and columns that the caller has.
        unsafe {
            while p + width <= self.k {
                let columns: [Reg<S, E>; N] = std::array::from_fn(|c| E::load::<S>(b[c].add(p)));
                let mut r = 0;
                while r < R {
                    let x = Reg::<S, E>::load(x[r].add(p));
                    let mut c = 0;
                    while c < N {
                        sums[r][c] = x.fma(columns[c], sums[r][c]);
                        c += 1;
                    }
                    r += 1;
                }
                p += width;
            }
            let left = self.k - p;
            if left > 0 {
                for c in 0..N {
                    let column = E::load_partial::<S>(b[c].add(p), left);
                    for r in 0..R {
                        sums[r][c] = Reg::<S, E>::load_partial(x[r].add(p), left).fma(column, sums[r][c]);
                    }
                }
            }
        }
        for (sums, to) in sums.iter().zip(&mut self.sums[row..]) {
            for (sum, to) in sums.iter().zip(&mut to[col..]) {
                *to = self.alpha * sum.sum();
            }
        }
    }
}
