//! `placement=` and `sbp=` of every function that creates tensors, and the layout of `global_mode`.
//!
//! Each rank creates the whole and keeps its shard. Sizes filled with a number and random draws have separate overloads
//! that create the shard alone (`oneflow_global`); this file serves all others and depends on none of them.

use crate::entry::HandFn;
use crate::gate::{OrPending, checked, detach};
use crate::global::{placement_object, placement_of, sbp_object, sbp_of};
use crate::hand::{given as present, wrong};
use crate::object::{tensor_of, wrap};
use crate::parse::Given;
use crate::{autograd, classes, value};
use oneflow_core::base::{Arg, Error, NdSbpId, PlacementId, Result};
use oneflow_core::{Tensor, bit};
use oneflow_global::Spread;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::cell::Cell;

type Layout = (PlacementId, NdSbpId);

thread_local! {
    static LAYOUT: Cell<Option<Layout>> = const { Cell::new(None) };
}

/// Returns whether tensors of this thread are created as global ones.
#[inline]
pub fn is_default() -> bool {
    LAYOUT.get().is_some()
}

/// Sets the layout for a while.
struct Within(Option<Layout>);

impl Within {
    fn new(layout: Option<Layout>) -> Within {
        Within(LAYOUT.replace(layout))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        LAYOUT.set(self.0);
    }
}

/// Returns whether a call names a placement or an sbp.
///
/// # Safety
/// The names of the call are alive and the interpreter is held.
pub unsafe fn is_asked(given: Given) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        !given.names.is_null()
            && (0..ffi::PyTuple_Size(given.names)).any(|k| {
                let name = value::text(ffi::PyTuple_GetItem(given.names, k));
                matches!(name, Ok(Some("placement" | "sbp")))
            })
    }
}

/// Calls a function written by hand, and makes its result global if the call or the thread requests that. `None`: neither
/// does.
///
/// # Safety
/// A call of the function.
pub unsafe fn by_hand(
    py: Python<'_>,
    function: &str,
    slf: *mut PyObject,
    given: Given,
    f: HandFn,
) -> Option<Result<*mut PyObject>> {
    // SAFETY: the caller's promise.
    unsafe {
        // The data of ranks may differ: the first one's are taken.
        let make = |g: Given| f(py, slf, g);
        if is_asked(given) {
            return Some(made(py, function, given, true, make));
        }
        is_default().then(|| by_default(py, function, given, make))
    }
}

/// Calls again with the thread's layout named, for functions that take one; without a device, which the placement names.
///
/// # Safety
/// A call's arguments.
pub unsafe fn by_default(
    py: Python<'_>,
    function: &str,
    given: Given,
    call: impl FnOnce(Given) -> Result<*mut PyObject>,
) -> Result<*mut PyObject> {
    let Some((placement, sbp)) = LAYOUT.get() else { return call(given) };
    let _local = Within::new(None);
    let make = || -> PyResult<_> { Ok((placement_object(py, placement)?, sbp_object(py, sbp)?)) };
    let (placement, sbp) = make().pend(py)?;
    // SAFETY: the caller's promise; the objects live until the call is over.
    unsafe {
        let added = [("placement", placement.as_ptr()), ("sbp", sbp.as_ptr())];
        let (args, names) = changed(py, function, given, &["device"], &added)?.0;
        call(Given { args: args.as_ptr(), n: given.n, names: names.as_ptr() })
    }
}

type Changed<'py> = ((SmallVec<[*mut PyObject; 12]>, Bound<'py, PyAny>), SmallVec<[*mut PyObject; 4]>);

/// The arguments without those named `taken`, which come second (null where they are absent), and with others.
unsafe fn changed<'py>(
    py: Python<'py>,
    function: &str,
    given: Given,
    taken: &[&str],
    added: &[(&str, *mut PyObject)],
) -> Result<Changed<'py>> {
    // SAFETY: as many arguments are there, and as many more as there are names, all alive.
    unsafe {
        let mut args: SmallVec<[*mut PyObject; 12]> = (0..given.n).map(|i| *given.args.add(i)).collect();
        let mut names: SmallVec<[*mut PyObject; 12]> = SmallVec::new();
        let mut found: SmallVec<[*mut PyObject; 4]> = SmallVec::from_elem(std::ptr::null_mut(), taken.len());
        let n = if given.names.is_null() { 0 } else { ffi::PyTuple_Size(given.names) as usize };
        for k in 0..n {
            let name = ffi::PyTuple_GetItem(given.names, k as ffi::Py_ssize_t);
            let object = *given.args.add(given.n + k);
            let text = value::text(name)?.unwrap_or("");
            match taken.iter().position(|t| *t == text) {
                Some(i) if found[i].is_null() => found[i] = object,
                Some(_) => {
                    return Err(Error::type_(format!("{function}() got multiple values for argument '{text}'")));
                }
                None => {
                    ffi::Py_INCREF(name);
                    names.push(name);
                    args.push(object);
                }
            }
        }
        for (name, object) in added {
            let text = pyo3::types::PyString::intern(py, name);
            names.push(text.into_ptr());
            args.push(*object);
        }
        let tuple = value::tuple(names.into_iter())?;
        Ok(((args, Bound::from_owned_ptr(py, checked(tuple)?)), found))
    }
}

/// Calls without the layout, and distributes the result by the arguments.
///
/// # Safety
/// A call's arguments.
#[cold]
pub unsafe fn made(
    py: Python<'_>,
    function: &str,
    given: Given,
    synchronized: bool,
    call: impl FnOnce(Given) -> Result<*mut PyObject>,
) -> Result<*mut PyObject> {
    // SAFETY: the caller's promise.
    unsafe {
        let taken = ["placement", "sbp", "requires_grad", "device"];
        let (_, found) = changed(py, function, given, &taken, &[])?;
        let [placement, sbp, grad, device] = [found[0], found[1], found[2], found[3]];
        let to = layout_of(py, function, placement, sbp)?;
        if present(device).is_some() {
            return Err(Error::type_(format!(
                "{function}(): 'device' cannot be given beside 'placement', which names the kind of device"
            )));
        }
        let grad = crate::hand::flag(py, function, "requires_grad", grad, false)?;
        let kind = to.placement.kind;
        let here = oneflow_global::my_coords(to.placement).is_some();
        let on = if here { oneflow_global::boxing::local_device(kind) } else { oneflow_core::base::Device::CPU };
        let on = classes::device_object(py, on).pend(py)?;
        let ((args, names), _) = changed(py, function, given, &taken, &[("device", on.as_ptr())])?;
        let _local = Within::new(None);
        let object = call(Given { args: args.as_ptr(), n: given.n, names: names.as_ptr() })?;
        let object = Bound::from_owned_ptr(py, object);
        let Some(t) = tensor_of(object.as_ptr()) else {
            return Err(Error::type_(format!("{function}(): gives no single tensor to lay out")));
        };
        let t = placed(py, t, to, function, synchronized)?;
        if grad {
            autograd::set_requires_grad(&t, true)?;
        }
        wrap(py, t)
    }
}

/// The layout that two arguments name.
unsafe fn layout_of(py: Python<'_>, function: &str, placement: *mut PyObject, sbp: *mut PyObject) -> Result<Spread> {
    // SAFETY: live objects, or null.
    unsafe {
        let (Some(p), Some(s)) = (present(placement), present(sbp)) else {
            return Err(Error::type_(format!("{function}(): needs both 'placement' and 'sbp'")));
        };
        let Some(Arg::Placement(placement)) = placement_of(&Bound::from_borrowed_ptr(py, p)).pend(py)? else {
            return Err(wrong(py, function, "placement", "placement", p));
        };
        let Some(Arg::Sbp(sbp)) = sbp_of(&Bound::from_borrowed_ptr(py, s)).pend(py)? else {
            return Err(wrong(py, function, "sbp", "sbp or a sequence of them", s));
        };
        Spread::new(placement, sbp)
    }
}

/// The global tensor of a whole that every rank has created; `synchronized`: that of the placement's first rank.
fn placed(py: Python<'_>, t: &Tensor, to: Spread, function: &str, synchronized: bool) -> Result<Tensor> {
    to.check(t.sizes(), &format!("{function}()"))?;
    // A handle of our own: a clone of a borrowed one may touch the wrapper's reference count.
    let own = t.clone();
    if own.has_key(bit::GLOBAL) {
        return detach(py, || oneflow_global::to_global(&own, to));
    }
    let whole = Spread::broadcast(to.placement_id)?;
    let place = || -> Result<Tensor> {
        let t = if synchronized && to.placement.ranks.len() > 1 && !oneflow_global::boxing::tracing() {
            oneflow_global::ops::enter(&own, whole, false, false)?
        } else {
            let here = oneflow_global::my_coords(to.placement).is_some();
            oneflow_global::make(&own, own.sizes(), whole, here.then(|| own.clone()))?
        };
        if to == whole { Ok(t) } else { oneflow_global::to_global(&t, to) }
    };
    detach(py, place)
}

/// New data in the layout of the tensor whose method creates them, if that is global.
pub fn like(py: Python<'_>, t: Tensor, like: &Tensor) -> Result<Tensor> {
    match oneflow_global::global_of(like).map(|g| g.spread) {
        Some(to) if to.check(t.sizes(), "new_tensor()").is_ok() => placed(py, &t, to, "new_tensor", true),
        // A split of a dimension that the data do not have.
        Some(to) => placed(py, &t, Spread::broadcast(to.placement_id)?, "new_tensor", true),
        None => Ok(t),
    }
}

/// A tensor of the class's constructor, distributed by its arguments (null if they are absent) or by the thread's layout.
///
/// # Safety
/// Live objects, or null.
pub unsafe fn constructed(py: Python<'_>, t: Tensor, placement: *mut PyObject, sbp: *mut PyObject) -> Result<Tensor> {
    if !placement.is_null() || !sbp.is_null() {
        // SAFETY: the caller's promise.
        let to = unsafe { layout_of(py, "Tensor", placement, sbp)? };
        return placed(py, &t, to, "Tensor", true);
    }
    match LAYOUT.get() {
        Some((placement, sbp)) if !t.has_key(bit::GLOBAL) => {
            placed(py, &t, Spread::new(placement, sbp)?, "Tensor", true)
        }
        _ => Ok(t),
    }
}

/// Distributes a tensor that every rank has created over ranks.
#[pyfunction]
fn _placed(
    tensor: &Bound<'_, PyAny>,
    placement: &Bound<'_, PyAny>,
    sbp: &Bound<'_, PyAny>,
    function: &str,
) -> PyResult<Py<PyAny>> {
    let py = tensor.py();
    let lay = || -> Result<*mut PyObject> {
        // SAFETY: live objects, the interpreter is held.
        unsafe {
            let to = layout_of(py, function, placement.as_ptr(), sbp.as_ptr())?;
            let t =
                tensor_of(tensor.as_ptr()).ok_or_else(|| wrong(py, function, "tensor", "Tensor", tensor.as_ptr()))?;
            wrap(py, placed(py, t, to, function, false)?)
        }
    };
    // SAFETY: a new reference.
    lay().map(|o| unsafe { Bound::from_owned_ptr(py, o).unbind() }).map_err(crate::gate::to_py)
}

/// Sets the layout of tensors that this thread creates, or none; returns the one before, as (placement, sbp).
#[pyfunction]
#[pyo3(signature = (layout))]
fn _set_default_layout(py: Python<'_>, layout: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>) -> PyResult<Py<PyAny>> {
    let before = _default_layout(py)?;
    let layout = match layout {
        None => None,
        Some((placement, sbp)) => {
            // SAFETY: live objects, the interpreter is held.
            let to = unsafe { layout_of(py, "global_mode", placement.as_ptr(), sbp.as_ptr()) };
            let to = to.map_err(crate::gate::to_py)?;
            Some((to.placement_id, to.sbp_id))
        }
    };
    LAYOUT.set(layout);
    Ok(before)
}

/// The layout of tensors that this thread creates, as (placement, sbp); or None.
#[pyfunction]
fn _default_layout(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let Some((placement, sbp)) = LAYOUT.get() else { return Ok(py.None()) };
    Ok((placement_object(py, placement)?, sbp_object(py, sbp)?).into_pyobject(py)?.into_any().unbind())
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_placed, m)?)?;
    m.add_function(wrap_pyfunction!(_set_default_layout, m)?)?;
    m.add_function(wrap_pyfunction!(_default_layout, m)?)
}
