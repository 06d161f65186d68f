//! Gradients as Python sees them: switches, backward, hooks, nodes of the tape.

use crate::gate::{self, OrPending, Shared, run, to_py};
use crate::object::{bound, get, hooks_of, self_tensor, wrap};
use oneflow_autograd as ag;
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[inline]
pub fn requires_grad(t: &Tensor) -> bool {
    ag::requires_grad(t)
}

#[inline]
pub fn in_inference_mode() -> bool {
    ag::is_inference_mode_enabled()
}

pub fn set_requires_grad(t: &Tensor, on: bool) -> Result<()> {
    ag::set_requires_grad(t, on)
}

/// Objects that live only because this tensor, itself held by nobody but its object, holds them.
pub fn owned_objects(t: &Tensor) -> SmallVec<[*mut PyObject; 1]> {
    let mut found = SmallVec::new();
    if let Some(g) = ag::grad(t) {
        // The object's own count, the slot's and `g` here.
        if !g.py().is_null() && g.use_count() == 3 {
            found.push(g.py().cast());
        }
    }
    found
}

/// Breaks the cycles that `owned_objects` names.
pub fn clear_owned(t: &Tensor) {
    if ag::grad(t).is_some() {
        let _ = ag::set_grad(t, None);
    }
}

/// `x.grad`.
pub fn grad_object(py: Python<'_>, t: &Tensor) -> Result<Option<*mut PyObject>> {
    ag::grad(t).map(|g| wrap(py, g)).transpose()
}

/// `x.grad = g`.
pub fn assign_grad(t: &Tensor, g: Option<&Tensor>) -> Result<()> {
    ag::set_grad(t, g.cloned())
}

/// A Python hook: of a node, owned here; of a leaf, by its number in the leaf's object, where the collector sees it.
enum Callable {
    Owned(Shared),
    Leaf { tensor: usize, number: u64 },
}

impl Callable {
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Callable::Owned(f) => Ok(Some(f.bind(py))),
            Callable::Leaf { tensor, number } => {
                let raw = *tensor as *mut ();
                // SAFETY: a leaf's hooks are called while the engine holds the leaf.
                let hooks = unsafe { hooks_of(py, Tensor::borrow_raw(&raw), false)? };
                hooks.map_or(Ok(None), |h| h.get_item(number))
            }
        }
    }

    /// Calls the hook with a tensor; what it returns replaces a gradient.
    fn call(&self, g: &Tensor) -> Result<Option<Tensor>> {
        gate::attach(|py| {
            let Some(f) = self.get(py).pend(py)? else { return Ok(None) };
            let result = f.call1((bound(py, g.clone()).pend(py)?,)).pend(py)?;
            if result.is_none() {
                return Ok(None);
            }
            match get(&result) {
                Some(t) => Ok(Some(t.clone())),
                None => Err(Error::type_(format!(
                    "expected Variable, but hook returned '{}'",
                    crate::value::type_name(py, result.as_ptr())
                ))),
            }
        })
    }
}

/// Takes a hook away again.
#[pyclass(frozen, module = "oneflow", name = "_HookHandle")]
pub struct HookHandle {
    tensor: Shared,
    handle: ag::HookHandle,
    number: u64,
}

#[pymethods]
impl HookHandle {
    #[getter]
    fn id(&self) -> u64 {
        self.number
    }
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        let object = self.tensor.bind(py);
        let Some(t) = get(&object) else { return Ok(()) };
        ag::remove_hook(t, self.handle);
        // SAFETY: the interpreter is held and the object is alive.
        if let Some(hooks) = unsafe { hooks_of(py, t, false)? }
            && hooks.contains(self.number)?
        {
            hooks.del_item(self.number)?;
        }
        Ok(())
    }
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _value: Py<PyAny>, _traceback: Py<PyAny>) -> PyResult<()> {
        self.remove(py)
    }
}

/// `x.register_hook(f)`; `after`: once the gradient is in `.grad`, with the tensor.
pub fn register_hook(tensor: &Bound<'_, PyAny>, hook: Bound<'_, PyAny>, after: bool) -> PyResult<HookHandle> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if !hook.is_callable() {
        return Err(PyTypeError::new_err("register_hook(): a hook must be callable"));
    }
    let Some(t) = get(tensor) else { return Err(PyTypeError::new_err("register_hook(): not a Tensor")) };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let leaf = ag::is_leaf(t);
    let f = if leaf { Callable::Leaf { tensor: t.id(), number } } else { Callable::Owned(Shared::new(hook.clone())) };
    let handle = run(|| {
        if after {
            ag::register_post_accumulate_hook(t, Arc::new(move |t| f.call(t).map(|_| ())))
        } else {
            ag::register_hook(t, Arc::new(move |g| f.call(g)))
        }
    })?;
    // SAFETY: the interpreter is held and the object is alive.
    if leaf && let Some(hooks) = unsafe { hooks_of(tensor.py(), t, true)? } {
        hooks.set_item(number, hook)?;
    }
    Ok(HookHandle { tensor: Shared::new(tensor.clone()), handle, number })
}

/// A node of the tape (`x.grad_fn`). Compared by identity of the node.
#[pyclass(frozen, module = "oneflow.autograd", name = "Node")]
pub struct PyNode(Arc<ag::Node>);

pub fn node_object(py: Python<'_>, node: Arc<ag::Node>) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, PyNode(node))?.into_any())
}

#[pymethods]
impl PyNode {
    fn name(&self) -> String {
        self.0.name()
    }
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let pairs = self
            .0
            .next()
            .iter()
            .map(|e| match e {
                Some(e) => Ok((Some(node_object(py, e.node.clone())?), e.nr)),
                None => Ok((None, 0)),
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, pairs)
    }
    /// The leaf of an accumulator.
    #[getter]
    fn variable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.leaf() {
            Some(t) => bound(py, t.clone()),
            None => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "'{}' object has no attribute 'variable'",
                self.0.name()
            ))),
        }
    }
    fn __repr__(&self) -> String {
        format!("<{} object at {:p}>", self.0.name(), Arc::as_ptr(&self.0))
    }
    fn __hash__(&self) -> u64 {
        Arc::as_ptr(&self.0) as u64 >> 4
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyNode>().is_ok_and(|o| Arc::ptr_eq(&self.0, &o.get().0))
    }
}

#[pyfunction]
fn is_grad_enabled() -> bool {
    ag::is_grad_enabled()
}

#[pyfunction]
#[pyo3(name = "set_grad_enabled")]
fn set_grad_mode(mode: bool) {
    ag::set_grad_enabled(mode);
}

#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    ag::is_inference_mode_enabled()
}

#[pyfunction]
fn _set_inference_mode(mode: bool) {
    ag::set_inference_mode(mode);
}

fn tensors(o: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<Tensor>> {
    optional_tensors(o, what)?
        .into_iter()
        .map(|t| t.ok_or_else(|| PyTypeError::new_err(format!("{what} must be Tensors, not None"))))
        .collect()
}

fn optional_tensors(o: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<Option<Tensor>>> {
    o.try_iter()?
        .map(|item| {
            let item = item?;
            match get(&item) {
                Some(t) => Ok(Some(t.clone())),
                None if item.is_none() => Ok(None),
                None => Err(PyTypeError::new_err(format!("{what} must be Tensors, not {}", item.get_type().name()?))),
            }
        })
        .collect()
}

/// Runs the engine: into `.grad` where `accumulate`, else returns the gradients of `inputs`.
#[pyfunction]
fn _run_backward<'py>(
    py: Python<'py>,
    outputs: &Bound<'py, PyAny>,
    grads: &Bound<'py, PyAny>,
    retain_graph: bool,
    create_graph: bool,
    inputs: &Bound<'py, PyAny>,
    allow_unused: bool,
    accumulate: bool,
) -> PyResult<Bound<'py, PyList>> {
    let roots = tensors(outputs, "outputs")?;
    let grads = optional_tensors(grads, "gradients")?;
    let inputs = if inputs.is_none() { None } else { Some(tensors(inputs, "inputs")?) };
    if accumulate {
        run(|| gate::detach(py, || ag::backward(&roots, &grads, retain_graph, create_graph, inputs.as_deref())))?;
        return Ok(PyList::empty(py));
    }
    let inputs = inputs.unwrap_or_default();
    let found = run(|| gate::detach(py, || ag::grad_of(&roots, &inputs, &grads, retain_graph, create_graph)))?;
    let list = PyList::empty(py);
    for g in found {
        match g {
            Some(g) => list.append(bound(py, g)?)?,
            None if allow_unused => list.append(py.None())?,
            None => {
                return Err(to_py(Error::runtime(
                    "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.",
                )));
            }
        }
    }
    Ok(list)
}

/// `x.grad_fn`.
///
/// # Safety
/// `slf` is a tensor object.
pub unsafe fn grad_fn(py: Python<'_>, slf: *mut PyObject) -> Result<Option<*mut PyObject>> {
    // SAFETY: the caller's promise.
    let t = unsafe { self_tensor(slf)? };
    ag::grad_fn(t).map(|n| Ok(node_object(py, n).pend(py)?.into_ptr())).transpose()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<HookHandle>()?;
    m.add_class::<PyNode>()?;
    m.add_function(wrap_pyfunction!(is_grad_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(set_grad_mode, m)?)?;
    m.add_function(wrap_pyfunction!(is_inference_mode_enabled, m)?)?;
    m.add_function(wrap_pyfunction!(_set_inference_mode, m)?)?;
    m.add_function(wrap_pyfunction!(_run_backward, m)?)
}

/// `x.backward(...)`.
pub fn backward(
    py: Python<'_>,
    t: &Tensor,
    gradient: Option<Tensor>,
    retain: bool,
    create: bool,
    inputs: Option<Bound<'_, PyAny>>,
) -> Result<()> {
    let inputs = match inputs {
        None => None,
        Some(i) if get(&i).is_some() => get(&i).map(|t| vec![t.clone()]),
        Some(i) => Some(tensors(&i, "inputs").pend(py)?),
    };
    if inputs.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::runtime("`inputs` argument to `backward` cannot be empty."));
    }
    let roots = [t.clone()];
    let grads = [gradient];
    gate::detach(py, || ag::backward(&roots, &grads, retain, create, inputs.as_deref()))?;
    gate::check_signals(py)
}
