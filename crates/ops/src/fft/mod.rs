//! Discrete Fourier transforms: complex to complex, real to complex, complex to real. The public functions, with their
//! lengths and norms, are made of these three in Python.

pub mod transform;

use crate::prelude::*;
use oneflow_kernels_prim::FFT;
