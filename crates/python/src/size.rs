//! `Size`: a tuple of ints with a product. A raw heap type, since the stable ABI has no other way to extend `tuple`.

use crate::gate::{self, OrPending, checked, enter};
use oneflow_core::base::{Error, Result};
use oneflow_core::{Tensor, bit};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(null_mut());
/// From 3.14 on a tuple caches its hash, which only its own constructor sets up.
static PLAIN_ALLOC: AtomicBool = AtomicBool::new(false);

/// Threads whose traces note what Python asks of sizes.
static RECORDING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The class of ints that note it, while this thread's trace wants that.
    static CLASS: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

/// From now on the sizes of tensors that this thread traces are instances of a class of ints; `None` ends it.
pub fn record(class: Option<Bound<'_, PyAny>>) {
    CLASS.with_borrow_mut(|c| {
        match (c.is_some(), class.is_some()) {
            (false, true) => drop(RECORDING.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(RECORDING.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        *c = class.map(Bound::unbind);
    });
}

/// Returns whether this tensor's sizes are such ints.
#[inline]
fn is_recorded(t: &Tensor) -> bool {
    RECORDING.load(Ordering::Relaxed) != 0 && t.has_key(bit::LAZY) && CLASS.with_borrow(Option::is_some)
}

/// An int that notes what is asked of it; a plain one where no class is set.
#[cold]
unsafe fn recorded(py: Python<'_>, value: i64) -> Result<*mut PyObject> {
    let class = CLASS.with_borrow(|c| c.as_ref().map(|c| c.clone_ref(py)));
    match class {
        Some(class) => Ok(class.bind(py).call1((value,)).pend(py)?.into_ptr()),
        // SAFETY: the interpreter is held.
        None => checked(unsafe { ffi::PyLong_FromLongLong(value) }),
    }
}

#[cold]
unsafe fn recorded_tuple(py: Python<'_>, values: &[i64]) -> Result<*mut PyObject> {
    // SAFETY: the fresh tuple has room for the values and is not shared yet; it takes the ints over.
    unsafe {
        let made = checked(ffi::PyTuple_New(values.len() as ffi::Py_ssize_t))?;
        for (i, v) in values.iter().enumerate() {
            match recorded(py, *v) {
                Ok(item) => drop(ffi::PyTuple_SetItem(made, i as ffi::Py_ssize_t, item)),
                Err(e) => {
                    ffi::Py_DECREF(made);
                    return Err(e);
                }
            }
        }
        Ok(made)
    }
}

/// The sizes of a tensor.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn sizes(py: Python<'_>, t: &Tensor) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe {
        if !is_recorded(t) {
            return size(t.sizes());
        }
        let made = recorded_tuple(py, t.sizes())?;
        let out = from_tuple(made);
        ffi::Py_DECREF(made);
        out
    }
}

/// The strides of a tensor, as a tuple.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn strides(py: Python<'_>, t: &Tensor) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe { if is_recorded(t) { recorded_tuple(py, t.strides()) } else { crate::value::int_tuple(t.strides()) } }
}

/// A number that follows from the sizes of a tensor.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn number_of(py: Python<'_>, t: &Tensor, value: i64) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe { if is_recorded(t) { recorded(py, value) } else { checked(ffi::PyLong_FromLongLong(value)) } }
}

/// Notes that Python gets a plain int of a size.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn given_as_plain(py: Python<'_>, t: &Tensor, value: i64) -> Result<()> {
    if is_recorded(t) {
        // SAFETY: a fresh object.
        let n = unsafe { Bound::from_owned_ptr(py, recorded(py, value)?) };
        n.call_method0("__int__").pend(py)?;
    }
    Ok(())
}

/// A new Size.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn size(values: &[i64]) -> Result<*mut PyObject> {
    let class = TYPE.load(Ordering::Relaxed);
    // SAFETY: the fresh tuple has room for the values and is not shared yet.
    unsafe {
        if !PLAIN_ALLOC.load(Ordering::Relaxed) {
            let t = crate::value::int_tuple(values)?;
            let made = from_tuple(t);
            ffi::Py_DECREF(t);
            return made;
        }
        let o = checked(ffi::PyType_GenericAlloc(class, values.len() as ffi::Py_ssize_t))?;
        for (i, v) in values.iter().enumerate() {
            ffi::PyTuple_SetItem(o, i as ffi::Py_ssize_t, ffi::PyLong_FromLongLong(*v));
        }
        Ok(o)
    }
}

/// # Safety
/// `t` is a tuple of ints and the interpreter is held.
unsafe fn from_tuple(t: *mut PyObject) -> Result<*mut PyObject> {
    // SAFETY: tuple's own constructor, called for a subclass with one argument.
    unsafe {
        let new = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
        let new: ffi::newfunc = std::mem::transmute(new);
        let args = checked(ffi::PyTuple_New(1))?;
        ffi::Py_INCREF(t);
        ffi::PyTuple_SetItem(args, 0, t);
        let o = new(TYPE.load(Ordering::Relaxed), args, null_mut());
        ffi::Py_DECREF(args);
        checked(o)
    }
}

unsafe extern "C" fn new(class: *mut PyTypeObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a constructor call; the values are checked to be ints before they are kept.
        unsafe {
            let new = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
            let new: ffi::newfunc = std::mem::transmute(new);
            let o = checked(new(class, args, kwargs))?;
            for i in 0..ffi::PyTuple_Size(o) {
                let item = ffi::PyTuple_GetItem(o, i);
                if ffi::PyLong_Check(item) == 0 {
                    // NumPy's integers and integer tensors without dimensions are ints too; the tuple is not shared yet.
                    if ffi::PyIndex_Check(item) != 0 {
                        let index = ffi::PyNumber_Index(item);
                        if !index.is_null() && ffi::PyTuple_SetItem(o, i, index) == 0 {
                            continue;
                        }
                        ffi::PyErr_Clear();
                    }
                    let item = ffi::PyTuple_GetItem(o, i);
                    let name = crate::value::type_name(py, item);
                    ffi::Py_DECREF(o);
                    return Err(Error::type_(format!("Size() takes an iterable of 'int' (item {i} is '{name}')")));
                }
            }
            Ok(o)
        }
    })
}

unsafe extern "C" fn repr(o: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call.
        let size = unsafe { Bound::from_borrowed_ptr(py, o) };
        // Sizes that are no plain number say so themselves: a nested tensor has such.
        let items: Vec<String> =
            size.try_iter().pend(py)?.map(|item| Ok(item?.repr()?.to_string())).collect::<PyResult<_>>().pend(py)?;
        let text = format!("{}.Size([{}])", crate::classes::package(), items.join(", "));
        Ok(pyo3::types::PyString::new(py, &text).into_ptr())
    })
}

/// Calls a slot of `tuple` and converts the tuple that it returns to a Size.
unsafe fn through(slot: c_int, call: impl FnOnce(*mut c_void) -> *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |_| {
        // SAFETY: a slot of a built-in type, called with what Python called ours with.
        unsafe {
            let made = checked(call(ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, slot)))?;
            if ffi::Py_TYPE(made) != &raw mut ffi::PyTuple_Type || !all_ints(made) {
                return Ok(made);
            }
            let o = from_tuple(made);
            ffi::Py_DECREF(made);
            o
        }
    })
}

unsafe fn all_ints(t: *mut PyObject) -> bool {
    // SAFETY: a tuple of live objects.
    unsafe { (0..ffi::PyTuple_Size(t)).all(|i| ffi::PyLong_Check(ffi::PyTuple_GetItem(t, i)) != 0) }
}

unsafe extern "C" fn concat(a: *mut PyObject, b: *mut PyObject) -> *mut PyObject {
    // SAFETY: the slot has this type.
    unsafe { through(ffi::Py_sq_concat, |f| std::mem::transmute::<*mut c_void, ffi::binaryfunc>(f)(a, b)) }
}

unsafe extern "C" fn repeat(a: *mut PyObject, n: ffi::Py_ssize_t) -> *mut PyObject {
    // SAFETY: the slot has this type.
    unsafe { through(ffi::Py_sq_repeat, |f| std::mem::transmute::<*mut c_void, ffi::ssizeargfunc>(f)(a, n)) }
}

unsafe extern "C" fn subscript(a: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    // SAFETY: the slot has this type.
    unsafe { through(ffi::Py_mp_subscript, |f| std::mem::transmute::<*mut c_void, ffi::binaryfunc>(f)(a, key)) }
}

unsafe extern "C" fn numel(o: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a method call on a Size.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        let items: Vec<i64> = o.extract().pend(py)?;
        let n = oneflow_core::base::numel(&items)?;
        // Ints of a class of their own are multiplied by it.
        let of_class = |item: &Bound<'_, PyAny>| !item.is_exact_instance_of::<pyo3::types::PyInt>();
        let items: Vec<Bound<'_, PyAny>> = o.try_iter().and_then(|i| i.collect()).pend(py)?;
        if items.iter().any(of_class) {
            let one = 1i64.into_pyobject(py).map_err(PyErr::from).pend(py)?.into_any();
            let product = items.iter().try_fold(one, |n, item| n.mul(item)).pend(py)?;
            return Ok(product.into_ptr());
        }
        // SAFETY: the interpreter is held.
        checked(unsafe { ffi::PyLong_FromLongLong(n) })
    })
}

unsafe extern "C" fn reduce(o: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    gate::enter_owned(null_mut(), |py| {
        // SAFETY: a method call on a Size.
        let o = unsafe { Bound::from_borrowed_ptr(py, o) };
        let items: Vec<i64> = o.extract()?;
        let class = o.get_type();
        Ok((class, (pyo3::types::PyTuple::new(py, items)?,)).into_pyobject(py)?.into_ptr())
    })
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let methods: &'static mut [ffi::PyMethodDef; 3] = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"numel".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: numel },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: c"numel($self)\n--\n\nProduct of the sizes.".as_ptr(),
        },
        ffi::PyMethodDef {
            ml_name: c"__reduce__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: reduce },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: std::ptr::null(),
        },
        ffi::PyMethodDef::zeroed(),
    ]));
    let mut slots = [
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_sq_concat, concat as *mut c_void),
        slot(ffi::Py_sq_repeat, repeat as *mut c_void),
        slot(ffi::Py_mp_subscript, subscript as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(
            ffi::Py_tp_doc,
            c"Sizes of a tensor: a tuple of ints.\n\nExample::\n\n    >>> oneflow.ones(2, 3).shape.numel()\n    6"
                .as_ptr() as *mut c_void,
        ),
        slot(0, null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"oneflow.Size".as_ptr(),
        basicsize: 0,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as u32,
        slots: slots.as_mut_ptr(),
    };
    let base = py.get_type::<pyo3::types::PyTuple>();
    // SAFETY: the specification is complete; what it points to is copied or leaked.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpecWithBases(&mut spec, base.as_ptr()))? };
    TYPE.store(class.as_ptr().cast(), Ordering::Release);
    PLAIN_ALLOC.store(py.version_info() < (3, 14), Ordering::Relaxed);
    let name = class.getattr("__name__")?;
    m.add(name.cast::<pyo3::types::PyString>()?.clone(), &class)?;
    std::mem::forget(class);
    Ok(())
}

fn slot(slot: c_int, pfunc: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot, pfunc }
}
