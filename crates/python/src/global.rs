//! Arguments that speak of the cluster: placements and SBP. Their classes are the global layer's to add.

use oneflow_core::base::Arg;
use pyo3::prelude::*;

/// The placement an argument names.
pub fn placement_of(_o: &Bound<'_, PyAny>) -> PyResult<Option<Arg<'static>>> {
    Ok(None)
}

/// The n-D SBP an argument names.
pub fn sbp_of(_o: &Bound<'_, PyAny>) -> PyResult<Option<Arg<'static>>> {
    Ok(None)
}
