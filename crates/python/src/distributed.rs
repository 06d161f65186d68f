//! Process groups as Python sees them: joining a job, collectives over tensors in host memory, ranks as threads.

use crate::gate::{self, run, to_py};
use crate::object::get;
use oneflow_comm::{DEFAULT_TIMEOUT, Kind, ProcessGroup, ReduceOp, Request, Span, Work, fake, rendezvous};
use oneflow_comm::{set_process_group, set_thread_group, world};
use oneflow_core::base::Error;
use oneflow_core::{Storage, Tensor, bit, default_generator, set_thread_generator};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn seconds(timeout: Option<f64>, default: Duration) -> PyResult<Duration> {
    match timeout {
        None => Ok(default),
        Some(s) => Duration::try_from_secs_f64(s)
            .map_err(|_| PyValueError::new_err(format!("timeout must be a number of seconds, got {s}"))),
    }
}

/// A group of ranks.
#[pyclass(frozen, name = "_ProcessGroup", module = "oneflow.distributed")]
pub struct PyGroup(Arc<dyn ProcessGroup>);

/// A running collective.
///
/// Example::
///
///     >>> def rank():
///     ...     x = oneflow.ones(2)
///     ...     work = oneflow.distributed.all_reduce(x, async_op=True)
///     ...     work.wait()
///     ...     return x.tolist()
///     >>> oneflow.testing.run_ranks(2, rank)
///     [[2.0, 2.0], [2.0, 2.0]]
#[pyclass(frozen, name = "Work", module = "oneflow.distributed")]
pub struct PyWork(Work);

#[pymethods]
impl PyWork {
    /// Waits; raises the error of the collective.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = timeout.map(|t| seconds(Some(t), DEFAULT_TIMEOUT)).transpose()?;
        run(|| gate::detach(py, || self.0.wait(timeout)))?;
        Ok(true)
    }
    fn is_completed(&self) -> bool {
        self.0.test().is_some()
    }
}

fn tensor<'a>(o: &'a Bound<'_, PyAny>, what: &str) -> PyResult<&'a Tensor> {
    let t = get(o).ok_or_else(|| PyTypeError::new_err(format!("{what} must be a Tensor")))?;
    if t.has_key(bit::GLOBAL) {
        return Err(to_py(Error::runtime(format!("{what} is a global tensor; collectives take local ones"))));
    }
    if t.has_key(bit::LAZY) {
        return Err(to_py(Error::not_implemented(format!(
            "{what} is traced; inside nn.Graph collectives are those that global tensors bring (to_global)"
        ))));
    }
    if !t.device().is_cpu() || t.storage().is_none() {
        return Err(to_py(Error::not_implemented(format!(
            "{what} is on {}; the backends here are for cpu",
            t.device()
        ))));
    }
    if !t.is_contiguous() {
        return Err(PyValueError::new_err(format!("{what} must be contiguous")));
    }
    t.check_memory().map_err(to_py)?;
    Ok(t)
}

fn span(t: &Tensor) -> Span {
    match t.numel() {
        0 => Span::EMPTY,
        n => Span { ptr: t.data_ptr(), len: n as usize * t.dtype().size() },
    }
}

fn reduce_op(name: Option<&str>) -> PyResult<ReduceOp> {
    let Some(name) = name else { return Ok(ReduceOp::Sum) };
    ReduceOp::from_name(name).ok_or_else(|| PyValueError::new_err(format!("unknown reduce op {name:?}")))
}

#[pymethods]
impl PyGroup {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn size(&self) -> usize {
        self.0.size()
    }
    fn ranks(&self) -> Vec<usize> {
        self.0.ranks().to_vec()
    }
    fn backend(&self) -> &'static str {
        self.0.backend()
    }
    fn new_group(&self, py: Python<'_>, ranks: Vec<usize>) -> PyResult<Option<PyGroup>> {
        Ok(run(|| gate::detach(py, || self.0.new_group(&ranks)))?.map(PyGroup))
    }
    fn abort(&self, reason: &str) {
        self.0.abort(reason);
    }
    fn close(&self) {
        self.0.close();
    }
    /// Makes this group the world of the calling thread, with a generator of its own that starts where the process's stands.
    fn enter_thread(&self) {
        set_thread_generator(Some(default_generator().fork()));
        set_thread_group(Some(self.0.clone()));
    }
    /// The calling thread belongs to the process's world again.
    #[staticmethod]
    fn leave_thread() {
        set_thread_group(None);
        set_thread_generator(None);
    }

    /// Issues one collective over up to two tensors: `output` is written, `input` read (or `output` both).
    #[pyo3(signature = (kind, output, input=None, *, op=None, peer=0, tag=0))]
    fn issue(
        &self,
        kind: &str,
        output: &Bound<'_, PyAny>,
        input: Option<&Bound<'_, PyAny>>,
        op: Option<&str>,
        peer: usize,
        tag: u32,
    ) -> PyResult<PyWork> {
        let out = tensor(output, "output")?;
        let inp = input.map(|i| tensor(i, "input")).transpose()?;
        if let Some(i) = inp
            && i.dtype() != out.dtype()
        {
            return Err(PyTypeError::new_err(format!("{kind}: tensors have dtypes {} and {}", out.dtype(), i.dtype())));
        }
        let need = || inp.ok_or_else(|| PyTypeError::new_err(format!("{kind}: needs an input tensor")));
        let (dtype, op, n) = (out.dtype(), reduce_op(op)?, self.0.size());
        let even = |t: &Tensor| vec![t.numel() as usize / n; n];
        let kind = Kind::from_name(kind).ok_or_else(|| PyValueError::new_err(format!("no collective is {kind:?}")))?;
        let request = match kind {
            Kind::AllReduce => Request::AllReduce { data: span(out), dtype, op },
            Kind::Broadcast => Request::Broadcast { data: span(out), dtype, root: peer },
            Kind::Reduce => Request::Reduce { data: span(out), dtype, op, root: peer },
            Kind::AllGather => {
                let i = need()?;
                Request::AllGather { output: span(out), input: span(i), counts: vec![i.numel() as usize; n], dtype }
            }
            Kind::ReduceScatter => Request::ReduceScatter {
                output: span(out),
                input: span(need()?),
                counts: vec![out.numel() as usize; n],
                dtype,
                op,
            },
            Kind::AllToAll => {
                let i = need()?;
                Request::AllToAll {
                    output: span(out),
                    recv_counts: even(out),
                    input: span(i),
                    send_counts: even(i),
                    dtype,
                }
            }
            Kind::Gather => {
                let i = need()?;
                let output = if self.0.rank() == peer { span(out) } else { Span::EMPTY };
                Request::Gather { output, input: span(i), dtype, root: peer }
            }
            Kind::Scatter => {
                let input = if self.0.rank() == peer { span(need()?) } else { Span::EMPTY };
                Request::Scatter { output: span(out), input, dtype, root: peer }
            }
            Kind::Send => Request::Send { data: span(out), dtype, dst: peer, tag },
            Kind::Recv => Request::Recv { data: span(out), dtype, src: peer, tag },
            Kind::Barrier => Request::Barrier,
        };
        let kept = |t: &Tensor| Box::new((t.clone(), t.storage().map(Storage::pin)));
        let kept = [Some(kept(out)), inp.map(kept)];
        // SAFETY: the work keeps the tensors and their memory until it is complete; that nobody writes to them meanwhile is the
        // user's part of the contract of a collective, as in torch.
        let work = run(|| unsafe { self.0.issue(request) })?;
        kept.into_iter().flatten().for_each(|k| work.keep_alive(k));
        if !matches!(kind, Kind::Send | Kind::Barrier) {
            out.bump_version();
        }
        Ok(PyWork(work))
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        run(|| gate::detach(py, || self.0.barrier()))
    }
}

/// The world of the calling thread.
#[pyfunction]
fn _world_group() -> PyGroup {
    PyGroup(world())
}

/// What a launcher says of this process: (rank, world size, local rank, local world size, source).
#[pyfunction]
fn _launch() -> PyResult<(usize, usize, usize, usize, &'static str)> {
    let l = run(rendezvous::Launch::from_env)?;
    Ok((l.rank, l.world_size, l.local_rank, l.local_world_size, l.source))
}

/// Joins the job that the environment describes. Without a time of its own the meeting has that of every operation, or
/// five minutes. Returns (rank, world size, source).
#[pyfunction]
#[pyo3(signature = (store_timeout=None, timeout=None))]
fn _init_process_group(
    py: Python<'_>,
    store_timeout: Option<f64>,
    timeout: Option<f64>,
) -> PyResult<(usize, usize, &'static str)> {
    let all = seconds(timeout, DEFAULT_TIMEOUT)?;
    let meeting = if timeout.is_some() { all } else { Duration::from_secs(300) };
    let store = seconds(store_timeout, meeting)?;
    let launch = run(|| gate::detach(py, || rendezvous::init(store, all)))?;
    Ok((launch.rank, launch.world_size, launch.source))
}

/// Leaves the job in peace.
#[pyfunction]
fn _destroy_process_group(py: Python<'_>) {
    gate::detach(py, || {
        oneflow_global::close_groups();
        if let Some(group) = set_process_group(None) {
            group.close();
        }
    });
}

/// Connected groups of one process, for ranks that are threads.
#[pyfunction]
fn _fake_groups(n: usize, timeout: f64) -> PyResult<Vec<PyGroup>> {
    Ok(fake::groups(n, seconds(Some(timeout), DEFAULT_TIMEOUT)?).into_iter().map(PyGroup).collect())
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_comm::set_interrupt_check(gate::interrupted);
    m.add_class::<PyGroup>()?;
    m.add_class::<PyWork>()?;
    m.add_function(wrap_pyfunction!(_world_group, m)?)?;
    m.add_function(wrap_pyfunction!(_launch, m)?)?;
    m.add_function(wrap_pyfunction!(_init_process_group, m)?)?;
    m.add_function(wrap_pyfunction!(_destroy_process_group, m)?)?;
    m.add_function(wrap_pyfunction!(_fake_groups, m)?)
}
