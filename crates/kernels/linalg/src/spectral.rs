//! Eigenvalues and singular values.

use crate::matrices::{Batch, Eigen, Item, Real, Status, for_each, with_item};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::traits::math_utils::real;
use faer::traits::{ComplexField, RealField};
use faer::diag::Diag;
use faer::{Mat, MatRef, Par};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::Launch;
use rustfft::num_complex::Complex;

/// # Safety
/// The contract of `prim::KernelFn`, as for every kernel of this crate.
pub(crate) unsafe fn eigh(l: &Launch<'_>) -> Result<()> {
    with_item!("eigh", l.input(0)?.dtype, T => eigh_of::<T>(l))
}

fn eigh_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let a = Batch::<T>::matrices(l.input(0)?)?;
    let w = Batch::<T::Real>::vectors(l.output(0)?)?;
    let v = l.opt_output(1).map(Batch::<T>::matrices).transpose()?;
    let upper = l.param(0)?.bool();
    let n = a.rows;
    let compute = if v.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let status = Status::new(a.len());
    for_each(a.len(), 9.0 * (n * n * n) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, mut w, v) = unsafe { (a.get(i), w.get_mut(i), v.map(|v| v.get_mut(i))) };
        // The other triangle of a Hermitian matrix, read as the lower one, is the conjugate matrix.
        let a = if upper { a.transpose() } else { a };
        if !lower_is_finite(a) {
            return status.set(i, n as i32);
        }
        let mut values = Diag::<T>::zeros(n);
        let mut vectors = v.is_some().then(|| Mat::<T>::zeros(n, n));
        let scratch = evd::self_adjoint_evd_scratch::<T>(n, compute, Par::Seq, Default::default());
        let mut mem = MemBuffer::new(scratch);
        let done = evd::self_adjoint_evd(
            a,
            values.as_mut(),
            vectors.as_mut().map(|v| v.as_mut()),
            Par::Seq,
            MemStack::new(&mut mem),
            Default::default(),
        );
        if done.is_err() {
            return status.set(i, n as i32);
        }
        (0..n).for_each(|k| w[(k, 0)] = real(&values.column_vector()[k]));
        if let (Some(mut out), Some(vectors)) = (v, vectors) {
            match upper {
                true => out.copy_from(vectors.conjugate()),
                false => out.copy_from(vectors),
            }
        }
    });
    let failure = status.failure(a.ndim_lead(), |code| {
        format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {code})."
        )
    });
    failure.map_or(Ok(()), |text| Err(Error::linalg(format!("linalg.eigh: {text}"))))
}

fn lower_is_finite<T: Item>(a: MatRef<'_, T>) -> bool {
    (0..a.ncols()).all(|j| (j..a.nrows()).all(|i| faer::traits::math_utils::is_finite(&a[(i, j)])))
}

pub(crate) unsafe fn eig(l: &Launch<'_>) -> Result<()> {
    with_item!("eig", l.input(0)?.dtype, T => eig_of::<T>(l))
}

fn eig_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let a = Batch::<T>::matrices(l.input(0)?)?;
    let w = Batch::<Complex<T::Real>>::vectors(l.output(0)?)?;
    let v = l.opt_output(1).map(Batch::<Complex<T::Real>>::matrices).transpose()?;
    let n = a.rows;
    let status = Status::new(a.len());
    for_each(a.len(), 25.0 * (n * n * n) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, mut w, v) = unsafe { (a.get(i), w.get_mut(i), v.map(|v| v.get_mut(i))) };
        if !a.is_all_finite() {
            return status.set(i, -1);
        }
        let Some((values, vectors)) = T::eig(a, v.is_some()) else {
            return status.set(i, n as i32);
        };
        for (k, value) in values.into_iter().enumerate() {
            w[(k, 0)] = value;
        }
        if let (Some(mut out), Some(mut vectors)) = (v, vectors) {
            normalize(&mut vectors);
            out.copy_from(vectors);
        }
    });
    match status.failure(a.ndim_lead(), |code| code.to_string()) {
        None => Ok(()),
        Some(text) if text.ends_with("-1") => {
            Err(Error::runtime("torch.linalg.eig: input tensor should not contain infs or NaNs."))
        }
        Some(text) => {
            let (place, code) = text.rsplit_once(' ').map_or(("", text.as_str()), |(p, c)| (p, c));
            Err(Error::linalg(format!(
                "linalg.eig: {place}The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {code})."
            )))
        }
    }
}

/// Columns of norm one, whose largest element is real, as LAPACK gives them.
fn normalize<R: RealField + Real>(v: &mut Mat<Complex<R>>) {
    for j in 0..v.ncols() {
        let parts = |z: &Complex<R>| (z.re.clone().to_f64(), z.im.clone().to_f64());
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

pub(crate) unsafe fn svd(l: &Launch<'_>) -> Result<()> {
    with_item!("svd", l.input(0)?.dtype, T => svd_of::<T>(l))
}

fn svd_of<T: Item>(l: &Launch<'_>) -> Result<()> {
    let a = Batch::<T>::matrices(l.input(0)?)?;
    let u = l.opt_output(0).map(Batch::<T>::matrices).transpose()?;
    let s = Batch::<T::Real>::vectors(l.output(1)?)?;
    let vh = l.opt_output(2).map(Batch::<T>::matrices).transpose()?;
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let kind = |columns: Option<usize>| match columns {
        None => ComputeSvdVectors::No,
        Some(c) if c == k => ComputeSvdVectors::Thin,
        Some(_) => ComputeSvdVectors::Full,
    };
    let (u_kind, v_kind) = (kind(u.map(|u| u.cols)), kind(vh.map(|v| v.rows)));
    let status = Status::new(a.len());
    for_each(a.len(), 20.0 * (m * n * k) as f64, &|i| {
        // SAFETY: each task has its own items, and outputs overlap no input.
        let (a, u, mut s, vh) =
            unsafe { (a.get(i), u.map(|u| u.get_mut(i)), s.get_mut(i), vh.map(|v| v.get_mut(i))) };
        if !a.is_all_finite() {
            return status.set(i, 1);
        }
        let mut values = Diag::<T>::zeros(k);
        let mut left = u.as_ref().map(|u| Mat::<T>::zeros(m, u.ncols()));
        let mut right = vh.as_ref().map(|v| Mat::<T>::zeros(n, v.nrows()));
        let scratch = svd::svd_scratch::<T>(m, n, u_kind, v_kind, Par::Seq, Default::default());
        let mut mem = MemBuffer::new(scratch);
        let done = svd::svd(
            a,
            values.as_mut(),
            left.as_mut().map(|u| u.as_mut()),
            right.as_mut().map(|v| v.as_mut()),
            Par::Seq,
            MemStack::new(&mut mem),
            Default::default(),
        );
        if done.is_err() {
            return status.set(i, 2);
        }
        (0..k).for_each(|j| s[(j, 0)] = real(&values.column_vector()[j]));
        if let (Some(mut u), Some(left)) = (u, left) {
            u.copy_from(left);
        }
        if let (Some(mut vh), Some(right)) = (vh, right) {
            vh.copy_from(right.adjoint());
        }
    });
    let failure = status.failure(a.ndim_lead(), |code| match code {
        1 => "The algorithm failed to converge because the input matrix contained non-finite values.".to_owned(),
        _ => format!(
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error code: {code})."
        ),
    });
    failure.map_or(Ok(()), |text| Err(Error::linalg(format!("linalg.svd: {text}"))))
}
