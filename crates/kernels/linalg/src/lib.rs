//! Decompositions of matrices and Fourier transforms on the CPU, over two libraries: faer and rustfft.
//!
//! This crate brings strided batches to the libraries' layouts and back, and turns what they find wrong into the house's
//! errors. It has no gradient and no shape rule.

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {}
