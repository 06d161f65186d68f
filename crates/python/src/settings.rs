//! Process-wide settings: default dtype, threads; and the promotion rules as functions.

use crate::classes::{PyDType, dtype_object, dtype_of};
use crate::gate::run;
use oneflow_core::base::{Category, Error, promote};
use oneflow_ep::cpu;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;

/// Sets whose conventions hold; returns whether they were OneFlow's.
#[pyfunction]
fn _set_oneflow_conventions(on: bool) -> bool {
    oneflow_core::set_oneflow_conventions(on)
}

#[pyfunction]
fn _oneflow_conventions() -> bool {
    oneflow_core::oneflow_conventions()
}

/// Whether memory that nobody has written is filled.
#[pyfunction]
fn _fill_uninitialised(on: bool) {
    oneflow_ops::creation::new::fill_uninitialised(on);
}

/// Whether products of float32 matrices on the host may round their operands to bfloat16, where that is faster.
#[pyfunction]
fn _round_float32_products(allowed: bool) {
    oneflow_core::kernels::precision::round_products(allowed);
}

/// The dtype of floating-point tensors made without one.
///
/// Example::
///
///     >>> oneflow.get_default_dtype()
///     oneflow.float32
#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> PyResult<&Py<PyDType>> {
    dtype_object(py, oneflow_core::default_dtype())
}

/// Makes `d` the dtype of floating-point tensors made without one.
///
/// Raises TypeError for what is no floating-point dtype.
///
/// Example::
///
///     >>> oneflow.set_default_dtype(oneflow.float64)
///     >>> oneflow.tensor(1.0).dtype
///     oneflow.float64
///     >>> oneflow.set_default_dtype(oneflow.float32)
#[pyfunction]
fn set_default_dtype(d: &Bound<'_, PyAny>) -> PyResult<()> {
    run(|| {
        let d = dtype_of(d).ok_or_else(|| {
            Error::type_("invalid dtype object: only floating-point types are supported as the default type")
        })?;
        oneflow_core::set_default_dtype(d)
    })
}

/// The number of threads that one op on the CPU may use.
///
/// Example::
///
///     >>> oneflow.get_num_threads() >= 1
///     True
#[pyfunction]
fn get_num_threads() -> usize {
    cpu::num_threads()
}

/// Lets one op on the CPU use `n` threads. Results do not depend on it.
///
/// Raises RuntimeError for numbers below 1.
///
/// Example::
///
///     >>> before = oneflow.get_num_threads()
///     >>> oneflow.set_num_threads(1)
///     >>> oneflow.get_num_threads()
///     1
///     >>> oneflow.set_num_threads(before)
#[pyfunction]
fn set_num_threads(n: i64) -> PyResult<()> {
    if n <= 0 {
        return Err(PyRuntimeError::new_err("set_num_threads expects a positive integer"));
    }
    cpu::set_num_threads(n as usize);
    Ok(())
}

/// The widest vector instructions that kernels use, under PyTorch's names.
#[pyfunction]
fn _cpu_isa() -> &'static str {
    use oneflow_core::kernels::Isa;
    match oneflow_core::kernels::isa() {
        Isa::Baseline => "DEFAULT",
        Isa::Avx2 => "AVX2",
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => "AVX512",
    }
}

fn dtype_arg(o: &Bound<'_, PyAny>, function: &str) -> PyResult<oneflow_core::base::DType> {
    dtype_of(o).ok_or_else(|| PyTypeError::new_err(format!("{function}(): arguments must be dtypes")))
}

/// The dtype that both promote to.
#[pyfunction]
fn promote_types<'py>(
    py: Python<'py>,
    type1: &Bound<'_, PyAny>,
    type2: &Bound<'_, PyAny>,
) -> PyResult<&'py Py<PyDType>> {
    let (a, b) = (dtype_arg(type1, "promote_types")?, dtype_arg(type2, "promote_types")?);
    dtype_object(py, promote(a, b).map_err(crate::gate::to_py)?)
}

/// Whether results of dtype `from_` may be written into dtype `to`: categories only grow.
#[pyfunction]
fn can_cast(from_: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (from, to) = (dtype_arg(from_, "can_cast")?, dtype_arg(to, "can_cast")?);
    let (a, b) = (from.category(), to.category());
    Ok(a <= b && !(b == Category::Bool && a != Category::Bool))
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_oneflow_conventions, m)?)?;
    m.add_function(wrap_pyfunction!(_oneflow_conventions, m)?)?;
    m.add_function(wrap_pyfunction!(_fill_uninitialised, m)?)?;
    m.add_function(wrap_pyfunction!(_round_float32_products, m)?)?;
    m.add_function(wrap_pyfunction!(get_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(get_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(set_num_threads, m)?)?;
    m.add_function(wrap_pyfunction!(_cpu_isa, m)?)?;
    m.add_function(wrap_pyfunction!(promote_types, m)?)?;
    m.add_function(wrap_pyfunction!(can_cast, m)?)
}
