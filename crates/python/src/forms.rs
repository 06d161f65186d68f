//! Signatures of ops that are written in Python: tried once no signature of the table accepts the arguments of a call.
//!
//! A call that fits a signature never comes here, so these cost other calls nothing. They are defined in
//! `oneflow/_functions/oneflow_signatures.py`.

use crate::gate::OrPending;
use crate::overload::Form;
use crate::overrides::as_python;
use crate::parse::Given;
use oneflow_core::base::Result;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Looks up a signature: a function of the name, the arguments and the keywords, or `NotImplemented`.
static FINDER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The result of the form that takes these arguments, if there is one.
///
/// # Safety
/// The objects of the call are alive and the interpreter is held; `slf` may be null.
#[cold]
pub unsafe fn call(
    py: Python<'_>,
    name: &str,
    form: Form,
    slf: *mut PyObject,
    given: Given,
) -> Result<Option<*mut PyObject>> {
    let Some(finder) = FINDER.get(py) else { return Ok(None) };
    let found = || -> PyResult<Option<*mut PyObject>> {
        // SAFETY: the caller's promise.
        let (args, kwargs) = unsafe { as_python(py, slf, given)? };
        let suffix = if form.is_inplace() { "_" } else { "" };
        let result = finder.bind(py).call1((format!("{name}{suffix}"), form.is_method(), args, kwargs))?;
        Ok((!result.is(py.NotImplemented())).then(|| result.into_ptr()))
    };
    found().pend(py)
}

/// Sets what looks for forms. Later calls change nothing.
#[pyfunction]
fn _set_other_forms(py: Python<'_>, finder: Py<PyAny>) {
    let _ = FINDER.set(py, finder);
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_other_forms, m)?)
}
