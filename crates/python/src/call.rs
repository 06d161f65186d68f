//! From parsed arguments to an op's results as Python objects.

use crate::gate::{self, OrPending, checked};
use crate::object::{is_tensor, tensor_of, wrap};
use crate::old_order::old_order;
use crate::overload::{Form, Overload};
use crate::overrides::{Function, answering, answers, ask, ask_slot, has_modes, heard};
use crate::parse::{Frame, Given, Misfit, misfit, out_tensors};
use crate::{autograd, forms, operators, placed, return_types, value};
use oneflow_core::base::{Arg, DeviceType, Error, Result};
use oneflow_core::{
    Call, Dest, Faces, LONG_WORK, MayRelease, OpDef, Outs, Tensor, Traits, Transfers, bit, dispatch, may_release, warn,
    with_transfers,
};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use smallvec::SmallVec;
use std::ptr::null_mut;

/// Calls an op by its overloads: the first whose parameters take the arguments.
///
/// # Safety
/// The given objects are alive during the call; `slf` is a tensor object for methods.
pub unsafe fn call_op(
    py: Python<'_>,
    overloads: &[Overload],
    form: Form,
    slf: *mut PyObject,
    given: Given,
) -> Result<*mut PyObject> {
    let mut frame = Frame::new();
    frame.tensors_first = overloads.len() > 1;
    let mut why = Misfit::TooMany;
    loop {
        for o in overloads {
            // SAFETY: the caller's promise.
            unsafe {
                match frame.parse(py, o, form, slf, given)? {
                    Ok(()) if o.makes && placed::is_default() && !frame.ins.iter().flatten().any(is_global) => {
                        let call = |g: Given| call_op(py, overloads, form, slf, g);
                        return placed::by_default(py, o.op.sig.name, given, call);
                    }
                    Ok(()) if frame.answering.is_empty() && !has_modes() => return finish(py, o, form, &mut frame),
                    Ok(()) => return ask(py, Function::Op(o.op.sig.name, form), slf, given, &frame.answering),
                    Err(w) => why = w,
                }
            }
        }
        if !std::mem::take(&mut frame.passed_over) {
            break;
        }
        frame.tensors_first = false;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if overloads.iter().any(|o| o.makes) && placed::is_asked(given) {
            let name = overloads[0].op.sig.name;
            return match has_modes() {
                true => ask(py, Function::Op(name, form), slf, given, &[]),
                false => placed::made(py, name, given, false, |g| call_op(py, overloads, form, slf, g)),
            };
        }
        let who = answering(py, slf, given).pend(py)?;
        if !who.is_empty() {
            return ask(py, Function::Op(overloads[0].op.sig.name, form), slf, given, &who);
        }
        // The arguments are those of the call, which its caller keeps alive; the names live as long as `old`.
        if let Some(old) = old_order(py, overloads, form, given)? {
            warn(&old.notice(overloads[0].op.sig.name, form))?;
            return call_op(py, overloads, form, slf, old.given());
        }
        match forms::call(py, overloads[0].op.sig.name, form, slf, given)? {
            Some(result) => Ok(result),
            None => Err(misfit(py, overloads, form, given, &why)),
        }
    }
}

fn is_global(t: &&Tensor) -> bool {
    t.has_key(bit::GLOBAL)
}

/// An operator: two operands, nothing else. `None` where the operands are of other types. `methods` are the names by which
/// classes and modes know it, of `a op b` and of `b op a`; empty where that is the op's name.
///
/// # Safety
/// Live objects.
pub unsafe fn call_binary(
    py: Python<'_>,
    overloads: &[Overload],
    form: Form,
    methods: [&str; 2],
    a: *mut PyObject,
    b: *mut PyObject,
) -> Result<Option<*mut PyObject>> {
    // SAFETY: the caller's promise.
    unsafe {
        let ask_binary = || ask_binary(py, overloads, form, methods, a, b).map(Some);
        if heard(a) {
            return ask_binary();
        }
        if let (Some(x), [o]) = (tensor_of(a), overloads)
            && let Some(arg) = o.binary
        {
            let mut frame = Frame::new();
            if !frame.binary(py, o, arg, x, b)? {
                return if answers(b) { ask_binary() } else { Ok(None) };
            }
            if !frame.answering.is_empty() {
                return ask_binary();
            }
            return finish(py, o, form, &mut frame).map(Some);
        }
        let args = [a, b];
        let mut frame = Frame::new();
        for o in overloads {
            // Operators of a method's form give the first operand as `self`.
            let (slf, given) = if form.is_method() {
                (a, Given { args: args.as_ptr().add(1), n: 1, names: null_mut() })
            } else {
                (null_mut(), Given { args: args.as_ptr(), n: 2, names: null_mut() })
            };
            if frame.parse(py, o, form, slf, given)?.is_ok() {
                if !frame.answering.is_empty() {
                    return ask_binary();
                }
                return finish(py, o, form, &mut frame).map(Some);
            }
        }
        Ok(None)
    }
}

/// An operator whose operands override it, as the method that it corresponds to.
#[cold]
unsafe fn ask_binary(
    py: Python<'_>,
    overloads: &[Overload],
    form: Form,
    methods: [&str; 2],
    a: *mut PyObject,
    b: *mut PyObject,
) -> Result<*mut PyObject> {
    // SAFETY: live objects, the interpreter is held.
    unsafe {
        let op = overloads[0].op;
        let (method, slf, operand) = if is_tensor(a) { (methods[0], a, b) } else { (methods[1], b, a) };
        if !method.is_empty() {
            return ask_slot(py, method, slf, &[operand], &[slf, operand]);
        }
        let form = match form {
            Form::Function if op.faces.has(Faces::METHOD) && is_tensor(a) => Form::Method,
            f => f,
        };
        let given = Given { args: &b, n: 1, names: null_mut() };
        ask(py, Function::Op(op.sig.name, form), a, given, &[a, b])
    }
}

/// Runs a parsed call.
#[inline]
unsafe fn finish(py: Python<'_>, o: &Overload, form: Form, frame: &mut Frame<'_>) -> Result<*mut PyObject> {
    if let (Some(i), Some(device)) = (o.made_on, crate::default_device::get())
        && matches!(frame.args[i as usize], Arg::None)
        && frame.out.is_null()
    {
        frame.args[i as usize] = Arg::Device(device);
    }
    frame.draw();
    let non_blocking = o.non_blocking.is_some_and(|i| frame.args[i as usize].bool());
    let _transfers = (frame.pinned || non_blocking)
        .then(|| with_transfers(Transfers { pinned: frame.pinned.then_some(DeviceType::CUDA), non_blocking }));
    if frame.pinned
        && let Some(device) = o.made_as.and_then(|(_, i)| frame.args[i as usize].device()).filter(|d| !d.is_cpu())
    {
        let name = o.op.sig.name;
        return Err(Error::runtime(format!("{name}(): only dense CPU tensors can be pinned, not one on {device}")));
    }
    let mut outs = Outs::new();
    if form.is_inplace() {
        let Some(dest) = frame.ins[o.self_input] else {
            return Err(Error::type_(format!("{}_(): argument 'input' must be Tensor", o.op.sig.name)));
        };
        oneflow_autograd::check_inference_write(dest)?;
        run(py, &Call { op: o.op, ins: &frame.ins, args: &frame.args, dest: Dest::Into(&[dest]) }, &mut outs)?;
    } else if !frame.out.is_null() {
        // SAFETY: the object is an argument of the call.
        let dest = unsafe { out_tensors(o, frame.out)? };
        // What is recorded takes no `out=` at all, which is said first.
        if !(oneflow_autograd::is_grad_enabled()
            && frame.ins.iter().flatten().any(|t| oneflow_autograd::requires_grad(t)))
        {
            dest.iter().try_for_each(|d| oneflow_autograd::check_inference_write(d))?;
        }
        if let (Some(made_as), [out]) = (o.made_as, &dest[..]) {
            make_like_out(o, made_as, out, &mut frame.args)?;
            if o.is_range && out.ndim() != 1 {
                run(py, &Call { op: o.op, ins: &frame.ins, args: &frame.args, dest: Dest::Fresh }, &mut outs)?;
                if let [made] = outs.tensors()
                    && made.numel() == out.numel()
                {
                    let made = operators::VIEW.one(py, &[Some(made)], &[Arg::Ints(out.sizes())])?;
                    operators::COPY.inplace(&[Some(*out), Some(&made)], &[Arg::Bool(false)])?;
                    let mut filled = Outs::new();
                    filled.give((*out).clone());
                    return results(py, o.op, filled);
                }
                outs = Outs::new();
            }
        }
        run(py, &Call { op: o.op, ins: &frame.ins, args: &frame.args, dest: Dest::Into(&dest) }, &mut outs)?;
    } else {
        run(py, &Call { op: o.op, ins: &frame.ins, args: &frame.args, dest: Dest::Fresh }, &mut outs)?;
        if autograd::in_inference_mode() {
            // What is made in inference mode can never be recorded; a view is what its base is.
            let viewed = o.op.sig.params().iter().any(|p| p.alias);
            outs.tensors().iter().filter(|_| !viewed).for_each(Tensor::set_inference);
        }
        if !oneflow_autograd::is_grad_enabled() && outs.tensors().first().is_some_and(|t| t.base().is_some()) {
            // An input that comes back as it is was not made here.
            let made = outs.tensors().iter().filter(|t| !frame.ins.iter().flatten().any(|x| x.same(t)));
            made.for_each(oneflow_autograd::mark_no_grad_view);
        }
        if o.requires_grad.is_some_and(|i| frame.args[i as usize].bool()) {
            for t in outs.tensors() {
                autograd::set_requires_grad(t, true)?;
            }
        }
    }
    results(py, o.op, outs)
}

/// A factory fills `out` with numbers of its dtype on its device; a conflicting `dtype=` or `device=` is refused.
fn make_like_out(o: &Overload, (dtype, device): (u8, u8), out: &Tensor, args: &mut [Arg<'_>]) -> Result<()> {
    let name = o.op.sig.name;
    let refused = |what: &str, given: &dyn std::fmt::Display, of: &dyn std::fmt::Display| {
        Error::runtime(format!("{name}(): {what} {given} does not match {what} of out parameter ({of})"))
    };
    match args[dtype as usize].dtype() {
        Some(d) if d != out.dtype() => return Err(refused("dtype", &d, &out.dtype())),
        _ => args[dtype as usize] = Arg::DType(out.dtype()),
    }
    match args[device as usize].device() {
        Some(d) if d != out.device() => return Err(refused("device", &d, &out.device())),
        _ => args[device as usize] = Arg::Device(out.device()),
    }
    Ok(())
}

/// Dispatches; releases the interpreter if the work is long or other ranks must be waited for.
#[inline]
pub fn run(py: Python<'_>, c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let mut elements = 0;
    let mut keys = (c.op.keys)(c.args);
    for t in c.ins.iter().flatten() {
        elements += t.numel();
        keys |= t.keys();
    }
    let is_global = keys & (1 << bit::GLOBAL) != 0;
    if is_global && let Some(ins) = oneflow_global::with_scalars(c)? {
        let ins: SmallVec<[Option<&Tensor>; 4]> = ins.iter().map(Option::as_ref).collect();
        return run(py, &Call { ins: &ins, ..*c }, outs);
    }
    let waits = is_global || c.op.traits.has(Traits::COLLECTIVE);
    if (elements < LONG_WORK && !waits) || keys & (1 << bit::LAZY) != 0 {
        // Of borrowed tensors nothing may change while the call runs, so the interpreter is kept throughout.
        let _kept = may_release().then(|| MayRelease::new(false));
        return dispatch(c, outs);
    }
    run_long(py, c, waits, outs)
}

/// A long call: its launches run without the interpreter. One that waits for other ranks does without it from the start.
#[cold]
fn run_long(py: Python<'_>, c: &Call<'_>, waits: bool, outs: &mut Outs) -> Result<()> {
    // Handles of our own: a clone of a borrowed one may touch the wrapper's reference count.
    let own = |t: &Tensor| t.clone();
    let ins: SmallVec<[Option<Tensor>; 8]> = c.ins.iter().map(|t| t.map(own)).collect();
    let dest: SmallVec<[Tensor; 2]> = match c.dest {
        Dest::Fresh => SmallVec::new(),
        Dest::Into(d) => d.iter().map(|t| own(t)).collect(),
    };
    let in_refs: SmallVec<[Option<&Tensor>; 8]> = ins.iter().map(Option::as_ref).collect();
    let dest_refs: SmallVec<[&Tensor; 2]> = dest.iter().collect();
    let dest = if dest.is_empty() { Dest::Fresh } else { Dest::Into(&dest_refs) };
    let call = Call { op: c.op, ins: &in_refs, args: c.args, dest };
    if waits {
        gate::detach(py, || dispatch(&call, outs))?;
    } else {
        let _may = MayRelease::new(true);
        dispatch(&call, outs)?;
    }
    gate::check_signals(py)
}

/// Results as Python objects: a tensor, a tuple, a named tuple, or `None`.
#[inline]
pub fn results(py: Python<'_>, op: &'static OpDef, outs: Outs) -> Result<*mut PyObject> {
    let mut tensors = outs.into_tensors();
    match op.sig.returns() {
        [one] if !one.list => match tensors.pop() {
            Some(t) => wrap(py, t),
            None => Err(Error::runtime(format!("{}(): gave no result", op.sig.name))),
        },
        // SAFETY: the interpreter is held.
        [] => unsafe {
            ffi::Py_INCREF(ffi::Py_None());
            Ok(ffi::Py_None())
        },
        _ => several(py, op, tensors),
    }
}

fn several(py: Python<'_>, op: &'static OpDef, tensors: SmallVec<[Tensor; 2]>) -> Result<*mut PyObject> {
    let returns = op.sig.returns();
    if returns.len() > 1 && returns.iter().all(|r| !r.name.is_empty() && !r.list) && tensors.len() == returns.len() {
        let class = return_types::of(py, op)?;
        // SAFETY: a struct sequence of as many fields as there are results; each is set once.
        unsafe {
            let o = checked(ffi::PyStructSequence_New(class))?;
            for (i, t) in tensors.into_iter().enumerate() {
                match wrap(py, t) {
                    Ok(p) => ffi::PyStructSequence_SetItem(o, i as ffi::Py_ssize_t, p),
                    Err(e) => {
                        ffi::Py_DECREF(o);
                        return Err(e);
                    }
                }
            }
            return Ok(o);
        }
    }
    tuple_of(py, tensors)
}

/// A tuple of tensors.
pub fn tuple_of(py: Python<'_>, tensors: impl IntoIterator<Item = Tensor>) -> Result<*mut PyObject> {
    let objects = tensors.into_iter().map(|t| wrap(py, t)).collect::<Result<SmallVec<[_; 8]>>>()?;
    // SAFETY: owned references, given to the tuple.
    unsafe { value::tuple(objects.into_iter()) }
}
