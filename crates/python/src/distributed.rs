//! Process groups as Python sees them: joining a job, collectives over tensors of the host or of a device, ranks as threads.

use crate::gate::{self, run, to_py};
use crate::object::get;
use crate::stores::PyStore;
use oneflow_comm::{
    ANY_RANK, DEFAULT_TIMEOUT, Kind, ProcessGroup, ReduceOp, Request, Span, Work, fake, flight, rendezvous,
};
use oneflow_comm::{on_device, set_process_group, set_thread_group, world};
use oneflow_core::base::{Device, DeviceType, Error};
use oneflow_core::{Storage, Tensor, bit, default_generator, set_thread_generator};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

fn seconds(timeout: Option<f64>, default: Duration) -> PyResult<Duration> {
    match timeout {
        None => Ok(default),
        Some(s) => Duration::try_from_secs_f64(s)
            .map_err(|_| PyValueError::new_err(format!("timeout must be a number of seconds, got {s}"))),
    }
}

/// Seconds, or a `datetime.timedelta`.
fn time(given: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let number = match given.call_method0("total_seconds") {
        Ok(seconds) => seconds.extract(),
        Err(_) => given.extract(),
    };
    let number = number.map_err(|_| PyTypeError::new_err("timeout must be a timedelta or a number of seconds"))?;
    seconds(Some(number), DEFAULT_TIMEOUT)
}

/// A group of ranks.
#[pyclass(frozen, name = "_ProcessGroup", module = "oneflow.distributed")]
pub struct PyGroup(pub(crate) Arc<dyn ProcessGroup>);

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
pub struct PyWork {
    work: Work,
    output: Option<Py<PyAny>>,
}

#[pymethods]
impl PyWork {
    /// Waits; raises the error of the collective. For one on a device the current stream waits, and the host only with a timeout.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<Bound<'_, PyAny>>) -> PyResult<bool> {
        let timeout = timeout.map(|t| time(&t)).transpose()?;
        oneflow_autocast::note_wait();
        run(|| gate::detach(py, || self.work.wait(timeout)))?;
        Ok(true)
    }
    /// As `wait`.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, None).map(drop)
    }
    /// As `wait`: tensors of the host have no stream that could wait in its place.
    fn block_current_stream(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, None).map(drop)
    }
    fn is_completed(&self) -> bool {
        self.work.test().is_some()
    }
    fn is_success(&self) -> bool {
        self.work.test().is_some_and(|result| result.is_ok())
    }
    /// Whether a device runs it, in the order of its streams.
    fn _is_on_device(&self) -> bool {
        self.work.is_on_device()
    }
    /// The tensors that the operation writes.
    fn result(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.output.iter().map(|output| output.clone_ref(py)).collect()
    }
    /// The rank of the group whose message a receive has got.
    fn source_rank(&self) -> PyResult<usize> {
        self.work.source().ok_or_else(|| PyRuntimeError::new_err("source_rank: no message was received"))
    }
    fn _source_rank(&self) -> PyResult<usize> {
        self.source_rank()
    }
    /// A future with the result, whose callbacks run once the operation is complete.
    fn get_future<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("oneflow.distributed._work")?.call_method1("_future_of", (slf,))
    }
    /// Calls `function` once the operation is complete, on the thread that completes it.
    fn _then(&self, py: Python<'_>, function: Py<PyAny>) {
        let call = Box::new(move || {
            gate::attach_if_alive(move |py| {
                // Nobody is there who could take its error.
                let _ = function.call0(py).map_err(|e| e.write_unraisable(py, None));
                drop(function);
            });
        });
        gate::detach(py, || self.work.then(call));
    }
    /// The error of a work that is complete and failed.
    fn exception<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let error = self.work.test()?.err()?;
        Some(to_py(error).into_value(py).into_bound(py).into_any())
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
    if !matches!(t.device().kind, DeviceType::CPU | DeviceType::CUDA) || t.storage().is_none() {
        return Err(to_py(Error::not_implemented(format!(
            "{what} is on {}; the backends here are for cpu and cuda",
            t.device()
        ))));
    }
    if !t.is_contiguous() {
        return Err(PyValueError::new_err(format!("Tensors must be contiguous: {what} is not")));
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

/// What keeps the tensors of a request.
type Kept = Box<(Tensor, Option<oneflow_core::Pin>)>;

/// A request over tensors of one device.
struct Prepared {
    request: Request,
    kind: Kind,
    device: Device,
    output: Tensor,
    kept: Vec<Kept>,
}

/// What an operation is asked beside its tensors.
struct Options {
    op: Option<String>,
    peer: isize,
    tag: u32,
    counts: Option<Vec<usize>>,
    recv_counts: Option<Vec<usize>>,
}

impl Options {
    fn of(given: &Bound<'_, PyDict>) -> PyResult<Options> {
        let find = |name: &str| given.get_item(name).map(|found| found.filter(|value| !value.is_none()));
        let counts = |name: &str| find(name)?.map(|value| value.extract()).transpose();
        Ok(Options {
            op: find("op")?.map(|value| value.extract()).transpose()?,
            peer: find("peer")?.map_or(Ok(0), |value| value.extract())?,
            tag: find("tag")?.map_or(Ok(0), |value| value.extract())?,
            counts: counts("counts")?,
            recv_counts: counts("recv_counts")?,
        })
    }
}

/// An operation of several: its kind, output, input and options.
type Item<'py> = (String, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Bound<'py, PyDict>);

/// Pieces of ranks are of one size, or of `counts` elements each: those that are sent in an all-to-all, where `recv_counts`
/// are received. A receive whose `peer` is -1 takes a message of any rank.
fn prepare(
    group: &dyn ProcessGroup,
    kind: &str,
    output: &Bound<'_, PyAny>,
    input: Option<&Bound<'_, PyAny>>,
    options: Options,
) -> PyResult<Prepared> {
    let Options { op, peer, tag, counts, recv_counts } = options;
    let peer = if peer == -1 { ANY_RANK } else { peer.max(0) as usize };
    let out = tensor(output, "output")?;
    let inp = input.map(|i| tensor(i, "input")).transpose()?;
    if let Some(i) = inp
        && i.dtype() != out.dtype()
    {
        return Err(PyTypeError::new_err(format!("{kind}: tensors have dtypes {} and {}", out.dtype(), i.dtype())));
    }
    if let Some(i) = inp
        && i.device() != out.device()
    {
        return Err(to_py(Error::runtime(format!(
            "{kind}: expected both tensors on one device, but output is on {} and input on {}",
            out.device(),
            i.device()
        ))));
    }
    let need = || inp.ok_or_else(|| PyTypeError::new_err(format!("{kind}: needs an input tensor")));
    let (dtype, op, n) = (out.dtype(), reduce_op(op.as_deref())?, group.size());
    let even = |t: &Tensor| vec![t.numel() as usize / n; n];
    let kind = Kind::from_name(kind).ok_or_else(|| PyValueError::new_err(format!("no collective is {kind:?}")))?;
    let request = match kind {
        Kind::AllReduce => Request::AllReduce { data: span(out), dtype, op },
        Kind::Broadcast => Request::Broadcast { data: span(out), dtype, root: peer },
        Kind::Reduce => Request::Reduce { data: span(out), dtype, op, root: peer },
        Kind::AllGather => {
            let i = need()?;
            Request::AllGather {
                output: span(out),
                input: span(i),
                counts: counts.unwrap_or_else(|| vec![i.numel() as usize; n]),
                dtype,
            }
        }
        Kind::ReduceScatter => Request::ReduceScatter {
            output: span(out),
            input: span(need()?),
            counts: counts.unwrap_or_else(|| vec![out.numel() as usize; n]),
            dtype,
            op,
        },
        Kind::AllToAll => {
            let i = need()?;
            Request::AllToAll {
                output: span(out),
                recv_counts: recv_counts.unwrap_or_else(|| even(out)),
                input: span(i),
                send_counts: counts.unwrap_or_else(|| even(i)),
                dtype,
            }
        }
        Kind::Gather => {
            let i = need()?;
            let output = if group.rank() == peer { span(out) } else { Span::EMPTY };
            Request::Gather { output, input: span(i), dtype, root: peer }
        }
        Kind::Scatter => {
            let input = if group.rank() == peer { span(need()?) } else { Span::EMPTY };
            Request::Scatter { output: span(out), input, dtype, root: peer }
        }
        Kind::Send => Request::Send { data: span(out), dtype, dst: peer, tag },
        Kind::Recv => Request::Recv { data: span(out), dtype, src: peer, tag },
        Kind::Barrier => Request::Barrier,
    };
    let kept = |t: &Tensor| Box::new((t.clone(), t.storage().map(Storage::pin)));
    let kept = [Some(out), inp].into_iter().flatten().map(kept).collect();
    Ok(Prepared { request, kind, device: out.device(), output: out.clone(), kept })
}

impl Prepared {
    fn note_written(&self) {
        if !matches!(self.kind, Kind::Send | Kind::Barrier) {
            self.output.bump_version();
        }
    }

    fn work(&self, work: Work, output: &Bound<'_, PyAny>) -> PyWork {
        PyWork { work, output: (self.kind != Kind::Barrier).then(|| output.clone().unbind()) }
    }
}

/// The group's backend for tensors of a device; the host's is the group itself.
fn backend_for(py: Python<'_>, group: &Arc<dyn ProcessGroup>, device: Device) -> PyResult<Arc<dyn ProcessGroup>> {
    match device.is_cpu() {
        true => Ok(group.clone()),
        false => run(|| gate::detach(py, || on_device(group, device))),
    }
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
    fn name(&self) -> &str {
        self.0.name()
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyGroup>().is_ok_and(|other| Arc::ptr_eq(&self.0, &other.get().0))
    }
    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
    /// `by_all`: every rank of this group calls it, else the members alone.
    #[pyo3(signature = (ranks, timeout=None, by_all=true))]
    fn new_group(
        &self,
        py: Python<'_>,
        ranks: Vec<usize>,
        timeout: Option<f64>,
        by_all: bool,
    ) -> PyResult<Option<PyGroup>> {
        let timeout = timeout.map(|t| seconds(Some(t), DEFAULT_TIMEOUT)).transpose()?;
        let group = run(|| gate::detach(py, || self.0.new_group(&ranks, by_all)))?;
        if let (Some(group), Some(timeout)) = (&group, timeout) {
            group.set_timeout(timeout);
        }
        Ok(group.map(PyGroup))
    }
    /// Of every collective from now on.
    fn set_timeout(&self, timeout: &Bound<'_, PyAny>) -> PyResult<()> {
        self.0.set_timeout(time(timeout)?);
        Ok(())
    }
    fn timeout(&self) -> f64 {
        self.0.timeout().as_secs_f64()
    }
    /// The group's thread may wait for the interpreter, to call what waits for an operation: here and below nobody keeps it.
    fn abort(&self, py: Python<'_>, reason: &str) {
        gate::detach(py, || self.0.abort(reason));
    }
    /// The program of this rank, which is a thread, has failed: in all groups that it is part of.
    fn give_up(&self, py: Python<'_>, reason: &str) {
        gate::detach(py, || self.0.give_up(reason));
    }
    fn close(&self, py: Python<'_>) {
        gate::detach(py, || self.0.close());
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

    /// Issues one collective over up to two tensors: `output` is written, `input` read (or `output` both), with the options of
    /// `prepare`. With `wait` the operation runs to its end, on the calling thread where that is possible, and there is no work;
    /// on a device the current stream waits in place of the host. `timeout` is that of a work, in seconds; the group's by default.
    #[pyo3(signature = (kind, output, input=None, *, op=None, peer=0, tag=0, counts=None, recv_counts=None, wait=false, timeout=None))]
    #[allow(clippy::too_many_arguments)]
    fn issue(
        &self,
        py: Python<'_>,
        kind: &str,
        output: &Bound<'_, PyAny>,
        input: Option<&Bound<'_, PyAny>>,
        op: Option<String>,
        peer: isize,
        tag: u32,
        counts: Option<Vec<usize>>,
        recv_counts: Option<Vec<usize>>,
        wait: bool,
        timeout: Option<f64>,
    ) -> PyResult<Option<PyWork>> {
        let options = Options { op, peer, tag, counts, recv_counts };
        let mut prepared = prepare(&*self.0, kind, output, input, options)?;
        let group = backend_for(py, &self.0, prepared.device)?;
        let (request, kept) = (prepared.request.clone(), std::mem::take(&mut prepared.kept));
        let work = match wait {
            true => {
                // SAFETY: the tensors and their memory are kept until the call returns (of a device, until this thread's queue
                // waits for the operation); that nobody writes to them meanwhile is the user's part of the contract of a
                // collective, as in torch.
                run(|| gate::detach(py, || unsafe { group.run(request) }))?;
                drop(kept);
                None
            }
            false => {
                let own = timeout.map(|t| seconds(Some(t), DEFAULT_TIMEOUT)).transpose()?;
                let issue = || {
                    // SAFETY: the work keeps the tensors and their memory until it is complete; the rest is as above.
                    unsafe { group.issue_within(request, own) }
                };
                // The first operation on a device waits for the other ranks.
                let work = match prepared.device.is_cpu() {
                    true => run(issue),
                    false => run(|| gate::detach(py, issue)),
                };
                let work = work?;
                kept.into_iter().for_each(|k| work.keep_alive(k));
                Some(work)
            }
        };
        prepared.note_written();
        Ok(work.map(|work| prepared.work(work, output)))
    }

    /// Issues several operations on tensors of one device, which its backend may run as one.
    fn issue_all(&self, py: Python<'_>, items: Vec<Item<'_>>) -> PyResult<Vec<PyWork>> {
        let (mut prepared, mut outputs) = (Vec::new(), Vec::new());
        for (kind, output, input, options) in items {
            prepared.push(prepare(&*self.0, &kind, &output, input.as_ref(), Options::of(&options)?)?);
            outputs.push(output);
        }
        let Some(device) = prepared.first().map(|p| p.device) else { return Ok(Vec::new()) };
        if let Some(other) = prepared.iter().find(|p| p.device != device) {
            return Err(PyValueError::new_err(format!(
                "operations of one batch are on one device, but tensors are on {device} and {}",
                other.device
            )));
        }
        let group = backend_for(py, &self.0, device)?;
        let requests = prepared.iter().map(|p| p.request.clone()).collect();
        // SAFETY: as in `issue`.
        let works = run(|| gate::detach(py, || unsafe { group.issue_all(requests) }))?;
        let mut made = Vec::new();
        for ((mut p, work), output) in prepared.into_iter().zip(works).zip(outputs) {
            std::mem::take(&mut p.kept).into_iter().for_each(|k| work.keep_alive(k));
            p.note_written();
            made.push(p.work(work, &output));
        }
        Ok(made)
    }

    /// Returns when every rank has called it; `barrier`, as in PyTorch, returns a work.
    fn _wait_barrier(&self, py: Python<'_>) -> PyResult<()> {
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

/// Whether the environment says anything of ranks.
#[pyfunction]
fn _is_launched() -> bool {
    rendezvous::Launch::is_told()
}

/// What a user should hear of the environment who expected a job.
#[pyfunction]
fn _launch_note() -> PyResult<Option<&'static str>> {
    Ok(run(rendezvous::Launch::from_env)?.note)
}

/// How long ranks wait for each other to meet, and for each operation after that. Without a time of its own the meeting has
/// that of every operation, or five minutes.
fn timeouts(timeout: Option<f64>) -> PyResult<(Duration, Duration)> {
    let all = seconds(timeout, DEFAULT_TIMEOUT)?;
    Ok((if timeout.is_some() { all } else { Duration::from_secs(300) }, all))
}

/// Rank, world size, what described the job, and its host and port where it has one.
type Joined = (usize, usize, &'static str, Option<(String, u16)>);

/// Joins the job that the environment describes, or the program: with a rank and a size, and perhaps with a host and port.
#[pyfunction]
#[pyo3(signature = (timeout=None, place=None, master=None))]
fn _init_process_group(
    py: Python<'_>,
    timeout: Option<f64>,
    place: Option<(usize, usize)>,
    master: Option<(String, u16)>,
) -> PyResult<Joined> {
    let (meeting, all) = timeouts(timeout)?;
    let launch = run(|| match (place, master) {
        (Some((rank, size)), Some(master)) => rendezvous::Launch::at(rank, size, master, "init_method"),
        (Some((rank, size)), None) => rendezvous::Launch::from_env_with(rank, size),
        _ => rendezvous::Launch::from_env(),
    })?;
    run(|| gate::detach(py, || rendezvous::init(&launch, meeting, all)))?;
    Ok((launch.rank, launch.world_size, launch.source, launch.master))
}

/// Joins the job that `mpirun` has started, through the installed MPI; its name and version.
#[pyfunction]
fn _init_mpi(py: Python<'_>, world_size: usize, timeout: Option<f64>) -> PyResult<String> {
    let (_, all) = timeouts(timeout)?;
    run(|| gate::detach(py, || oneflow_comm::mpi::init(world_size, all)))
}

#[pyfunction]
fn _is_mpi_available(py: Python<'_>) -> bool {
    gate::detach(py, oneflow_comm::mpi::is_mpi_available)
}

/// Joins the job whose ranks meet in this store.
#[pyfunction]
#[pyo3(signature = (store, rank, world_size, timeout=None))]
fn _init_over_store(
    py: Python<'_>,
    store: &PyStore,
    rank: usize,
    world_size: usize,
    timeout: Option<f64>,
) -> PyResult<()> {
    let (meeting, all) = timeouts(timeout)?;
    let store = store.shared();
    run(|| gate::detach(py, || rendezvous::init_over(store, rank, world_size, meeting, all)))
}

/// A group whose ranks meet in this store, beside the job. `listen`: the address on which this rank listens.
#[pyfunction]
#[pyo3(signature = (store, rank, size, timeout=None, listen=None))]
fn _group_over_store(
    py: Python<'_>,
    store: &PyStore,
    rank: usize,
    size: usize,
    timeout: Option<f64>,
    listen: Option<&str>,
) -> PyResult<PyGroup> {
    let (meeting, all) = timeouts(timeout)?;
    let ip =
        listen.map(|text| text.parse::<IpAddr>().map_err(|_| PyValueError::new_err(format!("no address: {text:?}"))));
    let (store, ip) = (store.shared(), ip.transpose()?);
    run(|| gate::detach(py, || rendezvous::group_over(store, ip, rank, size, meeting, all))).map(PyGroup)
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

/// Why there are no groups over GPUs here; `None` where there can be.
#[pyfunction]
fn _nccl_unavailable_reason(py: Python<'_>) -> Option<String> {
    gate::detach(py, || oneflow_nccl::available().err().map(|e| e.text().to_owned()))
}

/// The release of the library.
#[pyfunction]
fn _nccl_version(py: Python<'_>) -> PyResult<(i32, i32, i32)> {
    run(|| gate::detach(py, oneflow_nccl::version))
}

/// The last operations of this process as JSON.
#[pyfunction]
fn _flight_record(cause: &str) -> String {
    flight::snapshot(cause)
}

/// Connected groups of one process, for ranks that are threads.
#[pyfunction]
fn _fake_groups(n: usize, timeout: f64) -> PyResult<Vec<PyGroup>> {
    Ok(fake::groups(n, seconds(Some(timeout), DEFAULT_TIMEOUT)?).into_iter().map(PyGroup).collect())
}

/// The number of what collectives are for, the same on every rank; 0 for no words.
#[pyfunction]
fn _purpose(words: &str) -> u32 {
    oneflow_comm::Purpose::of(words).number()
}

/// Makes it the purpose of the collectives that this thread issues from now on, and returns the number of the one before.
#[pyfunction]
fn _enter_purpose(number: u32) -> u32 {
    oneflow_comm::Purpose::numbered(number).enter().number()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_comm::set_interrupt_check(gate::interrupted);
    oneflow_nccl::register();
    m.add_class::<PyGroup>()?;
    m.add_class::<PyWork>()?;
    m.add_class::<PyStore>()?;
    m.add_function(wrap_pyfunction!(_world_group, m)?)?;
    m.add_function(wrap_pyfunction!(_launch, m)?)?;
    m.add_function(wrap_pyfunction!(_launch_note, m)?)?;
    m.add_function(wrap_pyfunction!(_is_launched, m)?)?;
    m.add_function(wrap_pyfunction!(_flight_record, m)?)?;
    m.add_function(wrap_pyfunction!(_init_over_store, m)?)?;
    m.add_function(wrap_pyfunction!(_group_over_store, m)?)?;
    m.add_function(wrap_pyfunction!(_init_mpi, m)?)?;
    m.add_function(wrap_pyfunction!(_nccl_unavailable_reason, m)?)?;
    m.add_function(wrap_pyfunction!(_nccl_version, m)?)?;
    m.add_function(wrap_pyfunction!(_is_mpi_available, m)?)?;
    m.add_function(wrap_pyfunction!(_init_process_group, m)?)?;
    m.add_function(wrap_pyfunction!(_destroy_process_group, m)?)?;
    m.add_function(wrap_pyfunction!(_purpose, m)?)?;
    m.add_function(wrap_pyfunction!(_enter_purpose, m)?)?;
    m.add_function(wrap_pyfunction!(_fake_groups, m)?)
}
