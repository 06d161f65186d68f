//! The op table for tests: `_C._ops()`, `_C._samples(name)` and `_C._rows(name)`. Nothing public uses it.

use crate::gate::run;
use oneflow_core::base::{Parts, Sbp};
use oneflow_core::{BoundSample, Faces, Kernel, OpDef, Outs, Sample, SampleArg, ShapeOf, Traits, op_by_name, ops};
use oneflow_global::candidates;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

const FACES: [(Faces, &str); 6] = [
    (Faces::FN, "function"),
    (Faces::METHOD, "method"),
    (Faces::INPLACE, "inplace"),
    (Faces::OUT, "out"),
    (Faces::PRIVATE, "private"),
    (Faces::NN, "nn"),
];

/// What decides how a call is translated to another system.
fn kinds(op: &OpDef) -> Vec<&'static str> {
    let kinds = [
        (op.compose.is_some(), "composed"),
        (matches!(op.kernel, Kernel::Elementwise(_)), "elementwise"),
        (matches!(op.kernel, Kernel::Layer(_)), "layer"),
        (op.shape == ShapeOf::Data, "data"),
        (op.traits.has(Traits::RANDOM), "draws"),
        (op.traits.has(Traits::MUTATES), "writes"),
    ];
    kinds.iter().filter(|(is_it, _)| *is_it).map(|(_, kind)| *kind).collect()
}

/// Every op: its full name, public name, public forms, signature, documentation and kinds.
#[pyfunction]
fn _ops<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    for op in ops() {
        let d = PyDict::new(py);
        d.set_item("name", op.name())?;
        d.set_item("public", op.sig.name)?;
        let faces: Vec<&str> = FACES.iter().filter(|(f, _)| op.faces.has(*f)).map(|(_, n)| *n).collect();
        d.set_item("faces", faces)?;
        d.set_item("signature", op.sig.text)?;
        d.set_item("doc", op.doc)?;
        d.set_item("kinds", kinds(op))?;
        all.append(d)?;
    }
    Ok(all)
}

/// The samples of an op as `(args, kwargs)`. A tensor is `("tensor", dtype, sizes, low, high)`.
#[pyfunction]
fn _samples<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
    let op = op_by_name(name).ok_or_else(|| PyKeyError::new_err(format!("no op is named {name}")))?;
    let all = PyList::empty(py);
    for Sample { args, kwargs } in (op.samples)() {
        let list = PyList::empty(py);
        for a in &args {
            list.append(described(py, a)?)?;
        }
        let named = PyDict::new(py);
        for (k, a) in &kwargs {
            named.set_item(*k, described(py, a)?)?;
        }
        all.append((list, named))?;
    }
    Ok(all)
}

/// The SBP rows that an op offers for each of its samples: lists of input layouts, one a tensor that is there, in the
/// signature's order. None for ops that are run as their compositions.
#[pyfunction]
fn _rows(name: &str) -> PyResult<Vec<Vec<Vec<String>>>> {
    let op = op_by_name(name).ok_or_else(|| PyKeyError::new_err(format!("no op is named {name}")))?;
    (op.samples)()
        .iter()
        .map(|sample| {
            run(|| {
                let bound = BoundSample::new(op, sample, &mut BoundSample::fill)?;
                let mut shells = Outs::new();
                let known = bound.with(|c| (c.op.infer)(c, &mut shells));
                let rows = match known {
                    Ok(()) => bound.with(|c| candidates(c, shells.tensors(), Parts::Balanced))?,
                    // Without a rule of its own the op is its composition, whose ops have theirs.
                    Err(_) => Vec::new(),
                };
                let there = |row: &[Sbp]| {
                    row.iter()
                        .zip(&bound.ins)
                        .filter(|(_, t)| t.is_some())
                        .map(|(s, _)| format!("{s:?}"))
                        .collect::<Vec<_>>()
                };
                Ok(rows.iter().map(|c| there(&c.row.ins)).collect())
            })
        })
        .collect()
}

fn described<'py>(py: Python<'py>, a: &SampleArg) -> PyResult<Bound<'py, PyAny>> {
    Ok(match a {
        SampleArg::Tensor { dtype, sizes, low, high } => {
            ("tensor", dtype.name(), sizes.clone(), *low, *high).into_pyobject(py)?.into_any()
        }
        SampleArg::List(items) => {
            let items = items.iter().map(|i| described(py, i)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, ["list".into_pyobject(py)?.into_any(), PyList::new(py, items)?.into_any()])?.into_any()
        }
        SampleArg::DType(d) => ("dtype", d.name()).into_pyobject(py)?.into_any(),
        SampleArg::None => py.None().into_bound(py),
        SampleArg::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        SampleArg::Int(i) => i.into_pyobject(py)?.into_any(),
        SampleArg::Float(f) => f.into_pyobject(py)?.into_any(),
        SampleArg::Ints(v) => v.clone().into_pyobject(py)?.into_any(),
        SampleArg::Str(s) => s.into_pyobject(py)?.into_any(),
    })
}

/// Adds the functions to the private module.
pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let private = m.getattr("_C")?;
    let private = private.cast::<PyModule>()?;
    private.setattr("_ops", wrap_pyfunction!(_ops, private)?)?;
    private.setattr("_samples", wrap_pyfunction!(_samples, private)?)?;
    private.setattr("_rows", wrap_pyfunction!(_rows, private)?)
}
