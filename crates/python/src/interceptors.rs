//! Interceptors that are written in Python: they see an op's name and arguments, and run it or give its results.

use crate::classes;
use crate::gate::{self, OrPending, Shared, run};
use crate::generator::PyGenerator;
use crate::object::{bound, get};
use crate::traced::argument;
use oneflow_core::base::{Arg, Error, Result};
use oneflow_core::{Call, Dest, Generator, Interceptor, Tensor, Ty, pop_interceptor, push_interceptor};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

/// `around(op, arguments by name, tensors that are written or None, run)` gives a list of results, or None for those of `run()`.
struct PythonInterceptor {
    around: Shared,
}

impl Interceptor for PythonInterceptor {
    fn around(&self, c: &Call<'_>, run: &mut Run<'_>) -> Result<Option<Vec<Tensor>>> {
        gate::attach(|py| {
            let found = asked(py, c, run, |run| {
                self.around.bind(py).call1((c.op.name(), arguments(py, c)?, written(py, c)?, run))
            })?;
            if found.is_none() {
                return Ok(None);
            }
            let tensors = found.try_iter().pend(py)?.map(|t| tensor(py, t)).collect::<Result<_>>()?;
            Ok(Some(tensors))
        })
    }
}

pub type Run<'a> = dyn FnMut() -> Result<Vec<Tensor>> + 'a;

/// What `ask` returns, which may run the call while it is asked.
pub fn asked<'py>(
    py: Python<'py>,
    c: &Call<'_>,
    run: &mut Run<'_>,
    ask: impl FnOnce(Bound<'py, Running>) -> PyResult<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let writes = matches!(c.dest, Dest::Into(_));
    // SAFETY: only the lifetime changes, and `Ended` takes the pointer back before this borrow of `run` ends.
    let run = unsafe { std::mem::transmute::<NonNull<Run<'_>>, NonNull<Run<'static>>>(NonNull::from(run)) };
    let running = Bound::new(py, Running { run: Cell::new(Some(run)), writes }).pend(py)?;
    let _ended = Ended(running.clone());
    ask(running).pend(py)
}

/// The tensors that a call writes, in a list, or None.
pub fn written<'py>(py: Python<'py>, c: &Call<'_>) -> PyResult<Bound<'py, PyAny>> {
    let Dest::Into(dest) = c.dest else { return Ok(py.None().into_bound(py)) };
    let objects = dest.iter().map(|t| bound(py, (*t).clone())).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, objects)?.into_any())
}

/// A call that an interceptor stands for, as a function without arguments that runs it and returns its results.
#[pyclass(unsendable, module = "oneflow._oneflow")]
pub struct Running {
    run: Cell<Option<NonNull<Run<'static>>>>,
    writes: bool,
}

#[pymethods]
impl Running {
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let Some(mut call) = self.run.take() else {
            return Err(PyRuntimeError::new_err("the call has run already, or is over"));
        };
        // SAFETY: the closure lives until `Ended` has taken the pointer, which is here once at a time.
        let made = run(|| unsafe { call.as_mut() }())?;
        // New results get their history later, as those of another identity.
        let object = |t: Tensor| bound(py, if self.writes { t } else { t.shallow() });
        PyList::new(py, made.into_iter().map(object).collect::<PyResult<Vec<_>>>()?)
    }
}

/// Ends a `Running`, however its interceptor returns.
struct Ended<'py>(Bound<'py, Running>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.borrow().run.set(None);
    }
}

/// A result of another identity than the object that was given, so that the history it gets is its own.
fn tensor(py: Python<'_>, item: PyResult<Bound<'_, PyAny>>) -> Result<Tensor> {
    let item = item.pend(py)?;
    get(&item).map(Tensor::shallow).ok_or_else(|| Error::type_("an interceptor's results must be Tensors"))
}

/// The arguments of a call by name.
pub fn arguments<'py>(py: Python<'py>, c: &Call<'_>) -> PyResult<Bound<'py, PyDict>> {
    let given = PyDict::new(py);
    let object = |t: Option<&Tensor>| t.map(|t| bound(py, t.clone())).transpose();
    let (mut i, mut a) = (0, 0);
    for p in c.op.sig.params() {
        let arg = if p.is_arg() { c.args.get(a).copied().unwrap_or(Arg::None) } else { Arg::None };
        a += p.is_arg() as usize;
        if p.ty == Ty::TensorList {
            let n = if let Arg::Len(n) = arg { n as usize } else { 0 };
            let end = (i + n).min(c.ins.len());
            let list = c.ins[i.min(end)..end].iter().map(|t| object(*t)).collect::<PyResult<Vec<_>>>()?;
            given.set_item(p.name, PyList::new(py, list)?)?;
            i = end;
            continue;
        }
        let mut value = None;
        if p.is_input() {
            value = object(c.ins.get(i).copied().flatten())?;
            i += 1;
        }
        let value = match value {
            Some(t) => t,
            None if p.is_arg() => as_given(py, p.ty, arg)?,
            None => py.None().into_bound(py),
        };
        given.set_item(p.name, value)?;
    }
    Ok(given)
}

/// An argument as a program gives it. A generator is one that starts where the call's numbers do.
fn as_given<'py>(py: Python<'py>, ty: Ty, arg: Arg<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match arg {
        Arg::DType(d) => classes::dtype_object(py, d)?.bind(py).clone().into_any(),
        Arg::Device(d) => classes::device_object(py, d)?.into_bound(py).into_any(),
        Arg::Rng { seed, offset } => Bound::new(py, PyGenerator::over(Generator::at(seed, offset)))?.into_any(),
        Arg::Sym(_) if ty == Ty::MemoryFormat => py.import("oneflow")?.getattr(arg.str().unwrap_or_default())?,
        _ => argument(py, arg)?,
    })
}

/// Lets `around` stand for the calls of this thread, below autograd, before those that were pushed earlier.
#[pyfunction]
fn _push_interceptor(around: Bound<'_, PyAny>) {
    push_interceptor(Arc::new(PythonInterceptor { around: Shared::new(around) }));
}

/// Ends the latest `_push_interceptor`.
#[pyfunction]
fn _pop_interceptor() -> PyResult<()> {
    run(|| {
        pop_interceptor();
        Ok(())
    })
}

/// Adds the functions that only the package itself calls.
pub fn add_private(private: &Bound<'_, PyModule>) -> PyResult<()> {
    private.setattr("_push_interceptor", wrap_pyfunction!(_push_interceptor, private)?)?;
    private.setattr("_pop_interceptor", wrap_pyfunction!(_pop_interceptor, private)?)
}
