//! `_EmbeddingSaved`: the rows of an epoch or a snapshot.

use super::options::describe;
use super::tensors::{RecordTensors, key_tensors, record_tensors};
use crate::gate::{detach, run};
use oneflow_core::base::Result;
use oneflow_embedding::{Records, Saved};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The rows of an epoch or a snapshot, in the order of their keys, read without changing the folder.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingSaved")]
pub struct PySaved(Mutex<Saved>);

impl PySaved {
    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Saved) -> Result<R>) -> PyResult<R> {
        run(|| detach(py, || f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))))
    }

    fn tensors<'py>(
        &self,
        py: Python<'py>,
        f: impl FnOnce(&mut Saved) -> Result<Records>,
    ) -> PyResult<RecordTensors<'py>> {
        let (rows, width) = self.with(py, |saved| Ok((f(saved)?, saved.config().width())))?;
        record_tensors(py, &rows, width)
    }
}

#[pymethods]
impl PySaved {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, snapshot: Option<&str>) -> PyResult<PySaved> {
        run(|| detach(py, || Saved::open(&path, snapshot))).map(|saved| PySaved(Mutex::new(saved)))
    }
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |saved| Ok(saved.len()))
    }
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |saved| Ok(saved.epoch()))
    }
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let config = self.with(py, |saved| Ok(saved.config().clone()))?;
        describe(py, &config)
    }
    /// Rows from `start` to `end`.
    fn records<'py>(&self, py: Python<'py>, start: usize, end: usize) -> PyResult<RecordTensors<'py>> {
        self.tensors(py, |saved| saved.records(start..end))
    }
    /// Rows by their places in the order of the keys.
    fn select<'py>(&self, py: Python<'py>, entries: Vec<usize>) -> PyResult<RecordTensors<'py>> {
        self.tensors(py, |saved| saved.select(&entries))
    }
    /// Places of the rows that are new or changed since an older one, and tables and ids of those that are gone.
    fn since<'py>(
        &self,
        py: Python<'py>,
        older: &PySaved,
    ) -> PyResult<(Vec<usize>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        if std::ptr::eq(self, older) {
            let (tables, ids) = key_tensors(py, &[])?;
            return Ok((Vec::new(), tables, ids));
        }
        let (changed, gone) = run(|| {
            detach(py, || {
                // Always in one order, so that two threads that compare the same two do not wait for each other.
                let is_first = std::ptr::from_ref(self) < std::ptr::from_ref(older);
                let (a, b) = if is_first { (self, older) } else { (older, self) };
                let (mut a, mut b) = (
                    a.0.lock().unwrap_or_else(PoisonError::into_inner),
                    b.0.lock().unwrap_or_else(PoisonError::into_inner),
                );
                if is_first { a.since(&mut b) } else { b.since(&mut a) }
            })
        })?;
        let (tables, ids) = key_tensors(py, &gone)?;
        Ok((changed, tables, ids))
    }
}
