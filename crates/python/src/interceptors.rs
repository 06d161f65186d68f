//! Interceptors that are written in Python: they see an op's name and arguments, and may give its results.

use crate::gate::{self, OrPending, Shared, run};
use crate::object::{bound, get};
use crate::traced::argument;
use oneflow_core::base::{Arg, Error, Result};
use oneflow_core::{Call, Dest, Interceptor, Tensor, Ty, pop_interceptor, push_interceptor};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Arc;

/// `before(op, arguments by name, whether it writes)` gives None or a list of results; `after(results)` follows where it gave None.
struct PythonInterceptor {
    before: Shared,
    after: Shared,
}

impl Interceptor for PythonInterceptor {
    fn before(&self, c: &Call<'_>) -> Result<Option<Vec<Tensor>>> {
        gate::attach(|py| {
            let ask = || {
                let writes = matches!(c.dest, Dest::Into(_));
                self.before.bind(py).call1((c.op.name(), arguments(py, c)?, writes))
            };
            let found = ask().pend(py)?;
            if found.is_none() {
                return Ok(None);
            }
            let tensors = found.try_iter().pend(py)?.map(|t| tensor(py, t)).collect::<Result<_>>()?;
            Ok(Some(tensors))
        })
    }

    fn after(&self, _: &Call<'_>, outs: &[Tensor]) -> Result<()> {
        gate::attach(|py| {
            let tell = || {
                let outs = outs.iter().map(|t| bound(py, t.shallow())).collect::<PyResult<Vec<_>>>()?;
                self.after.bind(py).call1((PyList::new(py, outs)?,))
            };
            tell().map(drop).pend(py)
        })
    }
}

/// A result of another identity than the object that was given, so that the history it gets is its own.
fn tensor(py: Python<'_>, item: PyResult<Bound<'_, PyAny>>) -> Result<Tensor> {
    let item = item.pend(py)?;
    get(&item).map(Tensor::shallow).ok_or_else(|| Error::type_("an interceptor's results must be Tensors"))
}

fn arguments<'py>(py: Python<'py>, c: &Call<'_>) -> PyResult<Bound<'py, PyDict>> {
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
            None if p.is_arg() => argument(py, arg)?,
            None => py.None().into_bound(py),
        };
        given.set_item(p.name, value)?;
    }
    Ok(given)
}

/// Lets `before` and `after` see the calls of this thread, below autograd, before those that were pushed earlier.
#[pyfunction]
fn _push_interceptor(before: Bound<'_, PyAny>, after: Bound<'_, PyAny>) {
    push_interceptor(Arc::new(PythonInterceptor { before: Shared::new(before), after: Shared::new(after) }));
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
