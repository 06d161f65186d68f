//! Traces at several sizes as one program. Python chooses the sizes.

use crate::gate::run;
use crate::graph::{CompiledGraph, config};
use crate::operators::SIGNS;
use oneflow_core::base::{Error, Result};
use oneflow_graph::{
    Check, Config, Decision, Number64, Points, Solver, Traced, compile_at_sizes, compile_parts_at_sizes, guards_of,
    guards_of_traces, unfollowed,
};
use oneflow_runtime::{Asked, Formula, NamedDim, Polynomial, Read};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Mutex, MutexGuard};

/// A trace that has ended. Compiling copies it: traces at sizes that come later may be compared with it.
#[pyclass(frozen, module = "oneflow", name = "_TracedStep")]
pub struct TracedStep(Mutex<Traced>);

impl TracedStep {
    pub(crate) fn new(traced: Traced) -> TracedStep {
        TracedStep(Mutex::new(traced))
    }

    fn held(&self) -> MutexGuard<'_, Traced> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
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

fn traces(at: &[PyRef<'_, TracedStep>], checks: &[CheckOf<'_>]) -> (Vec<Traced>, Vec<Check>) {
    let check = |(sizes, t): &CheckOf<'_>| Check { sizes: sizes.clone(), traced: t.held().clone() };
    (at.iter().map(|t| t.held().clone()).collect(), checks.iter().map(check).collect())
}

/// What Python asked of sizes in one trace: the operator's name, two integers, the answer and the line.
type Asks = Vec<(String, i64, i64, i64, String)>;

fn decisions(traced: Vec<Asks>) -> Result<Vec<Vec<Decision>>> {
    let one = |(asked, a, b, answer, place): (String, i64, i64, i64, String)| {
        let unknown = || Error::value(format!("guards: no question is called {asked:?}"));
        let sign = SIGNS.iter().find(|s| s.0 == asked).map_or("", |s| s.1);
        Ok(Decision { asked: Asked::parse(sign).ok_or_else(unknown)?, a, b, answer, place })
    };
    traced.into_iter().map(|t| t.into_iter().map(one).collect()).collect()
}

/// Compiles the traces of a step at several sizes as one program. `checks`: traces at further sizes, which must follow.
/// `asked`: for each of the traces what Python asked of sizes.
#[pyfunction]
#[pyo3(signature = (traced, checks, dims, sizes, asked, **options))]
fn _compile_at_sizes(
    traced: Vec<PyRef<'_, TracedStep>>,
    checks: Vec<CheckOf<'_>>,
    dims: Vec<Dim>,
    sizes: Vec<Vec<i64>>,
    asked: Vec<Asks>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<CompiledGraph> {
    let config = config(options)?;
    run(|| {
        let points = points(dims, sizes, traced.len())?;
        let (traced, checks) = traces(&traced, &checks);
        let guards = guards_of_traces(&traced, &decisions(asked)?, &points)?;
        Ok(CompiledGraph::local(compile_at_sizes(traced, &checks, &points, guards, &config)?))
    })
}

/// The same of traces that were cut; the first `n_outputs` results belong to the forward part.
#[pyfunction]
#[pyo3(signature = (traced, checks, n_outputs, dims, sizes, asked, **options))]
fn _compile_parts_at_sizes(
    traced: Vec<PyRef<'_, TracedStep>>,
    checks: Vec<CheckOf<'_>>,
    n_outputs: usize,
    dims: Vec<Dim>,
    sizes: Vec<Vec<i64>>,
    asked: Vec<Asks>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<(CompiledGraph, CompiledGraph, Vec<usize>, usize)> {
    let config = Config { precompute: false, ..config(options)? };
    run(|| {
        let points = points(dims, sizes, traced.len())?;
        let (traced, checks) = traces(&traced, &checks);
        let guards = guards_of_traces(&traced, &decisions(asked)?, &points)?;
        let (f, b, saved, n) = compile_parts_at_sizes(traced, &checks, n_outputs, &points, guards, &config)?;
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
        let at: Vec<&Traced> = held.iter().map(|t| &**t).collect();
        let held: Vec<_> = checks.iter().map(|(_, t)| t.held()).collect();
        let others: Vec<(&[i64], &Traced)> =
            checks.iter().zip(&held).map(|((sizes, _), t)| (sizes.as_slice(), &**t)).collect();
        unfollowed(&at, &others, &points)
    })
}

/// A polynomial: factors with the numbers of their dimensions, and the denominator.
type Terms = (Vec<(i64, Vec<u8>)>, i64);

/// A guard: the operator's name, two polynomials, the answer and the line.
type GuardOf = (String, Terms, Terms, i64, String);

fn terms(p: &Polynomial) -> Terms {
    (p.terms.iter().map(|t| (t.factor, t.dims.clone())).collect(), p.denominator)
}

/// The guards of traces at several sizes that the ranges of the dimensions do not settle: the operator's name, two
/// polynomials, the answer and the line. `known`: numbers of the traces that help to solve others.
#[pyfunction]
fn _guards_of(asked: Vec<Asks>, dims: Vec<Dim>, sizes: Vec<Vec<i64>>, known: Vec<Vec<i64>>) -> PyResult<Vec<GuardOf>> {
    run(|| {
        let points = points(dims, sizes, asked.len())?;
        let guards = guards_of(&decisions(asked)?, &points, &known)?;
        let name = |asked: Asked| SIGNS.iter().find(|s| s.1 == asked.sign()).map_or("", |s| s.0);
        Ok(guards.into_iter().map(|g| (name(g.asked).into(), terms(&g.a), terms(&g.b), g.answer, g.place)).collect())
    })
}

/// Integers of several traces as polynomials of the named dimensions. What was solved helps with what comes later.
#[pyclass(module = "oneflow", name = "_SizeSolver")]
struct SizeSolver(Solver<'static>);

#[pymethods]
impl SizeSolver {
    #[new]
    fn new(dims: Vec<Dim>, sizes: Vec<Vec<i64>>) -> PyResult<SizeSolver> {
        let n = sizes.len();
        run(|| Ok(SizeSolver(Solver::owning(points(dims, sizes, n)?))))
    }
    /// The polynomial that has these values at the sizes, or None.
    fn solve(&mut self, values: Vec<i64>) -> Option<Terms> {
        let columns: Vec<Vec<Number64>> = values.iter().map(|n| vec![Number64::Int(*n)]).collect();
        match self.0.solve(&columns).ok()?.pop()? {
            Some(Formula::Value(p)) => Some(terms(&p)),
            None => values.first().map(|n| (vec![(*n, Vec::new())], 1)),
            Some(Formula::Quotient(..)) => None,
        }
    }
}

/// While `class` is given, sizes of tensors that this thread traces are its instances, not plain ints.
#[pyfunction]
#[pyo3(signature = (class=None))]
fn _record_sizes(class: Option<Bound<'_, PyAny>>) {
    crate::size::record(class);
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<TracedStep>()?;
    m.add_class::<SizeSolver>()?;
    m.add_function(wrap_pyfunction!(_guards_of, m)?)?;
    m.add_function(wrap_pyfunction!(_record_sizes, m)?)?;
    m.add_function(wrap_pyfunction!(_compile_at_sizes, m)?)?;
    m.add_function(wrap_pyfunction!(_compile_parts_at_sizes, m)?)?;
    m.add_function(wrap_pyfunction!(_unfollowed, m)?)
}
