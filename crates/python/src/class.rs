//! Makes the class `oneflow.Tensor`: its specification, its constructor, its methods.

use crate::entry::{self, Action, Entry};
use crate::gate::{OrPending, enter};
use crate::object::{self, TensorObj, set_tensor_type, tensor_of, wrap_as};
use crate::{attrs, classes, convert, create, dlpack, index, methods, numpy, operators, placed, value};
use oneflow_core::base::{Device, Error, Result};
use oneflow_core::{Tensor, default_dtype};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;

const DOC: &std::ffi::CStr = c"A multi-dimensional array of numbers of one dtype.\n\nMade by `oneflow.tensor` and the other creation functions; views share memory.\n\nExample::\n\n    >>> x = oneflow.tensor([[1.0, 2.0], [3.0, 4.0]])\n    >>> x.T.shape, x.T.data_ptr() == x.data_ptr()\n    (oneflow.Size([2, 2]), True)";

/// `Tensor(2, 3)`, `Tensor([1, 2])`, `Tensor(other)`: float32 (or the default dtype), as PyTorch's old constructor returns.
unsafe extern "C" fn new(class: *mut PyTypeObject, args: *mut PyObject, kwargs: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a constructor call.
        unsafe {
            let (mut placement, mut sbp) = (null_mut(), null_mut());
            if !kwargs.is_null() && ffi::PyDict_Size(kwargs) > 0 {
                placement = ffi::PyDict_GetItemString(kwargs, c"placement".as_ptr());
                sbp = ffi::PyDict_GetItemString(kwargs, c"sbp".as_ptr());
                let kwargs = Bound::from_borrowed_ptr(py, kwargs);
                let keys = kwargs.call_method0("keys").pend(py)?;
                for k in keys.try_iter().pend(py)? {
                    let k = k.pend(py)?.to_string();
                    if !["device", "data", "placement", "sbp"].contains(&k.as_str()) {
                        return Err(Error::type_(format!("new() got an unexpected keyword argument '{k}'")));
                    }
                }
                if let Ok(device) = kwargs.get_item("device") {
                    only_on_the_cpu(&device)?;
                }
                if let Ok(data) = kwargs.get_item("data") {
                    let t = construct(py, &[data.as_ptr()])?;
                    return wrap_as(py, class, placed::constructed(py, t, placement, sbp)?);
                }
            }
            let n = ffi::PyTuple_Size(args);
            let items: Vec<*mut PyObject> = (0..n).map(|i| ffi::PyTuple_GetItem(args, i)).collect();
            wrap_as(py, class, placed::constructed(py, construct(py, &items)?, placement, sbp)?)
        }
    })
}

/// The old constructor takes a device only to refuse others than its own.
fn only_on_the_cpu(device: &Bound<'_, PyAny>) -> Result<()> {
    match classes::device_of(device).pend(device.py())? {
        Some(d) if d.kind != Device::CPU.kind => Err(Error::runtime(format!(
            "legacy constructor expects device type: cpu but device type: {} was passed",
            d.kind.name()
        ))),
        _ => Ok(()),
    }
}

unsafe fn construct(py: Python<'_>, items: &[*mut PyObject]) -> Result<Tensor> {
    // SAFETY: live objects.
    unsafe {
        match items {
            [] => Tensor::empty(default_dtype(), Device::CPU, &[0]),
            [one] if tensor_of(*one).is_some() => match tensor_of(*one) {
                Some(t) => Ok(t.shallow()),
                None => Err(Error::runtime("Tensor: the tensor was never initialised")),
            },
            [one] if value::int(py, *one)?.is_none() => {
                // A Size names sizes, everything else is data.
                if Bound::from_borrowed_ptr(py, *one).get_type().name().pend(py)? == "Size" {
                    let sizes: Vec<i64> = Bound::from_borrowed_ptr(py, *one).extract().pend(py)?;
                    return Tensor::empty(default_dtype(), Device::CPU, &sizes);
                }
                if !value::is_sequence(*one) && value::scalar(py, *one)?.is_some() {
                    return Err(Error::type_(format!(
                        "new(): data must be a sequence (got {})",
                        value::type_name(py, *one)
                    )));
                }
                create::from_data(py, *one, Some(default_dtype()), None)
            }
            sizes => {
                let sizes = sizes
                    .iter()
                    .map(|o| {
                        value::int(py, *o)?.ok_or_else(|| {
                            Error::type_(format!("new(): sizes must be ints, got {}", value::type_name(py, *o)))
                        })
                    })
                    .collect::<Result<Vec<i64>>>()?;
                Tensor::empty(default_dtype(), Device::CPU, &sizes)
            }
        }
    }
}

unsafe extern "C" fn init(_: *mut PyObject, _: *mut PyObject, _: *mut PyObject) -> c_int {
    // `__new__` has done everything; subclasses may take what they like.
    0
}

/// Makes the class and adds it to the module.
pub fn make(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    let getset = attrs::table().leak();
    let member = |name: &'static std::ffi::CStr, offset: usize| ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset as ffi::Py_ssize_t,
        flags: ffi::Py_READONLY,
        doc: std::ptr::null(),
    };
    let members = Box::leak(Box::new([
        member(c"__weaklistoffset__", offset_of!(TensorObj, weakrefs)),
        member(c"__dictoffset__", offset_of!(TensorObj, dict)),
        ffi::PyMemberDef::default(),
    ]));
    let s = |slot: c_int, f: *mut c_void| ffi::PyType_Slot { slot, pfunc: f };
    let mut slots = operators::slots();
    slots.extend([
        s(ffi::Py_tp_new, new as *mut c_void),
        s(ffi::Py_tp_init, init as *mut c_void),
        s(ffi::Py_tp_dealloc, object::dealloc as *mut c_void),
        s(ffi::Py_tp_traverse, object::traverse as *mut c_void),
        s(ffi::Py_tp_clear, object::clear as *mut c_void),
        s(ffi::Py_tp_setattro, object::setattro as *mut c_void),
        s(ffi::Py_tp_hash, object::hash as *mut c_void),
        s(ffi::Py_tp_iter, index::iter as *mut c_void),
        s(ffi::Py_mp_subscript, index::getitem as *mut c_void),
        s(ffi::Py_mp_ass_subscript, index::setitem as *mut c_void),
        s(ffi::Py_mp_length, index::len as *mut c_void),
        s(ffi::Py_sq_length, index::len as *mut c_void),
        s(ffi::Py_sq_item, index::sequence_item as *mut c_void),
        s(ffi::Py_nb_bool, index::truth as *mut c_void),
        s(ffi::Py_nb_int, index::int_number as *mut c_void),
        s(ffi::Py_nb_float, index::float_number as *mut c_void),
        s(ffi::Py_nb_index, index::index_number as *mut c_void),
        s(ffi::Py_tp_getset, getset.as_mut_ptr().cast()),
        s(ffi::Py_tp_members, members.as_mut_ptr().cast()),
        s(ffi::Py_tp_doc, DOC.as_ptr() as *mut c_void),
        s(0, null_mut()),
    ]);
    let mut spec = ffi::PyType_Spec {
        name: c"oneflow.Tensor".as_ptr(),
        basicsize: size_of::<TensorObj>() as c_int,
        itemsize: 0,
        flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the specification is complete; what the class keeps pointers to is leaked.
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec))? };
    set_tensor_type(class.as_ptr().cast());
    class.setattr("__array_priority__", 1000)?;
    // Names of Python 2 that PyTorch still has.
    for (old, name) in [("__div__", "__truediv__"), ("__rdiv__", "__rtruediv__"), ("__idiv__", "__itruediv__")] {
        class.setattr(old, class.getattr(name)?)?;
    }
    m.add("Tensor", &class)?;
    std::mem::forget(class);
    Ok(())
}

/// Names written by hand, as entries: methods, static methods, functions.
pub fn hand_written() -> [Vec<Entry>; 3] {
    let entries = |tables: &[&[(&str, &str, entry::HandFn)]]| {
        tables
            .iter()
            .flat_map(|t| t.iter())
            .map(|(name, doc, f)| Entry { name: (*name).into(), doc: (*doc).into(), action: Action::Hand(*f) })
            .collect::<Vec<_>>()
    };
    [
        entries(&[methods::METHODS, convert::METHODS, numpy::METHODS, dlpack::METHODS]),
        entries(&[methods::STATIC]),
        entries(&[create::FUNCTIONS, numpy::FUNCTIONS, dlpack::FUNCTIONS]),
    ]
}
