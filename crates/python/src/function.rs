//! `autograd.Function`: a function whose backward is written in Python.

use crate::gate::{self, OrPending, Shared, run};
use crate::object::{bound, get};
use oneflow_autograd as ag;
use oneflow_core::base::{Error, Meta, Result};
use oneflow_core::{Tensor, bit};
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The state that `forward` leaves for `backward`; takes any attribute too.
///
/// Example::
///
///     >>> class Square(oneflow.autograd.Function):
///     ...     @staticmethod
///     ...     def forward(ctx, x):
///     ...         ctx.save_for_backward(x)
///     ...         return x * x
///     ...     @staticmethod
///     ...     def backward(ctx, g):
///     ...         (x,) = ctx.saved_tensors
///     ...         return 2 * x * g
///     >>> x = oneflow.tensor(3.0, requires_grad=True)
///     >>> Square.apply(x).backward()
///     >>> x.grad
///     tensor(6.)
#[pyclass(frozen, dict, weakref, module = "oneflow.autograd", name = "FunctionCtx")]
pub struct Context(Mutex<State>);

struct State {
    needs: Vec<bool>,
    to_save: Vec<Option<Tensor>>,
    saved: Vec<Option<Saved>>,
    node: Weak<ag::Node>,
    /// The state that `jvp` reads, and whether it runs.
    for_forward: Vec<Option<Tensor>>,
    in_jvp: bool,
    dirty: Vec<Tensor>,
    not_differentiable: Vec<Tensor>,
    materialize: bool,
    /// Backward has run for the last time: what was saved is gone.
    freed: bool,
}

/// A tensor kept for backward. An output is kept without its history, which would keep this very node alive.
struct Saved {
    kept: ag::Kept,
    output: Option<u32>,
    /// History of an input, where the user's hooks took it away.
    history: Option<ag::Edge>,
}

impl Context {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn tensors(args: &Bound<'_, PyTuple>, what: &str) -> PyResult<Vec<Tensor>> {
    args.iter()
        .map(|a| {
            get(&a).cloned().ok_or_else(|| PyTypeError::new_err(format!("{what} takes Tensors, not {}", type_name(&a))))
        })
        .collect()
}

fn type_name(o: &Bound<'_, PyAny>) -> String {
    crate::value::type_name(o.py(), o.as_ptr())
}

#[pymethods]
impl Context {
    /// Keeps tensors (or None) for backward; they come back as `saved_tensors`.
    #[pyo3(signature = (*tensors))]
    fn save_for_backward(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        let kept = tensors
            .iter()
            .map(|a| match get(&a) {
                Some(t) => Ok(Some(t.clone())),
                None if a.is_none() => Ok(None),
                None => Err(PyTypeError::new_err(format!(
                    "save_for_backward can only save variables, but argument is of type {}",
                    type_name(&a)
                ))),
            })
            .collect::<PyResult<_>>()?;
        let old = std::mem::replace(&mut self.state().to_save, kept);
        drop(old);
        Ok(())
    }
    /// Keeps tensors (or None) for `jvp`; there they are the `saved_tensors`.
    #[pyo3(signature = (*tensors))]
    fn save_for_forward(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        let kept = tensors
            .iter()
            .map(|a| match get(&a) {
                Some(t) => Ok(Some(t.clone())),
                None if a.is_none() => Ok(None),
                None => Err(PyTypeError::new_err(format!(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx (got {})",
                    type_name(&a)
                ))),
            })
            .collect::<PyResult<_>>()?;
        let old = std::mem::replace(&mut self.state().for_forward, kept);
        drop(old);
        Ok(())
    }
    /// Marks that `jvp` runs (or has ended), which reads the state saved for it; afterwards that is dropped.
    fn _in_forward_mode(&self, on: bool) {
        let mut state = self.state();
        state.in_jvp = on;
        let old = if on { Vec::new() } else { std::mem::take(&mut state.for_forward) };
        drop(state);
        drop(old);
    }
    #[getter]
    fn saved_tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = run(|| {
            let state = self.state();
            if state.in_jvp {
                return Ok(state.for_forward.clone());
            }
            if state.freed {
                return Err(ag::freed());
            }
            let node = state.node.upgrade();
            state
                .saved
                .iter()
                .map(|s| {
                    let Some(s) = s else { return Ok(None) };
                    let tensor = ag::reopened(&s.kept, s.history.as_ref(), "a tensor saved for backward")?;
                    Ok(Some(match (&node, s.output) {
                        (Some(n), Some(i)) => ag::relinked(n, i, &tensor),
                        _ => tensor,
                    }))
                })
                .collect::<Result<Vec<_>>>()
        })?;
        let objects = found.into_iter().map(|t| t.map(|t| bound(py, t)).transpose()).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, objects)
    }
    #[getter]
    fn needs_input_grad<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.state().needs.clone())
    }
    /// Says that inputs were written in place; they must be returned.
    #[pyo3(signature = (*args))]
    fn mark_dirty(&self, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        let t = tensors(args, "mark_dirty")?;
        self.state().dirty = t;
        Ok(())
    }
    /// Says that outputs have no gradient.
    #[pyo3(signature = (*args))]
    fn mark_non_differentiable(&self, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        let t = tensors(args, "mark_non_differentiable")?;
        self.state().not_differentiable = t;
        Ok(())
    }
    /// Whether missing gradients are passed as zeros (True, the default) or None.
    fn set_materialize_grads(&self, value: bool) {
        self.state().materialize = value;
    }
}

/// A differentiable function: subclasses define `forward(ctx, ...)` and `backward(ctx, *grads)`, and are called by `apply`.
///
/// Example::
///
///     >>> class Double(oneflow.autograd.Function):
///     ...     @staticmethod
///     ...     def forward(ctx, x):
///     ...         return x * 2
///     ...     @staticmethod
///     ...     def backward(ctx, g):
///     ...         return g * 2
///     >>> x = oneflow.ones(1, requires_grad=True)
///     >>> Double.apply(x).backward()
///     >>> x.grad
///     tensor([2.])
#[pyclass(frozen, subclass, module = "oneflow.autograd", name = "Function")]
pub struct Function;

#[pymethods]
impl Function {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyAny>>) -> Function {
        Function
    }
    #[staticmethod]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn forward(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("You must implement the forward function for custom autograd.Function."))
    }
    #[staticmethod]
    #[pyo3(signature = (*_args))]
    fn backward(_args: &Bound<'_, PyTuple>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD.",
        ))
    }
    /// Another name of `backward`; a class defines one of them.
    #[staticmethod]
    #[pyo3(signature = (*_args))]
    fn vjp(_args: &Bound<'_, PyTuple>) -> PyResult<()> {
        Function::backward(_args)
    }
    /// For subclasses whose `forward` takes no ctx: keeps what backward needs.
    #[staticmethod]
    fn setup_context(_ctx: &Bound<'_, PyAny>, _inputs: &Bound<'_, PyAny>, _output: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("setup_context is not implemented."))
    }
    #[classmethod]
    #[pyo3(signature = (*args))]
    fn apply<'py>(class: &Bound<'py, PyType>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        apply(class, args)
    }
}

/// Sets whether tangents are read from what this thread records; returns the former setting.
#[pyfunction]
fn _forward_mode(on: bool) -> bool {
    ag::set_forward_mode(on)
}

/// Returns whether a class overrides a method of `Function`.
fn overrides(class: &Bound<'_, PyType>, method: &str) -> PyResult<bool> {
    Ok(!class.getattr(method)?.is(&class.py().get_type::<Function>().getattr(method)?))
}

fn apply<'py>(class: &Bound<'py, PyType>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let has_setup = overrides(class, "setup_context")?;
    // Where forward's defaults are used, they are inputs as well.
    let args = &match has_setup {
        true => py.import("oneflow.autograd._rules")?.call_method1("with_defaults", (class, args))?.cast_into()?,
        false => args.clone(),
    };
    let objects: Vec<Bound<'py, PyAny>> = args.iter().collect();
    let ins: Vec<Option<&Tensor>> = objects.iter().map(get).collect();
    let needs: Vec<bool> = ins.iter().map(|t| t.is_some_and(ag::requires_grad)).collect();
    let recorded = ag::is_grad_enabled() && needs.iter().any(|n| *n);
    if ins.iter().flatten().any(|t| t.has_key(bit::BATCH)) && overrides(class, "vmap")? {
        return py.import("oneflow.autograd._rules")?.call_method1("batched", (class, args));
    }
    if ag::is_forward_mode() && recorded && overrides(class, "jvp")? {
        return py.import("oneflow.autograd._rules")?.call_method1("with_tangents", (class, args));
    }
    let state = State {
        needs,
        to_save: Vec::new(),
        saved: Vec::new(),
        node: Weak::new(),
        for_forward: Vec::new(),
        in_jvp: false,
        dirty: Vec::new(),
        not_differentiable: Vec::new(),
        materialize: true,
        freed: false,
    };
    let ctx = Bound::new(py, Context(Mutex::new(state)))?;
    let output = {
        let _no_grad = ag::GradGuard::new(false);
        if !has_setup {
            let mut all = vec![ctx.clone().into_any()];
            all.extend(objects.iter().cloned());
            class.call_method1("forward", PyTuple::new(py, all)?)?
        } else {
            let output = class.call_method1("forward", args.clone())?;
            class.call_method1("setup_context", (&ctx, args, &output))?;
            output
        }
    };
    let many = output.cast::<PyTuple>().ok().cloned();
    let outputs: Vec<Bound<'py, PyAny>> = match &many {
        Some(t) => t.iter().collect(),
        None => vec![output.clone()],
    };
    let outputs = outputs.into_iter().map(|o| as_view(o, &objects, &ctx)).collect::<PyResult<Vec<_>>>()?;
    run(|| check_dirty(&ctx, &ins, &outputs, recorded))?;
    let results = run(|| match recorded {
        true => record(class, &ctx, &ins, &outputs),
        false => keep(&ctx, &ins, &outputs),
    })?;
    if results.iter().all(Option::is_none) {
        return Ok(output);
    }
    let mut objects = Vec::new();
    for (o, r) in outputs.into_iter().zip(results) {
        objects.push(match r {
            Some(t) => bound(py, t)?,
            None => o,
        });
    }
    match many {
        Some(_) => Ok(PyTuple::new(py, objects)?.into_any()),
        None => objects.pop().ok_or_else(|| PyRuntimeError::new_err("forward returned nothing")),
    }
}

/// An output that is an input as it was given: of a class that answers `__torch_function__`, a view that the class makes.
fn as_view<'py>(
    o: Bound<'py, PyAny>,
    ins: &[Bound<'py, PyAny>],
    ctx: &Bound<'py, Context>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(t) = get(&o) else { return Ok(o) };
    // SAFETY: a live object, and the interpreter is held.
    let answers = unsafe { crate::overrides::answers(o.as_ptr()) };
    if !answers || !ins.iter().any(|i| i.is(&o)) || ctx.get().state().dirty.iter().any(|d| d.same(t)) {
        return Ok(o);
    }
    let _no_grad = ag::GradGuard::new(false);
    o.py().import("oneflow.autograd._rules")?.call_method1("as_view", (o,))
}

/// The context as a node of the tape keeps it: weakly, as the node's backward holds it.
fn owner_of(ctx: &Bound<'_, Context>) -> ag::Payload {
    Arc::new(ContextAt(ctx.as_ptr() as usize))
}

/// The address of a context, for as long as the node that names it lives: the node's backward owns a reference to it.
struct ContextAt(usize);

/// The context of a node that a custom function created.
pub fn context_of<'py>(py: Python<'py>, node: &ag::Node) -> Option<Bound<'py, PyAny>> {
    let at = node.owner()?.downcast_ref::<ContextAt>()?;
    // SAFETY: the node's backward owns a reference, and the node is alive.
    Some(unsafe { Bound::from_borrowed_ptr(py, at.0 as *mut pyo3::ffi::PyObject) })
}

/// The input whose memory an output shares as a view of it, if it is one.
fn viewed<'a>(t: &Tensor, ins: &[Option<&'a Tensor>]) -> Option<&'a Tensor> {
    let same_base = |x: &Tensor| t.base().is_some_and(|b| b.same(x) || x.base().is_some_and(|of| of.same(b)));
    ins.iter().flatten().copied().find(|x| x.same(t) || same_base(x))
}

/// Refuses to have written what is not returned, and views of which there is more than one result.
fn check_dirty(
    ctx: &Bound<'_, Context>,
    ins: &[Option<&Tensor>],
    outputs: &[Bound<'_, PyAny>],
    recorded: bool,
) -> Result<()> {
    let dirty = std::mem::take(&mut ctx.get().state().dirty);
    if dirty.is_empty() {
        return Ok(());
    }
    let made: Vec<&Tensor> = outputs.iter().filter_map(get).collect();
    if dirty.iter().any(|d| !made.iter().any(|t| t.same(d))) {
        return Err(Error::runtime(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be outputs of the Function.",
        ));
    }
    if recorded && dirty.iter().any(|d| !ins.iter().flatten().any(|x| x.same(d))) {
        oneflow_core::warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be passed to ctx.mark_dirty().",
        )?;
    }
    if recorded && made.len() > 1 && dirty.iter().any(|d| d.base().is_some()) {
        return Err(Error::runtime(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other operations).",
        ));
    }
    ctx.get().state().dirty = dirty;
    Ok(())
}

/// Keeps what was saved by a call that is not recorded. Gives the tensors to return in place of the outputs: an input that
/// was not written comes back as another tensor over its memory.
fn keep(
    ctx: &Bound<'_, Context>,
    ins: &[Option<&Tensor>],
    outputs: &[Bound<'_, PyAny>],
) -> Result<Vec<Option<Tensor>>> {
    let state = &mut *ctx.get().state();
    state.saved = state.to_save.drain(..).map(|t| t.map(kept).transpose()).collect::<Result<_>>()?;
    let made = outputs.iter().map(|o| {
        let t = get(o).filter(|t| t.storage().is_some() && !state.dirty.iter().any(|d| d.same(t)))?;
        let of = viewed(t, ins)?;
        if !of.same(t) {
            t.set_foreign_view();
            return None;
        }
        let view = t.shallow();
        if !ag::requires_grad(of) {
            view.set_base(of);
            view.set_foreign_view();
        }
        Some(view)
    });
    Ok(made.collect())
}

fn kept(tensor: Tensor) -> Result<Saved> {
    let history = ag::gradient_edge(&tensor);
    Ok(Saved { kept: ag::Kept::new(tensor)?, output: None, history })
}

/// Links the outputs to a node whose backward calls the class. Gives the tensors to return in place of the outputs.
fn record(
    class: &Bound<'_, PyType>,
    ctx: &Bound<'_, Context>,
    ins: &[Option<&Tensor>],
    outputs: &[Bound<'_, PyAny>],
) -> Result<Vec<Option<Tensor>>> {
    let py = class.py();
    let name = format!("{}Backward", class.name().pend(py)?);
    let mut state = ctx.get().state();
    // Per output: the tensor to return, or nothing for other objects.
    let mut results: Vec<Option<Tensor>> = Vec::new();
    // Per tensor output: what is linked. One without a gradient is stood in for, so that numbers agree.
    let mut linked: Vec<Tensor> = Vec::new();
    let mut places: Vec<Option<usize>> = Vec::new();
    let mut written: Vec<bool> = Vec::new();
    for o in outputs {
        let Some(t) = get(o) else {
            results.push(None);
            places.push(None);
            linked.push(Tensor::empty(oneflow_core::base::DType::Bool, oneflow_core::base::Device::CPU, &[0])?);
            written.push(false);
            continue;
        };
        let dirty = state.dirty.iter().any(|d| d.same(t));
        let is_input = ins.iter().flatten().any(|i| i.same(t));
        if dirty && ag::requires_grad(t) && ag::is_leaf(t) {
            return Err(Error::runtime("a leaf Variable that requires grad is being used in an in-place operation."));
        }
        if dirty {
            t.bump_version();
        }
        let result = if !dirty && (is_input || ag::requires_grad(t)) { t.shallow() } else { t.clone() };
        if !dirty
            && let Some(x) = viewed(t, ins)
            && t.storage().is_some()
            && !result.same(t)
        {
            result.set_base(x);
            result.set_foreign_view();
        }
        let differentiable = !state.not_differentiable.iter().any(|d| d.same(t));
        linked.push(if differentiable { result.clone() } else { t.shallow() });
        written.push(dirty && differentiable);
        places.push(Some(linked.len() - 1));
        results.push(Some(result));
    }
    let metas: Vec<Option<Meta>> = linked.iter().zip(&places).map(|(t, p)| p.is_some().then(|| t.meta())).collect();
    let wanted: Vec<Option<Meta>> = ins.iter().map(|t| t.map(|t| t.meta())).collect();
    let (context, owner) = (Shared::new(ctx.clone().into_any()), Shared::new(class.clone().into_any()));
    let label = name.clone();
    let materialize = state.materialize;
    let released = Shared::new(ctx.clone().into_any());
    let backward = Box::new(move |grads: &[Option<Tensor>]| {
        gate::attach(|py| {
            let given = grads
                .iter()
                .zip(&metas)
                .map(|(g, m)| match (g, m) {
                    (Some(g), _) => Ok(Some(g.clone())),
                    (None, Some(m)) if materialize => zeros(m).map(Some),
                    _ => Ok(None),
                })
                .collect::<Result<Vec<_>>>()?;
            call_backward(py, &owner, &context, given, &wanted, &label)
        })
    });
    // The closure above holds the context, whose lock is free again when backward runs.
    let node = ag::custom_node(
        &name,
        ins,
        &linked,
        &written,
        backward,
        Box::new(move || release(&released)),
        Some(owner_of(ctx)),
    )?;
    if let Some(n) = &node {
        state.node = Arc::downgrade(n);
    }
    let to_save = std::mem::take(&mut state.to_save);
    state.saved = to_save
        .into_iter()
        .map(|t| {
            t.map(|t| {
                let is_input = ins.iter().flatten().any(|i| i.same(&t));
                let output = results.iter().position(|r| r.as_ref().is_some_and(|r| r.same(&t)));
                match output.filter(|_| !is_input) {
                    Some(i) => Ok(Saved { kept: ag::Kept::new(t.shallow())?, output: Some(i as u32), history: None }),
                    None => kept(t),
                }
            })
            .transpose()
        })
        .collect::<Result<_>>()?;
    let free = (std::mem::take(&mut state.dirty), std::mem::take(&mut state.not_differentiable));
    drop(state);
    drop(free);
    Ok(results)
}

/// Frees what a context saved: its backward has run for the last time.
fn release(context: &Shared) {
    gate::attach(|py| {
        let context = context.bind(py);
        let Ok(c) = context.cast::<Context>() else { return };
        let saved = {
            let mut state = c.get().state();
            state.freed = !state.saved.is_empty();
            std::mem::take(&mut state.saved)
        };
        // Dropping may run Python code: not under the lock.
        drop(saved);
    });
}

fn zeros(m: &Meta) -> Result<Tensor> {
    let t = Tensor::empty(m.dtype, m.device, &m.sizes)?;
    crate::operators::FILL.inplace(&[Some(&t), None], &[oneflow_core::base::Arg::Int(0)])?;
    Ok(t)
}

fn call_backward(
    py: Python<'_>,
    class: &Shared,
    ctx: &Shared,
    grads: Vec<Option<Tensor>>,
    wanted: &[Option<Meta>],
    name: &str,
) -> Result<Vec<Option<Tensor>>> {
    let call = || -> PyResult<Vec<Bound<'_, PyAny>>> {
        let mut args = vec![ctx.bind(py)];
        for g in grads {
            args.push(match g {
                Some(g) => bound(py, g)?,
                None => py.None().into_bound(py),
            });
        }
        let own = class.bind(py).cast::<PyType>()?.clone();
        let vjp = overrides(&own, "vjp")?;
        if vjp && overrides(&own, "backward")? {
            return Err(PyRuntimeError::new_err(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them.",
            ));
        }
        let out = own.call_method1(if vjp { "vjp" } else { "backward" }, PyTuple::new(py, args)?)?;
        Ok(match out.cast::<PyTuple>() {
            Ok(t) => t.iter().collect(),
            Err(_) => vec![out],
        })
    };
    let mut out = call().pend(py)?;
    while out.len() > wanted.len() && out.last().is_some_and(|o| o.is_none()) {
        out.pop();
    }
    if out.len() != wanted.len() {
        return Err(Error::runtime(format!(
            "function {name} returned an incorrect number of gradients (expected {}, got {})",
            wanted.len(),
            out.len()
        )));
    }
    out.iter().zip(wanted).enumerate().map(|(i, (o, m))| gradient(o, m.as_ref(), i, name)).collect()
}

/// One returned gradient, checked against the input it is for.
fn gradient(o: &Bound<'_, PyAny>, wanted: Option<&Meta>, i: usize, name: &str) -> Result<Option<Tensor>> {
    let Some(g) = get(o) else {
        if o.is_none() {
            return Ok(None);
        }
        return Err(Error::runtime(format!("expected Variable or None (got {})", type_name(o))));
    };
    let Some(m) = wanted else {
        return Err(Error::runtime(format!(
            "function {name} returned a gradient different than None at position {}, but the corresponding forward input was not a Variable",
            i + 1
        )));
    };
    if !ag::sums_to(g.sizes(), &m.sizes) {
        return Err(Error::runtime(format!(
            "Function {name} returned an invalid gradient at index {i} - got {:?} but expected shape compatible with {:?}",
            g.sizes(),
            m.sizes.as_slice()
        )));
    }
    ag::fit(apart(g), m).map(Some)
}

/// A gradient apart from the Python object that was returned: once nobody reads that any more, the last to receive the gradient
/// may keep its memory.
pub fn apart(g: &Tensor) -> Tensor {
    if ag::requires_grad(g) { g.clone() } else { g.shallow() }
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Context>()?;
    m.add_class::<Function>()?;
    m.setattr("_forward_mode", wrap_pyfunction!(_forward_mode, m)?)
}
