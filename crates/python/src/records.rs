//! Records and pictures as bytes, for readers that are separate modules: `nn.OFRecordReader` and those that follow it.

use crate::gate::run;
use oneflow_data::{Channels, RecordFiles, Values, decode_image, values};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::path::PathBuf;

/// The records of several files, by number.
#[pyclass(frozen, module = "oneflow", name = "_Records")]
struct Records(RecordFiles);

#[pymethods]
impl Records {
    #[new]
    fn new(files: Vec<PathBuf>) -> PyResult<Records> {
        run(|| RecordFiles::open(&files)).map(Records)
    }
    fn __len__(&self) -> usize {
        self.0.len()
    }
    fn __getitem__<'py>(&self, py: Python<'py>, i: usize) -> PyResult<Bound<'py, PyBytes>> {
        let record =
            self.0.get(i).ok_or_else(|| PyIndexError::new_err(format!("there are {} records", self.0.len())))?;
        Ok(PyBytes::new(py, record))
    }
}

/// A feature of a record: `("bytes", [bytes, ...])`, or a dtype and its numbers as bytes; None where it has none.
#[pyfunction]
fn _record_values<'py>(py: Python<'py>, record: &[u8], name: &str) -> PyResult<Option<Bound<'py, PyTuple>>> {
    match run(|| values(record, name))? {
        None => Ok(None),
        Some(Values::Bytes(all)) => {
            let all = PyList::new(py, all.iter().map(|b| PyBytes::new(py, b)))?;
            Ok(Some(("bytes", all).into_pyobject(py)?))
        }
        Some(Values::Numbers(dtype, bytes)) => Ok(Some((dtype.name(), PyBytes::new(py, &bytes)).into_pyobject(py)?)),
    }
}

/// Height, width, channels and pixels of a JPEG or PNG file, whose bytes these are. `order`: rgb, bgr or gray.
#[pyfunction]
fn _decode_image<'py>(py: Python<'py>, data: &[u8], order: &str) -> PyResult<Bound<'py, PyTuple>> {
    let kinds = [("rgb", Channels::Rgb), ("bgr", Channels::Bgr), ("gray", Channels::Gray)];
    let order = kinds.into_iter().find(|k| k.0 == order).map(|k| k.1);
    let order = order.ok_or_else(|| PyValueError::new_err("an image's channels are rgb, bgr or gray"))?;
    let picture = run(|| decode_image(data, order))?;
    (picture.height, picture.width, picture.channels, PyBytes::new(py, &picture.pixels)).into_pyobject(py)
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Records>()?;
    m.add_function(wrap_pyfunction!(_record_values, m)?)?;
    m.add_function(wrap_pyfunction!(_decode_image, m)?)
}
