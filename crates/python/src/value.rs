//! Numbers, lists and tensors of Python, converted to Rust values. Returns `None` for "not of this type", so that another
//! overload can be tried; only a value that is of the type but cannot be used is an error.

use crate::gate::{self, OrPending, checked};
use crate::object::{is_tensor, tensor_of};
use crate::scalar;
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result, Scalar};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The exact type of an object is this one.
///
/// # Safety
/// `o` is a live object.
#[inline]
unsafe fn is_exact(o: *mut PyObject, t: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::Py_TYPE(o) == t }
}

/// An int of 64 bits; `None` for what is no int (bools are none, as in PyTorch).
///
/// # Safety
/// `o` is a live object and the interpreter is held (so for all functions of this file).
#[inline]
pub unsafe fn int(py: Python<'_>, o: *mut PyObject) -> Result<Option<i64>> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_exact(o, &raw mut ffi::PyLong_Type) {
            return long(o).map(Some);
        }
        if is_exact(o, &raw mut ffi::PyBool_Type) || is_exact(o, &raw mut ffi::PyFloat_Type) {
            return Ok(None);
        }
        if ffi::PyLong_Check(o) != 0 {
            return long(o).map(Some);
        }
        if let Some(t) = tensor_of(o) {
            // As PyTorch: what `operator.index` takes, which is any tensor of one integer.
            if t.numel() != 1 || crate::autograd::requires_grad(t) {
                return Ok(None);
            }
            return Ok(match scalar::read(t)? {
                Scalar::Int(i) => Some(i),
                _ => None,
            });
        }
        index(py, o)
    }
}

#[cold]
unsafe fn index(_py: Python<'_>, o: *mut PyObject) -> Result<Option<i64>> {
    // SAFETY: a live object, the interpreter is held.
    unsafe {
        if ffi::PyIndex_Check(o) == 0 || is_numpy_bool(o) {
            return Ok(None);
        }
        let n = ffi::PyNumber_Index(o);
        if n.is_null() {
            // Arrays have the method and refuse.
            ffi::PyErr_Clear();
            return Ok(None);
        }
        let v = long(n);
        ffi::Py_DECREF(n);
        v.map(Some)
    }
}

/// # Safety
/// `o` is an int object.
#[inline]
unsafe fn long(o: *mut PyObject) -> Result<i64> {
    // SAFETY: an int object, the interpreter is held.
    match unsafe { fitting(o) } {
        Some(v) => Ok(v),
        None => Err(Error::value("Overflow when unpacking long long: the number does not fit 64 bits")),
    }
}

/// As `long`, of a number that is no size or index.
unsafe fn long_number(o: *mut PyObject) -> Result<i64> {
    // SAFETY: an int object, the interpreter is held.
    unsafe {
        fitting(o).ok_or_else(|| {
            ffi::PyErr_SetString(ffi::PyExc_OverflowError, c"int too big to convert".as_ptr());
            gate::pending_set()
        })
    }
}

#[inline]
unsafe fn fitting(o: *mut PyObject) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: an int object, the interpreter is held.
    let v = unsafe { ffi::PyLong_AsLongLongAndOverflow(o, &mut overflow) };
    (overflow == 0).then_some(v)
}

/// # Safety
/// See `int`.
#[inline]
pub unsafe fn float(py: Python<'_>, o: *mut PyObject) -> Result<Option<f64>> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_exact(o, &raw mut ffi::PyFloat_Type) {
            return Ok(Some(ffi::PyFloat_AsDouble(o)));
        }
        Ok(match scalar(py, o)? {
            Some(Scalar::Complex(..)) | None => None,
            Some(s) => Some(s.to_f64()),
        })
    }
}

/// A bool (Python's or NumPy's).
///
/// # Safety
/// See `int`.
#[inline]
pub unsafe fn boolean(py: Python<'_>, o: *mut PyObject) -> Result<Option<bool>> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_exact(o, &raw mut ffi::PyBool_Type) {
            return Ok(Some(o == ffi::Py_True()));
        }
        if is_numpy_bool(o) {
            return Ok(match scalar(py, o)? {
                Some(Scalar::Bool(b)) => Some(b),
                _ => None,
            });
        }
        Ok(None)
    }
}

/// A number: Python's, NumPy's, or a 0-dim tensor's that needs no gradient.
///
/// # Safety
/// See `int`.
#[inline]
pub unsafe fn scalar(py: Python<'_>, o: *mut PyObject) -> Result<Option<Scalar>> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_exact(o, &raw mut ffi::PyFloat_Type) {
            return Ok(Some(Scalar::Float(ffi::PyFloat_AsDouble(o))));
        }
        if is_exact(o, &raw mut ffi::PyLong_Type) {
            return long_number(o).map(|i| Some(Scalar::Int(i)));
        }
        if is_exact(o, &raw mut ffi::PyBool_Type) {
            return Ok(Some(Scalar::Bool(o == ffi::Py_True())));
        }
        if let Some(t) = tensor_of(o) {
            return number_of(t);
        }
        if ffi::PyFloat_Check(o) != 0 {
            return Ok(Some(Scalar::Float(ffi::PyFloat_AsDouble(o))));
        }
        if ffi::PyLong_Check(o) != 0 {
            return long_number(o).map(|i| Some(Scalar::Int(i)));
        }
        if ffi::PyComplex_Check(o) != 0 {
            return Ok(Some(Scalar::Complex(ffi::PyComplex_RealAsDouble(o), ffi::PyComplex_ImagAsDouble(o))));
        }
        numpy_number(py, o)
    }
}

/// A number beyond int64 as an element of uint64, by its bits, if the number stands beside that dtype; it takes the place of the
/// error of `scalar`.
///
/// # Safety
/// As for `int`.
#[cold]
pub unsafe fn unsigned(
    py: Python<'_>,
    o: *mut PyObject,
    error: Error,
    is_beside: impl FnOnce() -> bool,
) -> Result<Option<Scalar>> {
    // SAFETY: the caller's promise.
    unsafe {
        if ffi::PyLong_Check(o) == 0 || ffi::PyErr_ExceptionMatches(ffi::PyExc_OverflowError) == 0 || !is_beside() {
            return Err(error);
        }
        let overflow = PyErr::fetch(py);
        let bits = ffi::PyLong_AsUnsignedLongLong(o);
        if ffi::PyErr_Occurred().is_null() {
            return Ok(Some(Scalar::Int(bits as i64)));
        }
        ffi::PyErr_Clear();
        overflow.restore(py);
        Err(error)
    }
}

#[cold]
unsafe fn numpy_number(py: Python<'_>, o: *mut PyObject) -> Result<Option<Scalar>> {
    // SAFETY: a live object, the interpreter is held.
    unsafe {
        if !is_numpy_generic(o) {
            return Ok(None);
        }
        let b = Bound::from_borrowed_ptr(py, o);
        let n = b.call_method0("item").pend(py)?;
        if is_numpy_generic(n.as_ptr()) { Ok(None) } else { scalar(py, n.as_ptr()) }
    }
}

/// The number of a 0-dim tensor on the host, as Python's own number would be taken.
fn number_of(t: &Tensor) -> Result<Option<Scalar>> {
    if t.ndim() != 0 || crate::autograd::requires_grad(t) {
        return Ok(None);
    }
    scalar::read(t).map(Some)
}

static NUMPY_GENERIC: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());
static NUMPY_BOOL: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// A class of NumPy, if NumPy has been imported by anybody.
unsafe fn numpy_class(slot: &AtomicPtr<PyObject>, name: &std::ffi::CStr) -> *mut PyObject {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the interpreter is held; the class is kept for the life of the process.
    unsafe {
        let module = ffi::PyDict_GetItemString(ffi::PyImport_GetModuleDict(), c"numpy".as_ptr());
        if module.is_null() {
            return std::ptr::null_mut();
        }
        let class = ffi::PyObject_GetAttrString(module, name.as_ptr());
        if class.is_null() {
            ffi::PyErr_Clear();
        } else {
            slot.store(class, Ordering::Relaxed);
        }
        class
    }
}

unsafe fn is_numpy_generic(o: *mut PyObject) -> bool {
    // SAFETY: a live object, the interpreter is held.
    unsafe {
        let class = numpy_class(&NUMPY_GENERIC, c"generic");
        !class.is_null() && ffi::PyType_IsSubtype(ffi::Py_TYPE(o), class.cast()) != 0
    }
}

unsafe fn is_numpy_bool(o: *mut PyObject) -> bool {
    // SAFETY: a live object, the interpreter is held.
    unsafe { ffi::Py_TYPE(o).cast() == numpy_class(&NUMPY_BOOL, c"bool_") }
}

/// Text of a `str`, borrowed from the object.
///
/// # Safety
/// See `int`; the text lives as long as the object.
pub unsafe fn text<'a>(o: *mut PyObject) -> Result<Option<&'a str>> {
    // SAFETY: the caller's promise.
    unsafe {
        if ffi::PyUnicode_Check(o) == 0 {
            return Ok(None);
        }
        let mut n = 0;
        let p = ffi::PyUnicode_AsUTF8AndSize(o, &mut n);
        if p.is_null() {
            return Err(gate::pending_set());
        }
        Ok(Some(std::str::from_utf8_unchecked(std::slice::from_raw_parts(p.cast(), n as usize))))
    }
}

/// The borrowed items of a list or tuple.
///
/// # Safety
/// See `int`. The items are used before Python code can change the list.
#[inline]
pub unsafe fn each(o: *mut PyObject, mut f: impl FnMut(usize, *mut PyObject) -> Result<bool>) -> Result<Option<bool>> {
    // SAFETY: the caller's promise.
    unsafe {
        let tuple = ffi::PyTuple_Check(o) != 0;
        if !tuple && ffi::PyList_Check(o) == 0 {
            return Ok(None);
        }
        let mut i = 0;
        // The length is read again each time: converting an item may run Python code.
        while i < if tuple { ffi::PyTuple_Size(o) } else { ffi::PyList_Size(o) } {
            let item = if tuple { ffi::PyTuple_GetItem(o, i) } else { ffi::PyList_GetItem(o, i) };
            if item.is_null() {
                return Err(gate::pending_set());
            }
            ffi::Py_INCREF(item);
            let ok = f(i as usize, item);
            ffi::Py_DECREF(item);
            if !ok? {
                return Ok(Some(false));
            }
            i += 1;
        }
        Ok(Some(true))
    }
}

/// Returns whether an object is a list or tuple that holds a tensor or other lists (and so is no plain row of numbers).
///
/// # Safety
/// See `int`.
pub unsafe fn is_sequence(o: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::PyTuple_Check(o) != 0 || ffi::PyList_Check(o) != 0 }
}

/// The name of an object's type.
pub fn type_name(py: Python<'_>, o: *mut PyObject) -> String {
    // SAFETY: callers pass live objects.
    unsafe {
        if is_tensor(o) && ffi::Py_TYPE(o) == crate::object::tensor_type() {
            return "Tensor".into();
        }
        let b = Bound::from_borrowed_ptr(py, o);
        b.get_type().name().map(|n| n.to_string()).unwrap_or_else(|_| "object".into())
    }
}

/// A new tuple of owned references.
///
/// # Safety
/// Each item is an owned reference, taken over here (also on failure).
pub unsafe fn tuple(items: impl ExactSizeIterator<Item = *mut PyObject>) -> Result<*mut PyObject> {
    // SAFETY: the interpreter is held; every slot of the fresh tuple is set once.
    unsafe {
        let t = checked(ffi::PyTuple_New(items.len() as ffi::Py_ssize_t))?;
        for (i, item) in items.enumerate() {
            ffi::PyTuple_SetItem(t, i as ffi::Py_ssize_t, item);
        }
        Ok(t)
    }
}

/// A new tuple of ints.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn int_tuple(values: &[i64]) -> Result<*mut PyObject> {
    // SAFETY: fresh ints, given to the tuple.
    unsafe { tuple(values.iter().map(|v| ffi::PyLong_FromLongLong(*v))) }
}
