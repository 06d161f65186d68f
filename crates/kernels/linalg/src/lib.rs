//! Decompositions of matrices and Fourier transforms on the CPU, batch by batch.
//!
//! What is done to one matrix or line is `kernels/decompose`'s; this crate walks strided batches and turns what was wrong
//! into the house's errors. It has no gradient and no shape rule, and no thread inside one matrix: only the items of a batch run side by
//! side, so results do not depend on the number of threads.

mod decompositions;
mod fft;
mod matrices;

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    let kernels: [(&prim::Primitive, prim::KernelFn); 11] = [
        (&prim::CHOLESKY, decompositions::cholesky),
        (&prim::LU_FACTOR, decompositions::lu_factor),
        (&prim::LU_PERMUTATION, decompositions::lu_permutation),
        (&prim::TRIANGULAR_SOLVE, decompositions::triangular_solve),
        (&prim::GEQRF, decompositions::geqrf),
        (&prim::HOUSEHOLDER_PRODUCT, decompositions::householder_product),
        (&prim::EIGH, decompositions::eigh),
        (&prim::EIG, decompositions::eig),
        (&prim::SVD, decompositions::svd),
        (&prim::MATRIX_EXP, decompositions::matrix_exp),
        (&prim::FFT, fft::fft),
    ];
    for (primitive, kernel) in kernels {
        primitive.provide(DeviceType::CPU, kernel);
    }
}
