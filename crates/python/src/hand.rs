//! Help for methods and functions written by hand: arguments by position or name, and what they may be.

use crate::gate::pending_set;
use crate::parse::Given;
use crate::value;
use oneflow_core::base::{Error, Result};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ptr::null_mut;

/// Binds arguments to names: the first `positional` may come by position. Absent ones are null.
///
/// # Safety
/// The arguments are alive and the interpreter is held.
pub unsafe fn bind<const N: usize>(
    function: &str,
    names: [&str; N],
    positional: usize,
    required: usize,
    given: Given,
) -> Result<[*mut PyObject; N]> {
    let mut slots = [null_mut(); N];
    if given.n > positional {
        return Err(Error::type_(format!(
            "{function}() takes {positional} positional arguments but {} were given",
            given.n
        )));
    }
    // SAFETY: the caller's promise; names follow the positional arguments.
    unsafe {
        for (i, slot) in slots.iter_mut().enumerate().take(given.n) {
            *slot = *given.args.add(i);
        }
        if !given.names.is_null() {
            for k in 0..ffi::PyTuple_Size(given.names) as usize {
                let key = ffi::PyTuple_GetItem(given.names, k as ffi::Py_ssize_t);
                let text = value::text(key)?.ok_or_else(pending_set)?;
                let Some(i) = names.iter().position(|n| *n == text) else {
                    return Err(Error::type_(format!("{function}() got an unexpected keyword argument '{text}'")));
                };
                if !slots[i].is_null() {
                    return Err(Error::type_(format!("{function}() got multiple values for argument '{text}'")));
                }
                slots[i] = *given.args.add(given.n + k);
            }
        }
    }
    if let Some(i) = slots.iter().take(required).position(|s| s.is_null()) {
        return Err(Error::type_(format!("{function}() missing 1 required positional arguments: \"{}\"", names[i])));
    }
    Ok(slots)
}

/// A bool argument, with its default.
///
/// # Safety
/// As for `bind`; `o` may be null.
pub unsafe fn flag(py: Python<'_>, function: &str, name: &str, o: *mut PyObject, default: bool) -> Result<bool> {
    if o.is_null() {
        return Ok(default);
    }
    // SAFETY: a live object.
    match unsafe { value::boolean(py, o)? } {
        Some(b) => Ok(b),
        None => Err(wrong(py, function, name, "bool", o)),
    }
}

/// Null and `None` are absent.
///
/// # Safety
/// As for `bind`; `o` may be null.
pub unsafe fn given(o: *mut PyObject) -> Option<*mut PyObject> {
    // SAFETY: comparing addresses.
    (!o.is_null() && o != unsafe { ffi::Py_None() }).then_some(o)
}

/// The error of an argument of the wrong type.
#[cold]
pub fn wrong(py: Python<'_>, function: &str, name: &str, want: &str, o: *mut PyObject) -> Error {
    Error::type_(format!("{function}(): argument '{name}' must be {want}, not {}", value::type_name(py, o)))
}

/// A new reference to `None`.
pub fn none() -> *mut PyObject {
    // SAFETY: an immortal object.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        ffi::Py_None()
    }
}

/// A new reference to a bool.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn boolean(b: bool) -> *mut PyObject {
    // SAFETY: the caller's promise.
    unsafe { ffi::PyBool_FromLong(b as _) }
}

/// One more reference to an object.
///
/// # Safety
/// A live object, the interpreter is held.
pub unsafe fn again(o: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller's promise.
    unsafe { ffi::Py_INCREF(o) };
    o
}
