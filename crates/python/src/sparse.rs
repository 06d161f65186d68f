//! The parts of sparse tensors, for the functions in `oneflow/_functions/`.

use crate::gate::run;
use crate::object::{bound, get};
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result};
use oneflow_sparse::{Compressed, Coo, Layout, compressed, parts};
use pyo3::prelude::*;

fn tensor<'a>(o: &'a Bound<'_, PyAny>) -> Result<&'a Tensor> {
    get(o).ok_or_else(|| Error::type_("expected a Tensor"))
}

fn coo<'a>(o: &'a Bound<'_, PyAny>) -> PyResult<&'a Coo> {
    run(|| parts(tensor(o)?).ok_or_else(|| Error::runtime("expected a sparse COO tensor, but got a strided one")))
}

fn compressed_parts<'a>(o: &'a Bound<'_, PyAny>) -> PyResult<&'a Compressed> {
    run(|| {
        compressed(tensor(o)?)
            .ok_or_else(|| Error::runtime("expected a compressed sparse tensor, but got another layout"))
    })
}

fn layout_of(name: &str) -> Result<Layout> {
    Layout::of_name(name).ok_or_else(|| Error::value(format!("no compressed sparse layout is named {name}")))
}

/// A compressed tensor over its indices [batch..., n + 1] and [batch..., nnz] and values, which are checked.
#[pyfunction]
fn _sparse_compressed<'py>(
    py: Python<'py>,
    layout: &str,
    parts: [Bound<'py, PyAny>; 3],
    size: Vec<i64>,
    in_order: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let made = run(|| {
        let [starts, plain, values] = &parts;
        let made = oneflow_sparse::make_compressed(
            layout_of(layout)?,
            tensor(starts)?,
            tensor(plain)?,
            tensor(values)?,
            &size,
        )?;
        oneflow_sparse::check(&made, in_order)?;
        Ok(made)
    })?;
    bound(py, made)
}

/// Compressed indices, plain indices and values.
#[pyfunction]
fn _sparse_compressed_parts<'py>(py: Python<'py>, t: &Bound<'py, PyAny>) -> PyResult<[Bound<'py, PyAny>; 3]> {
    let c = compressed_parts(t)?;
    Ok([bound(py, c.compressed.clone())?, bound(py, c.plain.clone())?, bound(py, c.values.clone())?])
}

/// Numbers of dimensions of batches and of values, and the size of a block.
#[pyfunction]
fn _sparse_compressed_facts(t: &Bound<'_, PyAny>) -> PyResult<(usize, usize, [i64; 2])> {
    let c = compressed_parts(t)?;
    let n = run(|| Ok(tensor(t)?.ndim()))?;
    Ok((c.n_batch(), n - c.n_batch() - 2, c.block()))
}

/// Other values at the places of a compressed tensor.
#[pyfunction]
fn _sparse_with_values<'py>(
    py: Python<'py>,
    t: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let c = compressed_parts(t)?;
    bound(py, run(|| c.with_values(tensor(values)?, tensor(t)?.sizes()))?)
}

/// The values of a dense or sparse tensor at the places of a compressed one.
#[pyfunction]
fn _sparse_values_at<'py>(
    py: Python<'py>,
    t: &Bound<'py, PyAny>,
    like: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_sparse::values_at(tensor(t)?, tensor(like)?))?)
}

/// A dense or sparse tensor in a compressed layout.
#[pyfunction]
fn _sparse_to_compressed<'py>(
    py: Python<'py>,
    t: &Bound<'py, PyAny>,
    layout: &str,
    block: [i64; 2],
    n_dense: usize,
) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_sparse::to_compressed(tensor(t)?, layout_of(layout)?, block, n_dense))?)
}

/// A dense or compressed tensor by coordinates; the first `n` dimensions of a dense one are sparse.
#[pyfunction]
fn _sparse_to_coo<'py>(py: Python<'py>, t: &Bound<'py, PyAny>, n: usize) -> PyResult<Bound<'py, PyAny>> {
    let made = run(|| {
        let t = tensor(t)?;
        match compressed(t) {
            Some(_) => oneflow_sparse::to_coo(t),
            None => oneflow_sparse::entries_of(t, n),
        }
    })?;
    bound(py, made)
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
    private.setattr("_sparse_compressed", wrap_pyfunction!(_sparse_compressed, private)?)?;
    private.setattr("_sparse_compressed_parts", wrap_pyfunction!(_sparse_compressed_parts, private)?)?;
    private.setattr("_sparse_compressed_facts", wrap_pyfunction!(_sparse_compressed_facts, private)?)?;
    private.setattr("_sparse_with_values", wrap_pyfunction!(_sparse_with_values, private)?)?;
    private.setattr("_sparse_values_at", wrap_pyfunction!(_sparse_values_at, private)?)?;
    private.setattr("_sparse_to_compressed", wrap_pyfunction!(_sparse_to_compressed, private)?)?;
    private.setattr("_sparse_to_coo", wrap_pyfunction!(_sparse_to_coo, private)?)?;
    private.setattr("_sparse_coo", wrap_pyfunction!(_sparse_coo, private)?)?;
    private.setattr("_sparse_indices", wrap_pyfunction!(_sparse_indices, private)?)?;
    private.setattr("_sparse_values", wrap_pyfunction!(_sparse_values, private)?)?;
    private.setattr("_sparse_facts", wrap_pyfunction!(_sparse_facts, private)?)?;
    private.setattr("_sparse_coalesce", wrap_pyfunction!(_sparse_coalesce, private)?)?;
    private.setattr("_sparse_to_dense", wrap_pyfunction!(_sparse_to_dense, private)?)?;
    private.setattr("_sparse_mask", wrap_pyfunction!(_sparse_mask, private)?)
}
