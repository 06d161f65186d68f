//! Described ranks, and simulations of compiled graphs on described clusters. Python decides which rank runs which graph.

use crate::distributed::PyGroup;
use crate::gate::{self, run};
use crate::graph::CompiledGraph;
use oneflow_core::base::{Error, Result};
use oneflow_simulate::{
    Catalog, Cluster, Item, Job, Link, Memory, Move, Offloaded, Outcome, Program, Scenario, SpanKind, simulate,
};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashMap;
use std::sync::Arc;

/// A group of which this process is one rank, and the others are not there.
#[pyfunction]
fn _described_group(rank: usize, size: usize) -> PyResult<PyGroup> {
    run(|| Ok(PyGroup(oneflow_comm::described::group(rank, size)?)))
}

/// From now on this thread's new storages of so many bytes hold no memory; None ends that. Returns the former value.
#[pyfunction]
fn _reserve_from(bytes: Option<usize>) -> Option<usize> {
    Some(oneflow_core::reserve_from(bytes.unwrap_or(usize::MAX))).filter(|b| *b != usize::MAX)
}

fn number(d: &Bound<'_, PyDict>, key: &str) -> PyResult<f64> {
    d.get_item(key)?.ok_or_else(|| PyKeyError::new_err(key.to_owned()))?.extract()
}

fn link(d: &Bound<'_, PyDict>, key: &str) -> PyResult<Link> {
    let (latency, bandwidth, shared) =
        d.get_item(key)?.ok_or_else(|| PyKeyError::new_err(key.to_owned()))?.extract()?;
    Ok(Link { latency, bandwidth, shared })
}

fn cluster(d: &Bound<'_, PyDict>) -> PyResult<Cluster> {
    Ok(Cluster {
        hosts: number(d, "hosts")? as usize,
        devices_per_host: number(d, "devices_per_host")? as usize,
        flops: number(d, "flops")?,
        memory_bandwidth: number(d, "memory_bandwidth")?,
        launch: number(d, "launch")?,
        call: number(d, "call")?,
        memory: number(d, "memory")?,
        inside: link(d, "inside")?,
        between: link(d, "between")?,
        cores: number(d, "cores")?,
        disk: number(d, "disk")?,
        host_link: link(d, "host")?,
    })
}

/// Options by the names of `Scenario`.
fn scenario(d: &Bound<'_, PyDict>) -> PyResult<Scenario> {
    let mut s = Scenario::default();
    for (name, value) in d {
        match name.extract::<String>()?.as_str() {
            "steps" => s.steps = value.extract()?,
            "slow" => s.slow = value.extract()?,
            "lost" => s.lost = value.extract()?,
            "watch" => s.watch = value.extract()?,
            other => return Err(PyKeyError::new_err(other.to_owned())),
        }
    }
    Ok(s)
}

fn memory<'py>(py: Python<'py>, m: &Memory, limit: f64) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("variables", m.variables.clone())?;
    d.set_item("offloaded", m.offloaded)?;
    d.set_item("window", m.window)?;
    d.set_item("inputs", m.inputs)?;
    d.set_item("outputs", m.outputs)?;
    d.set_item("registers", m.registers)?;
    d.set_item("arena", m.arena)?;
    d.set_item("gradients", m.gradients)?;
    d.set_item("activations", m.activations)?;
    d.set_item("communication", m.communication)?;
    d.set_item("peak", m.peak())?;
    d.set_item("peak_at", &m.peak_at)?;
    d.set_item("holders", m.holders.iter().take(20).cloned().collect::<Vec<_>>())?;
    d.set_item("curve", &m.curve)?;
    d.set_item("over_at", if m.peak() as f64 > limit { m.first_over(limit as u64) } else { None })?;
    Ok(d)
}

/// The outcome as Python data.
fn report<'py>(py: Python<'py>, found: &Outcome, job: &Job<'_>) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("step", found.step)?;
    d.set_item("first_step", found.first_step)?;
    d.set_item("n_events", found.n_events)?;
    let ranks = PyList::empty(py);
    for r in &found.ranks {
        let waits = (r.wait_collective, r.wait_message, r.bubble);
        ranks.append((r.start, r.end, r.compute, (r.communication, r.hidden), waits, r.sent))?;
    }
    d.set_item("ranks", ranks)?;
    d.set_item("links", found.links.clone())?;
    let spans = PyList::empty(py);
    for s in &found.spans {
        let program = &job.programs[job.of_rank[s.rank as usize] as usize];
        let kind = match s.kind {
            SpanKind::Compute => "compute",
            SpanKind::Communication => "communication",
            SpanKind::Wait => "wait",
        };
        spans.append((s.rank, s.stream, s.start, s.end, kind, program.origin(s.task as usize, s.item as usize)))?;
    }
    d.set_item("spans", spans)?;
    let stuck = found.stuck.iter().map(|s| (s.rank, &s.task, &s.origin, &s.reason, s.since));
    d.set_item("stuck", stuck.collect::<Vec<_>>())?;
    Ok(d)
}

fn simulated(py: Python<'_>, job: &Job<'_>, scenario: &Scenario) -> PyResult<Outcome> {
    run(|| gate::detach(py, || simulate(job, scenario)))
}

/// Plans with prices for one cluster.
#[pyclass(frozen, module = "oneflow", name = "_Simulation")]
pub struct Simulation {
    cluster: Cluster,
    programs: Vec<Program>,
    model_flops: Vec<f64>,
}

#[pymethods]
impl Simulation {
    /// Prices compiled graphs; `seconds`: measured times of instructions by their signatures; `offloaded`: the names of what lies
    /// on a disk, the bytes of it that stay, and whether it lies on the host instead.
    #[new]
    fn new(
        py: Python<'_>,
        graphs: Vec<PyRef<'_, CompiledGraph>>,
        cluster_: &Bound<'_, PyDict>,
        seconds: HashMap<String, f64>,
        offloaded: (Vec<String>, u64, bool),
    ) -> PyResult<Simulation> {
        let cluster = cluster(cluster_)?;
        let (names, window, on_host) = offloaded;
        let offloaded = Offloaded { names: names.into_iter().collect(), window, on_host };
        let (mut catalog, mut programs, mut model_flops) = (Catalog::default(), Vec::new(), Vec::new());
        for g in graphs {
            let (plan, flops) = g.plan_and_flops(py)?;
            programs.push(run(|| {
                cluster.check()?;
                gate::detach(py, || catalog.price(Arc::new(plan), &cluster, &seconds, &offloaded))
            })?);
            model_flops.push(flops);
        }
        Ok(Simulation { cluster, programs, model_flops })
    }

    /// For each program: its memory, its operations, those of its products, and those of the model.
    fn programs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (p, flops) in self.programs.iter().zip(&self.model_flops) {
            let d = memory(py, &p.memory, self.cluster.memory)?;
            d.set_item("flops", p.flops)?;
            d.set_item("product_flops", p.product_flops)?;
            d.set_item("model_flops", flops)?;
            d.set_item("instructions", p.items.iter().map(Vec::len).sum::<usize>())?;
            list.append(d)?;
        }
        Ok(list)
    }

    /// Runs the program of each rank.
    fn run<'py>(
        &self,
        py: Python<'py>,
        of_rank: Vec<u32>,
        options: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let job = Job { cluster: &self.cluster, programs: &self.programs, of_rank: &of_rank };
        let found = simulated(py, &job, &scenario(options)?)?;
        report(py, &found, &job)
    }
}

/// Seconds of the instructions of a compiled graph by their signatures, measured here; those that talk are left out.
#[pyfunction]
fn _measure_instructions(
    py: Python<'_>,
    graph: PyRef<'_, CompiledGraph>,
    runs: usize,
) -> PyResult<HashMap<String, f64>> {
    let (plan, _) = graph.plan_and_flops(py)?;
    run(|| gate::detach(py, || oneflow_runtime::measure(&plan, runs)))
}

/// Bytes of the host's allocator: in use, and the most that was since the last call with `reset`.
#[pyfunction]
fn _host_memory(reset: bool) -> PyResult<(usize, usize)> {
    run(|| {
        let p = oneflow_ep::provider(oneflow_core::base::DeviceType::CPU)?;
        Ok((p.memory(0).0, p.peak_memory(0, reset)))
    })
}

/// What an item of `_simulate_rows` does: name, seconds, and of a message its number, its target and its bytes.
type RowItem = (String, f64, Option<(u32, u32, u64)>);

/// Simulates one rank a row: work, and messages that a rank sends or waits for. A message has one number on both sides; the
/// side that waits names itself as the target.
#[pyfunction]
fn _simulate_rows<'py>(
    py: Python<'py>,
    rows: Vec<Vec<RowItem>>,
    cluster_: &Bound<'py, PyDict>,
    options: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let cluster = cluster(cluster_)?;
    let programs = run(|| programs_of(rows))?;
    let of_rank: Vec<u32> = (0..programs.len() as u32).collect();
    let job = Job { cluster: &cluster, programs: &programs, of_rank: &of_rank };
    let found = simulated(py, &job, &scenario(options)?)?;
    report(py, &found, &job)
}

fn programs_of(rows: Vec<Vec<RowItem>>) -> Result<Vec<Program>> {
    let mut moves: HashMap<u32, Arc<Move>> = HashMap::new();
    for (rank, row) in rows.iter().enumerate() {
        for (_, _, message) in row {
            let Some((number, target, bytes)) = message.filter(|m| m.1 as usize != rank) else { continue };
            if target as usize >= rows.len() {
                return Err(Error::value(format!("rank {rank} sends to rank {target}, and there are {}", rows.len())));
            }
            moves.insert(number, Arc::new(Move::new(number, [(rank as u32, target, bytes)].into_iter())));
        }
    }
    let none = |number| Error::value(format!("nobody sends message {number}"));
    rows.into_iter()
        .map(|row| {
            let item = |(name, seconds, message): RowItem| -> Result<(String, Item)> {
                let item = match message {
                    None => Item::Compute { seconds },
                    Some((n, ..)) => Item::Move { seconds, what: moves.get(&n).ok_or_else(|| none(n))?.clone() },
                };
                Ok((name, item))
            };
            Ok(Program::of_items(row.into_iter().map(item).collect::<Result<_>>()?))
        })
        .collect()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Simulation>()?;
    m.add_function(wrap_pyfunction!(_described_group, m)?)?;
    m.add_function(wrap_pyfunction!(_measure_instructions, m)?)?;
    m.add_function(wrap_pyfunction!(_host_memory, m)?)?;
    m.add_function(wrap_pyfunction!(_reserve_from, m)?)?;
    m.add_function(wrap_pyfunction!(_simulate_rows, m)?)
}
