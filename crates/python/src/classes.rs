//! The small value classes: dtype, device, memory_format, layout. Immutable, compared by value, created once if possible.

use crate::gate::to_py;
use oneflow_core::base::{DType, Device, DeviceType};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// The element type of a tensor; one object each, compared by identity.
///
/// Example::
///
///     >>> x = oneflow.ones(2, dtype=oneflow.float16)
///     >>> x.dtype, x.dtype.itemsize
///     (oneflow.float16, 2)
#[pyclass(frozen, name = "dtype", module = "oneflow")]
pub struct PyDType(pub DType);

static DTYPES: PyOnceLock<Vec<Py<PyDType>>> = PyOnceLock::new();

/// The object of a dtype, borrowed for the life of the process.
pub fn dtype_object(py: Python<'_>, d: DType) -> PyResult<&Py<PyDType>> {
    let all = DTYPES
        .get_or_try_init(py, || DType::ALL.into_iter().map(|d| Py::new(py, PyDType(d))).collect::<PyResult<_>>())?;
    Ok(&all[d as usize])
}

#[pymethods]
impl PyDType {
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }
    #[getter]
    fn is_complex(&self) -> bool {
        self.0.is_complex()
    }
    #[getter]
    fn is_signed(&self) -> bool {
        is_signed(self.0)
    }
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }
    /// The real dtype of a complex one; a real one itself.
    fn to_real<'py>(&self, py: Python<'py>) -> PyResult<&'py Py<PyDType>> {
        dtype_object(py, self.0.to_real())
    }
    /// The complex dtype of a real one; a complex one itself.
    fn to_complex<'py>(&self, py: Python<'py>) -> PyResult<&'py Py<PyDType>> {
        let complex = match self.0 {
            DType::F16 | DType::C32 => DType::C32,
            DType::F32 | DType::BF16 | DType::C64 => DType::C64,
            DType::F64 | DType::C128 => DType::C128,
            other => {
                let text = format!("Unknown Complex ScalarType for {}", other.scalar_type_name());
                return Err(PyRuntimeError::new_err(text));
            }
        };
        dtype_object(py, complex)
    }
    fn __repr__(&self) -> String {
        format!("{}.{}", package(), self.0.name())
    }
    /// Pickles as the global name, so that identity survives.
    fn __reduce__(&self) -> &'static str {
        self.0.name()
    }
    fn __hash__(&self) -> u64 {
        self.0 as u64
    }
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        match other.cast::<PyDType>() {
            Ok(o) => pyo3::types::PyBool::new(py, o.get().0 == self.0).to_owned().into_any().unbind(),
            Err(_) => py.NotImplemented(),
        }
    }
}

/// Whether a dtype holds negative numbers.
pub fn is_signed(d: DType) -> bool {
    !(matches!(d, DType::Bool | DType::U8 | DType::F8E8M0FNU) || d.is_wide_unsigned())
}

/// The dtype an argument names: a dtype, or Python's own `float`, `int`, `bool`, `complex`.
pub fn dtype_of(o: &Bound<'_, PyAny>) -> Option<DType> {
    if let Ok(d) = o.cast::<PyDType>() {
        return Some(d.get().0);
    }
    let p = o.as_ptr().cast::<ffi::PyTypeObject>();
    if p == &raw mut ffi::PyFloat_Type {
        Some(DType::F64)
    } else if p == &raw mut ffi::PyLong_Type {
        Some(DType::I64)
    } else if p == &raw mut ffi::PyBool_Type {
        Some(DType::Bool)
    } else if p == &raw mut ffi::PyComplex_Type {
        Some(DType::C128)
    } else {
        None
    }
}

/// A device: "cpu", "cuda:1", "meta".
///
/// Example::
///
///     >>> oneflow.device("cuda", 1)
///     device(type='cuda', index=1)
///     >>> oneflow.ones(1).device == oneflow.device("cpu")
///     True
#[pyclass(frozen, name = "device", module = "oneflow")]
pub struct PyDevice {
    pub device: Device,
    /// `device("cuda")` names no index: the current device is meant.
    indexed: bool,
}

impl PyDevice {
    pub fn new(device: Device) -> PyDevice {
        PyDevice { device, indexed: !(device.is_cpu() || device.is_meta()) }
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (device=None, index=None, *, r#type=None))]
    fn py_new(
        device: Option<&Bound<'_, PyAny>>,
        index: Option<i64>,
        r#type: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyDevice> {
        let device = match (device, r#type) {
            (Some(d), None) | (None, Some(d)) => d,
            _ => return Err(PyTypeError::new_err("device(): expected one of the arguments 'device' and 'type'")),
        };
        if device.extract::<i64>().is_ok_and(|i| i < 0) {
            return Err(PyRuntimeError::new_err(format!("Device index must not be negative, got {device}")));
        }
        let index =
            match index {
                Some(i) if i < 0 => {
                    return Err(PyRuntimeError::new_err(format!("Device index must not be negative, got {i}")));
                }
                Some(i) => Some(u16::try_from(i).map_err(|_| {
                    PyRuntimeError::new_err(format!("Device index must be below {}, got {i}", u16::MAX))
                })?),
                None => None,
            };
        if let Ok(d) = device.cast::<PyDevice>()
            && index.is_none()
        {
            let d = d.get();
            return Ok(PyDevice { device: d.device, indexed: d.indexed });
        }
        if let (Ok(text), Some(index)) = (device.cast::<PyString>(), index) {
            let text = text.to_string();
            if text.contains(':') {
                return Err(PyRuntimeError::new_err(format!(
                    "type (string) must not include an index because index was passed explicitly: {text}"
                )));
            }
            let kind = Device::parse(&text).map_err(to_py)?.kind;
            return Ok(PyDevice { device: Device::new(kind, index), indexed: true });
        }
        let found = named_device(device)?
            .ok_or_else(|| PyTypeError::new_err("device(): argument 'device' must be a str, an int or a device"))?;
        let indexed = match device.cast::<PyString>() {
            Ok(s) => s.to_string().contains(':'),
            Err(_) => true,
        };
        Ok(PyDevice { device: found, indexed })
    }
    #[getter]
    fn r#type(&self) -> &'static str {
        self.device.kind.name()
    }
    #[getter]
    fn index(&self) -> Option<u16> {
        self.indexed.then_some(self.device.index)
    }
    fn __repr__(&self) -> String {
        match self.index() {
            Some(i) => format!("device(type='{}', index={i})", self.device.kind.name()),
            None => format!("device(type='{}')", self.device.kind.name()),
        }
    }
    fn __str__(&self) -> String {
        match self.index() {
            Some(i) => format!("{}:{i}", self.device.kind.name()),
            None => self.device.kind.name().to_owned(),
        }
    }
    fn __hash__(&self) -> u64 {
        let mut h = DefaultHasher::new();
        (self.device, self.indexed).hash(&mut h);
        h.finish()
    }
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        match other.cast::<PyDevice>() {
            Ok(o) => {
                let o = o.get();
                let same = o.device == self.device && o.indexed == self.indexed;
                pyo3::types::PyBool::new(py, same).to_owned().into_any().unbind()
            }
            Err(_) => py.NotImplemented(),
        }
    }
    /// Tensors created inside without `device=` are on this device.
    fn __enter__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<Self>> {
        if let Some(device) = device_of(slf.bind(py))? {
            crate::default_device::enter(device);
        }
        Ok(slf)
    }
    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) -> bool {
        crate::default_device::leave();
        false
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let args = match self.index() {
            Some(i) => (self.device.kind.name(), i).into_pyobject(py)?,
            None => (self.device.kind.name(),).into_pyobject(py)?,
        };
        Ok((py.get_type::<PyDevice>(), args))
    }
}

/// The device that an argument of an op names. There is one CPU: `cpu:1` is it, too.
pub fn device_of(o: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    Ok(named_device(o)?.map(|d| if d.is_cpu() { Device::CPU } else { d }))
}

/// A device with the number it was given: a device, a string, or a number of an accelerator.
fn named_device(o: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    // Without an index, the thread's current GPU is meant.
    let meant = |d: Device, indexed: bool| match d.kind == DeviceType::CUDA && !indexed {
        true => crate::cuda::current(),
        false => d,
    };
    if let Ok(d) = o.cast::<PyDevice>() {
        return Ok(Some(meant(d.get().device, d.get().indexed)));
    }
    if let Ok(s) = o.cast::<PyString>() {
        let text = s.to_string();
        return Device::parse(&text).map(|d| Some(meant(d, text.contains(':')))).map_err(to_py);
    }
    // SAFETY: a live object.
    if unsafe { ffi::Py_TYPE(o.as_ptr()) } == &raw mut ffi::PyLong_Type {
        return Ok(o.extract::<u16>().ok().map(|i| Device::new(DeviceType::CUDA, i)));
    }
    Ok(None)
}

/// The object of a tensor's device.
pub fn device_object(py: Python<'_>, d: Device) -> PyResult<Py<PyDevice>> {
    static CPU: PyOnceLock<Py<PyDevice>> = PyOnceLock::new();
    if d.is_cpu() {
        return Ok(CPU.get_or_try_init(py, || Py::new(py, PyDevice::new(d)))?.clone_ref(py));
    }
    Py::new(py, PyDevice::new(d))
}

/// The order of elements in memory: one object each.
///
/// Example::
///
///     >>> x = oneflow.ones(1, 2, 3, 3).to(memory_format=oneflow.channels_last)
///     >>> x.stride()
///     (18, 1, 6, 2)
#[pyclass(frozen, name = "memory_format", module = "oneflow")]
pub struct PyMemoryFormat(pub &'static str);

#[pymethods]
impl PyMemoryFormat {
    fn __repr__(&self) -> String {
        format!("{}.{}", package(), self.0)
    }
    fn __reduce__(&self) -> &'static str {
        self.0
    }
}

pub const MEMORY_FORMATS: [&str; 4] = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"];

/// The layout of a tensor: strided, or one of the sparse ones.
///
/// Example::
///
///     >>> oneflow.ones(1).layout is oneflow.strided
///     True
#[pyclass(frozen, name = "layout", module = "oneflow")]
pub struct PyLayout(&'static str);

#[pymethods]
impl PyLayout {
    fn __repr__(&self) -> String {
        format!("{}.{}", package(), self.0)
    }
    fn __reduce__(&self) -> &'static str {
        self.0
    }
}

/// Layouts that no tensor here has: programs compare with them. Functions that should create one refuse.
const UNUSED_LAYOUTS: [&str; 2] = ["jagged", "_mkldnn"];

/// The layouts of compressed sparse tensors.
pub fn compressed(py: Python<'_>, layout: oneflow_sparse::Layout) -> PyResult<&Py<PyLayout>> {
    static LAYOUTS: PyOnceLock<[Py<PyLayout>; 4]> = PyOnceLock::new();
    let made = || -> PyResult<[Py<PyLayout>; 4]> {
        let [a, b, c, d] = oneflow_sparse::Layout::ALL.map(|l| Py::new(py, PyLayout(l.name())));
        Ok([a?, b?, c?, d?])
    };
    Ok(&LAYOUTS.get_or_try_init(py, made)?[layout as usize])
}

/// The layout of sparse tensors by coordinates.
pub fn sparse_coo(py: Python<'_>) -> PyResult<&Py<PyLayout>> {
    static SPARSE: PyOnceLock<Py<PyLayout>> = PyOnceLock::new();
    SPARSE.get_or_try_init(py, || Py::new(py, PyLayout("sparse_coo")))
}

/// The layout of all other tensors.
pub fn strided(py: Python<'_>) -> PyResult<&Py<PyLayout>> {
    static STRIDED: PyOnceLock<Py<PyLayout>> = PyOnceLock::new();
    STRIDED.get_or_try_init(py, || Py::new(py, PyLayout("strided")))
}

static SHOWS_TORCH: AtomicBool = AtomicBool::new(false);

/// The package's name in the texts of dtypes, layouts, sizes and the like, which programs compare with literals.
pub fn package() -> &'static str {
    if SHOWS_TORCH.load(Ordering::Relaxed) { "torch" } else { "oneflow" }
}

/// Lets those texts name the package `torch`, as long as programs import it under that name.
#[pyfunction]
fn _show_torch(on: bool) {
    SHOWS_TORCH.store(on, Ordering::Relaxed);
}

/// Adds the function to the private module.
pub fn add_private(private: &Bound<'_, PyModule>) -> PyResult<()> {
    private.setattr("_show_torch", wrap_pyfunction!(_show_torch, private)?)
}

/// An owned reference in the form of the C API.
pub fn owned<T>(o: Py<T>) -> *mut PyObject {
    o.into_ptr()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<PyDType>()?;
    m.add_class::<PyDevice>()?;
    m.add_class::<PyMemoryFormat>()?;
    m.add_class::<PyLayout>()?;
    for d in DType::ALL {
        m.add(d.name(), dtype_object(py, d)?)?;
    }
    const ALIASES: [(&str, DType); 10] = [
        ("chalf", DType::C32),
        ("half", DType::F16),
        ("float", DType::F32),
        ("double", DType::F64),
        ("short", DType::I16),
        ("int", DType::I32),
        ("long", DType::I64),
        ("cfloat", DType::C64),
        ("cdouble", DType::C128),
        ("bool", DType::Bool),
    ];
    for (name, d) in ALIASES {
        m.add(name, dtype_object(py, d)?)?;
    }
    for name in MEMORY_FORMATS {
        m.add(name, Py::new(py, PyMemoryFormat(name))?)?;
    }
    for name in UNUSED_LAYOUTS {
        m.add(name, Py::new(py, PyLayout(name))?)?;
    }
    for layout in oneflow_sparse::Layout::ALL {
        m.add(layout.name(), compressed(py, layout)?)?;
    }
    m.add("sparse_coo", sparse_coo(py)?)?;
    m.add("strided", strided(py)?)
}
