//! Batches of `vmap`, for `oneflow/autograd/_batching.py`.

use crate::gate::run;
use crate::object::{bound, get};
use oneflow_batch::Randomness;
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result};
use pyo3::prelude::*;

fn tensor<'a>(o: &'a Bound<'_, PyAny>) -> Result<&'a Tensor> {
    get(o).ok_or_else(|| Error::type_("expected a Tensor"))
}

/// Begins a batch; returns its number.
#[pyfunction]
fn _vmap_enter(size: i64, randomness: &str) -> PyResult<u64> {
    run(|| {
        let randomness = match randomness {
            "error" => Randomness::Error,
            "same" => Randomness::Same,
            "different" => Randomness::Different,
            other => {
                return Err(Error::runtime(format!(
                    "Only allowed values for randomness are 'error', 'different', or 'same'. Got {other}"
                )));
            }
        };
        Ok(oneflow_batch::enter(size, randomness))
    })
}

#[pyfunction]
fn _vmap_leave(id: u64) {
    oneflow_batch::leave(id);
}

/// A sample's tensor, of those along `dim`.
#[pyfunction]
fn _vmap_in<'py>(py: Python<'py>, t: &Bound<'py, PyAny>, dim: i64, id: u64) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_batch::batch_in(tensor(t)?, dim, id))?)
}

/// All samples' tensors, along dimension 0.
#[pyfunction]
fn _vmap_out<'py>(py: Python<'py>, t: &Bound<'py, PyAny>, id: u64, size: i64) -> PyResult<Bound<'py, PyAny>> {
    bound(py, run(|| oneflow_batch::batch_out(tensor(t)?, id, size))?)
}

/// The batch that a tensor is a sample of, and the depth of nested batches; `None` for another tensor.
#[pyfunction]
fn _vmap_shown<'py>(py: Python<'py>, t: &Bound<'py, PyAny>) -> PyResult<Option<(usize, Bound<'py, PyAny>)>> {
    match run(|| Ok(oneflow_batch::shown(tensor(t)?)))? {
        Some((depth, all)) => Ok(Some((depth, bound(py, all.clone())?))),
        None => Ok(None),
    }
}

/// Returns whether the tensor is a sample of this very batch.
#[pyfunction]
fn _vmap_is_in(t: &Bound<'_, PyAny>, id: u64) -> PyResult<bool> {
    run(|| Ok(oneflow_batch::is_in(tensor(t)?, id)))
}

/// Adds the functions to the private module.
pub fn add(private: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_batch::register();
    private.setattr("_vmap_enter", wrap_pyfunction!(_vmap_enter, private)?)?;
    private.setattr("_vmap_leave", wrap_pyfunction!(_vmap_leave, private)?)?;
    private.setattr("_vmap_in", wrap_pyfunction!(_vmap_in, private)?)?;
    private.setattr("_vmap_out", wrap_pyfunction!(_vmap_out, private)?)?;
    private.setattr("_vmap_shown", wrap_pyfunction!(_vmap_shown, private)?)?;
    private.setattr("_vmap_is_in", wrap_pyfunction!(_vmap_is_in, private)?)
}
