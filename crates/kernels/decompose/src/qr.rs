//! QR in Householder form, as LAPACK keeps it: `H_k = I - tau v v^H`, `v` below the diagonal with an implied one.
//!
//! A column at a time; real matrices of some size take faer's blocks.

use crate::{Field, Real};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::{householder, qr::no_pivoting};
use faer::traits::math_utils::{conj, from_f64, imag, is_finite, one, real, recip, zero};
use faer::{Conj, Mat, MatMut, MatRef, Par};

/// From here on blocks are faster than columns.
const BLOCKS_FROM: usize = 32;

pub(crate) fn geqrf<T: Field>(mut a: MatMut<'_, T>, mut tau: MatMut<'_, T>) {
    let k = a.nrows().min(a.ncols());
    if T::IS_REAL && k >= BLOCKS_FROM {
        return blocked(a, tau);
    }
    (0..k).for_each(|k| tau[(k, 0)] = reflect(a.as_mut(), k));
}

/// faer's factorisation; its reflections of real matrices are LAPACK's, with the reciprocal of tau.
fn blocked<T: Field>(a: MatMut<'_, T>, mut tau: MatMut<'_, T>) {
    let (m, n) = (a.nrows(), a.ncols());
    let block = no_pivoting::factor::recommended_block_size::<T>(m, n);
    let mut factors = Mat::<T>::zeros(block, m.min(n));
    let scratch = no_pivoting::factor::qr_in_place_scratch::<T>(m, n, block, Par::Seq, Default::default());
    let mut mem = MemBuffer::new(scratch);
    no_pivoting::factor::qr_in_place(a, factors.as_mut(), Par::Seq, MemStack::new(&mut mem), Default::default());
    for k in 0..m.min(n) {
        let t = factors[(k % block, k)];
        tau[(k, 0)] = if is_finite(&t) { recip(&t) } else { zero() };
    }
}

/// Makes the reflection that clears column `k` below the diagonal, and applies it to the columns behind.
fn reflect<T: Field>(mut a: MatMut<'_, T>, k: usize) -> T {
    let (m, n) = (a.nrows(), a.ncols());
    let alpha = a[(k, k)];
    let tail = a.as_ref().col(k).subrows(k + 1, m - k - 1).norm_l2();
    let (re, im) = (real(&alpha).to_f64(), imag(&alpha).to_f64());
    let tail = tail.to_f64();
    if tail == 0.0 && im == 0.0 {
        return zero();
    }
    let beta = -re.hypot(im).hypot(tail).copysign(re);
    let beta_t: T = from_f64(beta);
    let tau = (beta_t - alpha) / beta_t;
    let scale = recip(&(alpha - beta_t));
    for i in k + 1..m {
        a[(i, k)] *= scale;
    }
    a[(k, k)] = beta_t;
    // H^H from the left, as LAPACK's factorisation does.
    let tau_conj = conj(&tau);
    for j in k + 1..n {
        let mut dot = a[(k, j)];
        for i in k + 1..m {
            dot += conj(&a[(i, k)]) * a[(i, j)];
        }
        let dot = tau_conj * dot;
        a[(k, j)] -= dot;
        for i in k + 1..m {
            a[(i, j)] = a[(i, j)] - a[(i, k)] * dot;
        }
    }
    tau
}

pub(crate) fn householder_product<T: Field>(v: MatRef<'_, T>, tau: MatRef<'_, T>, mut out: MatMut<'_, T>) {
    let k = tau.nrows();
    out.fill(zero());
    (0..out.nrows().min(out.ncols())).for_each(|d| out[(d, d)] = one());
    if T::IS_REAL && k >= BLOCKS_FROM {
        return apply_blocks(v, tau, out);
    }
    (0..k).rev().for_each(|k| apply(v, k, tau[(k, 0)], out.as_mut()));
}

/// `out = H_k out`, with the rows and columns before `k` known to be the identity's.
fn apply<T: Field>(v: MatRef<'_, T>, k: usize, tau: T, mut out: MatMut<'_, T>) {
    if tau == zero() {
        return;
    }
    for j in k..out.ncols() {
        let mut dot = out[(k, j)];
        for i in k + 1..out.nrows() {
            dot += conj(&v[(i, k)]) * out[(i, j)];
        }
        let dot = tau * dot;
        out[(k, j)] -= dot;
        for i in k + 1..out.nrows() {
            out[(i, j)] -= v[(i, k)] * dot;
        }
    }
}

fn apply_blocks<T: Field>(v: MatRef<'_, T>, tau: MatRef<'_, T>, mut out: MatMut<'_, T>) {
    const BLOCK: usize = 32;
    let (m, k) = (v.nrows(), tau.nrows());
    for start in (0..k).step_by(BLOCK).collect::<Vec<_>>().into_iter().rev() {
        let width = BLOCK.min(k - start);
        let basis = v.submatrix(start, start, m - start, width);
        let mut factor = Mat::<T>::zeros(width, width);
        (0..width).for_each(|d| factor[(d, d)] = recip(&tau[(start + d, 0)]));
        householder::upgrade_householder_factor(factor.as_mut(), basis, width, 1, Par::Seq);
        let n = out.ncols() - start;
        let scratch = householder::apply_block_householder_on_the_left_in_place_scratch::<T>(m - start, width, n);
        let mut mem = MemBuffer::new(scratch);
        householder::apply_block_householder_on_the_left_in_place_with_conj(
            basis,
            factor.as_ref(),
            Conj::No,
            out.as_mut().submatrix_mut(start, start, m - start, n),
            Par::Seq,
            MemStack::new(&mut mem),
        );
    }
}
