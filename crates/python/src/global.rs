//! Placements and SBP as Python sees them, as arguments and as attributes of global tensors.

use crate::distributed::PyGroup;
use crate::gate::{self, to_py};
use oneflow_core::base::{Arg, DeviceType, Error, NdSbpId, PKind, Parts, Placement, PlacementId, Result, Sbp};
use oneflow_core::{Tensor, bit};
use oneflow_global::{Spread, global_of};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple, PyType};

/// A device type, an n-D array of ranks, and how the ranks of an axis share a dimension that their number does not divide.
///
/// With `parts="balanced"` sizes differ by one at most: 5 over 4 ranks is 2, 1, 1, 1. With `parts="chunks"`, which device meshes
/// have, they are those of `oneflow.chunk`: 2, 2, 1, 0. Tensors of placements that differ do not meet in one op; `to_global`
/// moves them.
///
/// Example::
///
///     >>> oneflow.placement("cpu", [0])
///     oneflow.placement(type="cpu", ranks=[0])
#[pyclass(frozen, eq, hash, name = "placement", module = "oneflow")]
#[derive(PartialEq, Eq, Hash)]
pub struct PyPlacement(PlacementId);

/// Ranks of a nested sequence, and the shape of the nesting.
fn flatten(o: &Bound<'_, PyAny>, depth: usize, ranks: &mut Vec<u32>, shape: &mut Vec<i64>) -> PyResult<()> {
    if let Ok(rank) = o.extract::<i64>() {
        if depth != shape.len() || depth == 0 {
            return Err(PyValueError::new_err("placement: ranks must be a (nested) list of integers of one shape"));
        }
        let rank = u32::try_from(rank).map_err(|_| PyValueError::new_err(format!("placement: no rank is {rank}")))?;
        ranks.push(rank);
        return Ok(());
    }
    let n = o.len()? as i64;
    match shape.get(depth) {
        None if ranks.is_empty() => shape.push(n),
        Some(m) if *m == n => {}
        _ => return Err(PyValueError::new_err("placement: the nested lists of ranks have different lengths")),
    }
    o.try_iter()?.try_for_each(|item| flatten(&item?, depth + 1, ranks, shape))
}

impl PyPlacement {
    fn get(&self) -> PyResult<&'static Placement> {
        self.0.get().ok_or_else(|| PyValueError::new_err("unknown placement"))
    }
    fn nested<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let p = self.get()?;
        nested(py, &p.ranks, &p.hierarchy)
    }
}

fn kind_of(name: &str) -> PyResult<DeviceType> {
    DeviceType::from_name(name).ok_or_else(|| PyValueError::new_err(format!("placement: no device type is {name:?}")))
}

/// The size of the world. A process that a launcher started joins its job first, as nobody else does in OneFlow's programs.
fn n_ranks(py: Python<'_>) -> PyResult<usize> {
    if oneflow_comm::world().size() == 1 {
        py.import("oneflow.distributed")?.call_method0("_join_launched")?;
    }
    Ok(oneflow_comm::world().size())
}

#[pymethods]
impl PyPlacement {
    #[new]
    #[pyo3(signature = (r#type, ranks, parts="balanced"))]
    fn new(r#type: &str, ranks: &Bound<'_, PyAny>, parts: &str) -> PyResult<PyPlacement> {
        let parts = Parts::from_name(parts).ok_or_else(|| {
            PyValueError::new_err(format!("placement: parts must be \"balanced\" or \"chunks\", got {parts:?}"))
        })?;
        let (mut flat, mut shape) = (Vec::new(), Vec::new());
        flatten(ranks, 0, &mut flat, &mut shape)?;
        // A launcher's job begins with the first placement. Ranks that do not exist are found where a placement is used.
        n_ranks(ranks.py())?;
        let p = Placement::new(kind_of(r#type)?, flat, &shape).map_err(to_py)?;
        Ok(PyPlacement(p.with_parts(parts).id()))
    }
    /// All ranks of the world in one row.
    #[classmethod]
    #[pyo3(signature = (r#type))]
    fn all(class: &Bound<'_, PyType>, r#type: &str) -> PyResult<PyPlacement> {
        let n = n_ranks(class.py())?;
        let p = Placement::new(kind_of(r#type)?, (0..n as u32).collect(), &[n as i64]).map_err(to_py)?;
        Ok(PyPlacement(p.id()))
    }
    #[getter]
    fn r#type(&self) -> PyResult<&'static str> {
        Ok(self.get()?.kind.name())
    }
    /// The ranks as an array of the mesh's shape; it also compares equal to the nested list of the same ranks.
    #[getter]
    fn ranks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("oneflow.sbp")?.call_method1("_ranks", (self.nested(py)?,))
    }
    #[getter]
    fn hierarchy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.get()?.hierarchy.iter())
    }
    /// How the ranks of an axis share a dimension: "balanced" or "chunks".
    #[getter]
    fn parts(&self) -> PyResult<&'static str> {
        Ok(self.get()?.parts.name())
    }
    /// The placement of the same ranks with these parts.
    fn _with_parts(&self, parts: &str) -> PyResult<PyPlacement> {
        let parts = Parts::from_name(parts).ok_or_else(|| PyValueError::new_err(format!("no parts are {parts:?}")))?;
        Ok(PyPlacement(self.0.with_parts(parts)))
    }
    /// Start and length of the part of a dimension of `size` elements that coordinate `i` of a mesh axis has.
    fn _part(&self, size: i64, axis: usize, i: i64) -> PyResult<(i64, i64)> {
        let p = self.get()?;
        let n = *p.hierarchy.get(axis).ok_or_else(|| PyValueError::new_err(format!("{p} has no mesh axis {axis}")))?;
        Ok(p.parts.part(size, n, i))
    }
    fn __repr__(&self) -> PyResult<String> {
        Ok(self.get()?.to_string())
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let args = match self.get()?.parts {
            Parts::Balanced => (self.r#type()?, self.nested(py)?).into_pyobject(py)?,
            parts => (self.r#type()?, self.nested(py)?, parts.name()).into_pyobject(py)?,
        };
        Ok((py.get_type::<PyPlacement>(), args))
    }
}

fn nested<'py>(py: Python<'py>, ranks: &[u32], shape: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    if shape.len() < 2 {
        return Ok(PyList::new(py, ranks)?.into_any());
    }
    let step = (ranks.len() / shape[0].max(1) as usize).max(1);
    let parts = ranks.chunks(step).map(|part| nested(py, part, &shape[1..])).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, parts)?.into_any())
}

/// How a global tensor lies over one mesh axis.
///
/// Example::
///
///     >>> oneflow.sbp.sbp("S", 1) == oneflow.sbp.split(1)
///     True
#[pyclass(frozen, eq, hash, name = "sbp", module = "oneflow.sbp")]
#[derive(PartialEq, Eq, Hash)]
pub struct PySbp(Sbp);

#[pymethods]
impl PySbp {
    /// "S" with a dimension, "B", "P" for a sum, or "P(max)" and "P(min)", which ops give and DTensors name.
    #[new]
    #[pyo3(signature = (kind, dim=None))]
    fn new(kind: &str, dim: Option<i64>) -> PyResult<PySbp> {
        Ok(PySbp(match (kind, dim) {
            ("S", Some(d)) if (0..=63).contains(&d) => Sbp::S(d as u8),
            ("S", Some(d)) => {
                return Err(PyValueError::new_err(format!("sbp.split: dim must be between 0 and 63, got {d}")));
            }
            ("B", None) => Sbp::B,
            ("P", None) => Sbp::P_SUM,
            ("P(max)", None) => Sbp::P(PKind::Max),
            ("P(min)", None) => Sbp::P(PKind::Min),
            _ => return Err(PyValueError::new_err(format!("sbp: no such kind: {kind:?} with dim {dim:?}"))),
        }))
    }
    #[getter]
    fn dim(&self) -> Option<u8> {
        if let Sbp::S(d) = self.0 { Some(d) } else { None }
    }
    fn __call__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
    fn __repr__(&self) -> String {
        self.0.to_string()
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let args = match self.0 {
            Sbp::S(d) => ("S", Some(d)).into_pyobject(py)?,
            Sbp::B => ("B", None::<u8>).into_pyobject(py)?,
            Sbp::P(kind) => {
                let name = match kind {
                    PKind::Sum => "P",
                    PKind::Max => "P(max)",
                    PKind::Min => "P(min)",
                };
                (name, None::<u8>).into_pyobject(py)?
            }
        };
        Ok((py.get_type::<PySbp>(), args))
    }
}

/// The placement an argument names. All of its ranks exist.
pub fn placement_of(o: &Bound<'_, PyAny>) -> PyResult<Option<Arg<'static>>> {
    let Ok(placement) = o.cast::<PyPlacement>() else { return Ok(None) };
    let size = oneflow_comm::world().size();
    match placement.get().get()?.ranks.iter().find(|r| **r as usize >= size) {
        None => Ok(Some(Arg::Placement(placement.get().0))),
        Some(r) => {
            Err(PyValueError::new_err(format!("placement: rank {r} does not exist, the world has {size} ranks")))
        }
    }
}

/// The n-D SBP an argument names: one, or a sequence with one a mesh axis.
pub fn sbp_of(o: &Bound<'_, PyAny>) -> PyResult<Option<Arg<'static>>> {
    if let Ok(s) = o.cast::<PySbp>() {
        return Ok(Some(Arg::Sbp(NdSbpId::of(&[s.get().0]))));
    }
    if !(o.is_instance_of::<PyList>() || o.is_instance_of::<PyTuple>()) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for item in o.try_iter()? {
        match item?.cast::<PySbp>() {
            Ok(s) => all.push(s.get().0),
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(Arg::Sbp(NdSbpId::of(&all))))
}

fn spread_of(t: &Tensor, what: &str) -> Result<Spread> {
    global_of(t).map(|g| g.spread).ok_or_else(|| {
        Error::runtime(format!("Only global tensors have '{what}'; this one of shape {:?} is local", t.sizes()))
    })
}

/// The object of a placement.
pub fn placement_object(py: Python<'_>, id: PlacementId) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, PyPlacement(id))?.into_any())
}

/// The tuple of an n-D SBP.
pub fn sbp_object(py: Python<'_>, id: NdSbpId) -> PyResult<Py<PyAny>> {
    let all = id.get().unwrap_or(&[]).iter().map(|s| Py::new(py, PySbp(*s))).collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, all)?.into_any().unbind())
}

/// `x.placement`.
pub fn placement_attribute(py: Python<'_>, t: &Tensor) -> Result<*mut PyObject> {
    let spread = spread_of(t, "placement")?;
    let o = Py::new(py, PyPlacement(spread.placement_id)).map_err(|e| gate::pending(py, e))?;
    Ok(o.into_ptr())
}

/// `x.sbp`, a tuple with one entry a mesh axis.
pub fn sbp_attribute(py: Python<'_>, t: &Tensor) -> Result<*mut PyObject> {
    let made = || {
        let all = spread_of(t, "sbp").map_err(to_py)?.sbp.iter().map(|s| Py::new(py, PySbp(*s)));
        PyTuple::new(py, all.collect::<PyResult<Vec<_>>>()?)
    };
    made().map(|t| t.into_ptr()).map_err(|e| gate::pending(py, e))
}

/// A tensor made of a number or a list, to combine with `other`: where that is global, broadcast over its placement.
pub fn like(number: Tensor, other: Option<&Tensor>) -> Result<Tensor> {
    let Some(g) = other.and_then(global_of) else { return Ok(number) };
    let here = g.local.is_some().then(|| number.clone());
    oneflow_global::make(&number, number.sizes(), Spread::broadcast(g.spread.placement_id)?, here)
}

/// The elements on the host: of a global tensor the whole, while other ranks of this process may run.
pub fn copy_to_host(t: &Tensor) -> Result<Tensor> {
    if t.has_key(bit::SPARSE) {
        return Err(Error::type_("the elements of a sparse tensor cannot be read: call to_dense() first"));
    }
    if t.is_only_a_subclass() {
        return Err(crate::subclass::without_memory("the elements cannot be read", t));
    }
    let global = t.has_key(bit::GLOBAL);
    if !global
        && t.has_key(bit::LAZY)
        && let Some(constant) = oneflow_graph::known(t)?
    {
        return oneflow_core::copy_to_host(&constant);
    }
    if !global && (t.device().is_cpu() || t.device().is_meta()) {
        return oneflow_core::copy_to_host(t);
    }
    // Another device, or other ranks, have to be waited for.
    let own = t.clone();
    let copy = || if global { oneflow_global::copy_to_host(&own) } else { oneflow_core::copy_to_host(&own) };
    gate::attach(|py| gate::detach(py, copy))
}

/// Bytes this rank put on the wire and calls it made, by kind of collective.
#[pyfunction]
fn _wire_counters() -> Vec<(&'static str, u64, u64)> {
    oneflow_global::wire_counters().into_iter().map(|(k, bytes, calls)| (k.name(), bytes, calls)).collect()
}

/// The process group of each axis of a placement; None for axes of one rank. Every rank of the world makes them together.
#[pyfunction]
fn _axis_groups(py: Python<'_>, placement: &PyPlacement) -> PyResult<Vec<Option<PyGroup>>> {
    let id = placement.0;
    let p = placement.get()?;
    let groups = gate::run(|| gate::detach(py, || oneflow_global::axis_groups(id, p)))?;
    Ok(groups.iter().map(|g| g.clone().map(PyGroup)).collect())
}

/// Gives a placement the groups of a larger one, one for each axis.
#[pyfunction]
fn _adopt_axis_groups(placement: &PyPlacement, groups: Vec<Option<PyRef<'_, PyGroup>>>) -> PyResult<()> {
    let groups = groups.iter().map(|g| g.as_ref().map(|g| g.0.clone())).collect();
    let p = placement.get()?;
    gate::run(|| oneflow_global::adopt_axis_groups(placement.0, p, groups))
}

/// Records the calls on global tensors that this thread traces from now on, or drops what was recorded.
#[pyfunction]
fn _record_global_calls(on: bool) {
    oneflow_global::fingerprints::record(on);
}

/// Compares what was recorded with the other ranks, and raises on all of them if they differ.
#[pyfunction]
fn _compare_global_calls(py: Python<'_>, program: &str) -> PyResult<()> {
    gate::run(|| gate::detach(py, || oneflow_global::fingerprints::compare(program)))
}

/// How many moves between placements this rank has traced or passed.
#[pyfunction]
fn _traced_moves() -> u32 {
    oneflow_global::boxing::traced_moves()
}

/// Counts moves that other ranks trace and this one does not: all ranks know a move by its number.
#[pyfunction]
fn _pass_moves(n: u32) {
    oneflow_global::boxing::pass_moves(n);
}

#[pyfunction]
fn _reset_wire_counters() {
    oneflow_global::reset_wire_counters();
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_global::register();
    m.add_class::<PyPlacement>()?;
    m.add("_sbp", m.py().get_type::<PySbp>())?;
    m.add_function(wrap_pyfunction!(_wire_counters, m)?)?;
    m.add_function(wrap_pyfunction!(_record_global_calls, m)?)?;
    m.add_function(wrap_pyfunction!(_compare_global_calls, m)?)?;
    m.add_function(wrap_pyfunction!(_axis_groups, m)?)?;
    m.add_function(wrap_pyfunction!(_traced_moves, m)?)?;
    m.add_function(wrap_pyfunction!(_pass_moves, m)?)?;
    m.add_function(wrap_pyfunction!(_adopt_axis_groups, m)?)?;
    m.add_function(wrap_pyfunction!(_reset_wire_counters, m)?)
}
