//! Gradients as Python sees them: switches, backward, hooks, nodes of the tape.

use crate::function::apart;
use crate::gate::{self, OrPending, Shared, run, to_py};
use crate::node_objects::{NodeObjects, dict_in, make_node_objects, node_objects};
use crate::object::{bound, get, hooks_of, self_tensor, wrap};
use oneflow_autograd as ag;
use oneflow_core::base::{Error, Result};
use oneflow_core::{MayRelease, Tensor};
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyRuntimeError, PyTypeError};
use pyo3::ffi::PyObject;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

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
    if let Some(objects) = ag::own_node(t).and_then(|n| node_objects(&n)) {
        found.extend(objects.dicts().map(Shared::as_ptr));
    }
    found
}

/// Breaks the cycles that `owned_objects` names.
pub fn clear_owned(t: &Tensor) {
    if ag::grad(t).is_some() {
        let _ = ag::set_grad(t, None);
    }
    if let Some(objects) = ag::own_node(t).and_then(|n| node_objects(&n)) {
        objects.clear();
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

/// A Python hook, by its number: in the object of a leaf, or with the node, where the collector sees it.
enum Callable {
    Node { node: Weak<ag::Node>, number: u64 },
    Leaf { tensor: usize, number: u64 },
}

impl Callable {
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Callable::Node { node, number } => {
                let Some(objects) = node.upgrade().and_then(|n| node_objects(&n)) else { return Ok(None) };
                let Some(hooks) = objects.hooks.get() else { return Ok(None) };
                hooks.bind(py).cast::<PyDict>()?.get_item(number)
            }
            Callable::Leaf { tensor, number } => {
                let raw = *tensor as *mut ();
                // SAFETY: a leaf's hooks are called while the engine holds the leaf.
                let hooks = unsafe { hooks_of(py, Tensor::borrow_raw(&raw), false)? };
                hooks.map_or(Ok(None), |h| h.get_item(number))
            }
        }
    }

    /// Calls the hook with a tensor; what it returns replaces a gradient.
    fn call(&self, g: Option<&Tensor>) -> Result<Option<Tensor>> {
        gate::attach(|py| {
            let Some(f) = self.get(py).pend(py)? else { return Ok(None) };
            let given = g.map(|g| bound(py, g.clone())).transpose().pend(py)?;
            let result = f.call1((given,)).pend(py)?;
            if result.is_none() {
                return Ok(None);
            }
            match get(&result) {
                Some(t) if g.is_some_and(|g| t.sizes() != g.sizes()) => {
                    let name = f.getattr("__name__").map_or_else(|_| f.to_string(), |name| name.to_string());
                    Err(Error::runtime(format!("hook '{name}' has changed the size of value")))
                }
                Some(t) => Ok(Some(apart(t))),
                None => Err(Error::type_(format!(
                    "expected Variable, but hook returned '{}'",
                    crate::value::type_name(py, result.as_ptr())
                ))),
            }
        })
    }
}

/// Takes a hook away again.
#[pyclass(frozen, weakref, module = "oneflow", name = "_HookHandle")]
pub struct HookHandle {
    owner: Owner,
    handle: ag::HookHandle,
    number: u64,
}

/// Whose hook it is. Neither is kept alive: a handle is often kept longer than what it hooks.
enum Owner {
    Leaf(Py<PyAny>),
    Node(Weak<ag::Node>),
}

#[pymethods]
impl HookHandle {
    #[getter]
    fn id(&self) -> u64 {
        self.number
    }
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        match &self.owner {
            Owner::Leaf(reference) => {
                let object = reference.bind(py).call0()?;
                let Some(t) = get(&object) else { return Ok(()) };
                ag::remove_hook(t, self.handle);
                // SAFETY: the interpreter is held and the object is alive.
                if let Some(hooks) = unsafe { hooks_of(py, t, false)? }
                    && hooks.contains(self.number)?
                {
                    hooks.del_item(self.number)?;
                }
            }
            Owner::Node(node) => {
                let Some(node) = node.upgrade() else { return Ok(()) };
                node.remove_hook(self.handle);
                // Hooks that a running backward has already collected still run; the node keeps the object for them.
                if ag::backward_number() == 0
                    && let Some(objects) = node_objects(&node)
                    && let Some(hooks) = objects.hooks.get()
                {
                    let hooks = hooks.bind(py).cast_into::<PyDict>()?;
                    if hooks.contains(self.number)? {
                        hooks.del_item(self.number)?;
                    }
                }
            }
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

static NUMBER: AtomicU64 = AtomicU64::new(0);

fn keep_with_node(py: Python<'_>, node: &ag::Node, hook: &Bound<'_, PyAny>) -> PyResult<u64> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    dict_in(py, &make_node_objects(node)?.hooks)?.set_item(number, hook)?;
    Ok(number)
}

/// `x.register_hook(f)`; `after`: once the gradient is in `.grad`, with the tensor.
pub fn register_hook(tensor: &Bound<'_, PyAny>, hook: Bound<'_, PyAny>, after: bool) -> PyResult<HookHandle> {
    let py = tensor.py();
    if !hook.is_callable() {
        return Err(PyTypeError::new_err("register_hook(): a hook must be callable"));
    }
    let Some(t) = get(tensor) else { return Err(PyTypeError::new_err("register_hook(): not a Tensor")) };
    let node = ag::grad_fn(t);
    let (number, f) = match &node {
        Some(n) => {
            let number = keep_with_node(py, n, &hook)?;
            (number, Callable::Node { node: Arc::downgrade(n), number })
        }
        None => {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            (number, Callable::Leaf { tensor: t.id(), number })
        }
    };
    let handle = run(|| {
        if after {
            ag::register_post_accumulate_hook(
                t,
                Arc::new(move |t| match f.call(Some(t))? {
                    None => Ok(()),
                    Some(_) => Err(Error::runtime("Tensor post accumulate grad hooks should return None.")),
                }),
            )
        } else {
            ag::register_hook(t, Arc::new(move |g| f.call(g)))
        }
    })?;
    let owner = match node {
        Some(n) => Owner::Node(Arc::downgrade(&n)),
        None => {
            // SAFETY: the interpreter is held and the object is alive.
            if let Some(hooks) = unsafe { hooks_of(py, t, true)? } {
                hooks.set_item(number, hook)?;
            }
            Owner::Leaf(py.import("weakref")?.getattr("ref")?.call1((tensor,))?.unbind())
        }
    };
    Ok(HookHandle { owner, handle, number })
}

fn gradient_objects<'py>(py: Python<'py>, grads: &[Option<Tensor>]) -> PyResult<Bound<'py, PyTuple>> {
    let objects = grads.iter().map(|g| g.clone().map(|g| bound(py, g)).transpose()).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, objects)
}

/// Calls a node's hook with tuples of gradients; a tensor or tuple that it returns replaces the first of them.
fn call_node_hook(
    f: &Callable,
    grads: &[Option<Tensor>],
    more: Option<&[Option<Tensor>]>,
) -> Result<Option<Vec<Option<Tensor>>>> {
    gate::attach(|py| {
        let call = || -> PyResult<Option<Vec<Option<Tensor>>>> {
            let Some(hook) = f.get(py)? else { return Ok(None) };
            let first = gradient_objects(py, grads)?;
            let result = match more {
                Some(m) => hook.call1((first, gradient_objects(py, m)?))?,
                None => hook.call1((first,))?,
            };
            if result.is_none() {
                return Ok(None);
            }
            let made = match get(&result) {
                Some(t) => vec![Some(t.clone())],
                None => optional_tensors(&result, "gradients returned by a hook")?,
            };
            Ok(Some(made.iter().map(|t| t.as_ref().map(apart)).collect()))
        };
        call().pend(py)
    })
}

/// A node of the tape (`x.grad_fn`). A node has one object at a time.
///
/// Example::
///
///     >>> y = oneflow.ones(1, requires_grad=True) * 2
///     >>> y.grad_fn.name()
///     'MulBackward0'
#[pyclass(frozen, subclass, module = "oneflow.autograd", name = "Node")]
pub struct PyNode(Arc<ag::Node>);

impl Drop for PyNode {
    fn drop(&mut self) {
        if let Some(objects) = node_objects(&self.0) {
            objects.object.store(0, Ordering::Relaxed);
        }
    }
}

/// The object of a node. Its class is named after the op, as what draws graphs reads it.
pub fn node_object(py: Python<'_>, node: Arc<ag::Node>) -> PyResult<Bound<'_, PyAny>> {
    let objects = make_node_objects(&node)?;
    let known = objects.object.load(Ordering::Relaxed) as *mut PyObject;
    if !known.is_null() {
        // SAFETY: the interpreter is held, and the object forgets itself there before it goes.
        return Ok(unsafe { Bound::from_borrowed_ptr(py, known) });
    }
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = node.name();
    let class = match classes.get_item(&name)? {
        Some(class) => class,
        None => {
            let body = PyDict::new(py);
            body.set_item("__slots__", ())?;
            body.set_item("__module__", "oneflow.autograd")?;
            let class = py.get_type::<PyType>().call1((&name, (py.get_type::<PyNode>(),), body))?;
            classes.set_item(&name, &class)?;
            class
        }
    };
    let object = Bound::new(py, PyNode(node))?.into_any();
    object.setattr("__class__", class)?;
    objects.object.store(object.as_ptr() as usize, Ordering::Relaxed);
    Ok(object)
}

impl PyNode {
    /// The objects of a node that nobody but this object holds.
    fn hung_here(&self) -> Option<Arc<NodeObjects>> {
        if Arc::strong_count(&self.0) == 1 { node_objects(&self.0) } else { None }
    }
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
            None => Err(PyAttributeError::new_err(format!("'{}' object has no attribute 'variable'", self.0.name()))),
        }
    }
    /// The gradients of the inputs for those of the outputs; hooks do not run, and saved tensors stay.
    #[pyo3(signature = (*grads))]
    fn __call__<'py>(&self, py: Python<'py>, grads: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if grads.len() != self.0.n_outputs() {
            let text = format!("expected {} arguments, got {} instead", self.0.n_outputs(), grads.len());
            return Err(PyTypeError::new_err(text));
        }
        let grads = optional_tensors(grads.as_any(), "gradients")?;
        let made = gradient_objects(py, &run(|| self.0.call(&grads))?)?;
        if made.len() == 1 { made.get_item(0) } else { Ok(made.into_any()) }
    }
    /// Attributes that the user adds to the node.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(dict_in(py, &make_node_objects(&self.0)?.metadata)?.into_any())
    }
    /// Hooks that only this object keeps alive: a hook may hold the node that it hangs on.
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        match self.hung_here() {
            Some(objects) => objects.dicts().try_for_each(|d| visit.call(d.as_py())),
            None => Ok(()),
        }
    }
    fn __clear__(&self) {
        if let Some(objects) = self.hung_here() {
            objects.clear();
        }
    }
    fn _sequence_nr(&self) -> u64 {
        self.0.sequence_nr()
    }
    /// Calls `hook(grad_inputs, grad_outputs)` after the node ran; a tuple that it returns replaces `grad_inputs`.
    fn register_hook(&self, py: Python<'_>, hook: &Bound<'_, PyAny>) -> PyResult<HookHandle> {
        let number = keep_with_node(py, &self.0, hook)?;
        let f = Callable::Node { node: Arc::downgrade(&self.0), number };
        let handle = self.0.register_hook(Arc::new(move |i, o| call_node_hook(&f, i, Some(o))));
        Ok(HookHandle { owner: Owner::Node(Arc::downgrade(&self.0)), handle, number })
    }
    /// Calls `hook(grad_outputs)` before the node runs; a tuple that it returns replaces them.
    fn register_prehook(&self, py: Python<'_>, hook: &Bound<'_, PyAny>) -> PyResult<HookHandle> {
        let number = keep_with_node(py, &self.0, hook)?;
        let f = Callable::Node { node: Arc::downgrade(&self.0), number };
        let handle = self.0.register_prehook(Arc::new(move |g| call_node_hook(&f, g, None)));
        Ok(HookHandle { owner: Owner::Node(Arc::downgrade(&self.0)), handle, number })
    }
    /// `_saved_input`, `_saved_self` as PyTorch calls the first one, `_saved_result`: what is kept for backward.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if let Some(what) = name.strip_prefix("_saved_")
            && let Some(t) = run(|| self.0.saved(if what == "self" { "input" } else { what }))?
        {
            return bound(py, t);
        }
        // Of a custom function: what its context has.
        if let Some(found) = crate::function::context_of(py, &self.0).map(|ctx| ctx.getattr(name)).and_then(Result::ok)
        {
            return Ok(found);
        }
        Err(PyAttributeError::new_err(format!("'{}' object has no attribute '{name}'", self.0.name())))
    }
    #[getter]
    fn _n_outputs(&self) -> usize {
        self.0.n_outputs()
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

/// Returns whether this thread records operations for backward.
///
/// Example::
///
///     >>> with oneflow.no_grad():
///     ...     oneflow.is_grad_enabled()
///     False
#[pyfunction]
fn is_grad_enabled() -> bool {
    ag::is_grad_enabled()
}

#[pyfunction]
#[pyo3(name = "set_grad_enabled")]
fn set_grad_mode(mode: bool) {
    ag::set_grad_enabled(mode);
}

/// Returns whether this thread is in inference mode.
///
/// Example::
///
///     >>> with oneflow.inference_mode():
///     ...     oneflow.is_inference_mode_enabled()
///     True
#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    ag::is_inference_mode_enabled()
}

#[pyfunction]
fn _set_inference_mode(mode: bool) {
    ag::set_inference_mode(mode);
}

pub(crate) fn optional_tensors(o: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<Option<Tensor>>> {
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

/// A tensor, or a pair of a node and the number of one of its outputs.
fn root(item: &Bound<'_, PyAny>, what: &str) -> PyResult<ag::Root> {
    if let Some(t) = get(item) {
        return Ok(ag::Root::Tensor(t.clone()));
    }
    if let Ok(pair) = item.cast::<PyTuple>()
        && pair.len() == 2
        && let Ok(node) = pair.get_item(0)?.cast::<PyNode>()
    {
        let (node, nr): (Arc<ag::Node>, u32) = (node.get().0.clone(), pair.get_item(1)?.extract()?);
        if nr as usize >= node.n_outputs() {
            return Err(PyIndexError::new_err(format!("{} has no output {nr}", node.name())));
        }
        return Ok(ag::Root::Edge(ag::Edge { node, nr }));
    }
    Err(PyTypeError::new_err(format!("{what} must be Tensors or GradientEdges, not {}", item.get_type().name()?)))
}

pub(crate) fn roots(o: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<ag::Root>> {
    o.try_iter()?.map(|item| root(&item?, what)).collect()
}

thread_local! {
    /// Backwards under way on this thread, one inside a function of the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs a backward. A deeply nested one gets its own thread, and so its own stack.
pub(crate) fn nested<R: Send>(py: Python<'_>, f: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    const MOST: u32 = 40;
    const STACK: usize = 16 << 20;
    struct Inside(u32);
    impl Drop for Inside {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }
    let depth = DEPTH.get();
    if depth < MOST {
        let _inside = Inside(DEPTH.replace(depth + 1));
        return engine(py, f);
    }
    let tls = oneflow_core::tls();
    let inference = ag::is_inference_mode_enabled();
    // The error of Python is the thread's: it is carried over as an object.
    let work = move || {
        let _state = oneflow_core::with_tls(tls);
        ag::set_inference_mode(inference);
        gate::attach(|py| gate::detach(py, f).map_err(to_py))
    };
    let made = gate::detach(py, || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            thread
                .map_err(|e| PyRuntimeError::new_err(format!("backward(): no thread for a nested backward: {e}")))
                .and_then(|t| t.join().unwrap_or_else(|_| Err(PyRuntimeError::new_err("a nested backward panicked"))))
        })
    });
    made.pend(py)
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
    let mut from = roots(outputs, "outputs")?;
    let grads = optional_tensors(grads, "gradients")?;
    let inputs = if inputs.is_none() { None } else { Some(roots(inputs, "inputs")?) };
    if accumulate {
        scale_losses(py, &mut from)?;
        run(|| {
            let go = || ag::backward_from(&from, &grads, retain_graph, create_graph, inputs.as_deref());
            ended(py, nested(py, go))
        })?;
        return Ok(PyList::empty(py));
    }
    let inputs = inputs.unwrap_or_default();
    let found = run(|| nested(py, || ag::grad_from(&from, &inputs, &grads, retain_graph, create_graph)))?;
    let list = PyList::empty(py);
    for (i, g) in found.into_iter().enumerate() {
        match g {
            Some(g) => list.append(bound(py, g)?)?,
            None if allow_unused => list.append(py.None())?,
            None => {
                return Err(to_py(Error::runtime(format!(
                    "The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
                ))));
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
    ag::check_history(t)?;
    ag::grad_fn(t).map(|n| Ok(node_object(py, n).pend(py)?.into_ptr())).transpose()
}

/// The node and output number at which gradients of a tensor arrive.
#[pyfunction]
fn _gradient_edge<'py>(py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, u32)> {
    let e = get(tensor).and_then(ag::gradient_edge).ok_or_else(|| {
        PyRuntimeError::new_err(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        )
    })?;
    Ok((node_object(py, e.node)?, e.nr))
}

#[pyfunction]
fn _set_anomaly(on: bool, check_nan: bool) {
    ag::set_anomaly_mode(on, check_nan);
}

#[pyfunction]
fn _anomaly() -> (bool, bool) {
    (ag::is_anomaly_enabled(), ag::is_anomaly_check_nan_enabled())
}

/// Says that the data was written.
#[pyfunction]
fn _increment_version(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let t = get(tensor).ok_or_else(|| PyTypeError::new_err("increment_version expects a Tensor"))?;
    // What inference mode made has no version.
    if !t.is_inference() {
        t.bump_version();
    }
    Ok(())
}

/// The lines of the program that run now, as in a traceback.
fn whereabouts() -> String {
    gate::attach(|py| {
        let lines = || -> PyResult<String> {
            let stack = py.import("traceback")?.call_method0("format_stack")?;
            Ok(stack.extract::<Vec<String>>()?.concat())
        };
        lines().unwrap_or_default()
    })
}

/// A warning for the user; an error where warnings are errors.
fn warn(text: &str) -> Result<()> {
    gate::attach(|py| {
        let text = std::ffi::CString::new(text).unwrap_or_default();
        // An exception that waits to be raised goes on waiting.
        let waiting = PyErr::take(py);
        let warned = PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), &text, 1);
        match waiting {
            Some(e) => {
                e.restore(py);
                Ok(())
            }
            None => warned.pend(py),
        }
    })
}

/// As `warn`; where warnings are errors, to the error stream.
fn report(text: &str) {
    if let Err(e) = warn(text) {
        gate::attach(|py| {
            let raised = to_py(e);
            let write = || py.import("sys")?.getattr("stderr")?.call_method1("write", (format!("{raised}\n"),));
            let _ = write();
        });
    }
}

fn poll() -> Result<()> {
    gate::breathe();
    gate::attach(gate::check_signals)
}

/// The number of the backward that runs; 0 outside.
#[pyfunction]
fn _backward_number() -> u64 {
    ag::backward_number()
}

#[pyfunction]
fn _backward_is_partial() -> bool {
    ag::backward_is_partial()
}

/// Returns whether the backward that runs reaches a node.
#[pyfunction]
fn _will_run(node: &Bound<'_, PyNode>) -> bool {
    ag::will_run(&node.get().0)
}

/// Adds the functions that only the package itself calls.
pub fn add_private(private: &Bound<'_, PyModule>) -> PyResult<()> {
    ag::set_anomaly_hooks(ag::AnomalyHooks { whereabouts, report });
    ag::set_poll(poll);
    oneflow_core::set_warn(warn);
    oneflow_kernels::set_notice(warn);
    private.setattr("_gradient_edge", wrap_pyfunction!(_gradient_edge, private)?)?;
    crate::saved::add_private(private)?;
    crate::halves::add_private(private)?;
    crate::interceptors::add_private(private)?;
    crate::subclass::add_private(private)?;
    private.setattr("_set_anomaly", wrap_pyfunction!(_set_anomaly, private)?)?;
    private.setattr("_anomaly", wrap_pyfunction!(_anomaly, private)?)?;
    private.setattr("_backward_number", wrap_pyfunction!(_backward_number, private)?)?;
    private.setattr("_backward_is_partial", wrap_pyfunction!(_backward_is_partial, private)?)?;
    private.setattr("_will_run", wrap_pyfunction!(_will_run, private)?)?;
    private.setattr("_queue_callback", wrap_pyfunction!(_queue_callback, private)?)?;
    private.setattr("_set_loss_scale", wrap_pyfunction!(_set_loss_scale, private)?)?;
    private.setattr("_increment_version", wrap_pyfunction!(_increment_version, private)?)
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

thread_local! {
    /// The effect of a graph's gradient scaler on the losses whose backward its build calls.
    static LOSS_SCALE: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
}

thread_local! {
    /// Callbacks for the end of the backward that runs on this thread.
    static AFTER_BACKWARD: RefCell<Vec<Py<PyAny>>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function when the backward that runs on this thread has accumulated all gradients.
#[pyfunction]
fn _queue_callback(function: Py<PyAny>) -> PyResult<()> {
    if ag::backward_number() == 0 && !ENDING.get() {
        return Err(PyRuntimeError::new_err("Final callbacks can only be installed during backward pass."));
    }
    AFTER_BACKWARD.with_borrow_mut(|all| all.push(function));
    Ok(())
}

/// The end of a backward: what was queued for it is called, or forgotten if it failed.
pub(crate) fn ended(py: Python<'_>, done: Result<()>) -> Result<()> {
    // One inside another's hook leaves it to the outer one.
    if ag::backward_number() != 0 {
        return done;
    }
    let mut queued = AFTER_BACKWARD.take();
    done?;
    let _ending = Ending(ENDING.replace(true));
    // What is called may queue more.
    while !queued.is_empty() {
        queued.iter().try_for_each(|f| f.call0(py).map(drop).pend(py))?;
        queued = AFTER_BACKWARD.take();
    }
    Ok(())
}

thread_local! {
    /// Returns whether the callbacks of the end of a backward are being called.
    static ENDING: Cell<bool> = const { Cell::new(false) };
}

struct Ending(bool);

impl Drop for Ending {
    fn drop(&mut self) {
        ENDING.set(self.0);
        AFTER_BACKWARD.take();
    }
}

/// Sets what losses go through before backward on this thread; returns what did so far.
#[pyfunction]
fn _set_loss_scale(scale: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
    LOSS_SCALE.replace(scale)
}

/// Tensors that backward starts from, multiplied by the scale where one is set.
fn scale_losses(py: Python<'_>, from: &mut [ag::Root]) -> PyResult<()> {
    let Some(scale) = LOSS_SCALE.with_borrow(|s| s.as_ref().map(|s| s.bind(py).clone())) else { return Ok(()) };
    for root in from {
        if let ag::Root::Tensor(loss) = root {
            let made = scale.call1((bound(py, loss.clone())?,))?;
            *loss = get(&made).cloned().ok_or_else(|| PyTypeError::new_err("a scaled loss must be a Tensor"))?;
        }
    }
    Ok(())
}

/// Runs the engine. During its long launches, and in a pause now and then, other Python threads run. If there are other
/// ranks, it may wait for them, which may be threads of this process: then all of it runs without the interpreter.
fn engine<R>(py: Python<'_>, f: impl FnOnce() -> R) -> R {
    if oneflow_comm::world().size() > 1 {
        return gate::detach(py, f);
    }
    let _may = MayRelease::new(true);
    f()
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
        Some(i) if get(&i).is_some() => Some(vec![root(&i, "inputs").pend(py)?]),
        Some(i) => Some(roots(&i, "inputs").pend(py)?),
    };
    if inputs.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::runtime("`inputs` argument to `backward()` cannot be empty."));
    }
    let mut from = [ag::Root::Tensor(t.clone())];
    scale_losses(py, &mut from).pend(py)?;
    let grads = [gradient];
    let done = nested(py, || ag::backward_from(&from, &grads, retain, create, inputs.as_deref()));
    ended(py, done)?;
    gate::check_signals(py)
}
