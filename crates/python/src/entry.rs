//! One table of everything callable by name: ops in each of their forms, and functions written by hand. A trampoline a place
//! in the table is all that Python needs; no op has its own code here.

use crate::call::call_op;
use crate::gate::{checked, enter};
use crate::overload::{Form, Overload};
use crate::overrides::{Function, ask, has_modes, heard};
use crate::parse::Given;
use oneflow_core::base::Result;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The action of a name.
pub enum Action {
    Op {
        form: Form,
        overloads: Vec<Overload>,
    },
    /// By hand: `self` (null for functions) and the arguments.
    Hand(HandFn),
}

pub type HandFn = unsafe fn(Python<'_>, *mut PyObject, Given) -> Result<*mut PyObject>;

/// Functions written by hand that `__torch_function__` of modes hears.
const HEARD: [&str; 3] = ["tensor", "as_tensor", "asarray"];

/// A name and what it does.
pub struct Entry {
    pub name: String,
    pub doc: String,
    pub action: Action,
}

/// Room for names. More of them is an error at start-up, not at run time.
const ROWS: usize = 128;
const MAX: usize = ROWS * 16;

static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();

/// Fixes the table; called once.
pub fn install(entries: Vec<Entry>) -> &'static [Entry] {
    ENTRIES.get_or_init(|| entries)
}

/// The entry of a name in a form.
pub fn find(name: &str, form: Form) -> Option<&'static Entry> {
    ENTRIES.get()?.iter().find(|e| e.name == name && matches!(&e.action, Action::Op { form: f, .. } if *f == form))
}

#[inline]
unsafe fn call_entry(
    i: usize,
    slf: *mut PyObject,
    args: *const *mut PyObject,
    n: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    enter(null_mut(), |py| {
        let given = Given { args, n: n as usize, names };
        let Some(entry) = ENTRIES.get().and_then(|t| t.get(i)) else { return checked(null_mut()) };
        // SAFETY: Python's fast call protocol: the arguments are alive during the call.
        unsafe {
            match &entry.action {
                Action::Op { form, overloads } => call_op(py, overloads, *form, slf, given),
                Action::Hand(f) => {
                    // Of the methods written by hand only `self` is asked. The way out of a subclass is never in its hands.
                    if !slf.is_null() && heard(slf) && entry.name != "as_subclass" {
                        return ask(py, Function::Method(&entry.name), slf, given, &[slf]);
                    }
                    // Functions that make tensors of values have no argument to ask: modes alone hear of them.
                    if slf.is_null() && has_modes() && HEARD.contains(&entry.name.as_str()) {
                        return ask(py, Function::Op(&entry.name, Form::Function), slf, given, &[]);
                    }
                    f(py, slf, given)
                }
            }
        }
    })
}

unsafe extern "C" fn entry_point<const I: usize>(
    slf: *mut PyObject,
    args: *const *mut PyObject,
    n: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: Python's fast call protocol.
    unsafe { call_entry(I, slf, args, n, names) }
}

macro_rules! row {
    ($r:expr; $($k:literal)*) => { [$(entry_point::<{ $r * 16 + $k }>),*] };
}
macro_rules! rows {
    ($($hi:literal)*) => { [$(
        row!($hi * 8; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 1; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 2; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 3; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 4; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 5; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 6; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
        row!($hi * 8 + 7; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
    )*] };
}

static POINTS: [[ffi::PyCFunctionFastWithKeywords; 16]; ROWS] = rows![0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15];

/// The method definition of a place in the table, kept for the life of the process.
pub fn definition(i: usize, entry: &Entry) -> PyResult<*mut ffi::PyMethodDef> {
    if i >= MAX {
        return Err(pyo3::exceptions::PyImportError::new_err(format!("the op table has more than {MAX} names")));
    }
    let text = |s: &str| CString::new(s).unwrap_or_default().into_raw();
    Ok(Box::into_raw(Box::new(ffi::PyMethodDef {
        ml_name: text(&entry.name),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: POINTS[i / 16][i % 16] },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: text(&entry.doc),
    })))
}

/// A function object of a module.
pub fn function<'py>(m: &Bound<'py, PyModule>, i: usize, entry: &Entry) -> PyResult<Bound<'py, PyAny>> {
    let def = definition(i, entry)?;
    let name = m.name()?;
    // SAFETY: the definition lives for ever; the module's name is a string.
    unsafe { Bound::from_owned_ptr_or_err(m.py(), ffi::PyCFunction_NewEx(def, null_mut(), name.as_ptr())) }
}

/// A method of a class.
///
/// # Safety
/// `class` is a type object.
pub unsafe fn method<'py>(
    py: Python<'py>,
    class: *mut ffi::PyTypeObject,
    i: usize,
    entry: &Entry,
) -> PyResult<Bound<'py, PyAny>> {
    let def = definition(i, entry)?;
    // SAFETY: the definition lives for ever.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class, def)) }
}
