//! Tensors from Python data: numbers, nested lists, arrays, other tensors.

use crate::entry::HandFn;
use crate::gate::{OrPending, pending_set};
use crate::hand::{bind, flag, given, wrong};
use crate::object::{tensor_of, wrap};
use crate::parse::Given;
use crate::{classes, convert, default_device, dlpack, numpy, placed, scalar, value};
use oneflow_autograd as ag;
use oneflow_core::base::{DType, Device, DeviceType, Dims, Error, Result, Scalar, promote};
use oneflow_core::{Tensor, Transfers, default_dtype, with_transfers};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;

pub const FUNCTIONS: &[(&str, &str, HandFn)] = &[
    (
        "tensor",
        "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False, placement=None, sbp=None)\n--\n\nA new tensor with a copy of `data`: a number, nested lists, an array or a tensor. With `placement` and `sbp` a\nglobal one, of the data of the placement's first rank.\n\nExample::\n\n    >>> oneflow.tensor([[1, 2], [3, 4]])\n    tensor([[1, 2],\n            [3, 4]])\n    >>> oneflow.tensor(2.5, dtype=oneflow.float64)\n    tensor(2.5000, dtype=oneflow.float64)",
        tensor,
    ),
    (
        "as_tensor",
        "as_tensor(data, dtype=None, device=None)\n--\n\n`data` as a tensor, sharing memory where dtype and device allow.\n\nExample::\n\n    >>> oneflow.as_tensor([1.0, 2.0])\n    tensor([1., 2.])\n    >>> x = oneflow.ones(1)\n    >>> oneflow.as_tensor(x) is x\n    True",
        as_tensor,
    ),
    (
        "asarray",
        "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n--\n\n`obj` as a tensor; `copy` forces (True) or forbids (False) a copy.\n\nExample::\n\n    >>> oneflow.asarray([1, 2])\n    tensor([1, 2])",
        asarray,
    ),
];

/// Nesting deeper than this is a mistake, or a list that contains itself.
const MAX_DEPTH: usize = 64;

/// The dtype and device that a call requests.
///
/// # Safety
/// Arguments of a call; they may be null.
pub unsafe fn wanted(
    py: Python<'_>,
    function: &str,
    dtype: *mut PyObject,
    device: *mut PyObject,
    default: Option<Device>,
) -> Result<(Option<DType>, Option<Device>)> {
    // SAFETY: arguments of a call.
    unsafe {
        let dtype = match given(dtype) {
            None => None,
            Some(o) => Some(
                classes::dtype_of(&Bound::from_borrowed_ptr(py, o))
                    .ok_or_else(|| wrong(py, function, "dtype", "dtype", o))?,
            ),
        };
        let device = match given(device) {
            None => default,
            Some(o) => {
                let d = classes::device_of(&Bound::from_borrowed_ptr(py, o)).pend(py)?;
                Some(d.ok_or_else(|| wrong(py, function, "device", "device", o))?)
            }
        };
        Ok((dtype, device))
    }
}

unsafe fn tensor(py: Python<'_>, slf: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a function call.
    unsafe {
        if let Some(result) = placed::by_hand(py, "tensor", slf, g, tensor) {
            return result;
        }
        let [data, dtype, device, grad, pin] =
            bind("tensor", ["data", "dtype", "device", "requires_grad", "pin_memory"], 1, 1, g)?;
        let (dtype, device) = wanted(py, "tensor", dtype, device, default_device::get())?;
        let grad = flag(py, "tensor", "requires_grad", grad, false)?;
        if tensor_of(data).is_some() {
            let text = c"To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather than tensor(sourceTensor).";
            if ffi::PyErr_WarnEx(ffi::PyExc_UserWarning, text.as_ptr(), 1) < 0 {
                return Err(pending_set());
            }
        }
        let pinned = flag(py, "tensor", "pin_memory", pin, false)?;
        let _transfers =
            pinned.then(|| with_transfers(Transfers { pinned: Some(DeviceType::CUDA), ..Transfers::default() }));
        let t = from_data(py, data, dtype, device)?;
        if pinned && !t.device().is_cpu() {
            return Err(Error::runtime("tensor(): only dense CPU tensors can be pinned"));
        }
        if grad {
            ag::set_requires_grad(&t, true)?;
        }
        wrap(py, t)
    }
}

unsafe fn as_tensor(py: Python<'_>, _: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a function call.
    unsafe {
        let [data, dtype, device] = bind("as_tensor", ["data", "dtype", "device"], 3, 1, g)?;
        let (dtype, device) = wanted(py, "as_tensor", dtype, device, default_device::get())?;
        wrap(py, shared(py, data, dtype, device)?)
    }
}

/// The tensor of an object, over the same memory if it can be.
unsafe fn shared(py: Python<'_>, data: *mut PyObject, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
    // SAFETY: a live object.
    unsafe {
        if let Some(t) = tensor_of(data) {
            return convert::moved(py, t, dtype, device);
        }
        let b = Bound::from_borrowed_ptr(py, data);
        if numpy::is_array(&b) {
            return convert::moved(py, &numpy::from_numpy(&b)?, dtype, device);
        }
        if is_foreign(&b) {
            return convert::moved(py, &dlpack::from_dlpack(&b)?, dtype, device);
        }
        from_data(py, data, dtype, device)
    }
}

/// The tensor over the memory that an object shows: a tensor, an array, DLPack (a capsule is used up), or a buffer whose
/// elements the caller says to be of `dtype`.
unsafe fn aliased(py: Python<'_>, o: *mut PyObject, dtype: Option<DType>) -> Result<Option<Tensor>> {
    // SAFETY: a live object.
    unsafe {
        if let Some(t) = tensor_of(o) {
            return Ok(Some(t.clone()));
        }
        let b = Bound::from_borrowed_ptr(py, o);
        if numpy::is_array(&b) {
            return numpy::from_numpy(&b).map(Some);
        }
        if is_foreign(&b) {
            return dlpack::from_dlpack(&b).map(Some);
        }
        // A number of NumPy has a buffer too, but means its value.
        let Some(dtype) = dtype else { return Ok(None) };
        if value::scalar(py, o)?.is_some() {
            return Ok(None);
        }
        // The stable interface of Python 3.10 has no other way to ask whether an object has a buffer.
        let memory = ffi::PyMemoryView_FromObject(o);
        if memory.is_null() {
            ffi::PyErr_Clear();
            return Ok(None);
        }
        ffi::Py_DECREF(memory);
        numpy::over_buffer(py, o, dtype, -1, 0).map(Some)
    }
}

fn is_foreign(o: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object.
    let is_capsule = unsafe { ffi::PyCapsule_CheckExact(o.as_ptr()) } != 0;
    is_capsule || o.hasattr("__dlpack__").unwrap_or(false) && o.hasattr("__dlpack_device__").unwrap_or(false)
}

unsafe fn asarray(py: Python<'_>, _: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a function call.
    unsafe {
        let [obj, dtype, device, copy, grad] =
            bind("asarray", ["obj", "dtype", "device", "copy", "requires_grad"], 1, 1, g)?;
        let (dtype, device) = wanted(py, "asarray", dtype, device, default_device::get())?;
        let grad = flag(py, "asarray", "requires_grad", grad, false)?;
        let copy = match given(copy) {
            None => None,
            Some(o) => Some(flag(py, "asarray", "copy", o, false)?),
        };
        // A copy may be of an array that is read-only or runs backwards.
        let is_copied_array = copy == Some(true) && numpy::is_array(&Bound::from_borrowed_ptr(py, obj));
        let t = match if is_copied_array { None } else { aliased(py, obj, dtype)? } {
            None if copy == Some(false) => {
                if numpy::is_scalar(&Bound::from_borrowed_ptr(py, obj)) {
                    return Err(Error::runtime(
                        "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.",
                    ));
                }
                return Err(Error::value("can't alias arbitrary sequence into a tensor."));
            }
            None => from_data(py, obj, dtype, device)?,
            Some(t) => {
                let is_other = dtype.is_some_and(|d| d != t.dtype()) || device.is_some_and(|d| d != t.device());
                match copy {
                    Some(true) => copied(py, &t, dtype, device)?,
                    Some(false) if is_other => {
                        return Err(Error::value(format!(
                            "can't alias tensor with dtype '{}' into dtype '{}', on {} into {}",
                            t.dtype(),
                            dtype.unwrap_or(t.dtype()),
                            t.device(),
                            device.unwrap_or(t.device())
                        )));
                    }
                    _ if is_other => convert::moved(py, &t, dtype, device)?,
                    _ => t,
                }
            }
        };
        let t = if !grad && ag::requires_grad(&t) { ag::detach(&t) } else { t };
        if grad {
            ag::set_requires_grad(&t, true)?;
        }
        wrap(py, t)
    }
}

/// The tensor that an index list means: integers, or a mask.
pub fn index_tensor(py: Python<'_>, o: *mut PyObject) -> Result<Tensor> {
    // SAFETY: callers pass live objects.
    unsafe {
        let t = from_data(py, o, None, None)?;
        // An empty list is a list of no integers.
        if t.numel() == 0 && t.dtype().is_float() { convert::moved(py, &t, Some(DType::I64), None) } else { Ok(t) }
    }
}

/// A new tensor with a copy of the data.
///
/// # Safety
/// `data` is a live object and the interpreter is held.
pub unsafe fn from_data(
    py: Python<'_>,
    data: *mut PyObject,
    dtype: Option<DType>,
    device: Option<Device>,
) -> Result<Tensor> {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(t) = tensor_of(data) {
            return copied(py, &ag::detach(t), dtype, device);
        }
        if !value::is_sequence(data) {
            let b = Bound::from_borrowed_ptr(py, data);
            if numpy::is_array(&b) {
                // A copy follows: it does not matter that the array is read-only or runs backwards.
                let t = numpy::readable(&b)?;
                return copied(py, &t, dtype, device);
            }
            if ffi::PyLong_Check(data) == 0 && value::scalar(py, data)?.is_none() {
                if let Some(t) = crate::storage::elements(py, data, dtype)? {
                    return copied(py, &t, dtype, device);
                }
                if is_foreign(&b) {
                    return copied(py, &dlpack::from_dlpack(&b)?, dtype, device);
                }
            }
        }
        let mut shape = Dims::new();
        let found = measure(py, data, &mut shape)?.unwrap_or_else(default_dtype);
        let dtype = dtype.unwrap_or(found);
        let t = Tensor::empty(dtype, Device::CPU, &shape)?;
        let mut at = t.data_ptr();
        fill(py, data, &shape, dtype, &mut at)?;
        match device {
            Some(d) if !d.is_cpu() => convert::moved(py, &t, None, Some(d)),
            _ => Ok(t),
        }
    }
}

/// A copy, cast and moved as wanted.
fn copied(py: Python<'_>, t: &Tensor, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
    use oneflow_core::base::Arg;
    let args = [dtype.map_or(Arg::None, Arg::DType), device.map_or(Arg::None, Arg::Device)];
    crate::operators::TO_COPY.one(py, &[Some(t)], &args)
}

/// The common type of the numbers of a sequence so far, with one more.
fn join(kind: &mut Option<DType>, d: DType) {
    // Numbers of dtypes that have none in common are cast as they are read.
    *kind = Some(kind.map_or(d, |have| promote(have, d).unwrap_or(have)));
}

/// Sizes by the first element at each depth, and the dtype of all numbers.
unsafe fn measure(py: Python<'_>, data: *mut PyObject, shape: &mut Dims) -> Result<Option<DType>> {
    let mut kind = None;
    // SAFETY: a live object.
    unsafe {
        let mut first = data;
        let mut held: SmallVec<[Bound<'_, PyAny>; 4]> = SmallVec::new();
        while let Some(n) = length(first)? {
            shape.push(n);
            if shape.len() > MAX_DEPTH {
                return Err(Error::value("too many dimensions: the nesting is deeper than 64"));
            }
            if n == 0 {
                break;
            }
            let Ok(next) = nth(py, first, 0) else {
                ffi::PyErr_Clear();
                return Err(Error::value(format!(
                    "could not determine the shape of object type '{}'",
                    value::type_name(py, first)
                )));
            };
            first = next.as_ptr();
            held.push(next);
        }
        kinds(py, data, shape, 0, &mut kind)?;
    }
    Ok(kind)
}

/// Length of a list, tuple, array or other sequence; `None` for a number, and for a tensor, which counts as one.
unsafe fn length(o: *mut PyObject) -> Result<Option<i64>> {
    // SAFETY: a live object.
    unsafe {
        if ffi::PyList_Check(o) != 0 {
            return Ok(Some(ffi::PyList_Size(o) as i64));
        }
        if ffi::PyTuple_Check(o) != 0 {
            return Ok(Some(ffi::PyTuple_Size(o) as i64));
        }
        if ffi::PyFloat_Check(o) != 0 || ffi::PyLong_Check(o) != 0 {
            return Ok(None);
        }
        if tensor_of(o).is_some() {
            return Ok(None);
        }
        if ffi::PyUnicode_Check(o) != 0 || ffi::PyBytes_Check(o) != 0 || ffi::PySequence_Check(o) == 0 {
            return Ok(None);
        }
        let n = ffi::PySequence_Size(o);
        if n < 0 {
            // A 0-dim array is a sequence without a length.
            ffi::PyErr_Clear();
            return Ok(None);
        }
        Ok(Some(n as i64))
    }
}

/// The length of what stands where a sequence is: a tensor can.
unsafe fn length_inside(o: *mut PyObject) -> Result<Option<i64>> {
    // SAFETY: a live object.
    unsafe {
        match tensor_of(o) {
            Some(t) => Ok(t.sizes().first().copied()),
            None => length(o),
        }
    }
}

unsafe fn nth<'py>(py: Python<'py>, o: *mut PyObject, i: i64) -> Result<Bound<'py, PyAny>> {
    // SAFETY: a live object.
    unsafe {
        let borrowed = if ffi::PyList_Check(o) != 0 {
            ffi::PyList_GetItem(o, i as ffi::Py_ssize_t)
        } else if ffi::PyTuple_Check(o) != 0 {
            ffi::PyTuple_GetItem(o, i as ffi::Py_ssize_t)
        } else {
            return Bound::from_owned_ptr_or_err(py, ffi::PySequence_GetItem(o, i as ffi::Py_ssize_t)).pend(py);
        };
        Bound::from_borrowed_ptr_or_err(py, borrowed).pend(py)
    }
}

unsafe fn kinds(py: Python<'_>, o: *mut PyObject, shape: &[i64], depth: usize, kind: &mut Option<DType>) -> Result<()> {
    // SAFETY: a live object.
    unsafe {
        if depth < shape.len() {
            match length_inside(o)? {
                Some(n) if n == shape[depth] => {}
                Some(n) => {
                    return Err(Error::value(format!(
                        "expected sequence of length {} at dim {depth} (got {n})",
                        shape[depth]
                    )));
                }
                None => return Err(Error::type_("not a sequence")),
            }
            for i in 0..shape[depth] {
                let item = nth(py, o, i)?;
                if item.as_ptr() == o {
                    return Err(Error::type_("new(): self-referential lists are incompatible"));
                }
                kinds(py, item.as_ptr(), shape, depth + 1, kind)?;
            }
            return Ok(());
        }
        if is_int(o) {
            // Whether it fits depends on the dtype of all.
            join(kind, DType::I64);
            return Ok(());
        }
        let d = match element(py, o)? {
            (_, Some(d)) => d,
            (s, None) => s.natural_dtype(default_dtype()),
        };
        join(kind, d);
        Ok(())
    }
}

/// A number, and its dtype where it is NumPy's or a tensor's.
unsafe fn element(py: Python<'_>, o: *mut PyObject) -> Result<(Scalar, Option<DType>)> {
    // SAFETY: a live object.
    unsafe {
        if let Some(t) = tensor_of(o) {
            if t.numel() != 1 {
                return Err(Error::value("only one element tensors can be converted to Python scalars"));
            }
            return Ok((scalar::read(t)?, Some(t.dtype())));
        }
        if is_int(o) {
            let i = value::int(py, o)?.unwrap_or(0);
            return Ok((Scalar::Int(i), None));
        }
        if let Some(s) = value::scalar(py, o)? {
            let exact = ffi::Py_TYPE(o) == &raw mut ffi::PyFloat_Type;
            let dtype = if exact { None } else { numpy::scalar_dtype(&Bound::from_borrowed_ptr(py, o)) };
            return Ok((s, dtype));
        }
        let b = Bound::from_borrowed_ptr(py, o);
        let is_array = numpy::is_array(&b);
        let is_one = is_array && b.getattr("size").and_then(|n| n.extract::<i64>()).pend(py)? == 1;
        if !is_one && length(o)?.is_some() {
            return Err(Error::value(format!(
                "expected a number at this depth, but found a sequence ('{}')",
                value::type_name(py, o)
            )));
        }
        if is_array {
            let n = b.call_method0("item").pend(py)?;
            return Ok((element(py, n.as_ptr())?.0, numpy::scalar_dtype(&b)));
        }
        if ffi::PyUnicode_Check(o) != 0 || ffi::PyBytes_Check(o) != 0 {
            return Err(Error::type_(format!("new(): invalid data type '{}'", value::type_name(py, o))));
        }
        if ffi::PyFloat_Check(o) == 0 && b.hasattr("__float__").pend(py)? {
            let f = b.call_method0("__float__").pend(py)?;
            return element(py, f.as_ptr());
        }
        Err(Error::runtime(format!("Could not infer dtype of {}", value::type_name(py, o))))
    }
}

/// Whether an integer of any size has a value in `d`, which then is rounded.
fn converts_long(d: DType) -> bool {
    d.is_float() || d.is_complex() || d == DType::Bool
}

/// An int that is no bool.
unsafe fn is_int(o: *mut PyObject) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::PyLong_Check(o) != 0 && ffi::Py_TYPE(o) != &raw mut ffi::PyBool_Type }
}

/// The value of an int in a dtype that has one for every integer.
unsafe fn long(o: *mut PyObject, d: DType) -> Result<Scalar> {
    // SAFETY: a live int.
    unsafe {
        if d == DType::Bool {
            return Ok(Scalar::Bool(ffi::PyObject_IsTrue(o) != 0));
        }
        let mut overflow = 0;
        let i = ffi::PyLong_AsLongLongAndOverflow(o, &mut overflow);
        if overflow == 0 {
            return Ok(Scalar::Int(i));
        }
        let f = ffi::PyLong_AsDouble(o);
        if f == -1.0 && !ffi::PyErr_Occurred().is_null() {
            return Err(pending_set());
        }
        Ok(Scalar::Float(f))
    }
}

unsafe fn fill(py: Python<'_>, o: *mut PyObject, shape: &[i64], dtype: DType, at: &mut *mut u8) -> Result<()> {
    // SAFETY: a live object; `at` walks over the elements of a tensor of exactly this shape, which `kinds` has checked
    // and which is checked again, since converting an element may run Python code.
    unsafe {
        let Some((n, rest)) = shape.split_first() else {
            if dtype == DType::U64 && ffi::PyLong_Check(o) != 0 {
                let v = ffi::PyLong_AsUnsignedLongLong(o);
                if v == u64::MAX && !ffi::PyErr_Occurred().is_null() {
                    return Err(pending_set());
                }
                at.cast::<u64>().write_unaligned(v);
                *at = at.add(dtype.size());
                return Ok(());
            }
            let s = if is_int(o) && converts_long(dtype) { long(o, dtype)? } else { element(py, o)?.0 };
            scalar::store(*at, dtype, s)?;
            *at = at.add(dtype.size());
            return Ok(());
        };
        if length_inside(o)? != Some(*n) {
            return Err(Error::runtime("the data changed while it was read"));
        }
        for i in 0..*n {
            fill(py, nth(py, o, i)?.as_ptr(), rest, dtype, at)?;
        }
        Ok(())
    }
}
