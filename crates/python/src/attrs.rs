//! Attributes of the class: what a tensor says of itself, and what may be assigned.

use crate::gate::{OrPending, checked, enter};
use crate::object::{get_dict, is_tensor, self_tensor, set_dict, tensor_of, track, wrap};
use crate::operators as ops;
use crate::overrides::{Function, ask, heard};
use crate::parse::Given;
use crate::{autograd, classes, size, value};
use oneflow_autograd as ag;
use oneflow_core::base::{Arg, Device, DeviceType, Error, Result};
use oneflow_core::{Tensor, bit};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

type Get = unsafe fn(Python<'_>, *mut PyObject, &Tensor) -> Result<*mut PyObject>;

/// # Safety
/// The interpreter is held.
unsafe fn boolean(b: bool) -> *mut PyObject {
    // SAFETY: the caller's promise.
    unsafe { ffi::PyBool_FromLong(b as _) }
}

unsafe fn none() -> *mut PyObject {
    // SAFETY: an immortal object.
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        ffi::Py_None()
    }
}

/// Where the elements are. A global tensor whose shard has sizes only is on the meta device, wherever its ranks are.
fn device_of(t: &Tensor) -> Device {
    let shard = oneflow_global::global_of(t).and_then(|g| g.local.as_ref());
    shard.map(Tensor::device).filter(|d| d.is_meta()).unwrap_or_else(|| t.device())
}

/// Lets the modes and the class handle what is done to an attribute.
///
/// # Safety
/// Live objects and the closure of one of the attributes.
#[cold]
unsafe fn ask_attribute(
    py: Python<'_>,
    o: *mut PyObject,
    name: *mut c_void,
    action: &str,
    value: &[*mut PyObject],
) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise; the closure is the attribute's name.
    unsafe {
        let name = CStr::from_ptr(name.cast()).to_str().unwrap_or_default();
        let given = Given { args: value.as_ptr(), n: value.len(), names: null_mut() };
        ask(py, Function::Attribute(name, action), o, given, &[o])
    }
}

macro_rules! getters {
    ($($f:ident = |$py:ident, $o:ident, $t:ident| $body:expr;)*) => {$(
        unsafe extern "C" fn $f(o: *mut PyObject, name: *mut c_void) -> *mut PyObject {
            let get: Get = |$py, $o, $t| {
                #[allow(unused_unsafe)]
                // SAFETY: a getter of the class, the interpreter is held.
                unsafe { $body }
            };
            // SAFETY: a getter of the class: `o` is a tensor object.
            enter(null_mut(), |py| unsafe {
                if heard(o) {
                    return ask_attribute(py, o, name, "__get__", &[]);
                }
                get(py, o, self_tensor(o)?)
            })
        }
    )*};
}

getters! {
    shape = |py, _o, t| size::sizes(py, t);
    dtype = |py, _o, t| Ok(classes::owned(classes::dtype_object(py, t.dtype()).pend(py)?.clone_ref(py)));
    device = |py, _o, t| Ok(classes::owned(classes::device_object(py, device_of(t)).pend(py)?));
    layout = |py, _o, t| {
        let layout = match oneflow_sparse::compressed(t) {
            Some(c) => classes::compressed(py, c.layout),
            None if t.has_key(bit::SPARSE) => classes::sparse_coo(py),
            None => classes::strided(py),
        };
        Ok(classes::owned(layout.pend(py)?.clone_ref(py)))
    };
    ndim = |_py, _o, t| checked(ffi::PyLong_FromSize_t(t.ndim()));
    itemsize = |_py, _o, t| checked(ffi::PyLong_FromSize_t(t.dtype().size()));
    nbytes = |_py, _o, t| checked(ffi::PyLong_FromSize_t(t.numel() as usize * t.dtype().size()));
    version = |_py, _o, t| {
        if t.is_inference() {
            return Err(Error::runtime("Inference tensors do not track version counter."));
        }
        checked(ffi::PyLong_FromLongLong(t.version() as i64))
    };
    output_nr = |_py, _o, t| checked(ffi::PyLong_FromLongLong(ag::output_nr(t) as i64));
    is_leaf = |_py, _o, t| Ok(boolean(ag::is_leaf(t)));
    requires_grad = |_py, _o, t| Ok(boolean(ag::requires_grad(t)));
    retains_grad = |_py, _o, t| Ok(boolean(ag::retains_grad(t)));
    is_cpu = |_py, _o, t| Ok(boolean(device_of(t).is_cpu()));
    is_cuda = |_py, _o, t| Ok(boolean(device_of(t).kind == DeviceType::CUDA));
    is_meta = |_py, _o, t| Ok(boolean(device_of(t).is_meta()));
    is_global = |_py, _o, t| Ok(boolean(t.has_key(bit::GLOBAL)));
    is_local = |_py, _o, t| Ok(boolean(!t.has_key(bit::GLOBAL)));
    placement = |py, _o, t| crate::global::placement_attribute(py, t);
    sbp = |py, _o, t| crate::global::sbp_attribute(py, t);
    is_lazy = |_py, _o, t| Ok(boolean(t.has_key(bit::LAZY)));
    is_sparse = |_py, _o, t| Ok(boolean(oneflow_sparse::parts(t).is_some()));
    is_sparse_csr = |_py, _o, t| {
        Ok(boolean(oneflow_sparse::compressed(t).is_some_and(|c| c.layout == oneflow_sparse::Layout::Csr)))
    };
    grad = |py, o, t| {
        track(o);
        match autograd::grad_object(py, t)? {
            Some(g) => Ok(g),
            None => {
                if !ag::is_leaf(t) && !ag::retains_grad(t) {
                    warn_of_no_leaf(py)?;
                }
                Ok(none())
            }
        }
    };
    grad_fn = |py, o, _t| Ok(autograd::grad_fn(py, o)?.unwrap_or_else(|| none()));
    data = |py, _o, t| {
        let d = t.shallow();
        d.hide_version();
        wrap(py, d)
    };
    base = |py, _o, t| match t.base() {
        Some(b) => wrap(py, b.clone()),
        None => Ok(none()),
    };
    transposed = |py, _o, t| {
        let dims: Vec<i64> = (0..t.ndim() as i64).rev().collect();
        wrap(py, ops::PERMUTE.one(py, &[Some(t)], &[Arg::Ints(&dims)])?)
    };
    matrix_transposed = |py, _o, t| {
        if t.ndim() < 2 {
            return Err(Error::runtime(format!(
                "tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.",
                t.ndim()
            )));
        }
        wrap(py, ops::TRANSPOSE.one(py, &[Some(t)], &[Arg::Int(-2), Arg::Int(-1)])?)
    };
}

/// `.grad` of what is no leaf stays empty, which surprises people.
#[cold]
fn warn_of_no_leaf(py: Python<'_>) -> Result<()> {
    let text = c"The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward(). If you want it to be, use .retain_grad() on the Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.";
    PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), text, 1).pend(py)
}

type Set = unsafe fn(Python<'_>, *mut PyObject, &Tensor, *mut PyObject) -> Result<()>;

macro_rules! setters {
    ($($f:ident = |$py:ident, $o:ident, $t:ident, $v:ident| $body:expr;)*) => {$(
        unsafe extern "C" fn $f(o: *mut PyObject, value: *mut PyObject, name: *mut c_void) -> c_int {
            let set: Set = |$py, $o, $t, $v| {
                // SAFETY: a setter of the class, the interpreter is held; the value is null on deletion.
                unsafe { $body }
            };
            // SAFETY: a setter of the class: `o` is a tensor object.
            enter(-1, |py| unsafe {
                if heard(o) {
                    let (action, value): (_, &[_]) =
                        if value.is_null() { ("__delete__", &[]) } else { ("__set__", &[value]) };
                    ffi::Py_DECREF(ask_attribute(py, o, name, action, value)?);
                    return Ok(0);
                }
                set(py, o, self_tensor(o)?, value)?;
                Ok(0)
            })
        }
    )*};
}

setters! {
    set_requires_grad = |py, _o, t, v| {
        match if v.is_null() { None } else { value::boolean(py, v)? } {
            Some(b) => ag::set_requires_grad(t, b),
            None => Err(Error::runtime("requires_grad must be a bool")),
        }
    };
    set_grad = |py, o, t, v| {
        track(o);
        if v.is_null() || v == ffi::Py_None() {
            return autograd::assign_grad(t, None);
        }
        match tensor_of(v) {
            Some(g) => autograd::assign_grad(t, Some(g)),
            None => Err(Error::type_(format!(
                "assigned grad expected to be a Tensor or None but got grad of type {}",
                value::type_name(py, v)
            ))),
        }
    };
    set_grad_fn = |_py, _o, t, v| {
        if v.is_null() {
            return Err(Error::runtime("Deletion of _grad_fn not allowed. Detach tensor instead!"));
        }
        if v != ffi::Py_None() {
            return Err(Error::runtime("_grad_fn can be only set to None"));
        }
        ag::detach_(t)
    };
    set_data = |py, o, t, v| {
        if v.is_null() {
            return Err(Error::runtime("data: a tensor's data can be replaced, but not deleted"));
        }
        if !is_tensor(v) {
            let got = value::type_name(py, v);
            return Err(Error::type_(format!("Variable data has to be a tensor, but got {got}")));
        }
        match tensor_of(v) {
            Some(d) => {
                ag::set_data(t, d)?;
                crate::subclass::took_data(py, o, t)
            }
            None => Err(Error::runtime("Variable data: the tensor was never initialised")),
        }
    };
}

fn property(name: &'static CStr, get: ffi::getter, set: Option<ffi::setter>, doc: &'static CStr) -> ffi::PyGetSetDef {
    // The closure is the name, which classes that answer for themselves are asked by.
    let closure = name.as_ptr() as *mut c_void;
    ffi::PyGetSetDef { name: name.as_ptr(), get: Some(get), set, doc: doc.as_ptr(), closure }
}

/// The table of attributes, ended by an empty entry.
pub fn table() -> Vec<ffi::PyGetSetDef> {
    vec![
        // Python's own functions read the closure: it stays null.
        ffi::PyGetSetDef { closure: null_mut(), ..property(c"__dict__", get_dict, Some(set_dict), c"") },
        property(c"shape", shape, None, c"Sizes of the dimensions.\n\nExample::\n\n    >>> oneflow.ones(2, 3).shape\n    oneflow.Size([2, 3])"),
        property(c"dtype", dtype, None, c"Type of the elements.\n\nExample::\n\n    >>> oneflow.ones(1).dtype\n    oneflow.float32"),
        property(c"device", device, None, c"Where the elements are.\n\nExample::\n\n    >>> oneflow.ones(1).device\n    device(type='cpu')"),
        property(c"layout", layout, None, c"oneflow.strided, or one of the sparse layouts.\n\nExample::\n\n    >>> oneflow.ones(1).layout\n    oneflow.strided"),
        property(c"ndim", ndim, None, c"Number of dimensions.\n\nExample::\n\n    >>> oneflow.ones(2, 3).ndim\n    2"),
        property(c"itemsize", itemsize, None, c"Bytes of one element.\n\nExample::\n\n    >>> oneflow.ones(1).itemsize\n    4"),
        property(c"nbytes", nbytes, None, c"Bytes of all elements.\n\nExample::\n\n    >>> oneflow.ones(3).nbytes\n    12"),
        property(c"_version", version, None, c"How often the data was written in place."),
        property(c"output_nr", output_nr, None, c"Which output of `grad_fn` this is.\n\nExample::\n\n    >>> oneflow.ones(1).output_nr\n    0"),
        property(c"is_leaf", is_leaf, None, c"Whether no recorded op made this tensor.\n\nExample::\n\n    >>> oneflow.ones(1).is_leaf\n    True"),
        property(c"requires_grad", requires_grad, Some(set_requires_grad), c"Whether ops on this tensor are recorded.\n\nExample::\n\n    >>> oneflow.ones(1).requires_grad\n    False"),
        property(c"retains_grad", retains_grad, None, c"Whether a non-leaf keeps its gradient.\n\nExample::\n\n    >>> oneflow.ones(1).retains_grad\n    False"),
        property(c"is_cpu", is_cpu, None, c"Whether the elements are in host memory.\n\nExample::\n\n    >>> oneflow.ones(1).is_cpu\n    True"),
        property(c"is_cuda", is_cuda, None, c"Whether the elements are in a CUDA device's memory.\n\nExample::\n\n    >>> oneflow.ones(1).is_cuda\n    False"),
        property(c"is_meta", is_meta, None, c"Whether there are no elements, only sizes.\n\nExample::\n\n    >>> oneflow.empty(1, device=\"meta\").is_meta\n    True"),
        property(c"is_global", is_global, None, c"Whether this is a tensor of a cluster.\n\nExample::\n\n    >>> oneflow.ones(1).is_global\n    False"),
        property(c"is_local", is_local, None, c"Whether this is a tensor of this process alone.\n\nExample::\n\n    >>> oneflow.ones(1).is_local\n    True"),
        property(c"placement", placement, None, c"The ranks of a global tensor."),
        property(c"sbp", sbp, None, c"How a global tensor lies over each mesh axis."),
        property(c"is_lazy", is_lazy, None, c"Whether this is a value of a graph being traced.\n\nExample::\n\n    >>> oneflow.ones(1).is_lazy\n    False"),
        property(c"is_sparse", is_sparse, None, c"Whether only entries that are not zero are kept, by coordinates.\n\nExample::\n\n    >>> oneflow.ones(1).is_sparse\n    False"),
        property(c"is_sparse_csr", is_sparse_csr, None, c"Whether the entries of each row are kept (CSR).\n\nExample::\n\n    >>> oneflow.eye(2).to_sparse_csr().is_sparse_csr\n    True"),
        property(c"grad", grad, Some(set_grad), c"The accumulated gradient, or None.\n\nExample::\n\n    >>> x = oneflow.ones(1, requires_grad=True)\n    >>> (x * 2).backward()\n    >>> x.grad\n    tensor([2.])"),
        property(c"grad_fn", grad_fn, None, c"The node that made this tensor; None for leaves.\n\nExample::\n\n    >>> (oneflow.ones(1, requires_grad=True) * 2).grad_fn.name()\n    'MulBackward0'"),
        property(c"_grad_fn", grad_fn, Some(set_grad_fn), c""),
        property(c"data", data, Some(set_data), c"The same data without history; assigning replaces the data.\n\nExample::\n\n    >>> oneflow.ones(1, requires_grad=True).data\n    tensor([1.])"),
        property(c"_base", base, None, c"The tensor this is a view of, where autograd follows it."),
        property(c"T", transposed, None, c"Dimensions in reverse order.\n\nExample::\n\n    >>> oneflow.ones(2, 3).T.shape\n    oneflow.Size([3, 2])"),
        property(c"mT", matrix_transposed, None, c"The last two dimensions exchanged.\n\nExample::\n\n    >>> oneflow.ones(4, 2, 3).mT.shape\n    oneflow.Size([4, 3, 2])"),
        ffi::PyGetSetDef { name: std::ptr::null(), get: None, set: None, doc: std::ptr::null(), closure: null_mut() },
    ]
}
