//! A logical graph whose layouts are estimated from Python, which searches.

use crate::gate::run;
use oneflow_core::base::{NdSbp, Sbp};
use oneflow_graph::{Graph, Mesh, estimate};
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
    /// The number of ops.
    fn n_nodes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).nodes.len()
    }
    /// What a step costs one rank with these layouts, by value; the others are replicated.
    fn estimate<'py>(
        &self,
        py: Python<'py>,
        layouts: HashMap<u32, Vec<i64>>,
        hierarchy: Vec<i64>,
        latency: Vec<f64>,
        bandwidth: Vec<f64>,
        flops: f64,
        memory_bandwidth: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let n = hierarchy.len();
        let sound = hierarchy.iter().all(|n| *n > 0) && latency.len() == n && bandwidth.len() == n;
        if !sound || layouts.values().any(|l| l.len() != n) {
            return Err(PyValueError::new_err("a mesh needs a size, a latency and a bandwidth for each axis"));
        }
        let given = layouts.iter().map(|(v, l)| Ok((*v, layout(l)?))).collect::<PyResult<HashMap<_, _>>>()?;
        let mesh = Mesh { hierarchy, latency, bandwidth, flops, memory_bandwidth };
        let g = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = run(|| estimate(&g, &mesh, &given))?;
        let d = PyDict::new(py);
        d.set_item("compute_seconds", found.compute_seconds)?;
        d.set_item("move_seconds", found.move_seconds)?;
        d.set_item("bytes", found.bytes)?;
        d.set_item("fixed", found.fixed)?;
        d.set_item("peak", found.peak)?;
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
