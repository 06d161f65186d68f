//! `UntypedStorage`: the memory that views share, as bytes.
//!
//! Storages with a dtype are defined in `oneflow/storage.py`.

use crate::convert::memory_format;
use crate::gate::{run, to_py};
use crate::hand::{bind, given, wrong};
use crate::object::{bound, get, self_tensor, tensor_of};
use crate::parse::Given;
use crate::{autograd, value};
use oneflow_autograd as ag;
use oneflow_core::base::{DType, Device, Dims, Error, Result, contiguous_strides};
use oneflow_core::{Storage, Tensor};
use oneflow_ops::TensorOps;
use oneflow_ops::creation::new::uninitialised_value;
use oneflow_ops::elementwise::channels_last;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The bytes that tensors share.
///
/// Example::
///
///     >>> x = oneflow.arange(4)
///     >>> x[2:].untyped_storage().nbytes()
///     32
#[pyclass(frozen, weakref, module = "oneflow", name = "UntypedStorage")]
pub struct PyStorage(Storage);

/// The storage of a tensor.
pub fn of<'py>(py: Python<'py>, t: &Tensor) -> PyResult<Bound<'py, PyStorage>> {
    let s = run(|| match t.storage() {
        Some(s) => Ok(s.clone()),
        None if t.device().is_meta() => Storage::new(t.device(), t.end_of_bytes()?),
        None => Err(Error::not_implemented("Cannot access storage of a tensor without data")),
    })?;
    Bound::new(py, PyStorage(s))
}

#[pymethods]
impl PyStorage {
    /// Memory of `size` bytes, uninitialised; or with the given bytes, if `size` is a sequence of them.
    #[new]
    #[pyo3(signature = (size=None, *, device=None))]
    fn new(size: Option<&Bound<'_, PyAny>>, device: Option<&Bound<'_, PyAny>>) -> PyResult<PyStorage> {
        let device = match device {
            Some(d) => crate::classes::device_of(d)?.unwrap_or(Device::CPU),
            None => Device::CPU,
        };
        let bytes = match size {
            Some(s) if s.cast::<PyList>().is_ok() || s.cast::<PyTuple>().is_ok() => Some(s.extract::<Vec<u8>>()?),
            _ => None,
        };
        let size = match (&bytes, size) {
            (Some(b), _) => b.len() as i64,
            (None, Some(s)) => s.extract::<i64>()?,
            (None, None) => 0,
        };
        run(|| {
            let size = usize::try_from(size)
                .map_err(|_| Error::runtime(format!("UntypedStorage: the size must not be negative, got {size}")))?;
            let Some(bytes) = bytes else { return Ok(PyStorage(Storage::new(device, size)?)) };
            if device.is_meta() {
                return Ok(PyStorage(Storage::new(device, size)?));
            }
            // SAFETY: any bytes are numbers of this type.
            let host = unsafe { Tensor::from_host(&bytes, DType::U8, &[size as i64])? };
            let made = if device.is_cpu() { host } else { host.to_copy_with(None, Some(device))? };
            made.storage().cloned().map(PyStorage).ok_or_else(|| Error::runtime("UntypedStorage: there is no memory"))
        })
    }
    /// `size` bytes of host memory at `address`, which `keep` owns.
    #[staticmethod]
    fn _from_address(address: usize, size: usize, keep: Py<PyAny>) -> PyResult<PyStorage> {
        if address == 0 {
            return Err(to_py(Error::runtime("UntypedStorage: no memory at address 0")));
        }
        // SAFETY: the package calls this with an address of as many bytes that `keep` owns.
        Ok(PyStorage(unsafe { Storage::foreign(Device::CPU, address as *mut u8, size, Box::new(keep)) }))
    }
    fn nbytes(&self) -> usize {
        self.0.bytes()
    }
    fn size(&self) -> usize {
        self.0.bytes()
    }
    fn element_size(&self) -> usize {
        1
    }
    fn __len__(&self) -> usize {
        self.0.bytes()
    }
    fn data_ptr(&self) -> usize {
        self.0.ptr() as usize
    }
    #[getter]
    fn _cdata(&self) -> usize {
        self.0.address()
    }
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<Py<crate::classes::PyDevice>> {
        crate::classes::device_object(py, self.0.device())
    }
    /// Other memory of `size` bytes with as much of the old content as fits.
    fn resize_(slf: Bound<'_, Self>, size: i64) -> PyResult<Bound<'_, Self>> {
        run(|| {
            let size = usize::try_from(size)
                .map_err(|_| Error::runtime(format!("resize_(): the size must not be negative, got {size}")))?;
            // SAFETY: the interpreter is held; launches that run without it pin the memory, others keep no pointer.
            unsafe { slf.get().0.resize(size) }
        })?;
        Ok(slf)
    }
    /// The bytes as a 1-D tensor of uint8 that shares them.
    fn _tensor<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let n = self.0.bytes() as i64;
        let t = run(|| {
            let dims = Dims::from_slice(&[n]);
            Tensor::from_storage(self.0.clone(), DType::U8, dims, contiguous_strides(&[n]), 0)
        })?;
        bound(py, t)
    }
    /// Moves the bytes to `address`, which `keep` owns.
    fn _move_into(&self, address: usize, keep: Py<PyAny>) -> PyResult<()> {
        if !self.0.device().is_cpu() || address == 0 {
            return Err(to_py(Error::runtime("only storages in host memory can be shared")));
        }
        // SAFETY: the package calls this with an address of as many bytes that `keep` owns; the interpreter is held.
        unsafe { self.0.move_into(address as *mut u8, Box::new(keep)) };
        Ok(())
    }
    /// Returns whether `resize_` may exchange the memory: it is the storage's own, and no other library uses it.
    fn resizable(&self) -> bool {
        self.0.is_resizable()
    }
    #[getter]
    fn _is_own(&self) -> bool {
        self.0.is_own()
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStorage>().is_ok_and(|o| o.get().0.same(&self.0))
    }
    fn __hash__(&self) -> usize {
        self.0.address() >> 4
    }
}

/// `x.set_()`, `x.set_(tensor)`, `x.set_(storage, offset, size, stride)`: other memory under the same identity.
///
/// # Safety
/// A method call.
pub unsafe fn set_(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: by this function's contract.
    unsafe {
        let t = self_tensor(o)?;
        let names = ["source", "storage_offset", "size", "stride"];
        let [source, offset, size, stride] = bind("set_", names, 4, 0, g)?;
        let made = match given(source) {
            None => Tensor::empty(t.dtype(), t.device(), &[0])?,
            Some(s) => match tensor_of(s) {
                Some(s) if given(size).is_none() && given(offset).is_none() => {
                    same_dtype(t, s)?;
                    s.shallow()
                }
                found => {
                    let storage = match found {
                        Some(s) => {
                            same_dtype(t, s)?;
                            s.storage().cloned()
                        }
                        None => storage_of(py, s, t.dtype())?,
                    };
                    let storage = storage.ok_or_else(|| wrong(py, "set_", "source", "Storage or Tensor", s))?;
                    let layout = Layout { offset: given(offset), size: given(size), stride: given(stride) };
                    layout.over(py, storage, t.dtype())?
                }
            },
        };
        ag::set_data(t, &made)?;
        t.bump_version();
        Ok(crate::hand::again(o))
    }
}

fn same_dtype(t: &Tensor, s: &Tensor) -> Result<()> {
    if s.dtype() == t.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "Could not set tensor of type {} to a tensor of type {}",
        s.dtype().scalar_type_name(),
        t.dtype().scalar_type_name()
    )))
}

/// The memory of an untyped storage, or of one with a dtype, which must be this.
unsafe fn storage_of(py: Python<'_>, o: *mut PyObject, dtype: DType) -> Result<Option<Storage>> {
    // SAFETY: an argument of a call.
    let object = unsafe { Bound::from_borrowed_ptr(py, o) };
    if let Ok(s) = object.cast::<PyStorage>() {
        return Ok(Some(s.get().0.clone()));
    }
    let Ok(inner) = object.getattr("_untyped_storage") else { return Ok(None) };
    let theirs = object.getattr("dtype").ok().and_then(|d| crate::classes::dtype_of(&d));
    if theirs.is_some_and(|d| d != dtype) {
        return Err(Error::runtime(format!(
            "Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 'storage'",
            dtype.scalar_type_name(),
            theirs.map_or("?", |d| d.scalar_type_name())
        )));
    }
    Ok(inner.cast::<PyStorage>().ok().map(|s| s.get().0.clone()))
}

/// The elements of a storage over its memory: of a typed one in its dtype, of bytes in the given one. `None` for other objects.
///
/// # Safety
/// An argument of a call.
pub unsafe fn elements(py: Python<'_>, o: *mut PyObject, dtype: Option<DType>) -> Result<Option<Tensor>> {
    // SAFETY: by this function's contract.
    let object = unsafe { Bound::from_borrowed_ptr(py, o) };
    let typed = || object.getattr_opt("_untyped_storage").ok().flatten().is_some();
    if object.cast::<PyStorage>().is_err() && !typed() {
        return Ok(None);
    }
    let theirs = object.getattr_opt("dtype").ok().flatten().and_then(|d| crate::classes::dtype_of(&d));
    let dtype = dtype.or(theirs).unwrap_or_else(oneflow_core::default_dtype);
    // SAFETY: as above.
    let Some(storage) = (unsafe { storage_of(py, o, dtype)? }) else { return Ok(None) };
    let n = (storage.bytes() / dtype.size()) as i64;
    Tensor::from_storage(storage, dtype, Dims::from_slice(&[n]), contiguous_strides(&[n]), 0).map(Some)
}

struct Layout {
    offset: Option<*mut PyObject>,
    size: Option<*mut PyObject>,
    stride: Option<*mut PyObject>,
}

impl Layout {
    unsafe fn over(&self, py: Python<'_>, storage: Storage, dtype: DType) -> Result<Tensor> {
        // SAFETY: arguments of a call.
        unsafe {
            let offset = match self.offset {
                Some(o) => value::int(py, o)?.ok_or_else(|| wrong(py, "set_", "storage_offset", "int", o))?,
                None => 0,
            };
            let sizes = match self.size {
                Some(o) => ints(py, o, "size")?,
                None => vec![((storage.bytes() / dtype.size()) as i64).saturating_sub(offset)],
            };
            let strides = match self.stride {
                Some(o) if !ints(py, o, "stride")?.is_empty() || sizes.is_empty() => {
                    Dims::from_slice(&ints(py, o, "stride")?)
                }
                _ => contiguous_strides(&sizes),
            };
            if sizes.len() != strides.len() {
                return Err(Error::runtime(format!(
                    "set_(): mismatch in length of sizes and strides: {sizes:?} and {:?}",
                    strides.as_slice()
                )));
            }
            let reach = sizes.iter().zip(&strides).try_fold(offset, |end, (n, s)| {
                n.saturating_sub(1).max(0).checked_mul(*s).and_then(|x| x.checked_add(end))
            });
            let need = reach.and_then(|r| r.checked_add(1)).and_then(|n| n.checked_mul(dtype.size() as i64));
            let need = need.ok_or_else(|| Error::runtime(format!("set_(): sizes {sizes:?} are too large")))?;
            if need > storage.bytes() as i64 && !sizes.contains(&0) && storage.is_own() {
                // SAFETY: the interpreter is held; launches that run without it pin the memory, others keep no pointer.
                storage.resize(need as usize)?;
            }
            Tensor::from_storage(storage, dtype, Dims::from_slice(&sizes), strides, offset)
        }
    }
}

unsafe fn ints(py: Python<'_>, o: *mut PyObject, name: &str) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    // SAFETY: an argument of a call.
    unsafe {
        let all = value::each(o, |_, x| {
            let v = value::int(py, x)?;
            found.extend(v);
            Ok(v.is_some())
        })?;
        match all {
            Some(true) => Ok(found),
            _ => Err(wrong(py, "set_", name, "tuple of ints", o)),
        }
    }
}

/// `x.resize_(...)`: other sizes, dense in the memory format given, in the same memory while it is large enough.
pub fn resize(t: &Tensor, sizes: &[i64], format: Option<&str>) -> Result<()> {
    if autograd::requires_grad(t) && !autograd::in_inference_mode() {
        return Err(Error::runtime("cannot resize variables that require grad"));
    }
    let strides = match format {
        Some("preserve_format") => {
            return Err(Error::runtime("resize_(): Unsupported memory format preserve_format"));
        }
        format => channels_last(format.unwrap_or(""), sizes)?.unwrap_or_else(|| contiguous_strides(sizes)),
    };
    if t.device().is_meta() {
        let shell = Tensor::shell(t.dtype(), t.device(), Dims::from_slice(sizes), strides)?;
        // SAFETY: the interpreter is held, and nobody keeps a borrow of the sizes.
        unsafe { t.set_body_from(&shell) };
        return Ok(());
    }
    if sizes == t.sizes() && format.is_none() {
        return Ok(());
    }
    let storage = t.storage().ok_or_else(|| Error::not_implemented("resize_(): the tensor has no data"))?;
    let shell = Tensor::shell(t.dtype(), t.device(), Dims::from_slice(sizes), strides.clone())?;
    let need = (t.offset() as usize).checked_add(shell.numel() as usize);
    let need = need.and_then(|n| n.checked_mul(t.dtype().size()));
    let need = need.ok_or_else(|| Error::runtime(format!("resize_(): sizes {sizes:?} are too large")))?;
    let before = storage.bytes() / t.dtype().size();
    if need > storage.bytes() && shell.numel() > 0 {
        // SAFETY: the interpreter is held; launches that run without it pin the memory, others keep no pointer.
        unsafe { storage.resize(need)? };
        if let Some(value) = uninitialised_value(t.dtype()) {
            let more = Dims::from_slice(&[(need / t.dtype().size() - before) as i64]);
            let added = Tensor::from_storage(storage.clone(), t.dtype(), more, Dims::from_slice(&[1]), before as i64)?;
            added.fill_(value)?;
        }
    }
    let new = Tensor::from_storage(storage.clone(), t.dtype(), Dims::from_slice(sizes), strides, t.offset())?;
    // SAFETY: the interpreter is held, and nobody keeps a borrow of the sizes.
    unsafe { t.set_body_from(&new) };
    t.bump_version();
    Ok(())
}

/// `x.resize_as_(other)`; "preserve_format" takes the other's format too.
///
/// # Safety
/// A method call.
pub unsafe fn resize_as_(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: by this function's contract.
    unsafe {
        let [other, format] = bind("resize_as_", ["the_template", "memory_format"], 1, 1, g)?;
        let other = tensor_of(other).ok_or_else(|| wrong(py, "resize_as_", "the_template", "Tensor", other))?;
        let sizes = Dims::from_slice(other.sizes());
        let format = match memory_format(py, "resize_as_", format)? {
            Some("preserve_format") if other.is_contiguous() => None,
            Some("preserve_format") => ["channels_last", "channels_last_3d"].into_iter().find(|f| {
                let strides = channels_last(f, &sizes).ok().flatten();
                strides.is_some_and(|s| s.as_slice() == other.strides())
            }),
            format => format,
        };
        resize(self_tensor(o)?, &sizes, format)?;
        ffi::Py_INCREF(o);
        Ok(o)
    }
}

/// A tensor's storage, for `x.untyped_storage()`; the objects of one storage are equal.
#[pyfunction]
fn _shares_storage(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    matches!((get(a).and_then(Tensor::storage), get(b).and_then(Tensor::storage)), (Some(x), Some(y)) if x.same(y))
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyStorage>()?;
    m.add_function(wrap_pyfunction!(_shares_storage, m)?)
}
