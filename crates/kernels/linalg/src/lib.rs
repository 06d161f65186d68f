//! Decompositions of matrices and Fourier transforms on the CPU, over two libraries: faer and rustfft.
//!
//! This crate brings strided batches to the libraries' layouts and back, and turns what they find wrong into the house's
//! errors. It has no gradient and no shape rule, and no thread inside one matrix: only the items of a batch run side by
//! side, so results do not depend on the number of threads.

mod exponential;
mod factor;
mod fft;
mod matrices;
mod qr;
mod spectral;

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    let kernels: [(&prim::Primitive, prim::KernelFn); 11] = [
        (&prim::CHOLESKY, factor::cholesky),
        (&prim::LU_FACTOR, factor::lu_factor),
        (&prim::LU_PERMUTATION, factor::lu_permutation),
        (&prim::TRIANGULAR_SOLVE, factor::triangular_solve),
        (&prim::GEQRF, qr::geqrf),
        (&prim::HOUSEHOLDER_PRODUCT, qr::householder_product),
        (&prim::EIGH, spectral::eigh),
        (&prim::EIG, spectral::eig),
        (&prim::SVD, spectral::svd),
        (&prim::MATRIX_EXP, exponential::matrix_exp),
        (&prim::FFT, fft::fft),
    ];
    for (primitive, kernel) in kernels {
        primitive.provide(DeviceType::CPU, kernel);
    }
}
