//! The parts of sparse tensors, for the functions in `oneflow/_sparse.py`.

use crate::gate::run;
use crate::object::{bound, get};
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result};
use oneflow_sparse::{Coo, parts};
use pyo3::prelude::*;

fn tensor<'a>(o: &'a Bound<'_, PyAny>) -> Result<&'a Tensor> {
    get(o).ok_or_else(|| Error::type_("expected a Tensor"))
}

fn coo<'a>(o: &'a Bound<'_, PyAny>) -> PyResult<&'a Coo> {
    run(|| parts(tensor(o)?).ok_or_else(|| Error::runtime("expected a sparse COO tensor, but got a strided one")))
}

/// A sparse tensor over indices [sparse dims, nnz] and values [nnz, ...].
#[pyfunction]
fn _sparse_coo<'py>(
    py: Python<'py>,
    indices: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    size: Vec<i64>,
    coalesced: bool,
) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_sparse::make(tensor(indices)?, tensor(values)?, &size, coalesced))?)
}

#[pyfunction]
fn _sparse_indices<'py>(py: Python<'py>, t: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    bound(py, coo(t)?.indices.clone())
}

#[pyfunction]
fn _sparse_values<'py>(py: Python<'py>, t: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    bound(py, coo(t)?.values.clone())
}

/// Whether indices are unique, and the number of sparse dimensions.
#[pyfunction]
fn _sparse_facts(t: &Bound<'_, PyAny>) -> PyResult<(bool, usize)> {
    let c = coo(t)?;
    Ok((c.coalesced, c.sparse_dim()))
}

#[pyfunction]
fn _sparse_coalesce<'py>(py: Python<'py>, t: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_sparse::coalesce(tensor(t)?))?)
}

#[pyfunction]
fn _sparse_to_dense<'py>(py: Python<'py>, t: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_sparse::to_dense(tensor(t)?))?)
}

#[pyfunction]
fn _sparse_mask<'py>(py: Python<'py>, t: &Bound<'py, PyAny>, like: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_sparse::mask(tensor(t)?, tensor(like)?))?)
}

/// Adds the functions to the private module.
pub fn add(private: &Bound<'_, PyModule>) -> PyResult<()> {
    private.setattr("_sparse_coo", wrap_pyfunction!(_sparse_coo, private)?)?;
    private.setattr("_sparse_indices", wrap_pyfunction!(_sparse_indices, private)?)?;
    private.setattr("_sparse_values", wrap_pyfunction!(_sparse_values, private)?)?;
    private.setattr("_sparse_facts", wrap_pyfunction!(_sparse_facts, private)?)?;
    private.setattr("_sparse_coalesce", wrap_pyfunction!(_sparse_coalesce, private)?)?;
    private.setattr("_sparse_to_dense", wrap_pyfunction!(_sparse_to_dense, private)?)?;
    private.setattr("_sparse_mask", wrap_pyfunction!(_sparse_mask, private)?)
}
