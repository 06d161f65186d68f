//! Triangular factors: Cholesky, LU with partial pivoting, and solving with a triangle.

use crate::Field;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::{cholesky::llt, lu::partial_pivoting, triangular_solve as tri};
use faer::traits::math_utils::{abs1, recip, zero};
use faer::{MatMut, MatRef, Par};

pub(crate) fn cholesky<T: Field>(a: MatRef<'_, T>, out: MatMut<'_, T>, upper: bool) -> i32 {
    // With the transposed (not adjoint) triangle of a Hermitian matrix comes the transposed factor: U = L^T of A^T.
    let (a, mut factor) = if upper { (a.transpose(), out.transpose_mut()) } else { (a, out) };
    factor.fill(zero());
    factor.copy_from_triangular_lower(a);
    let failed = lower_cholesky(factor.as_mut());
    // The factorisation uses the other triangle for itself.
    for j in 1..factor.ncols() {
        (0..j).for_each(|i| factor[(i, j)] = zero());
    }
    failed
}

/// In place in the lower triangle; the order of the first minor that is not positive, or zero.
fn lower_cholesky<T: Field>(mut a: MatMut<'_, T>) -> i32 {
    let n = a.nrows();
    let mut mem = MemBuffer::new(llt::factor::cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut mem);
    match llt::factor::cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, stack, Default::default()) {
        Ok(_) => 0,
        Err(llt::factor::LltError::NonPositivePivot { index }) => index as i32 + 1,
    }
}

pub(crate) fn lu<T: Field>(mut a: MatMut<'_, T>, exchange: &mut [usize], pivoting: bool) {
    if pivoting && exchange.len() > SMALL {
        let before = a.to_owned();
        if blocked_lu(a.as_mut(), exchange) {
            return;
        }
        a.copy_from(before);
    }
    plain_lu(a, exchange, pivoting);
}

/// Up to here a plain loop is as fast as blocks.
const SMALL: usize = 24;

/// faer's factorisation. It divides by a pivot of zero; `false` says that the result is of no use.
fn blocked_lu<T: Field>(mut a: MatMut<'_, T>, exchange: &mut [usize]) -> bool {
    let (m, n) = (a.nrows(), a.ncols());
    let (mut forward, mut backward) = (vec![0usize; m], vec![0usize; m]);
    let scratch = partial_pivoting::factor::lu_in_place_scratch::<usize, T>(m, n, Par::Seq, Default::default());
    let mut mem = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut mem);
    partial_pivoting::factor::lu_in_place(a.as_mut(), &mut forward, &mut backward, Par::Seq, stack, Default::default());
    if !a.as_ref().is_all_finite() {
        return false;
    }
    // The order of rows as a sequence of exchanges, as LAPACK says it.
    let mut at: Vec<usize> = (0..m).collect();
    let mut place: Vec<usize> = (0..m).collect();
    for (k, exchange) in exchange.iter_mut().enumerate() {
        let from = place[forward[k]];
        *exchange = from;
        at.swap(k, from);
        place[at[k]] = k;
        place[at[from]] = from;
    }
    true
}

/// Column by column; a pivot of zero leaves its column as it is.
fn plain_lu<T: Field>(mut a: MatMut<'_, T>, exchange: &mut [usize], pivoting: bool) {
    let (m, n) = (a.nrows(), a.ncols());
    for k in 0..m.min(n) {
        let mut row = k;
        if pivoting {
            for i in k + 1..m {
                if abs1(&a[(i, k)]) > abs1(&a[(row, k)]) {
                    row = i;
                }
            }
        }
        exchange[k] = row;
        if row != k {
            for j in 0..n {
                let (x, y) = (a[(k, j)], a[(row, j)]);
                a[(k, j)] = y;
                a[(row, j)] = x;
            }
        }
        let pivot = a[(k, k)];
        if pivot == zero::<T>() {
            continue;
        }
        let inverse = recip(&pivot);
        for i in k + 1..m {
            a[(i, k)] *= inverse;
        }
        for j in k + 1..n {
            let top = a[(k, j)];
            for i in k + 1..m {
                a[(i, j)] = a[(i, j)] - a[(i, k)] * top;
            }
        }
    }
}

pub(crate) fn triangular_solve<T: Field>(a: MatRef<'_, T>, x: MatMut<'_, T>, upper: bool, unit: bool) {
    match (upper, unit) {
        (false, false) => tri::solve_lower_triangular_in_place(a, x, Par::Seq),
        (false, true) => tri::solve_unit_lower_triangular_in_place(a, x, Par::Seq),
        (true, false) => tri::solve_upper_triangular_in_place(a, x, Par::Seq),
        (true, true) => tri::solve_unit_upper_triangular_in_place(a, x, Par::Seq),
    }
}
