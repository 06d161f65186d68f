//! The logical graph of a trace as Python data: what exporters read. Nothing is rewritten here.

use crate::object::bound;
use oneflow_core::base::{Arg, Result};
use oneflow_core::{Tensor, Ty};
use oneflow_graph::{Graph, Kind, Node};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// A dictionary: `values` (dtype, sizes, strides, offset, root), `nodes` (op, inputs by name, arguments by name, outputs,
/// place in the user's program), `variables` (value, name, tensor), `inputs`, `outputs`, `writes` (target, value).
pub fn logical<'py>(py: Python<'py>, g: &Graph) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    let values = PyList::empty(py);
    for v in &g.values {
        let (m, root) = (&v.meta, v.root);
        values.append((m.dtype.name(), m.sizes.to_vec(), m.strides.to_vec(), v.offset, root))?;
    }
    let nodes = PyList::empty(py);
    for n in &g.nodes {
        nodes.append(node(py, n)?)?;
    }
    let variables = PyList::empty(py);
    for v in &g.variables {
        let m = g.meta(v.value);
        let tensor = crate::gate::run(|| -> Result<Tensor> {
            Tensor::from_storage(v.storage.clone(), m.dtype, m.sizes.clone(), m.strides.clone(), 0)
        })?;
        variables.append((v.value, &v.name, bound(py, tensor)?))?;
    }
    d.set_item("values", values)?;
    d.set_item("nodes", nodes)?;
    d.set_item("variables", variables)?;
    d.set_item("inputs", &g.inputs)?;
    d.set_item("outputs", &g.outputs)?;
    d.set_item("writes", g.writes.iter().map(|w| (w.target, w.value)).collect::<Vec<_>>())?;
    Ok(d)
}

fn node<'py>(py: Python<'py>, n: &Node) -> PyResult<Bound<'py, PyTuple>> {
    let (ins, args) = (PyDict::new(py), PyDict::new(py));
    let mut name = n.name();
    if let Kind::Op { op, attrs } = &n.kind {
        name = op.name().to_owned();
        let list = attrs.args();
        let (mut i, mut a) = (0, 0);
        for p in op.sig.params() {
            let arg = if p.is_arg() { list.get(a).copied().unwrap_or(Arg::None) } else { Arg::None };
            a += p.is_arg() as usize;
            match (p.ty, arg) {
                (Ty::TensorList, Arg::Len(len)) => {
                    let end = (i + len as usize).min(n.ins.len());
                    ins.set_item(p.name, n.ins[i.min(end)..end].to_vec())?;
                    i = end;
                    continue;
                }
                (Ty::TensorList, _) => {
                    ins.set_item(p.name, py.None())?;
                    continue;
                }
                _ => {}
            }
            if p.is_input() {
                ins.set_item(p.name, n.ins.get(i).copied().flatten())?;
                i += 1;
            }
            if p.is_arg() {
                args.set_item(p.name, argument(py, arg)?)?;
            }
        }
    }
    let updates: Vec<(u32, u32)> = n.updates.to_vec();
    (name, ins, args, n.outs.to_vec(), n.stack.as_deref(), updates).into_pyobject(py)
}

pub(crate) fn argument<'py>(py: Python<'py>, a: Arg<'_>) -> PyResult<Bound<'py, PyAny>> {
    match a {
        Arg::Bool(b) => b.into_bound_py_any(py),
        Arg::Int(i) => i.into_bound_py_any(py),
        Arg::Float(f) => f.into_bound_py_any(py),
        Arg::DType(d) => d.name().into_bound_py_any(py),
        Arg::Ints(v) => v.to_vec().into_bound_py_any(py),
        Arg::Floats(v) => v.to_vec().into_bound_py_any(py),
        Arg::Sym(_) => a.str().map(str::to_owned).into_bound_py_any(py),
        Arg::Device(d) => d.to_string().into_bound_py_any(py),
        Arg::Complex(r, i) => (r, i).into_bound_py_any(py),
        Arg::Rng { .. } | Arg::RngAt { .. } => "generator".into_bound_py_any(py),
        _ => Ok(py.None().into_bound(py)),
    }
}
