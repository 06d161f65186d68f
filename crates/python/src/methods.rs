//! Methods of the class that are no ops: questions about the layout, numbers out of the tensor, gradients, identity.

use crate::convert::memory_format;
use crate::entry::HandFn;
use crate::gate::{OrPending, checked};
use crate::global::copy_to_host;
use crate::hand::{again, bind, boolean, flag, given, none, wrong};
use crate::object::{self_tensor, tensor_of, track, wrap, wrap_as};
use crate::parse::Given;
use crate::{autograd, classes, create, placed, scalar, size, storage, value};
use oneflow_autograd as ag;
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Error, Result, Scalar, contiguous_strides, wrap_dim};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// Name, documentation with signature, function.
pub const METHODS: &[(&str, &str, HandFn)] = &[
    (
        "size",
        "size($self, dim=None)\n--\n\nSizes, or the size of one dimension.\n\nExample::\n\n    >>> oneflow.ones(2, 3).size()\n    oneflow.Size([2, 3])\n    >>> oneflow.ones(2, 3).size(1)\n    3",
        tensor_size,
    ),
    (
        "stride",
        "stride($self, dim=None)\n--\n\nSteps in elements, or the step of one dimension.\n\nExample::\n\n    >>> oneflow.ones(2, 3).stride()\n    (3, 1)",
        stride,
    ),
    ("dim", "dim($self)\n--\n\nNumber of dimensions.\n\nExample::\n\n    >>> oneflow.ones(2, 3).dim()\n    2", dim),
    (
        "ndimension",
        "ndimension($self)\n--\n\nNumber of dimensions.\n\nExample::\n\n    >>> oneflow.ones(2, 3).ndimension()\n    2",
        dim,
    ),
    ("numel", "numel($self)\n--\n\nNumber of elements.", numel),
    (
        "nelement",
        "nelement($self)\n--\n\nNumber of elements.\n\nExample::\n\n    >>> oneflow.ones(2, 3).nelement()\n    6",
        numel,
    ),
    (
        "element_size",
        "element_size($self)\n--\n\nBytes of one element.\n\nExample::\n\n    >>> oneflow.ones(2).element_size()\n    4",
        element_size,
    ),
    (
        "storage_offset",
        "storage_offset($self)\n--\n\nFirst element in the storage, in elements.\n\nExample::\n\n    >>> oneflow.arange(4)[1:].storage_offset()\n    1",
        storage_offset,
    ),
    (
        "data_ptr",
        "data_ptr($self)\n--\n\nAddress of the first element.\n\nExample::\n\n    >>> x = oneflow.arange(4)\n    >>> x[1:].data_ptr() - x.data_ptr()\n    8",
        data_ptr,
    ),
    (
        "untyped_storage",
        "untyped_storage($self)\n--\n\nThe memory that views share.\n\nExample::\n\n    >>> oneflow.ones(2).untyped_storage().nbytes()\n    8",
        untyped_storage,
    ),
    (
        "is_contiguous",
        "is_contiguous($self, memory_format=...)\n--\n\nWhether elements lie in order without gaps.\n\nExample::\n\n    >>> oneflow.ones(2, 3).T.is_contiguous()\n    False",
        is_contiguous,
    ),
    (
        "is_floating_point",
        "is_floating_point($self)\n--\n\nWhether the dtype is a float.\n\nExample::\n\n    >>> oneflow.ones(1).is_floating_point()\n    True",
        is_floating_point,
    ),
    (
        "is_complex",
        "is_complex($self)\n--\n\nWhether the dtype is complex.\n\nExample::\n\n    >>> oneflow.ones(1).is_complex()\n    False",
        is_complex,
    ),
    (
        "is_signed",
        "is_signed($self)\n--\n\nWhether the dtype has negative numbers.\n\nExample::\n\n    >>> oneflow.ones(1).is_signed()\n    True",
        is_signed,
    ),
    (
        "is_inference",
        "is_inference($self)\n--\n\nWhether the tensor was made in inference mode.\n\nExample::\n\n    >>> oneflow.ones(1).is_inference()\n    False",
        is_inference,
    ),
    (
        "is_pinned",
        "is_pinned($self, device=None)\n--\n\nWhether the tensor lies in pinned host memory, which a GPU copies by itself (see `pin_memory`). A `device` that is\nno GPU pins nothing.\n\nExample::\n\n    >>> oneflow.ones(1).is_pinned()\n    False",
        is_pinned,
    ),
    (
        "is_same_size",
        "is_same_size($self, other)\n--\n\nWhether both have the same sizes.\n\nExample::\n\n    >>> oneflow.ones(2).is_same_size(oneflow.zeros(2))\n    True",
        is_same_size,
    ),
    (
        "is_set_to",
        "is_set_to($self, tensor)\n--\n\nWhether both are the same view of the same storage.\n\nExample::\n\n    >>> x = oneflow.ones(2)\n    >>> x.is_set_to(x.detach())\n    True",
        is_set_to,
    ),
    (
        "get_device",
        "get_device($self)\n--\n\nIndex of the device, -1 for the host.\n\nExample::\n\n    >>> oneflow.ones(1).get_device()\n    -1",
        get_device,
    ),
    (
        "item",
        "item($self)\n--\n\nThe one element as a Python number.\n\nExample::\n\n    >>> oneflow.tensor(2.5).item()\n    2.5",
        item,
    ),
    (
        "tolist",
        "tolist($self)\n--\n\nThe elements as nested lists; a number for a 0-dim tensor.\n\nExample::\n\n    >>> oneflow.tensor([[1, 2]]).tolist()\n    [[1, 2]]",
        tolist,
    ),
    (
        "detach",
        "detach($self)\n--\n\nThe same data without history.\n\nExample::\n\n    >>> oneflow.ones(1, requires_grad=True).detach().requires_grad\n    False",
        detach,
    ),
    (
        "detach_",
        "detach_($self)\n--\n\nForgets the history in place.\n\nExample::\n\n    >>> y = oneflow.ones(1, requires_grad=True) * 2\n    >>> y.detach_().requires_grad\n    False",
        detach_,
    ),
    (
        "requires_grad_",
        "requires_grad_($self, requires_grad=True)\n--\n\nSets whether ops are recorded.\n\nExample::\n\n    >>> oneflow.ones(1).requires_grad_().requires_grad\n    True",
        requires_grad_,
    ),
    (
        "retain_grad",
        "retain_grad($self)\n--\n\nKeeps the gradient of a non-leaf in `grad`.\n\nExample::\n\n    >>> y = oneflow.ones(1, requires_grad=True) * 2\n    >>> y.retain_grad()\n    >>> (y * 3).backward()\n    >>> y.grad\n    tensor([3.])",
        retain_grad,
    ),
    (
        "register_hook",
        "register_hook($self, hook)\n--\n\nCalls `hook(grad)` whenever the gradient was computed.\n\nExample::\n\n    >>> x = oneflow.ones(1, requires_grad=True)\n    >>> handle = x.register_hook(lambda grad: grad * 10)\n    >>> (x * 2).backward()\n    >>> x.grad\n    tensor([20.])",
        register_hook,
    ),
    (
        "register_post_accumulate_grad_hook",
        "register_post_accumulate_grad_hook($self, hook)\n--\n\nCalls `hook(tensor)` once the gradient is in `grad`.\n\nExample::\n\n    >>> x = oneflow.ones(1, requires_grad=True)\n    >>> handle = x.register_post_accumulate_grad_hook(lambda t: print(t.grad))\n    >>> (x * 2).backward()\n    tensor([2.])",
        register_post_hook,
    ),
    (
        "backward",
        "backward($self, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\nAccumulates gradients into the leaves.\n\nExample::\n\n    >>> x = oneflow.ones(2, requires_grad=True)\n    >>> (x * 3).sum().backward()\n    >>> x.grad\n    tensor([3., 3.])",
        backward,
    ),
    (
        "as_subclass",
        "as_subclass($self, cls)\n--\n\nThe same data as an object of a subclass.\n\nExample::\n\n    >>> class Mine(oneflow.Tensor):\n    ...     pass\n    >>> type(oneflow.ones(1).as_subclass(Mine)).__name__\n    'Mine'",
        as_subclass,
    ),
    (
        "resize_",
        "resize_($self, *sizes, memory_format=None)\n--\n\nOther sizes, with more memory where needed.\n\nExample::\n\n    >>> oneflow.ones(4).resize_(2, 2).shape\n    oneflow.Size([2, 2])",
        resize_,
    ),
    (
        "set_",
        "set_($self, source=None, storage_offset=0, size=None, stride=None)\n--\n\nThe memory and layout of another tensor, or a layout over a storage.\n\nExample::\n\n    >>> oneflow.empty(0).set_(oneflow.ones(2))\n    tensor([1., 1.])",
        storage::set_,
    ),
    (
        "resize_as_",
        "resize_as_($self, the_template, memory_format=None)\n--\n\nThe sizes of another tensor.\n\nExample::\n\n    >>> oneflow.ones(4).resize_as_(oneflow.ones(2, 2)).shape\n    oneflow.Size([2, 2])",
        storage::resize_as_,
    ),
    (
        "new_tensor",
        "new_tensor($self, data, *, dtype=None, device=None, requires_grad=False, placement=None, sbp=None)\n--\n\nA new tensor of this dtype and device with a copy of `data`; with `placement` and `sbp` a global one.\n\nExample::\n\n    >>> oneflow.ones(1, dtype=oneflow.float64).new_tensor([1, 2])\n    tensor([1., 2.], dtype=oneflow.float64)",
        new_tensor,
    ),
    ("__complex__", "__complex__($self)\n--\n\n", complex),
    ("_take_view", "_take_view($self, of)\n--\n\nTakes the layout of a view of itself, in place.", take_view),
];

/// Static methods.
pub const STATIC: &[(&str, &str, HandFn)] = &[(
    "_make_subclass",
    "_make_subclass(cls, data, requires_grad=False)\n--\n\nThe same data, without history, as an object of a subclass.",
    make_subclass,
)];

/// A method without arguments.
macro_rules! plain {
    ($($f:ident = |$py:ident, $o:ident, $t:ident| $body:expr;)*) => {$(
        unsafe fn $f($py: Python<'_>, $o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
            // SAFETY: a method call: `self` and the arguments are alive, the interpreter is held.
            unsafe {
                bind::<0>(stringify!($f), [], 0, 0, g)?;
                let $t = self_tensor($o)?;
                $body
            }
        }
    )*};
}

plain! {
    dim = |_py, _o, t| checked(ffi::PyLong_FromSize_t(t.ndim()));
    numel = |py, _o, t| size::number_of(py, t, t.numel());
    element_size = |_py, _o, t| checked(ffi::PyLong_FromSize_t(t.dtype().size()));
    storage_offset = |_py, _o, t| checked(ffi::PyLong_FromLongLong(t.offset()));
    data_ptr = |_py, _o, t| {
        // Of a global tensor: of this rank's part.
        let t = oneflow_global::global_of(t).and_then(|g| g.local.as_ref()).unwrap_or(t);
        checked(ffi::PyLong_FromSize_t(if t.numel() == 0 { 0 } else { t.data_ptr() as usize }))
    };
    untyped_storage = |py, _o, t| Ok(storage::of(py, t).pend(py)?.into_ptr());
    is_floating_point = |_py, _o, t| Ok(boolean(t.dtype().is_float()));
    is_complex = |_py, _o, t| Ok(boolean(t.dtype().is_complex()));
    is_signed = |_py, _o, t| Ok(boolean(crate::classes::is_signed(t.dtype())));
    is_inference = |_py, _o, t| Ok(boolean(t.is_inference()));
    get_device = |_py, _o, t| checked(ffi::PyLong_FromLongLong(if t.device().is_cpu() { -1 } else { t.device().index as i64 }));
    item = |_py, _o, t| item_of(t);
    tolist = |_py, _o, t| list_of(t);
    detach = |py, _o, t| match crate::subclass::answered(py, "detach", t)? {
        Some(answer) => Ok(answer),
        None => wrap(py, ag::detach(t)),
    };
    detach_ = |_py, o, t| {
        ag::detach_(t)?;
        Ok(again(o))
    };
    retain_grad = |_py, _o, t| {
        ag::retain_grad(t)?;
        Ok(none())
    };
    complex = |_py, _o, t| match crate::index::one(t)? {
        Scalar::Complex(r, i) => checked(ffi::PyComplex_FromDoubles(r, i)),
        s => checked(ffi::PyComplex_FromDoubles(s.to_f64(), 0.0)),
    };
}

/// A Python number.
///
/// # Safety
/// The interpreter is held.
pub unsafe fn number(s: Scalar) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise.
    checked(unsafe {
        match s {
            Scalar::Bool(b) => boolean(b),
            Scalar::Int(i) => ffi::PyLong_FromLongLong(i),
            Scalar::Float(f) => ffi::PyFloat_FromDouble(f),
            Scalar::Complex(r, i) => ffi::PyComplex_FromDoubles(r, i),
        }
    })
}

unsafe fn tensor_size(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [d] = bind("size", ["dim"], 1, 0, g)?;
        match given(d) {
            None => size::sizes(py, t),
            Some(d) => {
                let i = value::int(py, d)?.ok_or_else(|| wrong(py, "size", "dim", "int", d))?;
                size::number_of(py, t, t.sizes()[dim_index(t, i)?])
            }
        }
    }
}

/// A dimension that must exist: 0-dim tensors have none.
fn dim_index(t: &Tensor, i: i64) -> Result<usize> {
    if t.ndim() == 0 {
        return Err(Error::index(format!("Dimension specified as {i} but tensor has no dimensions")));
    }
    wrap_dim(i, t.ndim())
}

unsafe fn stride(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [d] = bind("stride", ["dim"], 1, 0, g)?;
        match given(d) {
            None => size::strides(py, t),
            Some(d) => {
                let i = value::int(py, d)?.ok_or_else(|| wrong(py, "stride", "dim", "int", d))?;
                size::number_of(py, t, t.strides()[dim_index(t, i)?])
            }
        }
    }
}

unsafe fn is_pinned(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [device] = bind("is_pinned", ["device"], 1, 0, g)?;
        let Some(device) = given(device) else { return Ok(boolean(crate::cuda::is_pinned(t))) };
        let of = classes::device_of(&Bound::from_borrowed_ptr(py, device)).pend(py)?;
        let of = of.ok_or_else(|| wrong(py, "is_pinned", "device", "device", device))?;
        Ok(boolean(of.kind == oneflow_core::base::DeviceType::CUDA && crate::cuda::is_pinned(t)))
    }
}

unsafe fn is_contiguous(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        let [f] = bind("is_contiguous", ["memory_format"], 1, 0, g)?;
        let Some(f) = given(f) else { return Ok(boolean(t.is_contiguous())) };
        let b = Bound::from_borrowed_ptr(py, f);
        let f = b
            .cast::<classes::PyMemoryFormat>()
            .map_err(|_| wrong(py, "is_contiguous", "memory_format", "memory_format", f))?;
        Ok(boolean(match f.get().0 {
            "channels_last" => t.ndim() == 4 && is_channels_last(t),
            "channels_last_3d" => t.ndim() == 5 && is_channels_last(t),
            "preserve_format" => {
                return Err(Error::runtime("preserve memory format is unsupported by the contiguous operator"));
            }
            _ => t.is_contiguous(),
        }))
    }
}

/// Dense with the channels innermost.
fn is_channels_last(t: &Tensor) -> bool {
    let n = t.ndim();
    let mut order: Vec<usize> = (0..n).collect();
    order.remove(1);
    order.push(1);
    let sizes: Vec<i64> = order.iter().map(|&d| t.sizes()[d]).collect();
    let dense = contiguous_strides(&sizes);
    order.iter().zip(&dense).all(|(&d, s)| t.sizes()[d] == 1 || t.strides()[d] == *s)
}

unsafe fn is_same_size(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [other] = bind("is_same_size", ["other"], 1, 1, g)?;
        let b = tensor_of(other).ok_or_else(|| wrong(py, "is_same_size", "other", "Tensor", other))?;
        Ok(boolean(self_tensor(o)?.sizes() == b.sizes()))
    }
}

unsafe fn take_view(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [view] = bind("_take_view", ["of"], 1, 1, g)?;
        let view = tensor_of(view).ok_or_else(|| wrong(py, "_take_view", "of", "Tensor", view))?;
        ag::set_view(self_tensor(o)?, view)?;
        Ok(again(o))
    }
}

unsafe fn is_set_to(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [other] = bind("is_set_to", ["tensor"], 1, 1, g)?;
        let b = tensor_of(other).ok_or_else(|| wrong(py, "is_set_to", "tensor", "Tensor", other))?;
        let a = self_tensor(o)?;
        let shared = matches!((a.storage(), b.storage()), (Some(x), Some(y)) if x.same(y));
        Ok(boolean(shared && a.sizes() == b.sizes() && a.strides() == b.strides() && a.offset() == b.offset()))
    }
}

unsafe fn requires_grad_(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [on] = bind("requires_grad_", ["requires_grad"], 1, 0, g)?;
        let on = flag(py, "requires_grad_", "requires_grad", on, true)?;
        ag::set_requires_grad(self_tensor(o)?, on)?;
        Ok(again(o))
    }
}

unsafe fn register_hook(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [hook] = bind("register_hook", ["hook"], 1, 1, g)?;
        hooked(py, o, hook, false)
    }
}

unsafe fn register_post_hook(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [hook] = bind("register_post_accumulate_grad_hook", ["hook"], 1, 1, g)?;
        hooked(py, o, hook, true)
    }
}

unsafe fn hooked(py: Python<'_>, o: *mut PyObject, hook: *mut PyObject, after: bool) -> Result<*mut PyObject> {
    // SAFETY: live objects.
    unsafe {
        track(o);
        let (tensor, hook) = (Bound::from_borrowed_ptr(py, o), Bound::from_borrowed_ptr(py, hook));
        let handle = autograd::register_hook(&tensor, hook, after).pend(py)?;
        Ok(Py::new(py, handle).pend(py)?.into_ptr())
    }
}

unsafe fn backward(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [gradient, retain, create, inputs] =
            bind("backward", ["gradient", "retain_graph", "create_graph", "inputs"], 4, 0, g)?;
        let gradient = match given(gradient) {
            None => None,
            Some(g) => Some(tensor_of(g).cloned().ok_or_else(|| {
                Error::type_(format!("gradients can be either Tensors or None, but got {}", value::type_name(py, g)))
            })?),
        };
        let create = flag(py, "backward", "create_graph", create, false)?;
        let retain = match given(retain) {
            Some(r) => flag(py, "backward", "retain_graph", r, create)?,
            None => create,
        };
        if create {
            py.import("oneflow.autograd._engine").pend(py)?.call_method1("_warn_of_cycle", (2,)).pend(py)?;
        }
        let inputs = given(inputs).map(|i| Bound::from_borrowed_ptr(py, i));
        autograd::backward(py, self_tensor(o)?, gradient, retain, create, inputs)?;
        Ok(none())
    }
}

/// The class that an argument names.
unsafe fn class_of(py: Python<'_>, function: &str, o: *mut PyObject) -> Result<*mut ffi::PyTypeObject> {
    // SAFETY: a live object.
    if unsafe { ffi::PyType_Check(o) } == 0 {
        return Err(wrong(py, function, "cls", "type", o));
    }
    Ok(o.cast())
}

unsafe fn as_subclass(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let [class] = bind("as_subclass", ["cls"], 1, 1, g)?;
        let class = class_of(py, "as_subclass", class)?;
        let t = self_tensor(o)?;
        // A view by an op keeps the history.
        let alias = if ag::requires_grad(t) { crate::index::alias(py, t)? } else { t.shallow() };
        wrap_as(py, class, alias)
    }
}

unsafe fn make_subclass(py: Python<'_>, _: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a call of a static method.
    unsafe {
        let [class, data, grad] = bind("_make_subclass", ["cls", "data", "requires_grad"], 3, 2, g)?;
        let class = class_of(py, "_make_subclass", class)?;
        let t = tensor_of(data).ok_or_else(|| wrong(py, "_make_subclass", "data", "Tensor", data))?;
        let on = flag(py, "_make_subclass", "requires_grad", grad, false)?;
        let own = ag::detach(t);
        if on {
            ag::set_requires_grad(&own, true)?;
        }
        wrap_as(py, class, own)
    }
}

unsafe fn resize_(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        let t = self_tensor(o)?;
        if ag::requires_grad(t) && !ag::is_inference_mode_enabled() {
            return Err(Error::runtime("cannot resize variables that require grad"));
        }
        let items: Vec<*mut PyObject> = (0..g.n).map(|i| *g.args.add(i)).collect();
        let named = Given { args: g.args.add(g.n), n: 0, names: g.names };
        let [size, format] = bind("resize_", ["size", "memory_format"], 0, 0, named)?;
        let items = if size.is_null() { items } else { vec![size] };
        let format = memory_format(py, "resize_", format)?;
        let mut sizes: Vec<i64> = Vec::new();
        let mut push = |x: *mut PyObject| {
            sizes.push(value::int(py, x)?.ok_or_else(|| wrong(py, "resize_", "size", "tuple of ints", x))?);
            Ok(true)
        };
        match items[..] {
            [one] if value::is_sequence(one) => {
                value::each(one, |_, x| push(x))?;
            }
            _ => {
                for x in items {
                    push(x)?;
                }
            }
        }
        storage::resize(t, &sizes, format)?;
        Ok(again(o))
    }
}

unsafe fn new_tensor(py: Python<'_>, o: *mut PyObject, g: Given) -> Result<*mut PyObject> {
    // SAFETY: a method call.
    unsafe {
        if let Some(result) = placed::by_hand(py, "new_tensor", o, g, new_tensor) {
            return result;
        }
        let [data, dtype, device, grad] = bind("new_tensor", ["data", "dtype", "device", "requires_grad"], 1, 1, g)?;
        let like = self_tensor(o)?;
        let (dtype, device) = create::wanted(py, "new_tensor", dtype, device, None)?;
        let grad = flag(py, "new_tensor", "requires_grad", grad, false)?;
        let dtype = dtype.unwrap_or(like.dtype());
        let mut t = create::from_data(py, data, Some(dtype), Some(device.unwrap_or(like.device())))?;
        if device.is_none() {
            t = placed::like(py, t, like)?;
        }
        if grad {
            ag::set_requires_grad(&t, true)?;
        }
        wrap(py, t)
    }
}

/// The one element.
///
/// # Safety
/// The interpreter is held.
unsafe fn item_of(t: &Tensor) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise; the element of a host tensor lies at its pointer.
    unsafe {
        if t.dtype() != DType::U64 || t.numel() != 1 || t.is_only_a_subclass() {
            return number(scalar::read(t)?);
        }
        let host = copy_to_host(t)?;
        checked(ffi::PyLong_FromUnsignedLongLong(host.data_ptr().cast::<u64>().read_unaligned()))
    }
}

/// Nested lists of a tensor's elements.
///
/// # Safety
/// The interpreter is held.
unsafe fn list_of(t: &Tensor) -> Result<*mut PyObject> {
    t.check_memory()?;
    let host = if t.device().is_cpu() && t.storage().is_some() { t.clone() } else { copy_to_host(t)? };
    // SAFETY: the elements of a host tensor lie at its pointer, in its strides.
    unsafe { nested(host.data_ptr(), &host, 0) }
}

unsafe fn nested(p: *mut u8, t: &Tensor, dim: usize) -> Result<*mut PyObject> {
    // SAFETY: `p` is the first element of the sub-tensor of the first `dim` indices; the interpreter is held.
    unsafe {
        if dim == t.ndim() {
            return match scalar::beyond(p, t.dtype()) {
                None => number(scalar::load(p, t.dtype())),
                Some(v) => checked(ffi::PyLong_FromUnsignedLongLong(v)),
            };
        }
        let (n, step) = (t.sizes()[dim], t.strides()[dim] as isize * t.dtype().size() as isize);
        let list = checked(ffi::PyList_New(n as ffi::Py_ssize_t))?;
        for i in 0..n {
            match nested(p.wrapping_offset(i as isize * step), t, dim + 1) {
                Ok(o) => {
                    ffi::PyList_SetItem(list, i as ffi::Py_ssize_t, o);
                }
                Err(e) => {
                    ffi::Py_DECREF(list);
                    return Err(e);
                }
            }
        }
        Ok(list)
    }
}
