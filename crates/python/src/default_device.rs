//! The device of tensors that are created without `device=`: one a thread, nested by `with device(...)`.
//!
//! Only calls from Python see it. Compositions name the device of their inputs, so that no op means something else inside.

use crate::classes::{self, PyDevice};
use oneflow_core::base::Device;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};

thread_local! {
    static DEVICE: Cell<Option<Device>> = const { Cell::new(None) };
    static OUTER: RefCell<Vec<Option<Device>>> = const { RefCell::new(Vec::new()) };
}

/// `None` is the CPU.
#[inline]
pub fn get() -> Option<Device> {
    DEVICE.get()
}

/// `with device(...)`.
pub fn enter(device: Device) {
    OUTER.with_borrow_mut(|outer| outer.push(DEVICE.get()));
    DEVICE.set(Some(device));
}

/// The end of the innermost `with`.
pub fn leave() {
    if let Some(before) = OUTER.with_borrow_mut(Vec::pop) {
        DEVICE.set(before);
    }
}

/// The device of tensors created without one.
///
/// Example::
///
///     >>> oneflow.get_default_device()
///     device(type='cpu')
#[pyfunction]
fn get_default_device(py: Python<'_>) -> PyResult<Py<PyDevice>> {
    classes::device_object(py, get().unwrap_or(Device::CPU))
}

/// Sets the device of tensors created without one; None: the CPU.
///
/// Example::
///
///     >>> oneflow.set_default_device("meta")
///     >>> oneflow.empty(2).device.type
///     'meta'
///     >>> oneflow.set_default_device(None)
#[pyfunction]
#[pyo3(signature = (device))]
fn set_default_device(device: &Bound<'_, PyAny>) -> PyResult<()> {
    if device.is_none() {
        DEVICE.set(None);
        return Ok(());
    }
    let device = classes::device_of(device)?.ok_or_else(|| {
        PyTypeError::new_err("set_default_device(): argument 'device' must be a str, an int or a device")
    })?;
    DEVICE.set(Some(device));
    Ok(())
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(get_default_device, m)?)?;
    m.add_function(wrap_pyfunction!(set_default_device, m)?)
}
