//! The op table as tests see it: `_C._ops()`, `_C._samples(name)`, and `_C._count_flops(function)`. Nothing public is made of it.

use oneflow_core::{
    Call, Faces, Outs, Sample, SampleArg, Tls, bit, op_by_name, ops, redispatch, register_layer, tls, with_tls,
};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::cell::RefCell;
use std::collections::BTreeMap;

const FACES: [(Faces, &str); 6] = [
    (Faces::FN, "function"),
    (Faces::METHOD, "method"),
    (Faces::INPLACE, "inplace"),
    (Faces::OUT, "out"),
    (Faces::PRIVATE, "private"),
    (Faces::NN, "nn"),
];

/// Every op: its full name, public name, faces, signature and documentation.
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

thread_local! {
    static FLOPS: RefCell<BTreeMap<&'static str, f64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Adds what each op says it costs, once it has run.
fn count(c: &Call<'_>, below: u32, outs: &mut Outs) -> oneflow_core::base::Result<()> {
    redispatch(c, below, outs)?;
    let metas: Vec<_> = outs.tensors().iter().map(|t| t.meta()).collect();
    let flops = (c.op.cost)(c, &metas).flops;
    FLOPS.with_borrow_mut(|f| *f.entry(c.op.name()).or_default() += flops);
    Ok(())
}

/// Calls `function` and returns the floating-point operations of every op it dispatched on this thread, by name.
#[pyfunction]
fn _count_flops<'py>(py: Python<'py>, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    FLOPS.take();
    {
        let now = tls();
        let _guard = with_tls(Tls { on: now.on | 1 << bit::WATCH, ..now });
        function.call0()?;
    }
    let d = PyDict::new(py);
    for (name, flops) in FLOPS.take() {
        d.set_item(name, flops)?;
    }
    Ok(d)
}

/// Adds the functions to the private module.
pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    register_layer(bit::WATCH, count);
    let private = m.getattr("_C")?;
    let private = private.cast::<PyModule>()?;
    private.setattr("_ops", wrap_pyfunction!(_ops, private)?)?;
    private.setattr("_samples", wrap_pyfunction!(_samples, private)?)?;
    private.setattr("_count_flops", wrap_pyfunction!(_count_flops, private)?)
}
