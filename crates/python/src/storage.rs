//! `UntypedStorage`: the memory that views share, for those who ask for its address or size.

use crate::gate::run;
use oneflow_core::base::Error;
use oneflow_core::{Storage, Tensor};
use pyo3::prelude::*;

#[pyclass(frozen, module = "oneflow", name = "UntypedStorage")]
pub struct PyStorage(Storage);

/// The storage of a tensor.
pub fn of<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Bound<'py, PyStorage>> {
    let s = run(|| {
        t.storage().cloned().ok_or_else(|| Error::not_implemented("Cannot access storage of a tensor without data"))
    })?;
    Bound::new(py, PyStorage(s))
}

#[pymethods]
impl PyStorage {
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }
    fn size(&self) -> usize {
        self.0.bytes()
    }
    fn __len__(&self) -> usize {
        self.0.bytes()
    }
    fn data_ptr(&self) -> usize {
        self.0.ptr() as usize
    }
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<crate::classes::PyDevice>> {
        crate::classes::device_object(py, self.0.device())
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStorage>().is_ok_and(|o| o.get().0.same(&self.0))
    }
    fn __hash__(&self) -> usize {
        self.0.ptr() as usize >> 4
    }
}
