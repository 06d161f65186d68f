//! The driver behind `MATMUL` and `MATMUL_ACCUMULATE`: from views to [`GemmArgs`], on the CPU provider's threads.

use oneflow_base::{DeviceType, Error, Result};
use oneflow_kernels_prim::{self as prim, Launch, MatmulParams, View};

use crate::args::{Batch, BatchDim, Epilogue, GemmArgs, Mat};
use crate::driver::gemm;
use crate::parallel::Pool;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    prim::MATMUL.provide_with_extras(DeviceType::CPU, matmul);
    prim::MATMUL_ACCUMULATE.provide(DeviceType::CPU, accumulate);
}

/// `out = act(alpha * a @ b + bias) + residual`, and what the activation was given.
///
/// # Safety
/// The contract of `prim::KernelFn`.
unsafe fn matmul(launch: &Launch<'_>) -> Result<()> {
    let (a, b, c) = (launch.input(0)?, launch.input(1)?, launch.output(0)?);
    let (bias, residual, kept) = (launch.opt_input(2), launch.opt_input(3), launch.opt_output(1));
    let MatmulParams { activation, alpha } = launch.read()?;
    let Some(dims) = c.ndim().checked_sub(2) else {
        return Err(Error::runtime("matmul: operands need at least two dimensions"));
    };
    let ranked = [Some(a), Some(b), bias, residual, kept].iter().flatten().all(|v| v.ndim() == dims + 2);
    if !ranked {
        return Err(Error::runtime("matmul: operands differ in their number of dimensions"));
    }
    if a.dtype != b.dtype || [bias, residual, kept].iter().flatten().any(|v| v.dtype != c.dtype) {
        return Err(Error::not_implemented(format!(
            "matmul: no CPU kernel mixes {}, {} and {}",
            a.dtype.name(),
            b.dtype.name(),
            c.dtype.name()
        )));
    }
    // A dimension of size one is walked in place, whatever stride it has.
    let stride = |v: View, d: usize| if v.sizes[d] == 1 { 0 } else { v.strides[d] as isize };
    let mat = |v: View| Mat { ptr: v.ptr, rs: v.strides[dims] as isize, cs: v.strides[dims + 1] as isize };
    let broadcast = |v: View| Mat { rs: stride(v, dims), cs: stride(v, dims + 1), ..mat(v) };
    let dim = |d: usize| BatchDim {
        size: c.sizes[d] as usize,
        a: stride(a, d),
        b: stride(b, d),
        c: stride(c, d),
        bias: bias.map_or(0, |v| stride(v, d)),
        residual: residual.map_or(0, |v| stride(v, d)),
        kept: kept.map_or(0, |v| stride(v, d)),
    };
    let batch: Batch = (0..dims).map(dim).collect();
    let shape = (c.sizes[dims] as usize, c.sizes[dims + 1] as usize, a.sizes[dims + 1] as usize);
    let args = GemmArgs {
        dtype_c: c.dtype,
        batch: &batch,
        alpha,
        rounded: prim::precision::rounds_products(),
        epilogue: Epilogue {
            bias: bias.map(broadcast),
            activation,
            residual: residual.map(broadcast),
            kept: kept.map(mat),
        },
        ..GemmArgs::new(a.dtype, shape, mat(a), mat(b), mat(c))
    };
    // SAFETY: the views are valid for their sizes, and the output overlaps no input, by the launch's contract.
    unsafe { gemm(&args, &Pool) }
}

/// `out += a @ b`.
///
/// # Safety
/// The contract of `prim::KernelFn`.
unsafe fn accumulate(launch: &Launch<'_>) -> Result<()> {
    let (a, b, c) = (launch.input(0)?, launch.input(1)?, launch.output(0)?);
    if launch.opt_output(1).is_some() || !c.dtype.is_float() || [a, b].iter().any(|v| v.dtype != c.dtype) {
        return Err(Error::not_implemented(
            "matmul_accumulate: no CPU kernel sums rows beside a product, or mixes dtypes",
        ));
    }
    let mat = |v: View| Mat { ptr: v.ptr, rs: v.strides[0] as isize, cs: v.strides[1] as isize };
    let shape = (c.sizes[0] as usize, c.sizes[1] as usize, a.sizes[1] as usize);
    let args = GemmArgs {
        dtype_c: c.dtype,
        epilogue: Epilogue { residual: Some(mat(c)), ..Epilogue::default() },
        ..GemmArgs::new(a.dtype, shape, mat(a), mat(b), mat(c))
    };
    // SAFETY: the views are valid for their sizes; the output overlaps no input, and is itself the residual, which `gemm` allows.
    unsafe { gemm(&args, &Pool) }
}
