//! Eigenvalues and singular values.

use crate::{Failure, Field, Real};
use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::ComputeSvdVectors;
use faer::traits::math_utils::{from_real, is_finite, one, real, zero};
use faer::traits::{ComplexField, RealField};
use faer::{Mat, MatMut, MatRef, Par};
use rustfft::num_complex::Complex;

pub(crate) fn eigh<T: Field>(
    a: MatRef<'_, T>,
    mut w: MatMut<'_, T::Real>,
    v: Option<MatMut<'_, T>>,
    upper: bool,
) -> Result<(), Failure> {
    let n = a.nrows();
    // The other triangle of a Hermitian matrix, read as the lower one, is the conjugate matrix.
    let mut a = if upper { a.transpose().to_owned() } else { a.to_owned() };
    // The diagonal of a Hermitian matrix is real: what else it has is not read.
    (0..n).for_each(|i| a[(i, i)] = from_real(&real(&a[(i, i)])));
    if (0..n).any(|j| (j..n).any(|i| !is_finite(&a[(i, j)]))) {
        return Err(Failure::NotFinite);
    }
    if n == 0 {
        return Ok(());
    }
    let compute = if v.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let mut values = Diag::<T>::zeros(n);
    let mut vectors = v.is_some().then(|| Mat::<T>::zeros(n, n));
    let scratch = evd::self_adjoint_evd_scratch::<T>(n, compute, Par::Seq, Default::default());
    let mut mem = MemBuffer::new(scratch);
    evd::self_adjoint_evd(
        a.as_ref(),
        values.as_mut(),
        vectors.as_mut().map(|v| v.as_mut()),
        Par::Seq,
        MemStack::new(&mut mem),
        Default::default(),
    )
    .map_err(|_| Failure::NoConvergence)?;
    (0..n).for_each(|k| w[(k, 0)] = real(&values.column_vector()[k]));
    if let (Some(mut out), Some(vectors)) = (v, vectors) {
        match upper {
            true => out.copy_from(vectors.conjugate()),
            false => out.copy_from(vectors),
        }
    }
    Ok(())
}

/// Eigenvalues, and vectors in columns.
type Eigen<R> = (Vec<Complex<R>>, Option<Mat<Complex<R>>>);
/// The decomposition of one matrix, with vectors or without; none where it does not converge.
type Decompose<T, R> = fn(MatRef<'_, T>, bool) -> Option<Eigen<R>>;

pub(crate) fn eig<T: Field>(
    a: MatRef<'_, T>,
    mut w: MatMut<'_, Complex<T::Real>>,
    v: Option<MatMut<'_, Complex<T::Real>>>,
    decompose: Decompose<T, T::Real>,
) -> Result<(), Failure> {
    if !a.is_all_finite() {
        return Err(Failure::NotFinite);
    }
    if a.nrows() == 0 {
        return Ok(());
    }
    let (values, vectors) = decompose(a, v.is_some()).ok_or(Failure::NoConvergence)?;
    for (k, value) in values.into_iter().enumerate() {
        w[(k, 0)] = value;
    }
    if let (Some(mut out), Some(mut vectors)) = (v, vectors) {
        normalize(&mut vectors);
        out.copy_from(vectors);
    }
    Ok(())
}

/// Columns of norm one, whose largest element is real, as LAPACK gives them.
fn normalize<R: RealField + Real>(v: &mut Mat<Complex<R>>) {
    for j in 0..v.ncols() {
        let parts = |z: &Complex<R>| (z.re.to_f64(), z.im.to_f64());
        let (mut sum, mut largest, mut at) = (0f64, -1f64, (1f64, 0f64));
        let mut complex = false;
        for i in 0..v.nrows() {
            let (re, im) = parts(&v[(i, j)]);
            let square = re * re + im * im;
            sum += square;
            complex |= im != 0.0;
            if square > largest {
                (largest, at) = (square, (re, im));
            }
        }
        let norm = sum.sqrt();
        if norm == 0.0 {
            continue;
        }
        // Times the conjugate of the largest element's direction.
        let turn = match complex {
            true => (at.0 / largest.sqrt() / norm, -at.1 / largest.sqrt() / norm),
            false => (1.0 / norm, 0.0),
        };
        for i in 0..v.nrows() {
            let (re, im) = parts(&v[(i, j)]);
            v[(i, j)] = Complex::new(R::of(re * turn.0 - im * turn.1), R::of(re * turn.1 + im * turn.0));
        }
    }
}

pub(crate) fn eig_real<R: RealField + Real>(a: MatRef<'_, R>, vectors: bool) -> Option<Eigen<R>> {
    if !vectors {
        return Some((a.eigenvalues().ok()?, None));
    }
    unpack(faer::linalg::solvers::Eigen::new_from_real(a).ok()?)
}

pub(crate) fn eig_complex<R: RealField + Real>(a: MatRef<'_, Complex<R>>, vectors: bool) -> Option<Eigen<R>>
where
    Complex<R>: ComplexField<Real = R>,
{
    if !vectors {
        return Some((a.eigenvalues().ok()?, None));
    }
    unpack(faer::linalg::solvers::Eigen::new(a).ok()?)
}

fn unpack<R: RealField>(e: faer::linalg::solvers::Eigen<R>) -> Option<Eigen<R>> {
    let values = e.S().column_vector().iter().cloned().collect();
    Some((values, Some(e.U().to_owned())))
}

pub(crate) fn svd<T: Field>(
    a: MatRef<'_, T>,
    u: Option<MatMut<'_, T>>,
    mut s: MatMut<'_, T::Real>,
    vh: Option<MatMut<'_, T>>,
) -> Result<(), Failure> {
    let (m, n) = (a.nrows(), a.ncols());
    let k = m.min(n);
    if !a.is_all_finite() {
        return Err(Failure::NotFinite);
    }
    if k == 0 {
        for mut q in [u, vh].into_iter().flatten() {
            q.fill(zero());
            (0..q.nrows().min(q.ncols())).for_each(|d| q[(d, d)] = one());
        }
        return Ok(());
    }
    let kind = |columns: Option<usize>| match columns {
        None => ComputeSvdVectors::No,
        Some(c) if c == k => ComputeSvdVectors::Thin,
        Some(_) => ComputeSvdVectors::Full,
    };
    let kinds = (kind(u.as_ref().map(|u| u.ncols())), kind(vh.as_ref().map(|v| v.nrows())));
    let mut values = Diag::<T>::zeros(k);
    let mut left = u.as_ref().map(|u| Mat::<T>::zeros(m, u.ncols()));
    let mut right = vh.as_ref().map(|v| Mat::<T>::zeros(n, v.nrows()));
    let scratch = faer::linalg::svd::svd_scratch::<T>(m, n, kinds.0, kinds.1, Par::Seq, Default::default());
    let mut mem = MemBuffer::new(scratch);
    faer::linalg::svd::svd(
        a,
        values.as_mut(),
        left.as_mut().map(|u| u.as_mut()),
        right.as_mut().map(|v| v.as_mut()),
        Par::Seq,
        MemStack::new(&mut mem),
        Default::default(),
    )
    .map_err(|_| Failure::NoConvergence)?;
    (0..k).for_each(|j| s[(j, 0)] = real(&values.column_vector()[j]));
    if let (Some(mut u), Some(left)) = (u, left) {
        u.copy_from(left);
    }
    if let (Some(mut vh), Some(right)) = (vh, right) {
        vh.copy_from(right.adjoint());
    }
    Ok(())
}
