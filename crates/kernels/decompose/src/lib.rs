//! Decompositions of one matrix and transforms of one line, over faer and rustfft.
//!
//! Knows nothing of the house, so that its many instances of generic code are built once and not with every change of a
//! crate below. Batches, dtypes and errors are `kernels/linalg`'s; nothing here runs on another thread.

mod exponential;
mod factor;
pub mod fft;
mod qr;
mod spectral;

use faer::traits::{ComplexField, RealField};
pub use faer::{MatMut, MatRef, c32, c64};
use rustfft::num_complex::Complex;
use std::ops::{Add, Div, Mul, Sub};

/// What real parts can do beyond faer's field.
pub trait Real: Copy + PartialOrd + Send + Sync + 'static {
    fn to_f64(self) -> f64;
    fn of(v: f64) -> Self;
}
impl Real for f32 {
    fn to_f64(self) -> f64 {
        self as f64
    }
    fn of(v: f64) -> f32 {
        v as f32
    }
}
impl Real for f64 {
    fn to_f64(self) -> f64 {
        self
    }
    fn of(v: f64) -> f64 {
        v
    }
}

/// The arithmetic that the decompositions are written in.
pub(crate) trait Field:
    ComplexField<Real: RealField + Real>
    + Copy
    + Send
    + Sync
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + 'static
{
}
impl Field for f32 {}
impl Field for f64 {}
impl Field for c32 {}
impl Field for c64 {}

/// An element type with decompositions. Matrices may have any strides; outputs overlap no input.
pub trait Item: Copy + Send + Sync + PartialEq + 'static {
    type Real: Copy + Send + Sync + 'static;
    const ZERO: Self;

    /// The factor of a matrix of which one triangle is read, zeros in the other. The order of the first minor that is not
    /// positive, or zero.
    fn cholesky(a: MatRef<'_, Self>, out: MatMut<'_, Self>, upper: bool) -> i32;
    /// LU in place; `exchange[k]` is the row that `k` was exchanged with.
    fn lu(a: MatMut<'_, Self>, exchange: &mut [usize], pivoting: bool);
    /// `x = inverse(a) x`.
    fn triangular_solve(a: MatRef<'_, Self>, x: MatMut<'_, Self>, upper: bool, unit: bool);
    /// QR in place, in LAPACK's Householder form.
    fn geqrf(a: MatMut<'_, Self>, tau: MatMut<'_, Self>);
    /// The first columns of the product of reflections.
    fn householder_product(v: MatRef<'_, Self>, tau: MatRef<'_, Self>, out: MatMut<'_, Self>);
    /// Eigenvalues and vectors of a Hermitian matrix of which one triangle is read; `false` without convergence.
    fn eigh(
        a: MatRef<'_, Self>,
        w: MatMut<'_, Self::Real>,
        v: Option<MatMut<'_, Self>>,
        upper: bool,
    ) -> Result<(), Failure>;
    /// Eigenvalues and vectors of any square matrix.
    fn eig(
        a: MatRef<'_, Self>,
        w: MatMut<'_, Complex<Self::Real>>,
        v: Option<MatMut<'_, Complex<Self::Real>>>,
    ) -> Result<(), Failure>;
    /// Singular values and vectors.
    fn svd(
        a: MatRef<'_, Self>,
        u: Option<MatMut<'_, Self>>,
        s: MatMut<'_, Self::Real>,
        vh: Option<MatMut<'_, Self>>,
    ) -> Result<(), Failure>;
    fn matrix_exp(a: MatRef<'_, Self>, out: MatMut<'_, Self>);
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The input holds an infinity or a NaN.
    NotFinite,
    NoConvergence,
}

macro_rules! items {
    ($($t:ty, $wide:ty, $zero:expr, $eig:ident;)*) => {$(
        impl Item for $t {
            type Real = <$t as ComplexField>::Real;
            const ZERO: $t = $zero;
            fn cholesky(a: MatRef<'_, $t>, out: MatMut<'_, $t>, upper: bool) -> i32 {
                factor::cholesky(a, out, upper)
            }
            fn lu(a: MatMut<'_, $t>, exchange: &mut [usize], pivoting: bool) {
                factor::lu(a, exchange, pivoting)
            }
            fn triangular_solve(a: MatRef<'_, $t>, x: MatMut<'_, $t>, upper: bool, unit: bool) {
                factor::triangular_solve(a, x, upper, unit)
            }
            fn geqrf(a: MatMut<'_, $t>, tau: MatMut<'_, $t>) {
                qr::geqrf(a, tau)
            }
            fn householder_product(v: MatRef<'_, $t>, tau: MatRef<'_, $t>, out: MatMut<'_, $t>) {
                qr::householder_product(v, tau, out)
            }
            fn eigh(a: MatRef<'_, $t>, w: MatMut<'_, Self::Real>, v: Option<MatMut<'_, $t>>, upper: bool) -> Result<(), Failure> {
                spectral::eigh(a, w, v, upper)
            }
            fn eig(
                a: MatRef<'_, $t>,
                w: MatMut<'_, Complex<Self::Real>>,
                v: Option<MatMut<'_, Complex<Self::Real>>>,
            ) -> Result<(), Failure> {
                spectral::eig(a, w, v, spectral::$eig)
            }
            fn svd(
                a: MatRef<'_, $t>,
                u: Option<MatMut<'_, $t>>,
                s: MatMut<'_, Self::Real>,
                vh: Option<MatMut<'_, $t>>,
            ) -> Result<(), Failure> {
                spectral::svd(a, u, s, vh)
            }
            fn matrix_exp(a: MatRef<'_, $t>, out: MatMut<'_, $t>) {
                exponential::matrix_exp::<$t, $wide>(a, out)
            }
        }
    )*};
}
items! {
    f32, f64, 0.0, eig_real;
    f64, f64, 0.0, eig_real;
    c32, c64, c32::new(0.0, 0.0), eig_complex;
    c64, c64, c64::new(0.0, 0.0), eig_complex;
}
