//! The Python object of a tensor: a raw heap type, tracked by the collector only once it can be part of a cycle.
//!
//! An object owns one count of its tensor; while Rust holds further counts, the tensor owns one reference to the object
//! (`oneflow_core::Tensor`). So there is one object a tensor for as long as either side holds it.

use crate::{gate, subclass};
use oneflow_core::base::{Error, Result};
use oneflow_core::{PyHooks, Tensor, bit, set_py_hooks, set_release};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

#[repr(C)]
pub struct TensorObj {
    head: PyObject,
    /// The count passed on by `Tensor::into_raw`; null until the object is complete.
    tensor: *mut (),
    pub dict: *mut PyObject,
    pub weakrefs: *mut PyObject,
    /// Hooks of a leaf by number: kept here, where the collector sees what they refer to.
    pub hooks: *mut PyObject,
}

static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(null_mut());

/// The class `oneflow.Tensor`.
#[inline]
pub fn tensor_type() -> *mut PyTypeObject {
    TYPE.load(Ordering::Relaxed)
}

/// Called once, when the class is created.
pub fn set_tensor_type(t: *mut PyTypeObject) {
    TYPE.store(t, Ordering::Release);
    set_py_hooks(PyHooks { incref: gate::incref, decref: gate::decref });
    set_release(gate::release);
}

/// Returns whether an object is a tensor (of the class or a subclass).
///
/// # Safety
/// `o` is a live object.
#[inline]
pub unsafe fn is_tensor(o: *mut PyObject) -> bool {
    // SAFETY: a live object has a live type.
    unsafe {
        let t = ffi::Py_TYPE(o);
        t == tensor_type() || ffi::PyType_IsSubtype(t, tensor_type()) != 0
    }
}

/// The tensor of an object, borrowed from it.
///
/// # Safety
/// `o` is a live object and outlives `'a`; the interpreter is held whenever the borrow is cloned.
#[inline]
pub unsafe fn tensor_of<'a>(o: *mut PyObject) -> Option<&'a Tensor> {
    // SAFETY: checked to be a tensor object; a complete one holds a live tensor.
    unsafe {
        if !is_tensor(o) {
            return None;
        }
        let field: &'a *mut () = &(*o.cast::<TensorObj>()).tensor;
        if field.is_null() { None } else { Some(Tensor::borrow_raw(field)) }
    }
}

/// The tensor of an object known to be one (`self` of a slot or method).
///
/// # Safety
/// As for `tensor_of`, and `o` is a tensor object.
#[inline]
pub unsafe fn self_tensor<'a>(o: *mut PyObject) -> Result<&'a Tensor> {
    // SAFETY: the caller's promise.
    unsafe {
        let field: &'a *mut () = &(*o.cast::<TensorObj>()).tensor;
        if field.is_null() {
            return Err(Error::runtime("Tensor: the object was never initialised"));
        }
        Ok(Tensor::borrow_raw(field))
    }
}

/// A tensor argument of PyO3's own functions.
pub fn get<'a>(o: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: the borrow of the handle keeps the object alive.
    unsafe { tensor_of(o.as_ptr()) }
}

/// The object of a tensor, as a new reference: the one that is bound, or a new one of the plain class.
#[inline]
pub fn wrap(py: Python<'_>, t: Tensor) -> Result<*mut PyObject> {
    let bound = t.py().cast::<PyObject>();
    if !bound.is_null() {
        // SAFETY: `t` holds the tensor, hence its object, alive.
        unsafe { ffi::Py_INCREF(bound) };
        return Ok(bound);
    }
    if t.has_key(bit::SUBCLASS) {
        return subclass::object_of(py, t);
    }
    // SAFETY: the class has been made before any tensor reaches Python.
    let o = unsafe { ffi::PyObject_GC_New::<TensorObj>(tensor_type()) };
    if o.is_null() {
        return Err(gate::pending_set());
    }
    // SAFETY: fresh memory of this layout; everything after the head is ours to set. The object is not tracked yet.
    unsafe {
        (*o).dict = null_mut();
        (*o).weakrefs = null_mut();
        (*o).hooks = null_mut();
        adopt(py, o.cast(), t);
    }
    Ok(o.cast())
}

/// As `wrap`, as a PyO3 handle.
pub fn bound(py: Python<'_>, t: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let o = wrap(py, t).map_err(gate::to_py)?;
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, o) })
}

/// Makes `t` the tensor of a fresh object.
///
/// # Safety
/// `o` is a tensor object without a tensor, and no object is bound to `t`.
unsafe fn adopt(_py: Python<'_>, o: *mut PyObject, t: Tensor) {
    let raw = t.into_raw();
    // SAFETY: the object now owns the count behind `raw`; the interpreter is held, the hooks are installed.
    unsafe {
        (*o.cast::<TensorObj>()).tensor = raw;
        Tensor::borrow_raw(&raw).bind_py(o.cast());
    }
}

/// A new object of `class` (a subclass of Tensor) for a tensor that has none yet.
///
/// # Safety
/// `class` is a type object.
pub unsafe fn wrap_as(py: Python<'_>, class: *mut PyTypeObject, t: Tensor) -> Result<*mut PyObject> {
    if class == tensor_type() {
        return wrap(py, t);
    }
    // SAFETY: a type object.
    if unsafe { ffi::PyType_IsSubtype(class, tensor_type()) } == 0 {
        return Err(Error::type_("cls must be a type (derived from Tensor)"));
    }
    if !t.py().is_null() {
        return Err(Error::runtime("Creating a new Tensor subclass: the tensor already has a Python object"));
    }
    // SAFETY: allocation zeroes the object and tracks it; traverse accepts a null tensor.
    unsafe {
        let attributes = subclass::mark(py, class, &t)?;
        let o = gate::checked(ffi::PyType_GenericAlloc(class, 0));
        match o {
            Ok(o) => {
                (*o.cast::<TensorObj>()).dict = attributes;
                adopt(py, o, t);
                if !attributes.is_null()
                    && ffi::PyDict_Size(attributes) > 0
                    && let Err(e) = subclass::restore_slots(py, o, attributes)
                {
                    ffi::Py_DECREF(o);
                    return Err(e);
                }
            }
            Err(_) => ffi::Py_XDECREF(attributes),
        }
        o
    }
}

/// Lets the collector see the object: called before it can become part of a cycle.
///
/// # Safety
/// `o` is a tensor object and the interpreter is held.
pub unsafe fn track(o: *mut PyObject) {
    // SAFETY: the object is complete; tracking twice is what the check prevents.
    unsafe {
        if ffi::PyObject_GC_IsTracked(o) == 0 {
            ffi::PyObject_GC_Track(o.cast());
        }
    }
}

pub unsafe extern "C" fn dealloc(o: *mut PyObject) {
    // SAFETY: called by Python with the last reference gone and the interpreter held; the order is: out of the collector's
    // sight, weak references, attributes, the tensor, the memory, the type's reference.
    unsafe {
        let class = ffi::Py_TYPE(o);
        let obj = o.cast::<TensorObj>();
        ffi::PyObject_GC_UnTrack(o.cast());
        if !(*obj).weakrefs.is_null() {
            ffi::PyObject_ClearWeakRefs(o);
        }
        drop_attributes(obj);
        let raw = std::mem::replace(&mut (*obj).tensor, null_mut());
        if !raw.is_null() {
            gate::enter((), |_| {
                Tensor::borrow_raw(&raw).unbind_py();
                drop(Tensor::from_raw(raw));
                Ok(())
            });
        }
        if class == tensor_type() {
            ffi::PyObject_GC_Del(o.cast());
        } else {
            let free = ffi::PyType_GetSlot(class, ffi::Py_tp_free);
            let free: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(free);
            free(o.cast());
        }
        ffi::Py_DECREF(class.cast());
    }
}

/// # Safety
/// A tensor object that Python may not reach any more, or one that the collector clears.
unsafe fn drop_attributes(obj: *mut TensorObj) {
    // SAFETY: the fields own a reference each, or are null.
    unsafe {
        for field in [&raw mut (*obj).dict, &raw mut (*obj).hooks] {
            let o = std::mem::replace(&mut *field, null_mut());
            if !o.is_null() {
                ffi::Py_DECREF(o);
            }
        }
    }
}

pub unsafe extern "C" fn traverse(o: *mut PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: called by the collector with the interpreter held. Nothing here changes a reference count that is 1.
    unsafe {
        let obj = o.cast::<TensorObj>();
        for p in [ffi::Py_TYPE(o).cast::<PyObject>(), (*obj).dict, (*obj).hooks] {
            if !p.is_null() {
                let r = visit(p, arg);
                if r != 0 {
                    return r;
                }
            }
        }
        if (*obj).tensor.is_null() {
            return 0;
        }
        let t = Tensor::borrow_raw(&(*obj).tensor);
        // What the tensor holds is this object's own only while nobody else in Rust holds the tensor.
        if t.use_count() == 1 {
            let attributes = subclass::owned_objects(t).into_iter().flatten();
            for p in crate::autograd::owned_objects(t).into_iter().chain(attributes) {
                let r = visit(p, arg);
                if r != 0 {
                    return r;
                }
            }
        }
        0
    }
}

pub unsafe extern "C" fn clear(o: *mut PyObject) -> c_int {
    // SAFETY: called by the collector with the interpreter held.
    unsafe {
        let obj = o.cast::<TensorObj>();
        drop_attributes(obj);
        if !(*obj).tensor.is_null() {
            let t = Tensor::borrow_raw(&(*obj).tensor);
            if t.use_count() == 1 {
                gate::enter((), |_| {
                    crate::autograd::clear_owned(t);
                    Ok(())
                });
            }
        }
        0
    }
}

/// The hooks of a tensor's object, created if `make`.
///
/// # Safety
/// The interpreter is held; the tensor's object, if it has one, is alive.
pub unsafe fn hooks_of<'py>(py: Python<'py>, t: &Tensor, make: bool) -> PyResult<Option<Bound<'py, PyDict>>> {
    let obj = t.py().cast::<TensorObj>();
    if obj.is_null() {
        return Ok(None);
    }
    // SAFETY: the field owns a dict or is null.
    unsafe {
        if (*obj).hooks.is_null() {
            if !make {
                return Ok(None);
            }
            track(obj.cast());
            (*obj).hooks = PyDict::new(py).into_ptr();
        }
        Ok(Some(Bound::from_borrowed_ptr(py, (*obj).hooks).cast_into_unchecked()))
    }
}

pub unsafe extern "C" fn setattro(o: *mut PyObject, name: *mut PyObject, value: *mut PyObject) -> c_int {
    // SAFETY: a slot call; `o` is a tensor object.
    unsafe {
        let r = ffi::PyObject_GenericSetAttr(o, name, value);
        if r == 0 && !(*o.cast::<TensorObj>()).dict.is_null() {
            track(o);
            if let Some(t) = tensor_of(o).filter(|t| t.has_key(bit::SUBCLASS)) {
                subclass::keep_slot(Python::assume_attached(), o, t, name, value);
            }
        }
        r
    }
}

pub unsafe extern "C" fn get_dict(o: *mut PyObject, closure: *mut c_void) -> *mut PyObject {
    // SAFETY: a getter of the class.
    unsafe {
        track(o);
        ffi::PyObject_GenericGetDict(o, closure)
    }
}

pub unsafe extern "C" fn set_dict(o: *mut PyObject, value: *mut PyObject, closure: *mut c_void) -> c_int {
    // SAFETY: a setter of the class.
    unsafe {
        track(o);
        ffi::PyObject_GenericSetDict(o, value, closure)
    }
}

pub unsafe extern "C" fn hash(o: *mut PyObject) -> ffi::Py_hash_t {
    // Identity, as tensors compare elementwise. The low bits of an address carry nothing.
    (o as usize).rotate_right(4) as ffi::Py_hash_t
}
