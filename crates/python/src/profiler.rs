//! The recorder as Python sees it: sessions, events, named regions, and where the program stands.
//!
//! Sums, tables and files are produced in `oneflow.profiler`.

use crate::gate::{self, run};
use oneflow_profiler::{Event, EventKind, Frame, Options};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// One recorded event.
#[pyclass(frozen, name = "_Event", module = "oneflow._oneflow")]
struct PyEvent(Event);

#[pymethods]
impl PyEvent {
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind {
            EventKind::Op => "op",
            EventKind::Backward => "backward",
            EventKind::Actor => "actor",
            EventKind::Instruction => "instruction",
            EventKind::User => "user",
            EventKind::Module => "module",
            EventKind::Memory => "memory",
        }
    }
    #[getter]
    fn name(&self) -> String {
        let end = if self.0.in_place { "_" } else { "" };
        format!("{}{end}", self.0.name)
    }
    /// Nanoseconds of a monotonic clock.
    #[getter]
    fn start(&self) -> u64 {
        self.0.start
    }
    #[getter]
    fn end(&self) -> u64 {
        self.0.end
    }
    /// Position in the thread's list of the event that this is a part of, or -1.
    #[getter]
    fn parent(&self) -> i64 {
        self.0.parent
    }
    #[getter]
    fn sequence_nr(&self) -> u64 {
        self.0.seq
    }
    #[getter]
    fn flops(&self) -> f64 {
        self.0.flops
    }
    /// Whether the operations are sums of products.
    #[getter]
    fn products(&self) -> bool {
        self.0.products
    }
    #[getter]
    fn bytes(&self) -> i64 {
        self.0.bytes
    }
    #[getter]
    fn address(&self) -> usize {
        self.0.address
    }
    #[getter]
    fn device(&self) -> String {
        self.0.device.to_string()
    }
    /// Sizes of the inputs; an absent one has none.
    #[getter]
    fn shapes(&self) -> Option<Vec<Vec<i64>>> {
        let operands = self.0.operands.as_ref()?;
        Some(operands.iter().map(|o| o.as_ref().map_or(Vec::new(), |o| o.sizes.to_vec())).collect())
    }
    #[getter]
    fn dtypes(&self) -> Option<Vec<&'static str>> {
        let operands = self.0.operands.as_ref()?;
        Some(operands.iter().map(|o| o.as_ref().map_or("", |o| o.dtype.name())).collect())
    }
    /// The program's own lines as (file, line, function), innermost first.
    #[getter]
    fn stack(&self) -> Vec<(String, i32, String)> {
        let Some(stack) = &self.0.stack else { return Vec::new() };
        let codes = codes();
        let frame = |f: &Frame| codes.get(&f.code).map(|c| (c.file.clone(), f.line, c.function.clone()));
        stack.iter().filter_map(frame).collect()
    }
}

/// A named region: `begin` and `end` are to be called on one thread.
#[pyfunction]
#[pyo3(signature = (name, module=false))]
fn _span_begin(name: String, module: bool) -> Option<u64> {
    let kind = if module { EventKind::Module } else { EventKind::User };
    oneflow_core::is_watching().then(|| oneflow_profiler::begin(kind, name.into(), 0, false, None))
}

#[pyfunction]
fn _span_end(token: u64) {
    oneflow_profiler::end(token);
}

/// Opens a session and returns its number.
#[pyfunction]
#[pyo3(signature = (*, shapes=false, stacks=false, memory=false, flops=false))]
fn _profiler_start(shapes: bool, stacks: bool, memory: bool, flops: bool) -> u64 {
    oneflow_profiler::start(Options { shapes, stacks, memory, flops })
}

/// The events of a session so far: (thread, events in the order of their beginnings) of each thread.
#[pyfunction]
fn _profiler_events<'py>(py: Python<'py>, session: u64) -> PyResult<Bound<'py, PyList>> {
    let threads = run(|| Ok(oneflow_profiler::events(session)))?;
    let list = PyList::empty(py);
    for thread in threads {
        let events = PyList::empty(py);
        for e in thread.events {
            events.append(Py::new(py, PyEvent(e))?)?;
        }
        let entry: [Bound<'py, PyAny>; 2] = [thread.id.into_pyobject(py)?.into_any(), events.into_any()];
        list.append(PyTuple::new(py, entry)?)?;
    }
    Ok(list)
}

#[pyfunction]
fn _profiler_stop(session: u64) {
    oneflow_profiler::stop(session);
}

/// Forgets all sessions, in the child of a fork.
#[pyfunction]
fn _profiler_forget() {
    oneflow_profiler::forget();
}

/// Returns whether any session records.
#[pyfunction]
fn _profiler_on() -> bool {
    oneflow_core::is_watching()
}

/// A function of the program. Kept for the life of the process, so that its address stays its own.
struct Code {
    _keep: Py<PyAny>,
    file: String,
    function: String,
    /// Returns whether it is the package's and not the user's.
    ours: bool,
}

static CODES: Mutex<Option<HashMap<usize, Code>>> = Mutex::new(None);
static PACKAGE: OnceLock<String> = OnceLock::new();

struct Codes(MutexGuard<'static, Option<HashMap<usize, Code>>>);

impl std::ops::Deref for Codes {
    type Target = HashMap<usize, Code>;
    fn deref(&self) -> &Self::Target {
        static NONE: std::sync::LazyLock<HashMap<usize, Code>> = std::sync::LazyLock::new(HashMap::new);
        self.0.as_ref().unwrap_or(&NONE)
    }
}

fn codes() -> Codes {
    Codes(CODES.lock().unwrap_or_else(|e| e.into_inner()))
}

/// The frames of the user's own functions on this thread, innermost first.
fn stack() -> Option<Arc<[Frame]>> {
    gate::attach(|py| frames(py).ok()).filter(|f| !f.is_empty()).map(Into::into)
}

fn frames(py: Python<'_>) -> PyResult<Vec<Frame>> {
    let mut found = Vec::new();
    // SAFETY: the interpreter is held; the frame is borrowed from the running thread, or null.
    let mut frame = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    while let Some(f) = frame {
        // SAFETY: a live frame object; a new reference comes back.
        let code = unsafe { Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(f.as_ptr().cast()).cast()) };
        if !is_ours(&code)? {
            // SAFETY: a live frame object.
            let line = unsafe { ffi::PyFrame_GetLineNumber(f.as_ptr().cast()) };
            found.push(Frame { code: code.as_ptr() as usize, line });
        }
        let back = f.getattr("f_back")?;
        frame = (!back.is_none()).then_some(back);
    }
    Ok(found)
}

fn is_ours(code: &Bound<'_, PyAny>) -> PyResult<bool> {
    let key = code.as_ptr() as usize;
    if let Some(c) = codes().get(&key) {
        return Ok(c.ours);
    }
    let file: String = code.getattr("co_filename")?.extract()?;
    let function: String = code.getattr("co_name")?.extract()?;
    let ours = PACKAGE.get().is_some_and(|p| file.starts_with(p.as_str()));
    let new = Code { _keep: code.clone().unbind(), file, function, ours };
    codes().0.get_or_insert_default().insert(key, new);
    Ok(ours)
}

/// Sets the package's folder, whose own frames are left out of stacks.
#[pyfunction]
fn _profiler_package(directory: String) {
    let _ = PACKAGE.set(directory);
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_profiler::register();
    oneflow_profiler::set_stack_source(stack);
    m.add_class::<PyEvent>()?;
    m.add_function(wrap_pyfunction!(_span_begin, m)?)?;
    m.add_function(wrap_pyfunction!(_span_end, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_start, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_events, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_stop, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_forget, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_on, m)?)?;
    m.add_function(wrap_pyfunction!(_profiler_package, m)?)
}
