//! `Generator`: the seed and position of random draws, shared with the core.

use crate::gate::{run, to_py};
use crate::object::{bound, get};
use crate::{classes, scalar};
use oneflow_core::base::{DType, Device, Error, Result, Scalar};
use oneflow_core::{Generator, Tensor, copy_to_host, default_generator};
use pyo3::prelude::*;

/// A stream of random numbers. `None`: the default of the calling thread, looked up at each call.
///
/// Example::
///
///     >>> a = oneflow.rand(2, generator=oneflow.Generator().manual_seed(3))
///     >>> b = oneflow.rand(2, generator=oneflow.Generator().manual_seed(3))
///     >>> oneflow.equal(a, b)
///     True
#[pyclass(frozen, name = "Generator", module = "oneflow", subclass)]
pub struct PyGenerator(Option<Generator>, Device);

impl PyGenerator {
    pub fn handle(&self) -> Generator {
        self.0.clone().unwrap_or_else(default_generator)
    }
}

/// Bytes of a state: seed and offset, little-endian.
const STATE: usize = 16;

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device=None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<PyGenerator> {
        let device = match device {
            // OneFlow's generator for tensors of any device, which every generator here is.
            Some(d) if d.extract::<&str>().is_ok_and(|d| d == "auto") => Device::CPU,
            Some(d) => classes::device_of(d)?
                .ok_or_else(|| to_py(Error::type_("Generator(): argument 'device' must be a str or a device")))?,
            None => Device::CPU,
        };
        Ok(PyGenerator(Some(Generator::new()), device))
    }
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<classes::PyDevice>> {
        classes::device_object(py, self.1)
    }
    /// Starts over from a seed in [-2^63, 2^64).
    fn manual_seed<'py>(slf: Bound<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        let s = match seed.extract::<u64>() {
            Ok(s) => s,
            Err(_) if !seed.is_instance_of::<pyo3::types::PyInt>() => {
                let got = crate::value::type_name(seed.py(), seed.as_ptr());
                return Err(to_py(Error::runtime(format!("manual_seed expected a long, but got {got}"))));
            }
            Err(_) => seed.extract::<i64>().map_err(|_| {
                to_py(Error::value("Overflow when unpacking long: a seed is an integer in [-2^63, 2^64)"))
            })? as u64,
        };
        slf.get().handle().manual_seed(s);
        Ok(slf)
    }
    /// Seeds from the operating system and returns the seed.
    fn seed(&self, py: Python<'_>) -> PyResult<u64> {
        let bytes: Vec<u8> = py.import("os")?.call_method1("urandom", (8,))?.extract()?;
        // 53 bits, so that a float holds the seed too.
        let seed = bytes.iter().fold(0u64, |s, b| s << 8 | *b as u64) >> 11;
        self.handle().manual_seed(seed);
        Ok(seed)
    }
    fn initial_seed(&self) -> u64 {
        self.handle().seed()
    }
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let t = run(|| {
            let mut bytes = [0u8; STATE];
            bytes[..8].copy_from_slice(&self.handle().seed().to_le_bytes());
            bytes[8..].copy_from_slice(&self.handle().offset().to_le_bytes());
            // SAFETY: bytes are the elements of uint8.
            unsafe { Tensor::from_host(&bytes, DType::U8, &[STATE as i64]) }
        })?;
        bound(py, t)
    }
    fn set_state<'py>(slf: Bound<'py, Self>, state: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        run(|| {
            let t = get(state).ok_or_else(|| Error::type_("set_state(): argument 'new_state' must be a Tensor"))?;
            let bytes = state_bytes(t)?;
            let word = |at: usize| {
                let mut w = [0u8; 8];
                w.copy_from_slice(&bytes[at..at + 8]);
                u64::from_le_bytes(w)
            };
            slf.get().handle().set_state(word(0), word(8));
            Ok(())
        })?;
        Ok(slf)
    }
    /// Calls made since the seed was set.
    fn get_offset(&self) -> u64 {
        self.handle().offset()
    }
    fn set_offset(&self, offset: u64) {
        let g = self.handle();
        g.set_state(g.seed(), offset);
    }
    fn clone_state(&self) -> PyGenerator {
        let g = Generator::new();
        g.set_state(self.handle().seed(), self.handle().offset());
        PyGenerator(Some(g), self.1)
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let state = (this.handle().seed(), this.handle().offset());
        Ok((slf.get_type(), (this.1.to_string(),), state).into_pyobject(slf.py())?.into_any())
    }
    fn __setstate__(&self, state: (u64, u64)) {
        self.handle().set_state(state.0, state.1);
    }
    fn __repr__(&self) -> String {
        format!("<oneflow.Generator seed={} offset={}>", self.handle().seed(), self.handle().offset())
    }
}

fn state_bytes(t: &Tensor) -> Result<[u8; STATE]> {
    if t.dtype() != DType::U8 || t.numel() != STATE as i64 {
        return Err(Error::runtime(format!(
            "RNG state must be a uint8 tensor of {STATE} elements, got {} {:?}",
            t.dtype(),
            t.sizes()
        )));
    }
    let host = copy_to_host(t)?;
    let mut bytes = [0u8; STATE];
    for (i, b) in bytes.iter_mut().enumerate() {
        // SAFETY: the host copy is contiguous and holds STATE bytes.
        if let Scalar::Int(v) = unsafe { scalar::load(host.data_ptr().add(i), DType::U8) } {
            *b = v as u8;
        }
    }
    Ok(bytes)
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyGenerator>()?;
    m.add("default_generator", Py::new(m.py(), PyGenerator(None, Device::CPU))?)
}
