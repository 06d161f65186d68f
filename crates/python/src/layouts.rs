//! A logical graph whose layouts are estimated from Python, which searches.

use crate::gate::run;
use oneflow_core::base::{NdSbp, Sbp};
use oneflow_global::pinned::{self, Pin};
use oneflow_graph::{
    Elsewhere, Graph, Group, Laid, Mesh, Pipeline, Shape, StageCut, Zero, cut_stages, estimate, fold, price_stages,
    solve, unfolded, units,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// The logical graph of a step of one rank.
#[pyclass(module = "oneflow", name = "_Layouts", frozen)]
pub struct Layouts(Mutex<Graph>);

/// Value, name, sizes, dtype, bytes, and whether an update writes it first.
type Variable = (u32, String, Vec<i64>, String, u64, bool);

impl Layouts {
    pub fn new(graph: Graph) -> Layouts {
        Layouts(Mutex::new(graph))
    }
}

/// A layout as numbers: the dimension that an axis splits, -1 for replicated.
fn layout(numbers: &[i64]) -> PyResult<NdSbp> {
    let one = |n: &i64| match *n {
        -1 => Ok(Sbp::B),
        0..=7 => Ok(Sbp::S(*n as u8)),
        n => Err(PyValueError::new_err(format!("{n} is no dimension that a mesh axis splits"))),
    };
    numbers.iter().map(one).collect()
}

/// A layout as it is printed: "S(0)", "B", "P".
fn parse(words: &[String]) -> PyResult<NdSbp> {
    let one = |w: &String| match w.as_str() {
        "B" => Ok(Sbp::B),
        "P" => Ok(Sbp::P_SUM),
        w => w
            .strip_prefix("S(")
            .and_then(|w| w.strip_suffix(')'))
            .and_then(|d| d.parse::<u8>().ok())
            .filter(|d| *d < 8)
            .map(Sbp::S)
            .ok_or_else(|| PyValueError::new_err(format!("{w:?} is not a layout: expected 'B', 'P' or 'S(dim)'"))),
    };
    words.iter().map(one).collect()
}

fn words(s: &[Sbp]) -> Vec<String> {
    s.iter().map(|s| format!("{s:?}")).collect()
}

/// The layouts of the inputs and results of a call.
type Words = (Vec<Vec<String>>, Vec<Vec<String>>);

/// The options of groups by number, the layouts of nodes, and whether nothing can be better.
type Solved = (Vec<usize>, Vec<(usize, Words)>, bool);

fn pin(of: &Words) -> PyResult<Pin> {
    let all = |l: &[Vec<String>]| l.iter().map(|w| parse(w)).collect::<PyResult<Vec<_>>>();
    Ok(Pin { ins: all(&of.0)?, outs: all(&of.1)? })
}

fn unpin(of: &Pin) -> Words {
    let all = |l: &[NdSbp]| l.iter().map(|s| words(s)).collect();
    (all(&of.ins), all(&of.outs))
}

/// What is offloaded by value, the least bytes of it, bytes a second, whether to the host, and the window.
type Offload = (Vec<u32>, f64, f64, bool, f64);

fn laid(
    layouts: &HashMap<u32, Vec<i64>>,
    mesh: &Mesh,
    pins: &HashMap<usize, Words>,
    zero: Option<(u8, i64)>,
    micro_batches: u32,
    offload: Option<Offload>,
) -> PyResult<Laid> {
    if layouts.values().any(|l| l.len() != mesh.hierarchy.len()) {
        return Err(PyValueError::new_err("a layout has one entry for each axis of the mesh"));
    }
    let values = layouts.iter().map(|(v, l)| Ok((*v, layout(l)?))).collect::<PyResult<HashMap<_, _>>>()?;
    let pins = pins.iter().map(|(at, words)| Ok((*at, pin(words)?))).collect::<PyResult<HashMap<_, _>>>()?;
    let zero = zero.map(|(stage, least)| Zero { stage, least });
    let elsewhere = offload.map_or_else(Elsewhere::default, |(values, least, bandwidth, on_host, window)| Elsewhere {
        values: values.into_iter().collect(),
        least,
        bandwidth,
        on_host,
        window,
    });
    Ok(Laid { values, pins, zero, micro_batches: micro_batches.max(1), elsewhere })
}

/// A mesh as Python says it: sizes, and for each axis seconds, and bytes a second around a ring and from each rank to each other
/// one; operations and bytes a second of a rank.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Hardware {
    hierarchy: Vec<i64>,
    latency: Vec<f64>,
    bandwidth: Vec<f64>,
    exchange: Vec<f64>,
    flops: f64,
    memory_bandwidth: f64,
}

impl Hardware {
    fn mesh(self) -> PyResult<Mesh> {
        let n = self.hierarchy.len();
        let are_of_axes = [&self.latency, &self.bandwidth, &self.exchange].iter().all(|list| list.len() == n);
        if self.hierarchy.iter().any(|n| *n <= 0) || !are_of_axes {
            return Err(PyValueError::new_err("a mesh needs a size, a latency and two bandwidths for each axis"));
        }
        let Hardware { hierarchy, latency, bandwidth, exchange, flops, memory_bandwidth } = self;
        Ok(Mesh { hierarchy, latency, bandwidth, exchange, flops, memory_bandwidth })
    }
}

fn text(s: &[Sbp]) -> String {
    s.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ")
}

#[pymethods]
impl Layouts {
    /// The memory that outlives a step.
    fn variables(&self) -> Vec<Variable> {
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trained = HashSet::new();
        for n in &g.nodes {
            trained.extend(n.updates.iter().filter_map(|(i, _)| n.ins[*i as usize]));
        }
        let one = |x: &oneflow_graph::Variable| {
            let m = g.meta(x.value);
            (
                x.value,
                x.name.clone(),
                m.sizes.to_vec(),
                m.dtype.name().to_owned(),
                x.bytes(),
                trained.contains(&x.value),
            )
        };
        g.variables.iter().map(one).collect()
    }
    /// Value and sizes of each input.
    fn inputs(&self) -> Vec<(u32, Vec<i64>)> {
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        g.inputs.iter().map(|v| (*v, g.meta(*v).sizes.to_vec())).collect()
    }
    /// The graph in which one block stands for all equal ones that follow each other, for variables of groups (by value) that are
    /// laid out alike. None without such blocks.
    fn folded(&self, groups: HashMap<u32, usize>) -> Option<Layouts> {
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fold(&g, &groups).map(Layouts::new)
    }
    /// The pins of this graph with which its calls have the layouts that those of a folded graph have under some pins.
    fn unfolded(
        &self,
        folded: &Layouts,
        layouts: HashMap<u32, Vec<i64>>,
        mesh: Hardware,
        pins: HashMap<usize, Words>,
    ) -> PyResult<Vec<(usize, Words)>> {
        let mesh = mesh.mesh()?;
        let laid = laid(&layouts, &mesh, &pins, None, 1, None)?;
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let folded = folded.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> =
            run(|| unfolded(&g, &folded, &mesh, &laid))?.iter().map(|(at, pin)| (*at, unpin(pin))).collect();
        found.sort();
        Ok(found)
    }
    /// Of each node of the whole graph, the node that stands for it here.
    fn stands(&self) -> Vec<usize> {
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (0..).map_while(|at| g.folds.stands_for(at)).collect()
    }
    /// The number of ops.
    fn n_nodes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).nodes.len()
    }
    /// Of each node that is a call whose layouts can be chosen: its number, key, number among equal calls, and line of Python.
    fn calls(&self) -> Vec<(usize, String, usize, String)> {
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = g
            .calls
            .iter()
            .map(|(at, (key, n))| (*at, key.clone(), *n, g.nodes[*at].stack.as_deref().unwrap_or_default().to_owned()))
            .collect();
        all.sort();
        all
    }
    /// The layouts that the op of a node offers over a mesh.
    fn offers(&self, node: usize, mesh: Hardware) -> PyResult<Vec<Words>> {
        let mesh = mesh.mesh()?;
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = g.nodes.get(node).ok_or_else(|| PyValueError::new_err(format!("there is no node {node}")))?;
        Ok(run(|| oneflow_graph::offers(&g, &mesh, n))?.iter().map(|(pin, _)| unpin(pin)).collect())
    }
    /// The layouts of groups of values (one of the options of each) and of calls with which a step takes the fewest seconds:
    /// options by number, calls that the rule would lay out otherwise, and whether nothing can be better.
    fn solve(
        &self,
        groups: Vec<(Vec<u32>, Vec<Vec<i64>>)>,
        start: Vec<usize>,
        mesh: Hardware,
        memory_weight: f64,
        micro_batches: u32,
    ) -> PyResult<Solved> {
        let mesh = mesh.mesh()?;
        let groups = groups
            .into_iter()
            .map(|(members, options)| {
                let options = options.iter().map(|l| layout(l)).collect::<PyResult<Vec<_>>>()?;
                match options.iter().all(|o| o.len() == mesh.hierarchy.len()) {
                    true => Ok(Group { members, options }),
                    false => Err(PyValueError::new_err("a layout has one entry for each axis of the mesh")),
                }
            })
            .collect::<PyResult<Vec<_>>>()?;
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = run(|| solve(&g, &mesh, &groups, &start, memory_weight, micro_batches.max(1)))?;
        let mut pins: Vec<_> = found.pins.iter().map(|(at, pin)| (*at, unpin(pin))).collect();
        pins.sort();
        Ok((found.groups, pins, found.optimal))
    }
    /// From now on this thread's calls on global tensors have the layouts of a plan: by key and number of the call.
    #[staticmethod]
    fn begin_pins(pins: Vec<(String, usize, Words)>) -> PyResult<()> {
        let all = pins.into_iter().map(|(key, n, words)| Ok(((key, n), pin(&words)?))).collect::<PyResult<_>>()?;
        pinned::begin(all);
        Ok(())
    }
    /// Ends what `begin_pins` began; with `met`, raises where a call did not come.
    #[staticmethod]
    fn end_pins(met: bool) -> PyResult<()> {
        if met {
            return run(pinned::end);
        }
        pinned::abort();
        Ok(())
    }
    /// Leaves out this thread's calls that the plan does not know, or counts them again.
    #[staticmethod]
    fn pause_pins(on: bool) {
        pinned::pause(on);
    }
    /// By key, how many of this thread's calls on global tensors a plan has counted in this micro-batch.
    #[staticmethod]
    fn pin_counts() -> HashMap<String, usize> {
        pinned::counted()
    }
    /// Counts calls that are left out here: so many of each key.
    #[staticmethod]
    fn pass_pins(calls: HashMap<String, usize>) {
        pinned::pass(&calls);
    }
    /// The unit (`graph/src/units.rs`) that each variable and each input lies with, by value.
    fn homes(&self) -> PyResult<HashMap<u32, usize>> {
        let mesh = Mesh {
            hierarchy: vec![1],
            latency: vec![0.0],
            bandwidth: vec![1.0],
            exchange: vec![1.0],
            flops: 1.0,
            memory_bandwidth: 1.0,
        };
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(run(|| units(&g, &mesh, &Laid::default()))?.homes)
    }
    /// Where a pipeline of so many stages is cut, and what its stages cost: the fastest whose stages hold no more than `memory`,
    /// else the one with the smallest peak. With `starts` the cut at these units. None where no cut is possible. `pipeline`: stages,
    /// ranks, whether each rank has two stages in the form of a V, latency, bandwidth, bytes of memory.
    #[pyo3(signature = (layouts, mesh, pins, zero, micro_batches, pipeline, starts=None, offload=None))]
    fn stages<'py>(
        &self,
        py: Python<'py>,
        layouts: HashMap<u32, Vec<i64>>,
        mesh: Hardware,
        pins: HashMap<usize, Words>,
        zero: Option<(u8, i64)>,
        micro_batches: u32,
        pipeline: (usize, usize, bool, f64, f64, f64),
        starts: Option<Vec<usize>>,
        offload: Option<Offload>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mesh = mesh.mesh()?;
        let laid = laid(&layouts, &mesh, &pins, zero, micro_batches, offload)?;
        let (n_stages, n_ranks, is_v, latency, bandwidth, memory) = pipeline;
        let (shape, micro_batches) = (if is_v { Shape::V } else { Shape::Loop }, micro_batches.max(1));
        let of = Pipeline { n_stages, n_ranks: n_ranks.max(1), shape, micro_batches, latency, bandwidth, memory };
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = run(|| units(&g, &mesh, &laid))?;
        let found = match starts {
            Some(starts) => price_stages(&all, &of, &starts),
            None => cut_stages(&all, &of),
        };
        let Some(StageCut { starts, seconds, messages, updates, reductions, peaks, halves, held, total }) = found
        else {
            return Ok(None);
        };
        let d = PyDict::new(py);
        d.set_item("starts", starts)?;
        d.set_item("seconds", seconds)?;
        d.set_item("messages", messages)?;
        d.set_item("updates", updates)?;
        d.set_item("reductions", reductions)?;
        d.set_item("peaks", peaks)?;
        d.set_item("halves", halves)?;
        d.set_item("held", held)?;
        d.set_item("total", total)?;
        Ok(Some(d))
    }
    /// What a step of so many micro-batches, of which the graph is one, costs one rank with these layouts, by value (the others
    /// are replicated) and by node (the rule chooses the others); with `zero`, its stage and the least elements of what it splits;
    /// with `offload`, what lies elsewhere than on the device.
    #[pyo3(signature = (layouts, mesh, pins=None, zero=None, micro_batches=1, offload=None))]
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        layouts: HashMap<u32, Vec<i64>>,
        mesh: Hardware,
        pins: Option<HashMap<usize, Words>>,
        zero: Option<(u8, i64)>,
        micro_batches: u32,
        offload: Option<Offload>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mesh = mesh.mesh()?;
        let laid = laid(&layouts, &mesh, &pins.unwrap_or_default(), zero, micro_batches, offload)?;
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = run(|| estimate(&g, &mesh, &laid))?;
        let d = PyDict::new(py);
        d.set_item("compute_seconds", found.compute_seconds)?;
        d.set_item("move_seconds", found.move_seconds)?;
        d.set_item("bytes", found.bytes)?;
        d.set_item("fixed", found.fixed)?;
        d.set_item("peak", found.peak)?;
        d.set_item("gradients", found.gradients)?;
        let moves = found.moves.iter().filter(|m| m.bytes > 0.0).map(|m| {
            let node = g.nodes.get(m.node);
            let name = node.map_or_else(|| "write-back".to_owned(), |n| n.name());
            let place = node.and_then(|n| n.stack.as_deref()).unwrap_or_default().to_owned();
            (name, place, g.meta(m.value).sizes.to_vec(), text(&m.from), text(&m.to), m.bytes, m.seconds)
        });
        d.set_item("moves", moves.collect::<Vec<_>>())?;
        Ok(d)
    }
}
