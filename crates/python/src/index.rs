//! `x[...]` and `x[...] = v`: the basic part becomes one view, the advanced part one gather or scatter.

use crate::gate::{self, checked, enter};
use crate::object::{self_tensor, tensor_of, wrap};
use crate::operators as ops;
use crate::overrides::{ask_slot, heard, index_answers};
use crate::{autograd, create, scalar, value};
use oneflow_core::base::{Arg, DType, Device, Dims, Error, NdSbpId, Result, Sbp, Scalar};
use oneflow_core::{Tensor, bit};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::ffi::c_int;
use std::ptr::null_mut;

/// One step of the basic part, on the dimensions of the tensor as the steps before leave it.
#[derive(Clone, Copy)]
enum Step {
    Select { dim: usize, index: i64 },
    Slice { dim: usize, start: i64, end: i64, step: i64 },
    NewDim { dim: usize },
}

/// An index, taken apart.
#[derive(Default)]
struct Plan {
    steps: SmallVec<[Step; 4]>,
    /// Dimension after all steps, and the tensor that indexes from there on.
    tensors: SmallVec<[(usize, Tensor); 2]>,
    sizes: Dims,
    strides: Dims,
    offset: i64,
}

impl Plan {
    fn of(t: &Tensor) -> Plan {
        Plan {
            sizes: Dims::from_slice(t.sizes()),
            strides: Dims::from_slice(t.strides()),
            offset: t.offset(),
            ..Plan::default()
        }
    }

    fn select(&mut self, dim: usize, real_dim: usize, i: i64, ndim: usize) -> Result<()> {
        if ndim == 0 {
            return Err(Error::index(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number",
            ));
        }
        let n = self.sizes[dim];
        if i < -n || i >= n {
            return Err(Error::index(format!("index {i} is out of bounds for dimension {real_dim} with size {n}")));
        }
        let index = if i < 0 { i + n } else { i };
        self.steps.push(Step::Select { dim, index });
        self.offset += index * self.strides[dim];
        self.sizes.remove(dim);
        self.strides.remove(dim);
        Ok(())
    }

    fn slice(&mut self, dim: usize, start: i64, end: i64, step: i64) {
        let n = self.sizes[dim];
        if start == 0 && end == n && step == 1 {
            return;
        }
        self.steps.push(Step::Slice { dim, start, end, step });
        self.offset += start * self.strides[dim];
        self.sizes[dim] = (end - start).max(0).div_ceil_(step);
        self.strides[dim] = self.strides[dim].saturating_mul(step);
    }

    fn new_dim(&mut self, dim: usize) {
        self.steps.push(Step::NewDim { dim });
        let stride = match (self.sizes.get(dim), self.strides.get(dim)) {
            (Some(n), Some(s)) => n * s,
            _ => 1,
        };
        self.sizes.insert(dim, 1);
        self.strides.insert(dim, stride);
    }
}

trait DivCeil {
    fn div_ceil_(self, d: i64) -> i64;
}
impl DivCeil for i64 {
    /// Of non-negative numbers.
    fn div_ceil_(self, d: i64) -> i64 {
        self / d + (self % d != 0) as i64
    }
}

/// How many dimensions an item of the index uses up.
unsafe fn uses(o: *mut PyObject) -> usize {
    // SAFETY: a live object.
    unsafe {
        if o == ffi::Py_None() || o == ffi::Py_Ellipsis() || o == ffi::Py_True() || o == ffi::Py_False() {
            return 0;
        }
        match tensor_of(o) {
            Some(t) if matches!(t.dtype(), DType::Bool | DType::U8) => t.ndim(),
            _ => 1,
        }
    }
}

/// Takes an index apart.
unsafe fn plan(py: Python<'_>, t: &Tensor, index: *mut PyObject) -> Result<Plan> {
    let mut p = Plan::of(t);
    let ndim = t.ndim();
    // SAFETY: live objects; items are borrowed from the index, which the caller keeps.
    unsafe {
        if ffi::PyList_Check(index) != 0 && holds_indices(index) {
            // A list of indices was once written for a tuple, and PyTorch still takes it so.
            let tuple = checked(ffi::PySequence_Tuple(index))?;
            let p = plan(py, t, tuple);
            ffi::Py_DECREF(tuple);
            return p;
        }
        if ffi::PyTuple_Check(index) == 0 {
            let (mut dim, mut real) = (0, 0);
            item(py, t, &mut p, index, &mut dim, &mut real, ndim.saturating_sub(uses(index)), ndim)?;
            return Ok(p);
        }
        let n = ffi::PyTuple_Size(index);
        let mut used = 0;
        for i in 0..n {
            used += uses(ffi::PyTuple_GetItem(index, i));
        }
        if used > ndim {
            // Lists of booleans are counted once they are tensors; everything else is known now.
            return Err(Error::index(format!("too many indices for tensor of dimension {ndim}")));
        }
        let (mut dim, mut real) = (0, 0);
        for i in 0..n {
            item(py, t, &mut p, ffi::PyTuple_GetItem(index, i), &mut dim, &mut real, ndim - used, ndim)?;
        }
    }
    Ok(p)
}

/// Whether a list holds something that is an index itself, and no number.
unsafe fn holds_indices(list: *mut PyObject) -> bool {
    // SAFETY: a live list.
    unsafe {
        let n = ffi::PyList_Size(list);
        n < 32
            && (0..n).any(|i| {
                let o = ffi::PyList_GetItem(list, i);
                value::is_sequence(o)
                    || ffi::PySlice_Check(o) != 0
                    || o == ffi::Py_Ellipsis()
                    || o == ffi::Py_None()
                    || crate::object::is_tensor(o)
            })
    }
}

/// One item. `dim` is the place in the view so far, `real` the place in the tensor itself, `rest` what `...` stands for.
unsafe fn item(
    py: Python<'_>,
    t: &Tensor,
    p: &mut Plan,
    o: *mut PyObject,
    dim: &mut usize,
    real: &mut usize,
    rest: usize,
    ndim: usize,
) -> Result<()> {
    // SAFETY: live objects.
    unsafe {
        if ffi::Py_TYPE(o) == &raw mut ffi::PyLong_Type {
            let i = value::int(py, o)?.unwrap_or(0);
            p.select(*dim, *real, i, ndim)?;
            *real += 1;
        } else if ffi::PySlice_Check(o) != 0 {
            if ndim == 0 {
                return Err(Error::index("slice() cannot be applied to a 0-dim tensor."));
            }
            let (start, end, step) = slice_of(py, o, p.sizes[*dim])?;
            p.slice(*dim, start, end, step);
            *dim += 1;
            *real += 1;
        } else if o == ffi::Py_Ellipsis() {
            *dim += rest;
            *real += rest;
        } else if o == ffi::Py_None() {
            p.new_dim(*dim);
            *dim += 1;
        } else if o == ffi::Py_True() || o == ffi::Py_False() {
            p.new_dim(*dim);
            p.tensors.push((*dim, crate::global::like(one_mask(o == ffi::Py_True(), t.device())?, Some(t))?));
            *dim += 1;
        } else if let Some(x) = tensor_of(o) {
            tensor_item(t, p, x.clone(), dim, real, ndim)?;
        } else if value::is_sequence(o) || is_array(py, o) {
            let x = crate::global::like(create::index_tensor(py, o)?, Some(t))?;
            tensor_item(t, p, x, dim, real, ndim)?;
        } else if let Some(i) = value::int(py, o)? {
            p.select(*dim, *real, i, ndim)?;
            *real += 1;
        } else if ffi::PyUnicode_Check(o) != 0 {
            return Err(Error::type_("new(): invalid data type 'str'"));
        } else if ffi::PySequence_Check(o) != 0 {
            // A range, or whatever else counts its items.
            let list = checked(ffi::PySequence_List(o))?;
            let x = create::index_tensor(py, list);
            ffi::Py_DECREF(list);
            tensor_item(t, p, x?, dim, real, ndim)?;
        } else {
            return Err(Error::index(format!(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
                value::type_name(py, o)
            )));
        }
    }
    Ok(())
}

unsafe fn is_array(py: Python<'_>, o: *mut PyObject) -> bool {
    // SAFETY: a live object.
    let b = unsafe { Bound::from_borrowed_ptr(py, o) };
    b.hasattr("__array_interface__").unwrap_or(false) && b.hasattr("ndim").unwrap_or(false)
}

/// `x[True]`: a mask over a new dimension of size one.
fn one_mask(on: bool, device: Device) -> Result<Tensor> {
    let m = Tensor::empty(DType::Bool, Device::CPU, &[1])?;
    // SAFETY: a host tensor of one byte.
    unsafe { *m.data_ptr() = on as u8 };
    on_device(m, device)
}

fn on_device(t: Tensor, device: Device) -> Result<Tensor> {
    if t.device() == device || device.is_meta() {
        return Ok(t);
    }
    // SAFETY: the interpreter is held by every caller of this file.
    let py = unsafe { Python::assume_attached() };
    ops::TO_COPY.one(py, &[Some(&t)], &[Arg::None, Arg::Device(device)])
}

fn tensor_item(t: &Tensor, p: &mut Plan, x: Tensor, dim: &mut usize, real: &mut usize, ndim: usize) -> Result<()> {
    let mask = matches!(x.dtype(), DType::Bool | DType::U8);
    if !mask && (!x.dtype().is_int() || x.dtype().is_limited()) {
        return Err(Error::index(format!(
            "tensors used as indices must be long, int, byte or bool tensors (got {})",
            x.dtype()
        )));
    }
    if x.dtype() == DType::U8 && !oneflow_core::oneflow_conventions() {
        oneflow_core::warn(
            "indexing with dtype oneflow.uint8 is now deprecated, please use a dtype oneflow.bool instead.",
        )?;
    }
    if x.ndim() == 0 && x.keys() & (1 << bit::LAZY | 1 << bit::BATCH) == 0 {
        let s = scalar::read(&x)?;
        if !mask {
            if let Scalar::Int(i) = s {
                p.select(*dim, *real, i, ndim)?;
                *real += 1;
            }
            return Ok(());
        }
        p.new_dim(*dim);
        p.tensors.push((*dim, crate::global::like(one_mask(s.to_f64() != 0.0, t.device())?, Some(t))?));
        *dim += 1;
        return Ok(());
    }
    let used = if mask { x.ndim() } else { 1 };
    if *dim + used > p.sizes.len() {
        return Err(Error::index(format!("too many indices for tensor of dimension {ndim}")));
    }
    p.tensors.push((*dim, x));
    *dim += used;
    *real += used;
    Ok(())
}

/// Start, end (not before start) and step of a slice over `n` elements.
unsafe fn slice_of(py: Python<'_>, o: *mut PyObject, n: i64) -> Result<(i64, i64, i64)> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: a live slice object.
    unsafe {
        if ffi::PySlice_Unpack(o, &mut start, &mut stop, &mut step) < 0 {
            // Errors of this package: under OneFlow's conventions they are RuntimeErrors too.
            if ffi::PyErr_ExceptionMatches(ffi::PyExc_ValueError) != 0 {
                ffi::PyErr_Clear();
                return Err(Error::value("slice step cannot be zero"));
            }
            if ffi::PyErr_ExceptionMatches(ffi::PyExc_TypeError) != 0 {
                let text = PyErr::take(py).map(|e| e.value(py).to_string());
                return Err(Error::type_(text.unwrap_or_default()));
            }
            return Err(gate::pending_set());
        }
        if step <= 0 {
            return Err(Error::value("step must be greater than zero"));
        }
        ffi::PySlice_AdjustIndices(n as ffi::Py_ssize_t, &mut start, &mut stop, step);
        Ok((start as i64, (stop.max(start)) as i64, step as i64))
    }
}

/// Applies the basic part: one strided view where that is right for autograd, else an op a step.
fn view(py: Python<'_>, t: &Tensor, p: &Plan) -> Result<Tensor> {
    let other = 1 << bit::GLOBAL | 1 << bit::LAZY | 1 << bit::BATCH | 1 << bit::SPARSE;
    let local = t.keys() & other == 0 && !t.device().is_meta();
    let recorded = autograd::requires_grad(t) && oneflow_autograd::is_grad_enabled();
    // The gradient of a strided view is exact for a dense tensor at the start of its storage.
    let dense = t.is_contiguous() && t.offset() == 0;
    let strided = local && p.steps.len() != 1 && (!recorded || dense) || local && !recorded && !named(p.steps.first());
    if p.steps.is_empty() && recorded && !dense {
        return alias(py, t);
    }
    if p.steps.is_empty() || strided {
        let args = [Arg::Ints(&p.sizes), Arg::Ints(&p.strides), Arg::Int(p.offset)];
        if local {
            return ops::AS_STRIDED.one(py, &[Some(t)], &args);
        }
        return alias(py, t);
    }
    let mut at = t.clone();
    for s in &p.steps {
        at = match *s {
            Step::Select { dim, index } => {
                ops::SELECT.one(py, &[Some(&at)], &[Arg::Int(dim as i64), Arg::Int(index)])?
            }
            Step::Slice { dim, start, end, step } => ops::SLICE.one(
                py,
                &[Some(&at)],
                &[Arg::Int(dim as i64), Arg::Int(start), Arg::Int(end), Arg::Int(step)],
            )?,
            Step::NewDim { dim } => ops::UNSQUEEZE.one(py, &[Some(&at)], &[Arg::Int(dim as i64)])?,
        };
    }
    Ok(at)
}

/// Whether a lone step has an op of its own.
fn named(s: Option<&Step>) -> bool {
    match s {
        Some(Step::Select { .. }) => ops::SELECT.exists(),
        Some(Step::Slice { .. }) => ops::SLICE.exists(),
        Some(Step::NewDim { .. }) => true,
        None => false,
    }
}

/// A new view of the whole tensor.
pub fn alias(py: Python<'_>, t: &Tensor) -> Result<Tensor> {
    if t.has_key(bit::SPARSE) {
        // What shares the parts of a sparse tensor has no history; a copy has.
        return ops::CLONE.one(py, &[Some(t)], &[Arg::None]);
    }
    ops::EXPAND.one(py, &[Some(t)], &[Arg::Ints(t.sizes()), Arg::Bool(false)])
}

/// The tensor list of the advanced part, as the op wants it: int64 throughout, a mask as the places where it is set, absent in
/// the dimensions before and between.
fn listed(py: Python<'_>, x: &Tensor, p: &Plan) -> Result<SmallVec<[Option<Tensor>; 4]>> {
    let mut list: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
    for (at, index) in &p.tensors {
        while list.len() < *at {
            list.push(None);
        }
        let index = on_device(index.clone(), x.device())?;
        match index.dtype() {
            DType::I64 => list.push(Some(index)),
            DType::Bool | DType::U8 => list.extend(places(py, x, &index, *at)?.into_iter().map(Some)),
            _ => list.push(Some(to_dtype(py, &index, DType::I64)?)),
        }
    }
    Ok(list)
}

fn to_dtype(py: Python<'_>, t: &Tensor, dtype: DType) -> Result<Tensor> {
    ops::TO_COPY.one(py, &[Some(t)], &[Arg::DType(dtype), Arg::None])
}

/// Where a mask over dimensions `at..` of `x` is set: one index tensor a dimension.
fn places(py: Python<'_>, x: &Tensor, mask: &Tensor, at: usize) -> Result<SmallVec<[Tensor; 2]>> {
    let n = mask.ndim();
    for (i, (m, s)) in mask.sizes().iter().zip(&x.sizes()[at..]).enumerate() {
        if m != s {
            return Err(Error::index(format!(
                "The shape of the mask {:?} at index {i} does not match the shape of the indexed tensor {:?} at index {}",
                mask.sizes(),
                x.sizes(),
                at + i
            )));
        }
    }
    let set = ops::NONZERO.one(py, &[Some(mask)], &[])?;
    (0..n as i64).map(|k| ops::SELECT.one(py, &[Some(&set)], &[Arg::Int(1), Arg::Int(k)])).collect()
}

pub unsafe extern "C" fn getitem(o: *mut PyObject, index: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call: live objects, `o` is a tensor object.
        unsafe {
            if heard(o) || index_answers(index) {
                return ask_slot(py, "__getitem__", o, &[index], &[o, index]);
            }
            let t = self_tensor(o)?;
            let p = plan(py, t, index)?;
            if p.tensors.is_empty() {
                let v = view(py, t, &p)?;
                if !oneflow_autograd::is_grad_enabled() {
                    oneflow_autograd::mark_no_grad_view(&v);
                }
                return wrap(py, v);
            }
            let viewed = if p.steps.is_empty() { None } else { Some(view(py, t, &p)?) };
            let x = viewed.as_ref().unwrap_or(t);
            let list = listed(py, x, &p)?;
            let mut ins: SmallVec<[Option<&Tensor>; 6]> = SmallVec::new();
            ins.push(Some(x));
            ins.extend(list.iter().map(Option::as_ref));
            wrap(py, ops::INDEX.one(py, &ins, &[Arg::Len(list.len() as u32)])?)
        }
    })
}

pub unsafe extern "C" fn setitem(o: *mut PyObject, index: *mut PyObject, v: *mut PyObject) -> c_int {
    enter(-1, |py| {
        // SAFETY: a slot call: live objects, `o` is a tensor object.
        unsafe {
            if v.is_null() {
                return Err(Error::type_("Tensor does not support deleting items"));
            }
            if heard(o) || index_answers(v) {
                ffi::Py_DECREF(ask_slot(py, "__setitem__", o, &[index, v], &[o, v])?);
                return Ok(0);
            }
            let t = self_tensor(o)?;
            let p = plan(py, t, index)?;
            let is_wide = || t.dtype() == DType::U64;
            let number = match tensor_of(v) {
                Some(_) => None,
                None => value::scalar(py, v).or_else(|e| value::unsigned(py, v, e, is_wide))?,
            };
            write(py, t, &p, number, v)?;
            Ok(0)
        }
    })
}

/// `t[...] = v`, where the value may be a number.
unsafe fn write(py: Python<'_>, t: &Tensor, p: &Plan, number: Option<Scalar>, v: *mut PyObject) -> Result<()> {
    let all = p.steps.is_empty() && !p.tensors.is_empty();
    let viewed = if all { t.clone() } else { view(py, t, p)? };
    // SAFETY: a live object.
    unsafe {
        if let Some(whole) = replicated(py, t, &viewed)? {
            write(py, &whole, p, number, v)?;
            return ops::COPY.inplace(&[Some(t), Some(&whole)], &[Arg::Bool(false)]);
        }
        if !p.tensors.is_empty() {
            return put(py, &viewed, p, number, v);
        }
        match number {
            Some(s) => ops::FILL.inplace(&[Some(&viewed), None], &[s.into()]),
            None => copy(py, &viewed, v),
        }
    }
}

/// A copy of a global tensor that every rank has whole, where the ranks that have a slice of it are not those that have the
/// slice's elements; `None` where the slice can be written.
fn replicated(py: Python<'_>, t: &Tensor, slice: &Tensor) -> Result<Option<Tensor>> {
    let is_apart = |t: &Tensor| oneflow_global::global_of(t).is_some_and(|g| g.detached_view);
    let Some(home) = oneflow_global::global_of(t).filter(|_| is_apart(slice) && !is_apart(t)) else { return Ok(None) };
    let whole = NdSbpId::of(&vec![Sbp::B; home.spread.sbp.len()]);
    ops::TO_GLOBAL.one(py, &[Some(t)], &[Arg::None, Arg::Sbp(whole), Arg::None, Arg::None, Arg::Bool(true)]).map(Some)
}

/// `view = v`, where leading dimensions of size one in the value do not count.
unsafe fn copy(py: Python<'_>, to: &Tensor, v: *mut PyObject) -> Result<()> {
    // SAFETY: a live object.
    let src = unsafe { value_tensor(py, v, to)? };
    let extra = src.ndim().saturating_sub(to.ndim());
    let src = if extra > 0 && src.sizes()[..extra].iter().all(|n| *n == 1) {
        let sizes = Dims::from_slice(&src.sizes()[extra..]);
        crate::convert::viewed(py, &src, &sizes)?
    } else {
        src
    };
    // Spread first, so that a part of `to` may be the value of all of it.
    let is_global = to.has_key(bit::GLOBAL) || src.has_key(bit::GLOBAL);
    let spreads = src.sizes() != to.sizes() && src.device() == to.device() && !is_global;
    let src = match spreads {
        true => ops::EXPAND.one(py, &[Some(&src)], &[Arg::Ints(to.sizes()), Arg::Bool(false)])?,
        false => src,
    };
    ops::COPY.inplace(&[Some(to), Some(&src)], &[Arg::Bool(false)])
}

/// The tensor that a value is: itself, or made from a list, array or number in the target's dtype.
unsafe fn value_tensor(py: Python<'_>, v: *mut PyObject, like: &Tensor) -> Result<Tensor> {
    // SAFETY: a live object.
    unsafe {
        if let Some(t) = tensor_of(v) {
            return beside(py, t.clone(), like);
        }
        if value::is_sequence(v) || is_array(py, v) {
            let made = create::from_data(py, v, Some(like.dtype()), None)?;
            return crate::global::like(made, Some(like));
        }
        Err(Error::type_(format!("can't assign a {} to a {} tensor", value::type_name(py, v), like.dtype().name())))
    }
}

/// A value on the placement of the global tensor that it is written to.
fn beside(py: Python<'_>, value: Tensor, to: &Tensor) -> Result<Tensor> {
    let (Some(own), Some(home)) = (oneflow_global::global_of(&value), oneflow_global::global_of(to)) else {
        return Ok(value);
    };
    if own.spread.placement_id == home.spread.placement_id {
        return Ok(value);
    }
    let whole = NdSbpId::of(&vec![Sbp::B; home.spread.sbp.len()]);
    let args = [Arg::Placement(home.spread.placement_id), Arg::Sbp(whole), Arg::None, Arg::None, Arg::Bool(false)];
    ops::TO_GLOBAL.one(py, &[Some(&value)], &args)
}

unsafe fn put(py: Python<'_>, to: &Tensor, p: &Plan, number: Option<Scalar>, v: *mut PyObject) -> Result<()> {
    if let ([(0, mask)], Some(s)) = (p.tensors.as_slice(), number)
        && mask.dtype() == DType::Bool
        && mask.sizes() == &to.sizes()[..mask.ndim().min(to.ndim())]
        && ops::MASKED_FILL.exists()
    {
        let mut mask = on_device(mask.clone(), to.device())?;
        for _ in mask.ndim()..to.ndim() {
            mask = ops::UNSQUEEZE.one(py, &[Some(&mask)], &[Arg::Int(-1)])?;
        }
        return ops::MASKED_FILL.inplace(&[Some(to), Some(&mask), None], &[s.into()]);
    }
    let src = match number {
        Some(s) => crate::global::like(on_device(scalar::written(s, to.dtype())?, to.device())?, Some(to))?,
        // SAFETY: a live object.
        None => unsafe { value_tensor(py, v, to)? },
    };
    let list = listed(py, to, p)?;
    let mut ins: SmallVec<[Option<&Tensor>; 6]> = SmallVec::new();
    ins.push(Some(to));
    ins.extend(list.iter().map(Option::as_ref));
    ins.push(Some(&src));
    ops::INDEX_PUT.inplace(&ins, &[Arg::Len(list.len() as u32), Arg::Bool(false)])
}

pub unsafe extern "C" fn len(o: *mut PyObject) -> ffi::Py_ssize_t {
    enter(-1, |py| {
        // SAFETY: a slot call.
        if unsafe { heard(o) } {
            // SAFETY: as above; what the class answers is a number of ours.
            unsafe {
                let n = ask_slot(py, "__len__", o, &[], &[o])?;
                let length = ffi::PyLong_AsSsize_t(n);
                ffi::Py_DECREF(n);
                return match length {
                    0.. => Ok(length),
                    _ if !ffi::PyErr_Occurred().is_null() => Err(gate::pending_set()),
                    _ => Err(Error::value("__len__() should return >= 0")),
                };
            }
        }
        // SAFETY: as above.
        let t = unsafe { self_tensor(o)? };
        match t.sizes().first() {
            Some(n) => {
                // SAFETY: as above.
                unsafe { crate::size::given_as_plain(py, t, *n)? };
                Ok(*n as ffi::Py_ssize_t)
            }
            None => Err(Error::type_("len() of a 0-d tensor")),
        }
    })
}

/// `iter(x)`: over a tuple of the parts.
pub unsafe extern "C" fn iter(o: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call; the tuple is ours.
        unsafe {
            if heard(o) {
                // The parts are what the class answers, not this iterator.
                let n = ask_slot(py, "dim", o, &[], &[o])?;
                let is_number = ffi::PyObject_IsTrue(n) == 0;
                ffi::Py_DECREF(n);
                if is_number {
                    return Err(Error::type_("iteration over a 0-d tensor"));
                }
                let first = checked(ffi::PyLong_FromLong(0))?;
                let parts = ask_slot(py, ops::UNBIND.name(), o, &[first], &[o]);
                ffi::Py_DECREF(first);
                let parts = parts?;
                let iterator = ffi::PyObject_GetIter(parts);
                ffi::Py_DECREF(parts);
                return checked(iterator);
            }
            let t = self_tensor(o)?;
            if t.ndim() == 0 {
                return Err(Error::type_("iteration over a 0-d tensor"));
            }
            let parts = if ops::UNBIND.exists() {
                ops::UNBIND.all(py, &[Some(t)], &[Arg::Int(0)])?.into_tensors().into_vec()
            } else {
                let part = |i| {
                    let mut p = Plan::of(t);
                    p.select(0, 0, i, t.ndim())?;
                    view(py, t, &p)
                };
                (0..t.sizes()[0]).map(part).collect::<Result<Vec<_>>>()?
            };
            let tuple = crate::call::tuple_of(py, parts)?;
            let it = ffi::PyObject_GetIter(tuple);
            ffi::Py_DECREF(tuple);
            checked(it)
        }
    })
}

/// For sequence protocols that ask by number.
pub unsafe extern "C" fn sequence_item(o: *mut PyObject, i: ffi::Py_ssize_t) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call.
        unsafe {
            if heard(o) {
                let index = checked(ffi::PyLong_FromSsize_t(i))?;
                let r = ask_slot(py, "__getitem__", o, &[index], &[o]);
                ffi::Py_DECREF(index);
                return r;
            }
            let t = self_tensor(o)?;
            let mut p = Plan::of(t);
            p.select(0, 0, i as i64, t.ndim())?;
            wrap(py, view(py, t, &p)?)
        }
    })
}

/// An integer of a one-element integer tensor (`range(x)`, `list[x]`).
pub unsafe extern "C" fn index_number(o: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call.
        unsafe {
            if heard(o) {
                return ask_slot(py, "__index__", o, &[], &[o]);
            }
            let t = self_tensor(o)?;
            if t.numel() != 1 || !(t.dtype().is_int() || t.dtype() == DType::Bool) {
                return Err(Error::type_("only integer tensors of a single element can be converted to an index"));
            }
            checked(ffi::PyLong_FromLongLong(scalar::read(t)?.to_i64()))
        }
    })
}

/// The number that a tensor stands for.
pub fn one(t: &Tensor) -> Result<Scalar> {
    if t.numel() != 1 {
        return Err(Error::value("only one element tensors can be converted to Python scalars"));
    }
    scalar::read(t)
}

pub unsafe extern "C" fn int_number(o: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call.
        unsafe {
            if heard(o) {
                return ask_slot(py, "__int__", o, &[], &[o]);
            }
            match one(self_tensor(o)?)? {
                // Python's own conversion: it refuses infinities and keeps every digit.
                Scalar::Float(f) | Scalar::Complex(f, 0.0) => checked(ffi::PyLong_FromDouble(f)),
                Scalar::Complex(..) => {
                    Err(Error::runtime("value cannot be converted to type int64_t without overflow"))
                }
                s => checked(ffi::PyLong_FromLongLong(s.to_i64())),
            }
        }
    })
}

pub unsafe extern "C" fn float_number(o: *mut PyObject) -> *mut PyObject {
    enter(null_mut(), |py| {
        // SAFETY: a slot call.
        unsafe {
            if heard(o) {
                return ask_slot(py, "__float__", o, &[], &[o]);
            }
            match one(self_tensor(o)?)? {
                Scalar::Complex(_, i) if i != 0.0 => {
                    Err(Error::runtime("value cannot be converted to type double without overflow"))
                }
                s => checked(ffi::PyFloat_FromDouble(s.to_f64())),
            }
        }
    })
}

pub unsafe extern "C" fn truth(o: *mut PyObject) -> c_int {
    enter(-1, |py| {
        // SAFETY: a slot call.
        if unsafe { heard(o) } {
            // SAFETY: as above; what the class answers is ours.
            return unsafe { answered_truth(ask_slot(py, "__bool__", o, &[], &[o])?) };
        }
        // SAFETY: as above.
        let t = unsafe { self_tensor(o)? };
        match t.numel() {
            1 => Ok(match scalar::read(t)? {
                Scalar::Complex(r, i) => (r != 0.0 || i != 0.0) as c_int,
                s => (s.parts() != (0.0, 0.0)) as c_int,
            }),
            0 => Err(Error::runtime("Boolean value of Tensor with no values is ambiguous")),
            _ => Err(Error::runtime("Boolean value of Tensor with more than one value is ambiguous")),
        }
    })
}

/// What a class says of the truth of its tensor: a bool, which is consumed.
///
/// # Safety
/// A reference of our own, the interpreter is held.
#[cold]
pub unsafe fn answered_truth(answer: *mut PyObject) -> Result<c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let is_bool = ffi::PyBool_Check(answer) != 0;
        let truth = ffi::PyObject_IsTrue(answer);
        ffi::Py_DECREF(answer);
        match truth {
            _ if truth < 0 => Err(gate::pending_set()),
            _ if !is_bool => Err(Error::type_("__bool__ should return bool")),
            _ => Ok(truth),
        }
    }
}
