//! A backward in two halves, for the stages of pipelines.

use crate::autograd::{ended, nested, optional_tensors, roots};
use crate::gate::run;
use crate::object::bound;
use oneflow_autograd::{self as ag, SecondHalf};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// What is left of a backward whose first half has run.
#[pyclass(module = "oneflow", name = "_SecondHalf", frozen)]
struct Rest(Mutex<Option<SecondHalf>>);

#[pymethods]
impl Rest {
    /// Adds the gradients to the `.grad` of the leaves; once.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        let half = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let half = half.ok_or_else(|| PyRuntimeError::new_err("the second half of this backward has run already"))?;
        run(|| ended(py, nested(py, || half.run())))
    }
}

/// Gradients, and what is left to do.
type Halves<'py> = (Vec<Option<Bound<'py, PyAny>>>, Bound<'py, PyAny>);

/// The gradients of `outputs` with respect to `inputs` (None for one that was not reached), and the rest of the backward.
#[pyfunction]
fn _backward_inputs<'py>(
    py: Python<'py>,
    outputs: &Bound<'py, PyAny>,
    grads: &Bound<'py, PyAny>,
    inputs: &Bound<'py, PyAny>,
) -> PyResult<Halves<'py>> {
    let from = roots(outputs, "outputs")?;
    let grads = optional_tensors(grads, "gradients")?;
    let inputs = roots(inputs, "inputs")?;
    let (found, rest) = run(|| nested(py, || ag::first_half(&from, &inputs, &grads)))?;
    let found = found.into_iter().map(|g| g.map(|g| bound(py, g)).transpose()).collect::<PyResult<_>>()?;
    Ok((found, Bound::new(py, Rest(Mutex::new(Some(rest))))?.into_any()))
}

/// Adds the functions that only the package itself calls.
pub fn add_private(private: &Bound<'_, PyModule>) -> PyResult<()> {
    private.setattr("_backward_inputs", wrap_pyfunction!(_backward_inputs, private)?)
}
