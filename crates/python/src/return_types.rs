//! The classes of named results: one for each function that returns several tensors, `oneflow.return_types.NAME`.
//!
//! A class is made the first time that somebody asks for it, by an op's result or by Python, and is never freed. The list of the
//! public ones is in `oneflow/return_types.py`.

use crate::gate::{OrPending, pending_set};
use oneflow_core::OpDef;
use oneflow_core::base::{Error, Result};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Mutex;

/// The class of an op's results.
pub fn of(py: Python<'_>, op: &'static OpDef) -> Result<*mut ffi::PyTypeObject> {
    class(py, op.sig.name, || op.sig.returns().iter().map(|r| r.name).collect())
}

/// The class `name`; `fields` are asked for when it is made.
fn class<'a>(py: Python<'_>, name: &str, fields: impl FnOnce() -> Vec<&'a str>) -> Result<*mut ffi::PyTypeObject> {
    static CLASSES: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);
    let mut classes = CLASSES.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(c) = classes.get_or_insert_with(HashMap::new).get(name) {
        return Ok(*c as *mut ffi::PyTypeObject);
    }
    let text = |s: &str| CString::new(s).unwrap_or_default().into_raw();
    let fields = fields();
    let n_fields = i32::try_from(fields.len()).map_err(|_| Error::value("a class of results has too many fields"))?;
    let mut described: Vec<ffi::PyStructSequence_Field> =
        fields.into_iter().map(|f| ffi::PyStructSequence_Field { name: text(f), doc: text("") }).collect();
    described.push(ffi::PyStructSequence_Field { name: std::ptr::null(), doc: std::ptr::null() });
    let mut desc = ffi::PyStructSequence_Desc {
        name: text(&format!("oneflow.return_types.{name}")),
        doc: text(&format!("The results of :func:`oneflow.{}`.", name.replacen("linalg_", "linalg.", 1))),
        fields: described.leak().as_mut_ptr(),
        n_in_sequence: n_fields,
    };
    // SAFETY: the description is complete and what it points to is never freed.
    let class = unsafe { ffi::PyStructSequence_NewType(&mut desc) };
    if class.is_null() {
        return Err(pending_set());
    }
    classes.get_or_insert_with(HashMap::new).insert(name.to_owned(), class as usize);
    // What follows runs Python, which may hand the interpreter to a thread that waits for the lock.
    drop(classes);
    // SAFETY: a class made just now and never freed.
    let object = unsafe { PyType::from_borrowed_type_ptr(py, class) };
    let text = py.import("oneflow._tensor.printing").and_then(|m| m.getattr("results_text")).pend(py)?;
    object.setattr("__repr__", text).pend(py)?;
    Ok(class)
}

/// The class of results `name`, with these fields if it is made by this call.
#[pyfunction]
fn _return_type(py: Python<'_>, name: &str, fields: Vec<String>) -> PyResult<Py<PyType>> {
    crate::gate::run(|| {
        let class = class(py, name, || fields.iter().map(String::as_str).collect())?;
        // SAFETY: a class that is never freed.
        Ok(unsafe { PyType::from_borrowed_type_ptr(py, class) }.unbind())
    })
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_return_type, m)?)
}
