//! Autocast's switches, by device type name. The context managers over them are Python's.

use crate::classes::{PyDType, dtype_object, dtype_of};
use crate::gate::run;
use oneflow_core::base::{DeviceType, Error, Result};
use pyo3::prelude::*;

/// Devices that programs ask about and that have no provider here: autocast is never on for them.
const ELSEWHERE: [&str; 7] = ["hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu"];

fn kind(device_type: &str) -> Result<DeviceType> {
    match device_type {
        "cpu" => Ok(DeviceType::CPU),
        "cuda" => Ok(DeviceType::CUDA),
        other => Err(Error::runtime(format!("User specified an unsupported autocast device_type '{other}'"))),
    }
}

/// Returns whether ops of a device type run under autocast on this thread.
///
/// Example::
///
///     >>> oneflow.is_autocast_enabled("cpu")
///     False
#[pyfunction]
#[pyo3(signature = (device_type=None))]
fn is_autocast_enabled(device_type: Option<&str>) -> PyResult<bool> {
    let device_type = device_type.unwrap_or("cuda");
    if ELSEWHERE.contains(&device_type) {
        return Ok(false);
    }
    run(|| Ok(oneflow_autocast::state().is_enabled(kind(device_type)?)))
}

/// Switches autocast of a device type on this thread; `autocast` does it for a region.
///
/// Example::
///
///     >>> oneflow.set_autocast_enabled("cpu", False)
#[pyfunction]
fn set_autocast_enabled(device_type: &str, enabled: bool) -> PyResult<()> {
    run(|| {
        oneflow_autocast::set_enabled(kind(device_type)?, enabled);
        Ok(())
    })
}

/// The dtype that autocast casts to on a device type.
///
/// Example::
///
///     >>> oneflow.get_autocast_dtype("cpu")
///     oneflow.bfloat16
#[pyfunction]
fn get_autocast_dtype<'py>(py: Python<'py>, device_type: &str) -> PyResult<&'py Py<PyDType>> {
    dtype_object(py, run(|| Ok(oneflow_autocast::state().dtype(kind(device_type)?)))?)
}

/// Chooses the dtype that autocast casts to on a device type.
///
/// Example::
///
///     >>> oneflow.set_autocast_dtype("cpu", oneflow.bfloat16)
#[pyfunction]
fn set_autocast_dtype(device_type: &str, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    run(|| {
        let dtype = dtype_of(dtype).ok_or_else(|| Error::type_("set_autocast_dtype(): dtype must be a dtype"))?;
        oneflow_autocast::set_dtype(kind(device_type)?, dtype)
    })
}

/// Returns whether autocast keeps the weights it has cast.
///
/// Example::
///
///     >>> oneflow.is_autocast_cache_enabled()
///     True
#[pyfunction]
fn is_autocast_cache_enabled() -> bool {
    oneflow_autocast::state().cache_enabled
}

/// Lets autocast keep the weights it has cast, or not.
///
/// Example::
///
///     >>> oneflow.set_autocast_cache_enabled(True)
#[pyfunction]
fn set_autocast_cache_enabled(enabled: bool) {
    oneflow_autocast::set_cache_enabled(enabled);
}

/// Forgets the weights that autocast has cast.
///
/// Example::
///
///     >>> oneflow.clear_autocast_cache()
#[pyfunction]
fn clear_autocast_cache() {
    oneflow_autocast::clear_cache();
}

/// Enters an autocast region; returns how many are open. `autocast` calls it.
///
/// Example::
///
///     >>> oneflow.autocast_increment_nesting()
///     1
///     >>> oneflow.autocast_decrement_nesting()
///     0
#[pyfunction]
fn autocast_increment_nesting() -> u32 {
    oneflow_autocast::increment_nesting()
}

/// Leaves an autocast region; returns how many are still open. `autocast` calls it.
///
/// Example::
///
///     >>> oneflow.autocast_increment_nesting()
///     1
///     >>> oneflow.autocast_decrement_nesting()
///     0
#[pyfunction]
fn autocast_decrement_nesting() -> u32 {
    oneflow_autocast::decrement_nesting()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_autocast::register();
    m.add_function(wrap_pyfunction!(is_autocast_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(get_autocast_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_dtype, m)?)?;
    m.add_function(wrap_pyfunction!(is_autocast_cache_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_autocast_cache_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(clear_autocast_cache, m)?)?;
    m.add_function(wrap_pyfunction!(autocast_increment_nesting, m)?)?;
    m.add_function(wrap_pyfunction!(autocast_decrement_nesting, m)?)
}
