//! Traces at several sizes as one program. Python chooses the sizes.

use crate::gate::run;
use crate::graph::{CompiledGraph, config};
use oneflow_core::base::{Error, Result};
use oneflow_graph::{Check, Config, Points, Traced, compile_at_sizes, compile_parts_at_sizes, unfollowed};
use oneflow_runtime::{NamedDim, Read};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, MutexGuard};

/// A trace that has ended and is not compiled yet.
#[pyclass(frozen, module = "oneflow", name = "_TracedStep")]
pub struct TracedStep(Mutex<Option<Traced>>);

impl TracedStep {
    pub(crate) fn new(traced: Traced) -> TracedStep {
        TracedStep(Mutex::new(Some(traced)))
    }

    fn held(&self) -> MutexGuard<'_, Option<Traced>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn take(&self) -> Result<Traced> {
        self.held().take().ok_or_else(gone)
    }
}

#[cold]
fn gone() -> Error {
    Error::runtime("the trace was compiled already")
}

/// A dimension as Python says it: name, range, step and start of its sizes, and where the inputs have it (input, axis, factor,
/// constant).
type Dim = (String, i64, i64, i64, i64, Option<(u32, u32, i64, i64)>);

fn points(dims: Vec<Dim>, sizes: Vec<Vec<i64>>, n_traced: usize) -> Result<Points> {
    let n = dims.len();
    let dims = dims.into_iter().map(|(name, min, max, step, start, read)| {
        let read = read.map(|(input, axis, factor, constant)| Read { input, axis, factor, constant });
        NamedDim { name, min, max, step, start, read }
    });
    if sizes.iter().any(|s| s.len() != n) || sizes.len() < 1 + n + n * n.saturating_sub(1) / 2 {
        return Err(Error::value("a program for many sizes: there are too few sizes to trace at"));
    }
    if n_traced != sizes.len() {
        return Err(Error::value("a program for many sizes: one trace a point is expected"));
    }
    Ok(Points { dims: dims.collect(), sizes })
}

/// A trace at further sizes.
type CheckOf<'py> = (Vec<i64>, PyRef<'py, TracedStep>);

fn traces(at: &[PyRef<'_, TracedStep>], checks: &[CheckOf<'_>]) -> Result<(Vec<Traced>, Vec<Check>)> {
    let at = at.iter().map(|t| t.take()).collect::<Result<_>>()?;
    let check = |(sizes, t): &CheckOf<'_>| Ok(Check { sizes: sizes.clone(), traced: t.take()? });
    Ok((at, checks.iter().map(check).collect::<Result<_>>()?))
}

/// Compiles the traces of a step at several sizes as one program. `checks`: traces at further sizes, which must follow.
#[pyfunction]
#[pyo3(signature = (traced, checks, dims, sizes, **options))]
fn _compile_at_sizes(
    traced: Vec<PyRef<'_, TracedStep>>,
    checks: Vec<CheckOf<'_>>,
    dims: Vec<Dim>,
    sizes: Vec<Vec<i64>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<CompiledGraph> {
    let config = config(options)?;
    run(|| {
        let points = points(dims, sizes, traced.len())?;
        let (traced, checks) = traces(&traced, &checks)?;
        Ok(CompiledGraph::local(compile_at_sizes(traced, &checks, &points, &config)?))
    })
}

/// The same of traces that were cut; the first `n_outputs` results belong to the forward part.
#[pyfunction]
#[pyo3(signature = (traced, checks, n_outputs, dims, sizes, **options))]
fn _compile_parts_at_sizes(
    traced: Vec<PyRef<'_, TracedStep>>,
    checks: Vec<CheckOf<'_>>,
    n_outputs: usize,
    dims: Vec<Dim>,
    sizes: Vec<Vec<i64>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(CompiledGraph, CompiledGraph, Vec<usize>, usize)> {
    let config = Config { precompute: false, ..config(options)? };
    run(|| {
        let points = points(dims, sizes, traced.len())?;
        let (traced, checks) = traces(&traced, &checks)?;
        let (f, b, saved, n) = compile_parts_at_sizes(traced, &checks, n_outputs, &points, &config)?;
        Ok((CompiledGraph::local(f), CompiledGraph::local(b), saved, n))
    })
}

/// Which of these traces are not what those at the points say: its place, and the ops at which it is another program first.
#[pyfunction]
fn _unfollowed(
    traced: Vec<PyRef<'_, TracedStep>>,
    checks: Vec<CheckOf<'_>>,
    dims: Vec<Dim>,
    sizes: Vec<Vec<i64>>,
) -> PyResult<Vec<(usize, Vec<String>)>> {
    run(|| {
        let points = points(dims, sizes, traced.len())?;
        let held: Vec<_> = traced.iter().map(|t| t.held()).collect();
        let at = held.iter().map(|t| t.as_ref().ok_or_else(gone)).collect::<Result<Vec<_>>>()?;
        let held: Vec<_> = checks.iter().map(|(_, t)| t.held()).collect();
        let others =
            checks.iter().zip(&held).map(|((sizes, _), t)| Ok((sizes.as_slice(), t.as_ref().ok_or_else(gone)?)));
        unfollowed(&at, &others.collect::<Result<Vec<_>>>()?, &points)
    })
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<TracedStep>()?;
    m.add_function(wrap_pyfunction!(_compile_at_sizes, m)?)?;
    m.add_function(wrap_pyfunction!(_compile_parts_at_sizes, m)?)?;
    m.add_function(wrap_pyfunction!(_unfollowed, m)?)
}
