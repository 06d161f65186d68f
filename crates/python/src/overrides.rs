//! `__torch_function__`: calls handled by classes that override them.
//!
//! The plain path only compares an argument's class with `Tensor`. How an overriding class is called is defined in
//! `oneflow/overrides.py`.

use crate::gate::{OrPending, checked};
use crate::object::tensor_type;
use crate::overload::Form;
use crate::parse::Given;
use oneflow_core::base::Result;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Who hears calls on this thread: classes and modes, modes alone, nobody.
const ENABLED: u8 = 0;
const SUBCLASSES_DISABLED: u8 = 1;
const ALL_DISABLED: u8 = 2;

thread_local! {
    static STATE: Cell<u8> = const { Cell::new(ENABLED) };
}

/// Modes that are active on any thread.
static MODES: AtomicUsize = AtomicUsize::new(0);

/// Subclasses of Tensor that are known to override nothing (Parameter).
static PLAIN: [AtomicPtr<PyTypeObject>; 2] = [const { AtomicPtr::new(null_mut()) }; 2];

/// The mark of classes that override nothing.
static DISABLED: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());

fn name() -> *mut PyObject {
    static NAME: OnceLock<usize> = OnceLock::new();
    // SAFETY: the interpreter is held; the name is kept for ever.
    *NAME.get_or_init(|| unsafe { ffi::PyUnicode_InternFromString(c"__torch_function__".as_ptr()) as usize })
        as *mut PyObject
}

/// Returns whether an object overrides calls that it is part of.
///
/// # Safety
/// A live object; the interpreter is held.
#[inline]
pub unsafe fn answers(o: *mut PyObject) -> bool {
    // SAFETY: a live object has a live type.
    let class = unsafe { ffi::Py_TYPE(o) };
    if class == tensor_type() || PLAIN.iter().any(|p| p.load(Ordering::Relaxed) == class) {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe { asks(o, class) }
}

#[cold]
unsafe fn asks(o: *mut PyObject, class: *mut PyTypeObject) -> bool {
    // SAFETY: a live object, the interpreter is held.
    unsafe {
        if STATE.get() != ENABLED || is_basic(o, class) {
            return false;
        }
        let f = ffi::PyObject_GetAttr(class.cast(), name());
        if f.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let disabled = f == DISABLED.load(Ordering::Relaxed);
        ffi::Py_DECREF(f);
        !disabled
    }
}

/// Classes of the language itself, which never override calls.
unsafe fn is_basic(o: *mut PyObject, class: *mut PyTypeObject) -> bool {
    // SAFETY: comparing addresses of built-in objects.
    unsafe {
        o == ffi::Py_None()
            || o == ffi::Py_Ellipsis()
            || [
                &raw mut ffi::PyLong_Type,
                &raw mut ffi::PyFloat_Type,
                &raw mut ffi::PyBool_Type,
                &raw mut ffi::PyComplex_Type,
                &raw mut ffi::PyUnicode_Type,
                &raw mut ffi::PyTuple_Type,
                &raw mut ffi::PyList_Type,
                &raw mut ffi::PyDict_Type,
                &raw mut ffi::PySlice_Type,
                &raw mut ffi::PyBytes_Type,
            ]
            .contains(&class)
    }
}

/// As `answers`, for an index: the most common types are skipped.
///
/// # Safety
/// As for `answers`.
#[inline]
pub unsafe fn index_answers(o: *mut PyObject) -> bool {
    // SAFETY: a live object has a live type; the addresses of built-in types are constants.
    unsafe {
        let class = ffi::Py_TYPE(o);
        let plain = class == &raw mut ffi::PyLong_Type
            || class == &raw mut ffi::PySlice_Type
            || class == &raw mut ffi::PyTuple_Type;
        !plain && answers(o)
    }
}

/// Returns whether a mode receives every call.
#[inline]
pub fn has_modes() -> bool {
    MODES.load(Ordering::Relaxed) != 0 && STATE.get() != ALL_DISABLED
}

/// Returns whether somebody hears a call with this object as `self`: a mode, or the object's class.
///
/// # Safety
/// As for `answers`.
#[inline]
pub unsafe fn heard(o: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    has_modes() || unsafe { answers(o) }
}

/// The name of the function, as users know it.
pub enum Function<'a> {
    Op(&'a str, Form),
    Method(&'a str),
    /// An attribute, and what is done to it: `__get__`, `__set__` or `__delete__`.
    Attribute(&'a str, &'a str),
}

impl Function<'_> {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the class lives for ever.
        let class = unsafe { Bound::from_borrowed_ptr(py, tensor_type().cast::<PyObject>()) };
        match self {
            Function::Attribute(n, action) => class.getattr(*n)?.getattr(*action),
            Function::Method(n) => class.getattr(*n),
            Function::Op(n, form) => {
                let name = if form.is_inplace() { format!("{n}_") } else { (*n).to_owned() };
                if form.is_method() {
                    return class.getattr(name);
                }
                let module = py.import("oneflow._oneflow")?;
                module.getattr(name.as_str()).or_else(|_| module.getattr("_C")?.getattr(name))
            }
        }
    }
}

/// Lets the modes and the classes of `who` handle a call. Objects whose classes do not override calls may be among them.
///
/// # Safety
/// The objects of the call are alive and the interpreter is held; `slf` may be null.
#[cold]
pub unsafe fn ask(
    py: Python<'_>,
    function: Function<'_>,
    slf: *mut PyObject,
    given: Given,
    who: &[*mut PyObject],
) -> Result<*mut PyObject> {
    let call = || -> PyResult<Bound<'_, PyAny>> {
        // SAFETY: the caller's promise.
        let (args, kwargs) = unsafe { as_python(py, slf, given)? };
        // SAFETY: the caller's promise.
        let who: Vec<_> = who
            .iter()
            .filter(|o| unsafe { answers(**o) })
            .map(|o| unsafe { Bound::from_borrowed_ptr(py, *o) })
            .collect();
        let who = PyTuple::new(py, who)?;
        let ask = py.import("oneflow.overrides")?.getattr("_ask")?;
        ask.call1((function.object(py)?, args, kwargs, who))
    };
    Ok(call().pend(py)?.into_ptr())
}

/// The arguments of a call as a tuple and a dictionary.
///
/// # Safety
/// As for `ask`.
pub unsafe fn as_python<'py>(
    py: Python<'py>,
    slf: *mut PyObject,
    given: Given,
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    // SAFETY: the caller's promise.
    let borrowed = |o: *mut PyObject| unsafe { Bound::from_borrowed_ptr(py, o) };
    let mut args: Vec<Bound<'_, PyAny>> = Vec::new();
    if !slf.is_null() {
        args.push(borrowed(slf));
    }
    // SAFETY: as many arguments are there, and as many more as there are names.
    args.extend((0..given.n).map(|i| borrowed(unsafe { *given.args.add(i) })));
    let kwargs = PyDict::new(py);
    if !given.names.is_null() {
        let names = borrowed(given.names).cast_into::<PyTuple>()?;
        for (k, name) in names.iter().enumerate() {
            // SAFETY: as above.
            kwargs.set_item(name, borrowed(unsafe { *given.args.add(given.n + k) }))?;
        }
    }
    Ok((PyTuple::new(py, args)?, kwargs))
}

/// As `ask`, for a slot with an object and up to two operands.
///
/// # Safety
/// Live objects, the interpreter is held.
#[cold]
pub unsafe fn ask_slot(
    py: Python<'_>,
    name: &str,
    slf: *mut PyObject,
    operands: &[*mut PyObject],
    who: &[*mut PyObject],
) -> Result<*mut PyObject> {
    let given = Given { args: operands.as_ptr(), n: operands.len(), names: null_mut() };
    // SAFETY: the caller's promise.
    checked(unsafe { ask(py, Function::Method(name), slf, given, who)? })
}

/// Returns whether any of the objects overrides a call.
///
/// Example::
///
///     >>> oneflow.overrides.has_torch_function_variadic(oneflow.ones(1), 2)
///     False
#[pyfunction]
#[pyo3(signature = (*objects))]
fn _has_torch_function(objects: &Bound<'_, PyTuple>) -> bool {
    // SAFETY: the tuple keeps the objects alive.
    has_modes() || objects.iter().any(|o| unsafe { answers(o.as_ptr()) })
}

/// Returns whether an argument of a function written in Python overrides its call: any of them, or of the items of a list.
///
/// # Safety
/// Python's fast call protocol: the arguments are alive during the call.
unsafe extern "C" fn any_answers(_: *mut PyObject, args: *mut *mut PyObject, n: ffi::Py_ssize_t) -> *mut PyObject {
    // SAFETY: as many arguments are there; the items of a list are alive while the interpreter is held.
    unsafe {
        let yes = has_modes() || STATE.get() == ENABLED && (0..n).any(|i| answers_or_holds(*args.offset(i)));
        ffi::PyBool_FromLong(yes.into())
    }
}

/// Returns whether an object, or an item of a list or tuple, overrides calls.
///
/// # Safety
/// A live object; the interpreter is held.
unsafe fn answers_or_holds(o: *mut PyObject) -> bool {
    // SAFETY: the items stay alive: nothing runs that could change a list that holds no class that answers.
    unsafe {
        let class = ffi::Py_TYPE(o);
        if class == &raw mut ffi::PyTuple_Type {
            (0..ffi::PyTuple_Size(o)).any(|i| answers(ffi::PyTuple_GetItem(o, i)))
        } else if class == &raw mut ffi::PyList_Type {
            (0..ffi::PyList_Size(o)).any(|i| {
                let item = ffi::PyList_GetItem(o, i);
                if item.is_null() {
                    // Shortened meanwhile by an attribute lookup of a metaclass.
                    ffi::PyErr_Clear();
                    return false;
                }
                answers(item)
            })
        } else {
            answers(o)
        }
    }
}

/// The objects that override a call, at any position: for arguments that fit no signature.
///
/// # Safety
/// As for `ask`.
#[cold]
pub unsafe fn answering(py: Python<'_>, slf: *mut PyObject, given: Given) -> PyResult<Vec<*mut PyObject>> {
    let mut found = Vec::new();
    // SAFETY: the caller's promise; what is returned is held by the call's arguments.
    unsafe {
        let (args, kwargs) = as_python(py, slf, given)?;
        for object in args.iter().chain(kwargs.values().iter()) {
            if answers(object.as_ptr()) {
                found.push(object.as_ptr());
            } else if answers_or_holds(object.as_ptr()) {
                for item in object.try_iter()? {
                    let item = item?;
                    if answers(item.as_ptr()) {
                        found.push(item.as_ptr());
                    }
                }
            }
        }
    }
    Ok(found)
}

/// The function object of `any_answers`: the fast call protocol, since every call of a Python function begins with it.
fn any_answers_function(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let definition = Box::into_raw(Box::new(ffi::PyMethodDef {
        ml_name: c"_any_answers".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFast: any_answers },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: c"Whether any of the arguments, or an item of a list of them, would answer a call.".as_ptr(),
    }));
    // SAFETY: the definition lives for ever.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCFunction_NewEx(definition, null_mut(), null_mut())) }
}

/// Says who hears calls of this thread (0 classes and modes, 1 modes alone, 2 nobody); returns the former setting.
#[pyfunction]
fn _set_torch_function_state(state: u8) -> u8 {
    STATE.replace(state.min(ALL_DISABLED))
}

#[pyfunction]
fn _get_torch_function_state() -> u8 {
    STATE.get()
}

#[pyfunction]
fn _is_torch_function_enabled() -> bool {
    STATE.get() == ENABLED
}

/// Counts the active modes.
#[pyfunction]
fn _count_torch_function_modes(entered: bool) {
    if entered {
        MODES.fetch_add(1, Ordering::Relaxed);
    } else {
        MODES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Marks a subclass of Tensor as overriding nothing, so that it is not searched again.
#[pyfunction]
fn _plain_class(class: &Bound<'_, PyAny>) {
    for p in &PLAIN {
        let class = class.as_ptr().cast::<PyTypeObject>();
        if p.compare_exchange(null_mut(), class, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // SAFETY: the class is kept for ever, so that its address is never another's.
            unsafe { ffi::Py_INCREF(class.cast()) };
            return;
        }
    }
}

/// The `__torch_function__` of classes that override nothing.
#[pyfunction]
#[pyo3(signature = (func, types, args=None, kwargs=None))]
fn _disabled_torch_function_impl<'py>(
    py: Python<'py>,
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: Option<Bound<'py, PyTuple>>,
    kwargs: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    struct Back(u8);
    impl Drop for Back {
        fn drop(&mut self) {
            STATE.set(self.0);
        }
    }
    let _ = types;
    let _back = Back(STATE.get());
    STATE.set(STATE.get().max(SUBCLASSES_DISABLED));
    func.call(args.unwrap_or_else(|| PyTuple::empty(py)), kwargs.as_ref())
}

/// Adds the functions to the private module.
pub fn add(private: &Bound<'_, PyModule>) -> PyResult<()> {
    let disabled = wrap_pyfunction!(_disabled_torch_function_impl, private)?;
    DISABLED.store(disabled.as_ptr(), Ordering::Relaxed);
    private.setattr("_disabled_torch_function_impl", disabled)?;
    private.setattr("_has_torch_function", wrap_pyfunction!(_has_torch_function, private)?)?;
    private.setattr("_any_answers", any_answers_function(private.py())?)?;
    private.setattr("_set_torch_function_state", wrap_pyfunction!(_set_torch_function_state, private)?)?;
    private.setattr("_get_torch_function_state", wrap_pyfunction!(_get_torch_function_state, private)?)?;
    private.setattr("_is_torch_function_enabled", wrap_pyfunction!(_is_torch_function_enabled, private)?)?;
    private.setattr("_count_torch_function_modes", wrap_pyfunction!(_count_torch_function_modes, private)?)?;
    private.setattr("_plain_class", wrap_pyfunction!(_plain_class, private)?)
}
