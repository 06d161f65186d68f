//! Programs from a directory, as Python calls them: from many threads, over one copy of the weights.

use crate::gate::{self, run, to_py};
use crate::object::{bound, get};
use oneflow_core::base::Error;
use oneflow_core::{Tensor, copy_to_host};
use oneflow_runtime::Pool;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;

#[pyclass(frozen, module = "oneflow", name = "_LoadedProgram")]
pub struct LoadedProgram(Pool);

#[pymethods]
impl LoadedProgram {
    /// Reads a directory; at most `sessions` runs go on at the same time.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, sessions: usize) -> PyResult<LoadedProgram> {
        run(|| gate::detach(py, || Pool::load(path, sessions))).map(LoadedProgram)
    }
    /// Runs the program once.
    fn run<'py>(&self, py: Python<'py>, inputs: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyList>> {
        let tensor =
            |o: Bound<'_, PyAny>| get(&o).map(Tensor::shallow).ok_or_else(|| to_py(Error::type_("expected a Tensor")));
        let inputs = inputs.iter().map(tensor).collect::<PyResult<Vec<Tensor>>>()?;
        let mut poll = || gate::attach(gate::check_signals);
        let outputs = run(|| gate::detach(py, || self.0.lend()?.run_polled(&inputs, &mut poll)))?;
        let list = PyList::empty(py);
        for t in outputs {
            list.append(bound(py, t)?)?;
        }
        Ok(list)
    }
    fn name(&self) -> &str {
        &self.0.plan().name
    }
    /// Name, dtype and sizes of every input.
    fn inputs(&self) -> Vec<(String, &'static str, Vec<i64>)> {
        let inputs = self.0.plan().inputs.iter().enumerate();
        inputs.map(|(k, i)| (self.0.plan().input_name(k), i.meta.dtype.name(), i.meta.sizes.to_vec())).collect()
    }
    /// The sizes of every input in words: names of dimensions, or numbers.
    fn shapes(&self) -> Vec<Vec<String>> {
        (0..self.0.plan().inputs.len()).map(|i| self.0.plan().input_shape(i)).collect()
    }
    /// The named dimensions: name, smallest and largest size.
    fn dims(&self) -> Vec<(String, i64, i64)> {
        self.0.plan().dims().iter().map(|d| (d.name.clone(), d.min, d.max)).collect()
    }
    /// Returns an error if inputs do not fit: their number, sizes, dtypes or devices.
    fn check(&self, inputs: &Bound<'_, PyList>) -> PyResult<()> {
        let tensor = |o: Bound<'_, PyAny>| get(&o).cloned().ok_or_else(|| to_py(Error::type_("expected a Tensor")));
        let inputs = inputs.iter().map(tensor).collect::<PyResult<Vec<Tensor>>>()?;
        run(|| self.0.plan().check_run(&inputs))
    }
    /// Copies of the variables by name.
    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let d = PyDict::new(py);
        for (v, s) in self.0.plan().variables.iter().zip(self.0.variables()) {
            let (sizes, strides) = (v.meta.sizes.clone(), v.meta.strides.clone());
            let copy = run(|| {
                let t = Tensor::from_storage(s.clone(), v.meta.dtype, sizes, strides, 0)?;
                let host = copy_to_host(&t)?;
                let copy = Tensor::empty(v.meta.dtype, host.device(), host.sizes())?;
                oneflow_core::copy_into(&copy, &host).map(|()| copy)
            })?;
            d.set_item(&v.name, bound(py, copy)?)?;
        }
        Ok(d)
    }
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<LoadedProgram>()
}
