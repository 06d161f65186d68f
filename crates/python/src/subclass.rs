//! Classes that answer ops below autograd (`__torch_dispatch__`): what a tensor of such a class carries, and the layer that
//! asks it. How a class is asked is written in `oneflow/utils/_python_dispatch.py`.

use crate::gate::{self, OrPending, Shared, run};
use crate::interceptors::{arguments, asked, written};
use crate::object::{TensorObj, bound, get, wrap_as};
use oneflow_autograd as ag;
use oneflow_core::base::{Device, Dims, Error, Result, contiguous_strides};
use oneflow_core::{Call, Dest, Ext, Outs, Tensor, bit, redispatch, register_layer, tls};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The mark of classes that answer no op, which `Tensor` has.
static DISABLED: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// `ask(op, arguments by name, tensors that are written or None, run, classes)` gives a list of results, or None for those of `run()`.
static ASK: OnceLock<Shared> = OnceLock::new();

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// The class of a tensor and the attributes of its object. A tensor without an object of its own, such as one that autograd keeps, gets
/// an object of that class with these attributes once it needs one.
struct Answering {
    class: Shared,
    attributes: Shared,
    /// Shared by tensors over the same data; for those that have no storage.
    version: Arc<AtomicU32>,
}

impl Ext for Answering {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn version(&self) -> u32 {
        self.version.load(Ordering::Relaxed)
    }
    fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a class answers ops.
///
/// # Safety
/// A type object; the interpreter is held.
unsafe fn answers(class: *mut PyTypeObject) -> bool {
    static NAME: OnceLock<usize> = OnceLock::new();
    // SAFETY: the interpreter is held; the name is kept for ever.
    unsafe {
        let name = *NAME.get_or_init(|| ffi::PyUnicode_InternFromString(c"__torch_dispatch__".as_ptr()) as usize);
        let f = ffi::PyObject_GetAttr(class.cast(), name as *mut PyObject);
        if f.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        ffi::Py_DECREF(f);
        f != DISABLED.load(Ordering::Relaxed)
    }
}

/// Prepares a tensor that is about to get an object of `class`. Returns the dictionary of that object, if the class answers ops.
///
/// # Safety
/// A type object; the tensor is used by this thread alone.
pub unsafe fn mark(py: Python<'_>, class: *mut PyTypeObject, t: &Tensor) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe {
        if !answers(class) {
            return Ok(std::ptr::null_mut());
        }
        let before = t.ext::<Answering>();
        if before.is_none() && t.ext_arc().is_some() {
            return Err(Error::not_implemented(format!(
                "{} defines __torch_dispatch__, which only strided tensors of one process can have",
                class_name(py, class)
            )));
        }
        let attributes = match before {
            Some(b) => b.attributes.bind(py).cast_into_unchecked::<PyDict>().copy().pend(py)?,
            None => PyDict::new(py),
        };
        let version = before.map_or_else(|| Arc::new(AtomicU32::new(0)), |b| b.version.clone());
        let class = Bound::from_borrowed_ptr(py, class.cast());
        let payload =
            Answering { class: Shared::new(class), attributes: Shared::new(attributes.clone().into_any()), version };
        t.set_subclass(Arc::new(payload), !t.is_only_a_subclass());
        Ok(attributes.into_ptr())
    }
}

/// Whether a class keeps an attribute of its objects in a slot (`__slots__`) and not in their dictionary.
///
/// # Safety
/// A type object and a name; the interpreter is held.
unsafe fn is_slot(class: *mut PyTypeObject, name: *mut PyObject) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let held = ffi::PyObject_GetAttr(class.cast(), name);
        if held.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let found = ffi::Py_TYPE(held) == &raw mut ffi::PyMemberDescr_Type;
        ffi::Py_DECREF(held);
        found
    }
}

/// Keeps what was put into a slot of an object, or forgets what was deleted (null): the tensor outlives its objects.
///
/// # Safety
/// A tensor's object and a name; the interpreter is held.
pub unsafe fn keep_slot(py: Python<'_>, o: *mut PyObject, t: &Tensor, name: *mut PyObject, value: *mut PyObject) {
    let Some(payload) = t.ext::<Answering>() else { return };
    // SAFETY: the caller's promise.
    unsafe {
        if is_slot(ffi::Py_TYPE(o), name) {
            let attributes = payload.attributes.bind(py).as_ptr();
            let failed = match value.is_null() {
                true => ffi::PyDict_DelItem(attributes, name),
                false => ffi::PyDict_SetItem(attributes, name, value),
            };
            if failed != 0 {
                ffi::PyErr_Clear();
            }
        }
    }
}

/// Puts what former objects of the tensor had in slots into those of its new object.
///
/// # Safety
/// A new object of a class that answers ops and its dictionary; the interpreter is held.
pub unsafe fn restore_slots(py: Python<'_>, o: *mut PyObject, attributes: *mut PyObject) -> Result<()> {
    // SAFETY: the caller's promise; the items are kept by the copy.
    unsafe {
        let items = Bound::from_borrowed_ptr(py, attributes).cast_into_unchecked::<PyDict>().copy().pend(py)?;
        for (name, value) in items.iter() {
            if is_slot(ffi::Py_TYPE(o), name.as_ptr())
                && ffi::PyObject_GenericSetAttr(o, name.as_ptr(), value.as_ptr()) < 0
            {
                return Err(gate::pending_set());
            }
        }
    }
    Ok(())
}

/// Brings the attributes of an object up to date after its tensor took the data of another (`x.data = y`).
///
/// # Safety
/// A tensor's object; the interpreter is held, and no other thread uses the tensor.
pub unsafe fn took_data(py: Python<'_>, o: *mut PyObject, t: &Tensor) -> Result<()> {
    let Some(payload) = t.ext::<Answering>() else { return Ok(()) };
    // SAFETY: the caller's promise.
    unsafe {
        let obj = o.cast::<TensorObj>();
        if (*obj).dict.is_null() {
            (*obj).dict = PyDict::new(py).into_ptr();
        }
        let own = Bound::from_borrowed_ptr(py, (*obj).dict).cast_into_unchecked::<PyDict>();
        own.update(payload.attributes.bind(py).cast_into_unchecked::<PyDict>().as_mapping()).pend(py)?;
        keep_attributes(t, payload.class.bind(py), own);
    }
    Ok(())
}

/// The tensor's payload names this class and these attributes from now on.
///
/// # Safety
/// No other thread uses the tensor.
unsafe fn keep_attributes(t: &Tensor, class: Bound<'_, PyAny>, attributes: Bound<'_, PyDict>) {
    let Some(payload) = t.ext::<Answering>() else { return };
    let version = payload.version.clone();
    let payload = Answering { class: Shared::new(class), attributes: Shared::new(attributes.into_any()), version };
    // SAFETY: the caller's promise.
    unsafe { t.set_subclass(Arc::new(payload), !t.is_only_a_subclass()) };
}

unsafe fn class_name(py: Python<'_>, class: *mut PyTypeObject) -> String {
    // SAFETY: a type object.
    let class = unsafe { Bound::from_borrowed_ptr(py, class.cast()).cast_into_unchecked::<PyType>() };
    class.name().map_or_else(|_| "the class".to_owned(), |n| n.to_string())
}

/// An object for a tensor of a class that answers ops and that has none, as a new reference.
#[cold]
pub fn object_of(py: Python<'_>, t: Tensor) -> Result<*mut PyObject> {
    let Some(payload) = t.ext::<Answering>() else {
        return Err(Error::runtime("a tensor that answers ops lost its class"));
    };
    let class = payload.class.bind(py);
    // SAFETY: a class that was an object's; `t` has no object yet.
    unsafe { wrap_as(py, class.as_ptr().cast(), t) }
}

/// The objects of a call whose classes answer it, and the classes, those first that derive from others.
fn classes<'py>(py: Python<'py>, c: &Call<'_>) -> PyResult<Vec<Bound<'py, PyType>>> {
    let dest: &[&Tensor] = match &c.dest {
        Dest::Into(dest) => dest,
        Dest::Fresh => &[],
    };
    let mut found: Vec<Bound<'py, PyType>> = Vec::new();
    for t in c.ins.iter().flatten().chain(dest).filter(|t| t.has_key(bit::SUBCLASS)) {
        let class = bound(py, (*t).clone())?.get_type();
        if found.iter().any(|f| f.is(&class)) {
            continue;
        }
        let mut at = found.len();
        for (i, other) in found.iter().enumerate() {
            if class.is_subclass(other)? {
                at = i;
                break;
            }
        }
        found.insert(at, class);
    }
    Ok(found)
}

fn answer(c: &Call<'_>, below: u32, outs: &mut Outs) -> Result<()> {
    let dest: &[&Tensor] = match &c.dest {
        Dest::Into(dest) => dest,
        Dest::Fresh => &[],
    };
    if tls().on & 1 << bit::LAZY != 0 {
        return Err(Error::not_implemented(format!(
            "{}(): tensors of classes with __torch_dispatch__ cannot be traced ({})",
            c.name(),
            c.describe()
        )));
    }
    let run_below = |results: &mut Outs| -> Result<()> {
        match c.ins.iter().flatten().chain(dest).find(|t| t.is_only_a_subclass()) {
            Some(t) => Err(without_memory(&format!("{}()", c.name()), t)),
            None => redispatch(c, below, results),
        }
    };
    let Some(ask) = ASK.get().filter(|_| ENABLED.get()) else { return run_below(outs) };
    gate::attach(|py| {
        let mut made: Option<Outs> = None;
        let mut call = || {
            if made.is_some() {
                return Err(Error::runtime(format!("{}(): the call has run already", c.name())));
            }
            let mut results = Outs::new();
            run_below(&mut results)?;
            Ok(made.insert(results).tensors().to_vec())
        };
        let given = asked(py, c, &mut call, |run| {
            let classes = PyTuple::new(py, classes(py, c)?)?;
            ask.bind(py).call1((c.op.name(), arguments(py, c)?, written(py, c)?, run, classes))
        })?;
        match made {
            Some(made) if given.is_none() => *outs = made,
            // What was to be written is in its place, or the class wants it unwritten.
            _ if matches!(c.dest, Dest::Into(_)) => dest.iter().for_each(|t| outs.give((*t).clone())),
            _ => {
                for item in given.try_iter().pend(py)? {
                    outs.give(result(c, &item.pend(py)?)?);
                }
            }
        }
        Ok(())
    })
}

/// The error of a call that needs the elements of a tensor which has none.
#[cold]
pub fn without_memory(what: &str, t: &Tensor) -> Error {
    let class: Result<_> = gate::attach(|py| Ok(bound(py, t.clone()).pend(py)?.get_type().to_string()));
    Error::not_implemented(format!(
        "{what}: a tensor of {} has no memory, and nothing answered the call (its __torch_dispatch__ is off, or called the op on \
         the tensor itself)",
        class.unwrap_or_default()
    ))
}

/// What the class of an object answers to a function that is no op of the table, if it answers: `detach`, and `_local_scalar_dense`,
/// which is `item`.
///
/// # Safety
/// A tensor's object; the interpreter is held.
pub unsafe fn answered(py: Python<'_>, function: &str, t: &Tensor) -> Result<Option<*mut PyObject>> {
    if !t.has_key(bit::SUBCLASS) || !ENABLED.get() {
        return Ok(None);
    }
    let Some(ask) = ASK.get() else { return Ok(None) };
    let o = bound(py, t.clone()).pend(py)?;
    let given = PyDict::new(py);
    given.set_item("input", &o).pend(py)?;
    let classes = PyTuple::new(py, [o.get_type()]).pend(py)?;
    let answer = ask.bind(py).call1((function, given, py.None(), py.None(), classes)).pend(py)?;
    Ok(Some(answer.into_ptr()))
}

/// The objects that the payload of a tensor refers to, if the tensor alone holds it: for the collector.
pub fn owned_objects(t: &Tensor) -> Option<[*mut PyObject; 2]> {
    let payload = t.ext_arc().filter(|e| Arc::strong_count(e) == 2)?;
    let payload = payload.as_any().downcast_ref::<Answering>()?;
    Some([payload.class.as_ptr(), payload.attributes.as_ptr()])
}

/// A result: the object that was given, unless it has a history or is an operand already.
fn result(c: &Call<'_>, item: &Bound<'_, PyAny>) -> Result<Tensor> {
    let t = get(item).ok_or_else(|| {
        Error::type_(format!(
            "{}(): the results of __torch_dispatch__ must be Tensors, got {}",
            c.name(),
            item.get_type()
        ))
    })?;
    let is_new = !ag::requires_grad(t) && !c.ins.iter().flatten().any(|x| x.same(t));
    Ok(if is_new { t.clone() } else { t.shallow() })
}

/// Sets what asks the classes, and the mark of those that answer nothing. Later calls change nothing.
#[pyfunction]
fn _set_dispatch(ask: Bound<'_, PyAny>, disabled: Bound<'_, PyAny>) {
    if ASK.set(Shared::new(ask)).is_ok() {
        DISABLED.store(disabled.into_ptr(), Ordering::Relaxed);
        register_layer(bit::SUBCLASS, answer);
    }
}

/// Lets classes of this thread answer ops, or not. Returns what was so before.
#[pyfunction]
fn _enable_dispatch(on: bool) -> bool {
    ENABLED.replace(on)
}

/// Takes over the class and the attributes of a tensor's object, which were replaced.
#[pyfunction]
fn _keep_attributes(t: &Bound<'_, PyAny>) -> PyResult<()> {
    let attributes = t.getattr("__dict__")?.cast_into::<PyDict>()?;
    if let Some(tensor) = get(t) {
        // SAFETY: the interpreter is held.
        unsafe { keep_attributes(tensor, t.get_type().into_any(), attributes) };
    }
    Ok(())
}

/// Exchanges what two tensors are made of; classes and attributes of their objects are left to the caller.
#[pyfunction]
fn _swap_data(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<()> {
    run(|| match (get(a), get(b)) {
        (Some(a), Some(b)) => ag::swap_data(a, b),
        _ => Err(Error::type_("swap_tensors(): expected two Tensors")),
    })
}

/// Whether a tensor has no data but what its class makes of it.
#[pyfunction]
fn _is_without_memory(t: &Bound<'_, PyAny>) -> bool {
    get(t).is_some_and(Tensor::is_only_a_subclass)
}

/// A tensor without memory, as an object of a class that answers ops.
#[pyfunction]
#[pyo3(signature = (class, size, strides, offset, dtype, device, requires_grad))]
fn _wrapper_subclass<'py>(
    py: Python<'py>,
    class: Bound<'py, PyType>,
    size: Vec<i64>,
    strides: Option<Vec<i64>>,
    offset: i64,
    dtype: &Bound<'py, PyAny>,
    device: &Bound<'py, PyAny>,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let class_ptr = class.as_ptr().cast::<PyTypeObject>();
    // SAFETY: a type object, the interpreter is held.
    if unsafe { !answers(class_ptr) } {
        return Err(PyTypeError::new_err(format!(
            "_make_wrapper_subclass(): {} must define __torch_dispatch__, which gives its tensors a meaning",
            class.name()?
        )));
    }
    let wrong = |what: &str, o: &Bound<'_, PyAny>| {
        PyTypeError::new_err(format!(
            "_make_wrapper_subclass(): argument '{what}' must be a {what}, not {}",
            o.get_type()
        ))
    };
    let dtype = crate::classes::dtype_of(dtype).ok_or_else(|| wrong("dtype", dtype))?;
    let device: Device = crate::classes::device_of(device)?.ok_or_else(|| wrong("device", device))?;
    let object = run(|| {
        let strides = strides.map_or_else(|| contiguous_strides(&size), Dims::from_vec);
        if strides.len() != size.len() {
            return Err(Error::runtime(format!(
                "_make_wrapper_subclass(): size {size:?} and strides {:?} have different numbers of dimensions",
                strides.as_slice()
            )));
        }
        let t = Tensor::shell(dtype, device, Dims::from_vec(size), strides)?;
        t.set_shell_offset(offset);
        let payload = Answering {
            class: Shared::new(class.clone().into_any()),
            attributes: Shared::new(PyDict::new(py).into_any()),
            version: Arc::new(AtomicU32::new(0)),
        };
        // SAFETY: the tensor was made here.
        unsafe { t.set_subclass(Arc::new(payload), false) };
        if requires_grad {
            ag::set_requires_grad(&t, true)?;
        }
        // SAFETY: a type object.
        unsafe { wrap_as(py, class_ptr, t) }
    })?;
    // SAFETY: a new reference.
    Ok(unsafe { Bound::from_owned_ptr(py, object) })
}

/// Adds the functions that only the package itself calls.
pub fn add_private(private: &Bound<'_, PyModule>) -> PyResult<()> {
    private.setattr("_set_dispatch", wrap_pyfunction!(_set_dispatch, private)?)?;
    private.setattr("_enable_dispatch", wrap_pyfunction!(_enable_dispatch, private)?)?;
    private.setattr("_keep_attributes", wrap_pyfunction!(_keep_attributes, private)?)?;
    private.setattr("_swap_data", wrap_pyfunction!(_swap_data, private)?)?;
    private.setattr("_is_without_memory", wrap_pyfunction!(_is_without_memory, private)?)?;
    private.setattr("_wrapper_subclass", wrap_pyfunction!(_wrapper_subclass, private)?)
}
