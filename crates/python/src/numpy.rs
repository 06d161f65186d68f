//! NumPy arrays in and out, over the same memory, by NumPy's own array interface.

use crate::entry::HandFn;
use crate::gate::{OrPending, Shared, pending_set};
use crate::global::copy_to_host;
use crate::hand::{bind, flag, given};
use crate::object::{self_tensor, wrap};
use crate::parse::Given;
use oneflow_autograd as ag;
use oneflow_core::base::{DType, Device, Dims, Error, Result, contiguous_strides};
use oneflow_core::{Storage, Tensor, bit};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

pub const METHODS: &[(&str, &str, HandFn)] = &[
    (
        "numpy",
        "numpy($self, *, force=False)\n--\n\nThe elements as an array over the same memory; `force` detaches and copies to the host first.\n\nExample::\n\n    >>> oneflow.tensor([1.0, 2.0]).numpy()\n    array([1., 2.], dtype=float32)",
        to_numpy,
    ),
    ("__array__", "__array__($self, dtype=None, copy=None)\n--\n\n", array_protocol),
];

pub const FUNCTIONS: &[(&str, &str, HandFn)] = &[
    (
        "from_numpy",
        "from_numpy(ndarray)\n--\n\nA tensor over the memory of an array.\n\nExample::\n\n    >>> import numpy\n    >>> oneflow.from_numpy(numpy.arange(3))\n    tensor([0, 1, 2])",
        from_numpy_function,
    ),
    (
        "frombuffer",
        "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\nA 1-D tensor over the memory of a buffer.\n\nExample::\n\n    >>> oneflow.frombuffer(bytearray([1, 2]), dtype=oneflow.uint8)\n    tensor([1, 2], dtype=oneflow.uint8)",
        frombuffer,
    ),
];

const SUPPORTED: &str = "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool";

/// Type string of an array interface, in native byte order.
fn typestr(d: DType) -> Option<&'static str> {
    Some(match d {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        _ => return None,
    })
}

fn dtype_of_typestr(s: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|d| typestr(*d).is_some_and(|t| t[1..] == s[1..]))
}

/// Returns whether an object is a NumPy array (also of a subclass).
pub fn is_array(o: &Bound<'_, PyAny>) -> bool {
    use std::sync::OnceLock;
    static CLASS: OnceLock<Shared> = OnceLock::new();
    let py = o.py();
    if let Some(c) = CLASS.get() {
        return o.is_instance(&c.bind(py)).unwrap_or(false);
    }
    // Without NumPy in the process nothing is an array.
    let modules = py.import("sys").and_then(|s| s.getattr("modules"));
    let Ok(numpy) = modules.and_then(|m| m.get_item("numpy")) else { return false };
    let Ok(class) = numpy.getattr("ndarray") else { return false };
    let found = o.is_instance(&class).unwrap_or(false);
    let _ = CLASS.set(Shared::new(class));
    found
}

/// The dtype of a NumPy number; `None` for Python's own.
pub fn scalar_dtype(o: &Bound<'_, PyAny>) -> Option<DType> {
    let name = o.getattr_opt("dtype").ok()??.getattr("str").ok()?;
    dtype_of_typestr(&name.extract::<String>().ok()?)
}

/// Whether an object is a number of NumPy.
pub fn is_scalar(o: &Bound<'_, PyAny>) -> bool {
    let class = o.py().import("numpy").and_then(|numpy| numpy.getattr("generic"));
    class.and_then(|class| o.is_instance(&class)).unwrap_or(false)
}

/// An array's description of its memory.
struct Interface {
    ptr: *mut u8,
    readonly: bool,
    dtype: DType,
    sizes: Dims,
    /// In bytes.
    strides: Dims,
}

fn interface(a: &Bound<'_, PyAny>) -> Result<Interface> {
    let py = a.py();
    if !is_array(a) {
        return Err(Error::type_(format!("expected np.ndarray (got {})", a.get_type().name().pend(py)?)));
    }
    let d = a.getattr("__array_interface__").pend(py)?;
    let item = |k: &str| d.get_item(k).pend(py);
    let text: String = item("typestr")?.extract().pend(py)?;
    let Some(dtype) = dtype_of_typestr(&text) else {
        let name = a.getattr("dtype").and_then(|d| d.getattr("type")).and_then(|t| t.getattr("__name__")).pend(py)?;
        return Err(Error::type_(format!(
            "can't convert np.ndarray of type numpy.{name}. The only supported types are: {SUPPORTED}."
        )));
    };
    if text.starts_with('>') {
        return Err(Error::value(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.",
        ));
    }
    let (ptr, readonly): (usize, bool) = item("data")?.extract().pend(py)?;
    let sizes: Vec<i64> = item("shape")?.extract().pend(py)?;
    let strides: Option<Vec<i64>> = item("strides")?.extract().pend(py)?;
    let strides = match strides {
        Some(s) => Dims::from_vec(s),
        // Of an empty array the array itself knows best.
        None if sizes.contains(&0) => Dims::from_vec(a.getattr("strides").and_then(|s| s.extract()).pend(py)?),
        None => contiguous_strides(&sizes).iter().map(|s| s * dtype.size() as i64).collect(),
    };
    Ok(Interface { ptr: ptr as *mut u8, readonly, dtype, sizes: Dims::from_vec(sizes), strides })
}

/// A tensor over the memory of an array.
pub fn from_numpy(a: &Bound<'_, PyAny>) -> Result<Tensor> {
    let i = interface(a)?;
    if i.readonly {
        let text = c"The given NumPy array is not writable, and PyTorch-style tensors do not support non-writable memory. This means writing to this tensor will result in undefined behavior. You may want to copy the array to protect its data or make it writable before converting it to a tensor.";
        // SAFETY: the interpreter is held.
        if unsafe { ffi::PyErr_WarnEx(ffi::PyExc_UserWarning, text.as_ptr(), 1) } < 0 {
            return Err(pending_set());
        }
    }
    over(a, i)
}

/// A tensor over the memory of an array, or of a copy where the array is laid out as no tensor can be.
pub fn readable(a: &Bound<'_, PyAny>) -> Result<Tensor> {
    let i = interface(a)?;
    let item = i.dtype.size() as i64;
    let fits = i.ptr.addr().is_multiple_of(i.dtype.align()) || i.sizes.contains(&0);
    if !fits || i.strides.iter().any(|s| *s < 0 || s % item != 0) {
        let copy = a.call_method0("copy").pend(a.py())?;
        return over(&copy, interface(&copy)?);
    }
    over(a, i)
}

fn over(a: &Bound<'_, PyAny>, i: Interface) -> Result<Tensor> {
    let item = i.dtype.size() as i64;
    let mut strides = Dims::new();
    let mut bytes = item;
    for (n, s) in i.sizes.iter().zip(&i.strides) {
        if *s < 0 {
            return Err(Error::value(
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. (You can probably work around this by making a copy of your array  with array.copy().)",
            ));
        }
        if s % item != 0 {
            return Err(Error::value(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
            ));
        }
        strides.push(s / item);
        let reach = (n - 1).max(0).checked_mul(*s).and_then(|r| r.checked_add(bytes));
        bytes = reach.ok_or_else(|| Error::value("the given numpy array is larger than the memory can be"))?;
    }
    if i.sizes.contains(&0) {
        return Tensor::from_storage(Storage::new(Device::CPU, 0)?, i.dtype, i.sizes, strides, 0);
    }
    // SAFETY: the array's memory covers its elements for as long as the array lives, which the storage keeps.
    let storage = unsafe { Storage::foreign(Device::CPU, i.ptr, bytes as usize, Box::new(Shared::new(a.clone()))) };
    Tensor::from_storage(storage, i.dtype, i.sizes, strides, 0)
}

unsafe fn from_numpy_function(py: Python<'_>, _: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a function call.
    unsafe {
        let [a] = bind("from_numpy", ["ndarray"], 1, 1, g)?;
        wrap(py, from_numpy(&Bound::from_borrowed_ptr(py, a))?)
    }
}

unsafe fn frombuffer(py: Python<'_>, _: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a function call.
    unsafe {
        let [buffer, dtype, count, offset, grad] =
            bind("frombuffer", ["buffer", "dtype", "count", "offset", "requires_grad"], 1, 2, g)?;
        let d = crate::classes::dtype_of(&Bound::from_borrowed_ptr(py, dtype))
            .ok_or_else(|| crate::hand::wrong(py, "frombuffer", "dtype", "dtype", dtype))?;
        let int = |o: *mut PyObject, name: &str, default: i64| match given(o) {
            None => Ok(default),
            Some(o) => crate::value::int(py, o)?.ok_or_else(|| crate::hand::wrong(py, "frombuffer", name, "int", o)),
        };
        let (count, offset) = (int(count, "count", -1)?, int(offset, "offset", 0)?);
        let t = over_buffer(py, buffer, d, count, offset)?;
        if flag(py, "frombuffer", "requires_grad", grad, false)? {
            ag::set_requires_grad(&t, true)?;
        }
        wrap(py, t)
    }
}

/// A 1-D tensor over `count` elements (-1: all) of a buffer, from `offset` bytes on.
///
/// # Safety
/// `buffer` is a live object and the interpreter is held.
pub unsafe fn over_buffer(py: Python<'_>, buffer: *mut PyObject, d: DType, count: i64, offset: i64) -> Result<Tensor> {
    // SAFETY: the caller's promise.
    unsafe {
        let numpy = py.import("numpy").pend(py)?;
        let b = Bound::from_borrowed_ptr(py, buffer);
        let view = py.import("builtins").and_then(|m| m.call_method1("memoryview", (&b,)));
        let seen = view.and_then(|v| Ok((v.getattr("nbytes")?.extract()?, v.getattr("readonly")?.extract()?)));
        let (length, is_readonly): (i64, bool) = seen.map_err(|e| {
            e.restore(py);
            ffi::PyErr_Clear();
            Error::value(format!(
                "object does not implement Python buffer protocol: {}",
                crate::value::type_name(py, buffer)
            ))
        })?;
        let item = d.size() as i64;
        if length == 0 || count == 0 || count < -1 {
            return Err(Error::value(format!("both buffer length ({length}) and count ({count}) must not be 0")));
        }
        if offset < 0 || offset >= length {
            return Err(Error::value(format!(
                "offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
            )));
        }
        if count < 0 && (length - offset) % item != 0 {
            return Err(Error::value(format!(
                "buffer length ({} bytes) after offset ({offset} bytes) must be a multiple of element size ({item})",
                length - offset
            )));
        }
        let n = if count < 0 { (length - offset) / item } else { count };
        if n.checked_mul(item).and_then(|b| b.checked_add(offset)).is_none_or(|end| end > length) {
            return Err(Error::value(format!(
                "requested buffer length ({n} * {item} bytes) after offset ({offset} bytes) must not be greater than actual buffer length ({length} bytes)"
            )));
        }
        let kwargs = PyDict::new(py);
        for (k, v) in [("count", n * item), ("offset", offset)] {
            kwargs.set_item(k, v).pend(py)?;
        }
        if is_readonly {
            let text = c"The given buffer is not writable, and tensors can be written to: writing to this one has undefined results. You may want to copy the buffer, or the tensor before you write to it.";
            if ffi::PyErr_WarnEx(ffi::PyExc_UserWarning, text.as_ptr(), 1) < 0 {
                return Err(crate::gate::pending_set());
            }
        }
        let bytes = numpy.call_method("frombuffer", (b, "uint8"), Some(&kwargs)).pend(py)?;
        let i = interface(&bytes)?;
        // SAFETY: NumPy keeps the buffer exported while the array lives, which the storage keeps.
        let storage = Storage::foreign(Device::CPU, i.ptr, (n * item) as usize, Box::new(Shared::new(bytes)));
        Tensor::from_storage(storage, d, Dims::from_slice(&[n]), Dims::from_slice(&[1]), 0)
    }
}

/// Gives NumPy the memory of a tensor and keeps it alive: the base of the array.
#[pyclass(frozen, module = "oneflow", name = "_ArrayInterface")]
struct ArrayInterface {
    _tensor: Tensor,
    description: Py<PyDict>,
}

#[pymethods]
impl ArrayInterface {
    #[getter]
    fn __array_interface__(&self, py: Python<'_>) -> Py<PyDict> {
        self.description.clone_ref(py)
    }
}

/// An array over the memory of a host tensor.
fn array<'py>(py: Python<'py>, t: &Tensor) -> Result<Bound<'py, PyAny>> {
    let Some(typestr) = typestr(t.dtype()) else {
        return Err(Error::type_(format!("Got unsupported ScalarType {}", t.dtype().scalar_type_name())));
    };
    t.check_memory()?;
    // The array keeps the address.
    t.storage().iter().for_each(|s| s.set_exported());
    let make = || -> PyResult<Bound<'py, PyAny>> {
        let item = t.dtype().size() as i64;
        if t.data_ptr().is_null() {
            // Memory of no bytes that somebody else brought: NumPy wants an address.
            return py.import("numpy")?.call_method1("ndarray", (PyTuple::new(py, t.sizes())?, typestr));
        }
        let d = PyDict::new(py);
        d.set_item("version", 3)?;
        d.set_item("typestr", typestr)?;
        d.set_item("shape", PyTuple::new(py, t.sizes())?)?;
        d.set_item("strides", PyTuple::new(py, t.strides().iter().map(|s| s * item))?)?;
        d.set_item("data", (t.data_ptr() as usize, false))?;
        let holder = Bound::new(py, ArrayInterface { _tensor: t.shallow(), description: d.unbind() })?;
        py.import("numpy")?.call_method1("asarray", (holder,))
    };
    make().pend(py)
}

/// The elements as an array, over the same memory where that may be.
fn exported<'py>(py: Python<'py>, t: &Tensor, force: bool) -> Result<Bound<'py, PyAny>> {
    if t.has_key(bit::LAZY) {
        return Err(Error::not_implemented(
            "numpy() is not supported for traced tensors: inside nn.Graph a tensor has no values while build is traced. Call it on what build returns",
        ));
    }
    if t.device().is_meta() {
        return Err(Error::not_implemented("numpy() is not supported for meta tensors: there is no data"));
    }
    if !force {
        if ag::requires_grad(t) && ag::is_grad_enabled() && !oneflow_core::oneflow_conventions() {
            return Err(Error::runtime(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead. (Under OneFlow's conventions it is allowed: oneflow.conventions(\"oneflow\").)",
            ));
        }
        if !t.device().is_cpu() {
            return Err(Error::type_(format!(
                "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
                t.device()
            )));
        }
    }
    if t.device().is_cpu() && t.storage().is_some() {
        return array(py, t);
    }
    array(py, &copy_to_host(t)?)
}

unsafe fn to_numpy(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [force] = bind("numpy", ["force"], 0, 0, g)?;
        let force = flag(py, "numpy", "force", force, false)?;
        Ok(exported(py, self_tensor(o)?, force)?.into_ptr())
    }
}

unsafe fn array_protocol(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [dtype, copy] = bind("__array__", ["dtype", "copy"], 2, 0, g)?;
        let a = exported(py, self_tensor(o)?, false)?;
        let a = match given(dtype) {
            None => a,
            Some(d) => {
                let kwargs = PyDict::new(py);
                kwargs.set_item("copy", false).pend(py)?;
                a.call_method("astype", (Bound::from_borrowed_ptr(py, d),), Some(&kwargs)).pend(py)?
            }
        };
        let copy = match given(copy) {
            None => false,
            Some(c) => flag(py, "__array__", "copy", c, false)?,
        };
        Ok(if copy { a.call_method0("copy").pend(py)?.into_ptr() } else { a.into_ptr() })
    }
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ArrayInterface>()
}
