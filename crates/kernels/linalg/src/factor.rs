//! Triangular factors: Cholesky, LU with partial pivoting, and solving with a triangle.

use crate::matrices::{Batch, Item, Status, for_each, with_item};
use faer::linalg::{cholesky::llt, lu::partial_pivoting, triangular_solve as tri};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::traits::ComplexField;
use faer::traits::math_utils::{abs1, recip, zero};
use faer::{MatMut, MatRef, Par};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{Launch, SingularCheck};

/// # Safety
/// The contract of `prim::KernelFn`, as for every kernel of this crate.
pub(crate) unsafe fn cholesky(l: &Launch<'_>) -> Result<()> {
    with_item!("cholesky", l.input(0)?.dtype, T => cholesky_of::<T>(l))
}

fn cholesky_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, out) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.output(0)?)?);
    let info = Batch::<i32>::scalars(l.output(1)?);
    let (upper, check) = (l.param(0)?.bool(), l.param(1)?.bool());
    let n = a.rows;
    let status = Status::new(a.len());
    for_each(a.len(), (n * n * n) as f64 / 3.0, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, out, mut info) = unsafe { (a.get(i), out.get_mut(i), info.get_mut(i)) };
        let (a, mut factor) = if upper { (a.transpose(), out.transpose_mut()) } else { (a, out) };
        // With the transposed (not adjoint) triangle of a Hermitian matrix comes the transposed factor: U = L^T of A^T.
        factor.fill(zero::<T>());
        factor.copy_from_triangular_lower(a);
        let failed = lower_cholesky(factor.as_mut());
        info[(0, 0)] = failed;
        status.set(i, failed);
    });
    let failure = status.failure(a.ndim_lead(), |order| {
        format!(
            "The factorization could not be completed because the input is not positive-definite (the leading minor of order {order} is not positive-definite)."
        )
    });
    match failure {
        Some(text) if check => Err(Error::linalg(format!("linalg.cholesky: {text}"))),
        _ => Ok(()),
    }
}

/// In place in the lower triangle; the order of the first minor that is not positive, or zero.
fn lower_cholesky<T: ComplexField + Copy>(mut a: MatMut<'_, T>) -> i32 {
    let n = a.nrows();
    let mut mem = MemBuffer::new(llt::factor::cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut mem);
    match llt::factor::cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, stack, Default::default()) {
        Ok(_) => 0,
        Err(llt::factor::LltError::NonPositivePivot { index }) => index as i32 + 1,
    }
}

pub(crate) unsafe fn lu_factor(l: &Launch<'_>) -> Result<()> {
    with_item!("lu_factor", l.input(0)?.dtype, T => lu_of::<T>(l))
}

fn lu_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, out) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.output(0)?)?);
    let (pivots, info) = (Batch::<i32>::vectors(l.output(1)?)?, Batch::<i32>::scalars(l.output(2)?));
    let pivoting = l.param(0)?.bool();
    let check = SingularCheck::from_u64(l.param(1)?.0).unwrap_or(SingularCheck::None);
    let (m, n) = (a.rows, a.cols);
    let status = Status::new(a.len());
    for_each(a.len(), (m * n * m.min(n)) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, mut lu, mut pivots, mut info) =
            unsafe { (a.get(i), out.get_mut(i), pivots.get_mut(i), info.get_mut(i)) };
        lu.copy_from(a);
        let mut exchange = vec![0usize; m.min(n)];
        if !pivoting || m.min(n) <= SMALL || !blocked_lu(lu.as_mut(), &mut exchange) {
            lu.copy_from(a);
            plain_lu(lu.as_mut(), &mut exchange, pivoting);
        }
        let zero = (0..m.min(n)).find(|&k| lu[(k, k)] == zero::<T>());
        for (k, &row) in exchange.iter().enumerate() {
            pivots[(k, 0)] = row as i32 + 1;
        }
        info[(0, 0)] = zero.map_or(0, |k| k as i32 + 1);
        status.set(i, info[(0, 0)]);
    });
    let words = |text: fn(i32) -> String| status.failure(a.ndim_lead(), text);
    let failure = match check {
        SingularCheck::None => None,
        SingularCheck::LuFactor => words(|k| {
            format!(
                "U[{k},{k}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
            )
        })
        .map(|t| format!("torch.linalg.lu_factor: {t}")),
        SingularCheck::Inv => words(|k| {
            format!(
                "The diagonal element {k} is zero, the inversion could not be completed because the input matrix is singular."
            )
        })
        .map(|t| format!("linalg.inv: {t}")),
        SingularCheck::Solve => words(|_| "The solver failed because the input matrix is singular.".to_owned())
            .map(|t| format!("torch.linalg.solve: {t}")),
    };
    match failure {
        None => Ok(()),
        Some(text) if check == SingularCheck::LuFactor => Err(Error::runtime(text)),
        Some(text) => Err(Error::linalg(text)),
    }
}

/// Up to here a plain loop is as fast as blocks.
const SMALL: usize = 24;

/// faer's factorisation. It divides by a pivot of zero; `false` says that the result is of no use.
fn blocked_lu<T: Item>(mut a: MatMut<'_, T>, exchange: &mut [usize]) -> bool {
    let (m, n) = (a.nrows(), a.ncols());
    let (mut forward, mut backward) = (vec![0usize; m], vec![0usize; m]);
    let scratch = partial_pivoting::factor::lu_in_place_scratch::<usize, T>(m, n, Par::Seq, Default::default());
    let mut mem = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut mem);
    partial_pivoting::factor::lu_in_place(
        a.as_mut(),
        &mut forward,
        &mut backward,
        Par::Seq,
        stack,
        Default::default(),
    );
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
fn plain_lu<T: Item>(mut a: MatMut<'_, T>, exchange: &mut [usize], pivoting: bool) {
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
            a[(i, k)] = a[(i, k)] * inverse;
        }
        for j in k + 1..n {
            let top = a[(k, j)];
            for i in k + 1..m {
                a[(i, j)] = a[(i, j)] - a[(i, k)] * top;
            }
        }
    }
}

pub(crate) unsafe fn lu_permutation(l: &Launch<'_>) -> Result<()> {
    let (pivots, out) = (Batch::<i32>::vectors(l.input(0)?)?, Batch::<i64>::vectors(l.output(0)?)?);
    let m = out.rows;
    for item in 0..out.len() {
        // SAFETY: the views hold their items.
        let (pivots, mut out) = unsafe { (pivots.get(item), out.get_mut(item)) };
        (0..m).for_each(|i| out[(i, 0)] = i as i64);
        for k in 0..pivots.nrows() {
            let row = pivots[(k, 0)] as i64 - 1;
            if row < 0 || row >= m as i64 || k >= m {
                return Err(Error::runtime(format!("lu_unpack: LU_pivots[{k}] is {}, of {m} rows", row + 1)));
            }
            let (x, y) = (out[(k, 0)], out[(row as usize, 0)]);
            out[(k, 0)] = y;
            out[(row as usize, 0)] = x;
        }
    }
    Ok(())
}

pub(crate) unsafe fn triangular_solve(l: &Launch<'_>) -> Result<()> {
    with_item!("triangular_solve", l.input(0)?.dtype, T => triangular_of::<T>(l))
}

fn triangular_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let (a, b) = (Batch::<T>::matrices(l.input(0)?)?, Batch::<T>::matrices(l.input(1)?)?);
    let out = Batch::<T>::matrices(l.output(0)?)?;
    let (upper, unit) = (l.param(0)?.bool(), l.param(1)?.bool());
    for_each(out.len(), (a.rows * a.rows * out.cols) as f64, &|i| {
        // SAFETY: each task has its own items, and the output overlaps no input.
        let (a, b, mut out) = unsafe { (a.get(i), b.get(i), out.get_mut(i)) };
        out.copy_from(b);
        solve(a, out, upper, unit);
    });
    Ok(())
}

fn solve<T: Item>(a: MatRef<'_, T>, x: MatMut<'_, T>, upper: bool, unit: bool) {
    match (upper, unit) {
        (false, false) => tri::solve_lower_triangular_in_place(a, x, Par::Seq),
        (false, true) => tri::solve_unit_lower_triangular_in_place(a, x, Par::Seq),
        (true, false) => tri::solve_upper_triangular_in_place(a, x, Par::Seq),
        (true, true) => tri::solve_unit_upper_triangular_in_place(a, x, Par::Seq),
    }
}
