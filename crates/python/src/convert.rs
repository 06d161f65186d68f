//! `to` and its short forms: the tensor itself where nothing changes, else a copy.

use crate::entry::HandFn;
use crate::gate::OrPending;
use crate::hand::{bind, flag, given, wrong};
use crate::object::{self_tensor, tensor_of, wrap};
use crate::operators as ops;
use crate::parse::Given;
use crate::{classes, value};
use oneflow_core::base::{Arg, DType, Device, DeviceType, Error, Result, contiguous_strides, intern};
use oneflow_core::{Tensor, Transfers, bit, with_transfers};
use oneflow_ops::conv::{memory_format_of, strides_in};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

pub const METHODS: &[(&str, &str, HandFn)] = &[
    (
        "to",
        "to($self, *args, dtype=None, device=None, other=None, non_blocking=False, copy=False, memory_format=None)\n--\n\nThe tensor with another dtype or on another device; itself where nothing changes.\n\nExample::\n\n    >>> oneflow.tensor([1]).to(oneflow.float32)\n    tensor([1.])",
        to,
    ),
    (
        "type",
        "type($self, dtype=None, non_blocking=False)\n--\n\nThe name of the tensor's type, or the tensor with another dtype.\n\nExample::\n\n    >>> oneflow.tensor([1.0]).type()\n    'oneflow.FloatTensor'\n    >>> oneflow.tensor([1.5]).type(oneflow.int64)\n    tensor([1])",
        type_,
    ),
    (
        "type_as",
        "type_as($self, other)\n--\n\nThe tensor with the dtype and device of another.\n\nExample::\n\n    >>> oneflow.tensor([1]).type_as(oneflow.tensor([0.5]))\n    tensor([1.])",
        type_as,
    ),
    (
        "cpu",
        "cpu($self, memory_format=None)\n--\n\nThe tensor in host memory.\n\nExample::\n\n    >>> oneflow.ones(2).cpu().device\n    device(type='cpu')",
        cpu,
    ),
    (
        "cuda",
        "cuda($self, device=None, non_blocking=False, memory_format=None)\n--\n\nThe tensor in a CUDA device's memory.",
        cuda,
    ),
    (
        "float",
        "float($self, memory_format=None)\n--\n\nAs float32.\n\nExample::\n\n    >>> oneflow.tensor([1]).float()\n    tensor([1.])",
        cast::<{ DType::F32 as u8 }>,
    ),
    (
        "double",
        "double($self, memory_format=None)\n--\n\nAs float64.\n\nExample::\n\n    >>> oneflow.tensor([1]).double()\n    tensor([1.], dtype=oneflow.float64)",
        cast::<{ DType::F64 as u8 }>,
    ),
    (
        "half",
        "half($self, memory_format=None)\n--\n\nAs float16.\n\nExample::\n\n    >>> oneflow.tensor([1]).half()\n    tensor([1.], dtype=oneflow.float16)",
        cast::<{ DType::F16 as u8 }>,
    ),
    (
        "bfloat16",
        "bfloat16($self, memory_format=None)\n--\n\nAs bfloat16.\n\nExample::\n\n    >>> oneflow.tensor([1]).bfloat16()\n    tensor([1.], dtype=oneflow.bfloat16)",
        cast::<{ DType::BF16 as u8 }>,
    ),
    (
        "long",
        "long($self, memory_format=None)\n--\n\nAs int64.\n\nExample::\n\n    >>> oneflow.tensor([1.5]).long()\n    tensor([1])",
        cast::<{ DType::I64 as u8 }>,
    ),
    (
        "int",
        "int($self, memory_format=None)\n--\n\nAs int32.\n\nExample::\n\n    >>> oneflow.tensor([1.5]).int()\n    tensor([1], dtype=oneflow.int32)",
        cast::<{ DType::I32 as u8 }>,
    ),
    (
        "short",
        "short($self, memory_format=None)\n--\n\nAs int16.\n\nExample::\n\n    >>> oneflow.tensor([1.5]).short()\n    tensor([1], dtype=oneflow.int16)",
        cast::<{ DType::I16 as u8 }>,
    ),
    (
        "char",
        "char($self, memory_format=None)\n--\n\nAs int8.\n\nExample::\n\n    >>> oneflow.tensor([1.5]).char()\n    tensor([1], dtype=oneflow.int8)",
        cast::<{ DType::I8 as u8 }>,
    ),
    (
        "byte",
        "byte($self, memory_format=None)\n--\n\nAs uint8.\n\nExample::\n\n    >>> oneflow.tensor([1.5]).byte()\n    tensor([1], dtype=oneflow.uint8)",
        cast::<{ DType::U8 as u8 }>,
    ),
    (
        "bool",
        "bool($self, memory_format=None)\n--\n\nAs bool.\n\nExample::\n\n    >>> oneflow.tensor([0.0, 2.0]).bool()\n    tensor([False,  True])",
        cast::<{ DType::Bool as u8 }>,
    ),
    (
        "cfloat",
        "cfloat($self, memory_format=None)\n--\n\nAs complex64.\n\nExample::\n\n    >>> oneflow.tensor([1.0]).cfloat()\n    tensor([1.+0.j])",
        cast::<{ DType::C64 as u8 }>,
    ),
    (
        "cdouble",
        "cdouble($self, memory_format=None)\n--\n\nAs complex128.\n\nExample::\n\n    >>> oneflow.tensor([1.0]).cdouble()\n    tensor([1.+0.j], dtype=oneflow.complex128)",
        cast::<{ DType::C128 as u8 }>,
    ),
    (
        "chalf",
        "chalf($self, memory_format=None)\n--\n\nAs complex32.\n\nExample::\n\n    >>> oneflow.tensor([1.0]).chalf()\n    tensor([1.+0.j], dtype=oneflow.complex32)",
        cast::<{ DType::C32 as u8 }>,
    ),
];

/// What a conversion asks for.
#[derive(Default)]
struct Want {
    dtype: Option<DType>,
    device: Option<Device>,
    copy: bool,
    non_blocking: bool,
    format: Option<&'static str>,
}

/// Converts, with history.
fn convert(py: Python<'_>, t: &Tensor, w: &Want) -> Result<Tensor> {
    let dtype = w.dtype.filter(|d| *d != t.dtype());
    let device = w.device.filter(|d| *d != t.device());
    if dtype.is_none() && device.is_none() && !w.copy {
        return match w.format {
            None | Some("preserve_format") => Ok(t.clone()),
            Some(f) if f == memory_format_of(t) => Ok(t.clone()),
            Some(f) => ops::CLONE.one(py, &[Some(t)], &[Arg::Sym(intern(f))]),
        };
    }
    // What comes to the host without being waited for comes to pinned memory.
    let pinned = device.filter(|d| d.is_cpu()).map(|_| t.device().kind).filter(|kind| *kind == DeviceType::CUDA);
    let _transfers =
        (w.non_blocking && device.is_some()).then(|| with_transfers(Transfers { pinned, non_blocking: true }));
    let args = [dtype.map_or(Arg::None, Arg::DType), device.map_or(Arg::None, Arg::Device)];
    let made = ops::TO_COPY.one(py, &[Some(t)], &args)?;
    match w.format {
        None | Some("preserve_format") => Ok(made),
        Some(f) if strides_in(f, made.sizes())?.as_slice() == made.strides() => Ok(made),
        Some(f) => ops::CLONE.one(py, &[Some(&made)], &[Arg::Sym(intern(f))]),
    }
}

/// Casts and moves, as `as_tensor` and `tensor` do.
pub fn moved(py: Python<'_>, t: &Tensor, dtype: Option<DType>, device: Option<Device>) -> Result<Tensor> {
    convert(py, t, &Want { dtype, device, ..Want::default() })
}

/// A view with other sizes of a tensor whose extra dimensions have size one.
pub fn viewed(py: Python<'_>, t: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let lead = t.ndim() - sizes.len();
    let strides = &t.strides()[lead..];
    debug_assert_eq!(contiguous_strides(sizes).len(), strides.len());
    ops::AS_STRIDED.one(py, &[Some(t)], &[Arg::Ints(sizes), Arg::Ints(strides), Arg::Int(t.offset())])
}

/// A memory format, if one is given.
///
/// # Safety
/// A live object or null, and the interpreter is held.
pub unsafe fn memory_format(py: Python<'_>, f: &str, o: *mut PyObject) -> Result<Option<&'static str>> {
    // SAFETY: live objects.
    unsafe {
        let Some(o) = given(o) else { return Ok(None) };
        let b = Bound::from_borrowed_ptr(py, o);
        let m = b.cast::<classes::PyMemoryFormat>().map_err(|_| wrong(py, f, "memory_format", "memory_format", o))?;
        Ok(Some(m.get().0))
    }
}

/// Places without a name: `to` takes a dtype, a device or a tensor first.
const UNNAMED: [&str; 4] = ["(1)", "(2)", "(3)", "(4)"];

unsafe fn to(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    let [a, b, c, d] = UNNAMED;
    let names = [a, b, c, d, "dtype", "device", "other", "tensor", "non_blocking", "copy", "memory_format"];
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [first, second, third, fourth, dtype, device, other, tensor, non_blocking, copy, format] =
            bind("to", names, UNNAMED.len(), 0, g)?;
        let mut w = Want::default();
        let mut flags: &[*mut PyObject] = &[second, third, fourth];
        let target = [first, other, tensor].into_iter().find_map(|o| given(o));
        if let Some(x) = target {
            let object = Bound::from_borrowed_ptr(py, x);
            if x == crate::object::tensor_type().cast() {
                // What a graph calls a weight, as a tensor: here it is one.
            } else if let Some(y) = tensor_of(x) {
                (w.dtype, w.device) = (Some(y.dtype()), Some(y.device()));
            } else if let Some(d) = classes::dtype_of(&object) {
                w.dtype = Some(d);
            } else if let Some(d) = classes::device_of(&object).pend(py)? {
                w.device = Some(d);
                w.dtype = given(second).and_then(|x| classes::dtype_of(&Bound::from_borrowed_ptr(py, x)));
                if w.dtype.is_some() || second == ffi::Py_None() {
                    flags = &flags[1..];
                }
            } else {
                return Err(invalid(py, g));
            }
        } else if first == ffi::Py_None() {
            // No device, as a device.
            w.dtype = given(second).and_then(|x| classes::dtype_of(&Bound::from_borrowed_ptr(py, x)));
            if w.dtype.is_some() || second == ffi::Py_None() {
                flags = &flags[1..];
            }
        }
        if let Some(x) = given(dtype) {
            let d = classes::dtype_of(&Bound::from_borrowed_ptr(py, x));
            w.dtype = Some(d.ok_or_else(|| wrong(py, "to", "dtype", "dtype", x))?);
        }
        if let Some(x) = given(device) {
            let d = classes::device_of(&Bound::from_borrowed_ptr(py, x)).pend(py)?;
            w.device = Some(d.ok_or_else(|| wrong(py, "to", "device", "device", x))?);
        }
        // What is left by position: non_blocking, copy.
        for (i, x) in flags.iter().enumerate().filter(|(_, x)| !x.is_null()) {
            let on = value::boolean(py, *x)?.filter(|_| i < 2).ok_or_else(|| invalid(py, g))?;
            w.copy |= i == 1 && on;
            w.non_blocking |= i == 0 && on;
        }
        w.non_blocking |= flag(py, "to", "non_blocking", non_blocking, false)?;
        w.copy |= flag(py, "to", "copy", copy, false)?;
        w.format = memory_format(py, "to", format)?;
        wrap(py, convert(py, t, &w)?)
    }
}

#[cold]
unsafe fn invalid(py: Python<'_>, g: Given) -> Error {
    // SAFETY: the arguments of a call.
    let got: Vec<String> = (0..g.n).map(|i| value::type_name(py, unsafe { *g.args.add(i) })).collect();
    Error::type_(format!(
        "to() received an invalid combination of arguments - got ({}), but expected one of:\n * (device device = None, dtype dtype = None, bool non_blocking = False, bool copy = False, *, memory_format memory_format = None)\n * (dtype dtype, bool non_blocking = False, bool copy = False, *, memory_format memory_format = None)\n * (Tensor tensor, bool non_blocking = False, bool copy = False, *, memory_format memory_format = None)",
        got.join(", ")
    ))
}

/// The number of a dtype is the parameter: one method a dtype.
unsafe fn cast<const D: u8>(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [f] = bind("to", ["memory_format"], 0, 0, g)?;
        let w = Want { dtype: DType::from_u8(D), format: memory_format(py, "to", f)?, ..Want::default() };
        wrap(py, convert(py, self_tensor(o)?, &w)?)
    }
}

unsafe fn cpu(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [f] = bind("cpu", ["memory_format"], 1, 0, g)?;
        let w = Want { device: Some(Device::CPU), format: memory_format(py, "cpu", f)?, ..Want::default() };
        wrap(py, convert(py, self_tensor(o)?, &w)?)
    }
}

unsafe fn cuda(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [d, non_blocking, f] = bind("cuda", ["device", "non_blocking", "memory_format"], 3, 0, g)?;
        let device = match given(d) {
            None => crate::cuda::current(),
            Some(x) => {
                let d = classes::device_of(&Bound::from_borrowed_ptr(py, x)).pend(py)?;
                d.ok_or_else(|| wrong(py, "cuda", "device", "device", x))?
            }
        };
        if device.kind != DeviceType::CUDA {
            return Err(Error::runtime(format!("Invalid device, must be cuda device, got {device}")));
        }
        let non_blocking = flag(py, "cuda", "non_blocking", non_blocking, false)?;
        let w = Want { device: Some(device), format: memory_format(py, "cuda", f)?, non_blocking, ..Want::default() };
        wrap(py, convert(py, self_tensor(o)?, &w)?)
    }
}

unsafe fn type_as(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [other] = bind("type_as", ["other"], 1, 1, g)?;
        let object = other;
        let other = tensor_of(other).ok_or_else(|| wrong(py, "type_as", "other", "Tensor", other))?;
        if self_tensor(o)?.has_key(bit::GLOBAL) != other.has_key(bit::GLOBAL) {
            return as_global(&Bound::from_borrowed_ptr(py, o), &Bound::from_borrowed_ptr(py, object)).pend(py);
        }
        wrap(py, moved(py, self_tensor(o)?, Some(other.dtype()), Some(other.device()))?)
    }
}

/// `x.type_as(other)` of a local and a global tensor: the result is where the other one is.
#[cold]
fn as_global(x: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<*mut PyObject> {
    let dtype = other.getattr("dtype")?;
    let made = if other.getattr("is_global")?.is_truthy()? {
        let to = [("placement", other.getattr("placement")?), ("sbp", other.getattr("sbp")?)].into_py_dict(x.py())?;
        x.call_method1("to", (dtype,))?.call_method("to_global", (), Some(&to))?
    } else {
        x.call_method0("to_local")?.call_method1("to", (other.getattr("device")?, dtype))?
    };
    Ok(made.into_ptr())
}

unsafe fn type_(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [d, non_blocking] = bind("type", ["dtype", "non_blocking"], 2, 0, g)?;
        let Some(d) = given(d) else {
            let place = if t.device().is_cpu() { String::new() } else { format!("{}.", t.device().kind.name()) };
            let package = crate::classes::package();
            let name = format!("{package}.{place}{}Tensor", t.dtype().scalar_type_name());
            return Ok(pyo3::types::PyString::new(py, &name).into_ptr());
        };
        let b = Bound::from_borrowed_ptr(py, d);
        let named = match value::text(d)? {
            Some(s) => named_type(s),
            // The class of all tensors stands for the default dtype.
            None if d.cast() == crate::object::tensor_type() => {
                Some((oneflow_core::default_dtype(), Some(Device::CPU)))
            }
            None => classes::dtype_of(&b).map(|d| (d, None)).or_else(|| tensor_type(&b)),
        };
        let Some((dtype, device)) = named else {
            return Err(Error::value(format!("invalid type: {}", b.repr().pend(py)?)));
        };
        let non_blocking = flag(py, "type", "non_blocking", non_blocking, false)?;
        wrap(py, convert(py, t, &Want { dtype: Some(dtype), device, non_blocking, ..Want::default() })?)
    }
}

/// The class `oneflow.LongTensor` and its like, which says its dtype and kind of device.
fn tensor_type(o: &Bound<'_, PyAny>) -> Option<(DType, Option<Device>)> {
    let dtype = classes::dtype_of(&o.getattr("dtype").ok()?)?;
    let device = classes::device_of(&o.getattr("device_type").ok()?).ok()??;
    Some((dtype, Some(device)))
}

/// "torch.FloatTensor", "oneflow.cuda.HalfTensor".
fn named_type(s: &str) -> Option<(DType, Option<Device>)> {
    let (place, name) = s.rsplit_once('.')?;
    let name = name.strip_suffix("Tensor")?;
    let dtype = DType::ALL.into_iter().find(|d| d.scalar_type_name() == name)?;
    let device = if place.ends_with("cuda") { Device::new(DeviceType::CUDA, 0) } else { Device::CPU };
    Some((dtype, Some(device)))
}
