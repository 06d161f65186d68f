//! `Generator`: the seed and position of random draws, shared with the core.

use crate::gate::{run, to_py};
use crate::object::{bound, get};
use crate::{classes, scalar};
use oneflow_core::base::{DType, Device, Error, Result, Scalar};
use oneflow_core::kernels::mt19937::{Engine, IN_ORDER, STATE_BYTES};
use oneflow_core::{Generator, Tensor, copy_to_host, default_generator, use_in_order};
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
    /// The object of a generator.
    pub fn over(g: Generator) -> PyGenerator {
        PyGenerator(Some(g), Device::CPU)
    }
    pub fn handle(&self) -> Generator {
        self.0.clone().unwrap_or_else(default_generator)
    }
}

/// Bytes of a state of Philox: seed and offset, little-endian.
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
        Ok(PyGenerator(Some(Generator::of_engine_in_use()), device))
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
        self.handle().initial_seed()
    }
    /// "philox", or "mt19937" where numbers are drawn as PyTorch draws them on a CPU.
    #[getter]
    fn engine(&self) -> &'static str {
        if self.handle().is_in_order() { "mt19937" } else { "philox" }
    }
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let t = run(|| {
            let bytes = self.bytes();
            // SAFETY: bytes are the elements of uint8.
            unsafe { Tensor::from_host(&bytes, DType::U8, &[bytes.len() as i64]) }
        })?;
        bound(py, t)
    }
    fn set_state<'py>(slf: Bound<'py, Self>, state: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        run(|| {
            let t = get(state).ok_or_else(|| Error::type_("set_state(): argument 'new_state' must be a Tensor"))?;
            slf.get().set_bytes(&state_bytes(t)?)
        })?;
        Ok(slf)
    }
    /// Calls since the seed was set.
    fn get_offset(&self) -> PyResult<u64> {
        let g = self.handle();
        if g.is_in_order() {
            return Err(to_py(Error::runtime("get_offset(): a generator of the engine mt19937 has no position")));
        }
        Ok(g.offset())
    }
    fn set_offset(&self, offset: u64) -> PyResult<()> {
        let g = self.handle();
        if g.is_in_order() || offset == IN_ORDER {
            return Err(to_py(Error::runtime(
                "set_offset(): a generator of the engine mt19937 has no position to set; philox has those below 2**64 - 1",
            )));
        }
        g.set_state(g.seed(), offset);
        Ok(())
    }
    fn clone_state(&self) -> PyGenerator {
        PyGenerator(Some(self.handle().fork()), self.1)
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let state = pyo3::types::PyBytes::new(slf.py(), &this.bytes());
        Ok((slf.get_type(), (this.1.to_string(),), state).into_pyobject(slf.py())?.into_any())
    }
    fn __setstate__(&self, state: &[u8]) -> PyResult<()> {
        let g = self.handle();
        run(|| {
            g.draw_in_order(state.len() == STATE_BYTES);
            self.set_bytes(state)
        })
    }
    fn __repr__(&self) -> String {
        let g = self.handle();
        if g.is_in_order() {
            return format!("<oneflow.Generator seed={} engine=mt19937>", g.initial_seed());
        }
        format!("<oneflow.Generator seed={} offset={}>", g.seed(), g.offset())
    }
}

impl PyGenerator {
    /// Seed and position, or the state of an engine.
    fn bytes(&self) -> Vec<u8> {
        let g = self.handle();
        match g.engine_state() {
            Some(engine) => engine.to_bytes().to_vec(),
            None => [g.seed().to_le_bytes(), g.offset().to_le_bytes()].concat(),
        }
    }
    fn set_bytes(&self, bytes: &[u8]) -> Result<()> {
        let g = self.handle();
        match (bytes.len(), g.is_in_order()) {
            (STATE_BYTES, true) => g.set_engine_state(Engine::from_bytes(bytes)?),
            (STATE, false) => {
                let word = |at: usize| {
                    let mut w = [0u8; 8];
                    w.copy_from_slice(&bytes[at..at + 8]);
                    u64::from_le_bytes(w)
                };
                if word(8) == IN_ORDER {
                    return Err(Error::runtime("set_state(): Invalid philox state: its position is out of range"));
                }
                g.set_state(word(0), word(8))
            }
            (STATE_BYTES, false) => {
                return Err(Error::runtime(
                    "set_state(): RNG state is wrong size: this is a state of the engine mt19937, which oneflow.random.use(\"mt19937\") switches on",
                ));
            }
            (STATE, true) => {
                return Err(Error::runtime(
                    "set_state(): RNG state is wrong size: this is a state of the engine philox, and the generator draws with mt19937",
                ));
            }
            (n, is_in_order) => {
                let wanted = if is_in_order { STATE_BYTES } else { STATE };
                return Err(Error::runtime(format!("RNG state must be a uint8 tensor of {wanted} elements, got {n}")));
            }
        }
        Ok(())
    }
}

fn state_bytes(t: &Tensor) -> Result<Vec<u8>> {
    if t.dtype() != DType::U8 {
        return Err(Error::type_(format!("RNG state must be a torch.ByteTensor, got {} {:?}", t.dtype(), t.sizes())));
    }
    let host = copy_to_host(t)?;
    let byte = |i: usize| {
        // SAFETY: the host copy is contiguous and holds this many bytes.
        match unsafe { scalar::load(host.data_ptr().add(i), DType::U8) } {
            Scalar::Int(v) => v as u8,
            _ => 0,
        }
    };
    Ok((0..host.numel() as usize).map(byte).collect())
}

/// Lets the default generator and new ones draw with an engine; returns the one before.
#[pyfunction]
fn _use_random_engine(name: &str) -> PyResult<&'static str> {
    let on = match name {
        "philox" => false,
        "mt19937" => true,
        _ => {
            return Err(to_py(Error::value(format!(
                "random.use(): expected \"philox\" or \"mt19937\", but got {name:?}"
            ))));
        }
    };
    Ok(if use_in_order(on) { "mt19937" } else { "philox" })
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyGenerator>()?;
    m.add_function(wrap_pyfunction!(_use_random_engine, m)?)?;
    m.add("default_generator", Py::new(m.py(), PyGenerator(None, Device::CPU))?)
}
