//! ONNX files as dictionaries, in the names of ONNX's schema, and back. What nodes mean is decided in Python.

use crate::gate::{self, run, to_py};
use crate::global::copy_to_host;
use crate::object::get;
use oneflow_core::base::{Error, Result};
use oneflow_core::{Pin, Storage, Tensor};
use oneflow_onnx::proto::*;
use oneflow_onnx::{Bytes, Elements, Folder, MappedFile, Source, decode, parse, read_file, write_file};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList};
use std::path::PathBuf;
use std::sync::Arc;

/// The elements of a tensor in a file, which a call reads.
#[pyclass(frozen, module = "oneflow", name = "_OnnxElements")]
struct OnnxElements {
    tensor: TensorProto,
    file: Option<MappedFile>,
    folder: Option<Arc<Folder>>,
}

#[pymethods]
impl OnnxElements {
    fn __call__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match run(|| decode(&self.tensor, self.folder.as_deref()))? {
            Elements::Bytes(b) => {
                let copy = PyByteArray::new(py, &b).into_any();
                if let Some(file) = &self.file {
                    file.forget(&b);
                }
                Ok(copy)
            }
            Elements::Strings(s) => Ok(PyList::new(py, s.iter().map(|b| PyBytes::new(py, b)))?.into_any()),
        }
    }
}

/// What reads a message: the file that it lies in, and where its other files lie.
struct Reader<'py> {
    py: Python<'py>,
    file: Option<MappedFile>,
    folder: Option<Arc<Folder>>,
}

type Dict<'py> = PyResult<Bound<'py, PyDict>>;

impl<'py> Reader<'py> {
    fn list<M>(&self, d: &Bound<'py, PyDict>, name: &str, all: &[M], one: impl Fn(&M) -> Dict<'py>) -> PyResult<()> {
        if all.is_empty() {
            return Ok(());
        }
        let list = PyList::empty(self.py);
        for m in all {
            list.append(one(m)?)?;
        }
        d.set_item(name, list)
    }

    fn model(&self, m: &ModelProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "ir_version", m.ir_version)?;
        put(&d, "producer_name", m.producer_name.as_deref())?;
        put(&d, "producer_version", m.producer_version.as_deref())?;
        put(&d, "doc_string", m.doc_string.as_deref())?;
        self.list(&d, "opset_import", &m.opset_import, |o| self.opset(o))?;
        self.list(&d, "metadata_props", &m.metadata_props, |p| self.property(p))?;
        self.list(&d, "functions", &m.functions, |f| self.function(f))?;
        put(&d, "graph", m.graph.as_ref().map(|g| self.graph(g)).transpose()?)?;
        Ok(d)
    }

    fn opset(&self, o: &OperatorSetIdProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "domain", o.domain.as_deref())?;
        put(&d, "version", o.version)?;
        Ok(d)
    }

    fn property(&self, p: &StringStringEntryProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "key", p.key.as_deref())?;
        put(&d, "value", p.value.as_deref())?;
        Ok(d)
    }

    fn function(&self, f: &FunctionProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "name", f.name.as_deref())?;
        put(&d, "domain", f.domain.as_deref())?;
        put(&d, "overload", f.overload.as_deref())?;
        d.set_item("input", &f.input)?;
        d.set_item("output", &f.output)?;
        self.list(&d, "node", &f.node, |n| self.node(n))?;
        self.list(&d, "attribute_proto", &f.attribute_proto, |a| self.attribute(a))?;
        self.list(&d, "opset_import", &f.opset_import, |o| self.opset(o))?;
        Ok(d)
    }

    fn graph(&self, g: &GraphProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "name", g.name.as_deref())?;
        self.list(&d, "node", &g.node, |n| self.node(n))?;
        self.list(&d, "initializer", &g.initializer, |t| self.tensor(t))?;
        self.list(&d, "sparse_initializer", &g.sparse_initializer, |t| self.sparse(t))?;
        self.list(&d, "input", &g.input, |v| self.value_info(v))?;
        self.list(&d, "output", &g.output, |v| self.value_info(v))?;
        self.list(&d, "metadata_props", &g.metadata_props, |p| self.property(p))?;
        Ok(d)
    }

    fn node(&self, n: &NodeProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "op_type", n.op_type.as_deref())?;
        put(&d, "domain", n.domain.as_deref())?;
        put(&d, "overload", n.overload.as_deref())?;
        put(&d, "name", n.name.as_deref())?;
        d.set_item("input", &n.input)?;
        d.set_item("output", &n.output)?;
        self.list(&d, "attribute", &n.attribute, |a| self.attribute(a))?;
        self.list(&d, "metadata_props", &n.metadata_props, |p| self.property(p))?;
        Ok(d)
    }

    /// Name, type and the value of that type; files of version 1 do not say the type.
    fn attribute(&self, a: &AttributeProto) -> Dict<'py> {
        let py = self.py;
        let d = PyDict::new(py);
        put(&d, "name", a.name.as_deref())?;
        put(&d, "ref_attr_name", a.ref_attr_name.as_deref())?;
        let kind = a.r#type.filter(|t| *t != 0).unwrap_or_else(|| kind_of(a));
        d.set_item("type", kind)?;
        let some = |d: Option<Dict<'py>>| d.transpose().map(|d| d.map(Bound::into_any));
        let many = |all: Vec<Dict<'py>>| -> PyResult<Option<Bound<'py, PyAny>>> {
            Ok(Some(PyList::new(py, all.into_iter().collect::<PyResult<Vec<_>>>()?)?.into_any()))
        };
        let value = match kind {
            1 => Some(a.f.unwrap_or(0.0).into_bound_py_any(py)?),
            2 => Some(a.i.unwrap_or(0).into_bound_py_any(py)?),
            3 => Some(PyBytes::new(py, a.s.as_deref().unwrap_or(b"")).into_any()),
            4 => some(a.t.as_ref().map(|t| self.tensor(t)))?,
            5 => some(a.g.as_ref().map(|g| self.graph(g)))?,
            6 => Some(a.floats.clone().into_bound_py_any(py)?),
            7 => Some(a.ints.clone().into_bound_py_any(py)?),
            8 => Some(PyList::new(py, a.strings.iter().map(|s| PyBytes::new(py, s)))?.into_any()),
            9 => many(a.tensors.iter().map(|t| self.tensor(t)).collect())?,
            10 => many(a.graphs.iter().map(|g| self.graph(g)).collect())?,
            11 => some(a.sparse_tensor.as_ref().map(|t| self.sparse(t)))?,
            12 => many(a.sparse_tensors.iter().map(|t| self.sparse(t)).collect())?,
            13 => some(a.tp.as_ref().map(|t| self.kind(t)))?,
            14 => many(a.type_protos.iter().map(|t| self.kind(t)).collect())?,
            other => {
                let name = a.name.as_deref().unwrap_or("");
                return Err(to_py(Error::value(format!("ONNX: the attribute {name:?} has the unknown type {other}"))));
            }
        };
        if value.is_none() && a.ref_attr_name.as_deref().unwrap_or("").is_empty() {
            let name = a.name.as_deref().unwrap_or("");
            return Err(to_py(Error::value(format!("ONNX: the attribute {name:?} has no value"))));
        }
        put(&d, "value", value)?;
        Ok(d)
    }

    fn tensor(&self, t: &TensorProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "name", t.name.as_deref())?;
        let elements = OnnxElements { tensor: t.clone(), file: self.file.clone(), folder: self.folder.clone() };
        d.set_item("tensor", (t.data_type.unwrap_or(0), &t.dims, Bound::new(self.py, elements)?))?;
        Ok(d)
    }

    fn sparse(&self, t: &SparseTensorProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        let (Some(values), Some(indices)) = (&t.values, &t.indices) else {
            return Err(to_py(Error::value("ONNX: a sparse tensor has no values or no indices")));
        };
        d.set_item("values", self.tensor(values)?)?;
        d.set_item("indices", self.tensor(indices)?)?;
        d.set_item("dims", &t.dims)?;
        Ok(d)
    }

    fn value_info(&self, v: &ValueInfoProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        put(&d, "name", v.name.as_deref())?;
        put(&d, "type", v.r#type.as_ref().map(|t| self.kind(t)).transpose()?)?;
        Ok(d)
    }

    fn kind(&self, t: &TypeProto) -> Dict<'py> {
        let d = PyDict::new(self.py);
        let tensor = |t: &TensorType| -> Dict<'py> {
            let d = PyDict::new(self.py);
            put(&d, "elem_type", t.elem_type)?;
            if let Some(shape) = &t.shape {
                let dims = PyList::empty(self.py);
                for dim in &shape.dim {
                    let one = PyDict::new(self.py);
                    put(&one, "dim_value", dim.dim_value)?;
                    put(&one, "dim_param", dim.dim_param.as_deref())?;
                    dims.append(one)?;
                }
                let shape = PyDict::new(self.py);
                shape.set_item("dim", dims)?;
                d.set_item("shape", shape)?;
            }
            Ok(d)
        };
        put(&d, "tensor_type", t.tensor_type.as_ref().map(tensor).transpose()?)?;
        put(&d, "sparse_tensor_type", t.sparse_tensor_type.as_ref().map(tensor).transpose()?)?;
        for (name, is_it) in [
            ("sequence_type", t.sequence_type.is_some()),
            ("optional_type", t.optional_type.is_some()),
            ("map_type", t.map_type.is_some()),
        ] {
            if is_it {
                d.set_item(name, PyDict::new(self.py))?;
            }
        }
        Ok(d)
    }
}

fn put<'py, V: IntoPyObjectExt<'py>>(d: &Bound<'py, PyDict>, name: &str, value: Option<V>) -> PyResult<()> {
    match value {
        Some(v) => d.set_item(name, v.into_bound_py_any(d.py())?),
        None => Ok(()),
    }
}

fn kind_of(a: &AttributeProto) -> i32 {
    let kinds = [
        (a.f.is_some(), 1),
        (a.i.is_some(), 2),
        (a.s.is_some(), 3),
        (a.t.is_some(), 4),
        (a.g.is_some(), 5),
        (!a.floats.is_empty(), 6),
        (!a.ints.is_empty(), 7),
        (!a.strings.is_empty(), 8),
        (!a.tensors.is_empty(), 9),
        (!a.graphs.is_empty(), 10),
    ];
    kinds.iter().find(|(is_it, _)| *is_it).map_or(7, |(_, kind)| *kind)
}

/// Reads a model from a file, or from bytes.
#[pyfunction]
fn _onnx_read<'py>(py: Python<'py>, path: Option<PathBuf>, data: Option<&[u8]>) -> Dict<'py> {
    let source = match (path, data) {
        (Some(path), _) => run(|| gate::detach(py, || read_file(&path)))?,
        (None, data) => {
            let bytes = Bytes::copy_from_slice(data.unwrap_or_default());
            Source { model: run(|| gate::detach(py, || parse(bytes)))?, file: None, folder: None }
        }
    };
    Reader { py, file: source.file, folder: source.folder.map(Arc::new) }.model(&source.model)
}

/// Reads fields of a dictionary.
struct Fields<'a, 'py>(&'a Bound<'py, PyDict>);

impl<'py> Fields<'_, 'py> {
    fn get<T>(&self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        match self.0.get_item(name)? {
            Some(v) if !v.is_none() => v.extract().map(Some),
            _ => Ok(None),
        }
    }
    fn text(&self, name: &str) -> PyResult<Option<String>> {
        match self.0.get_item(name)? {
            Some(v) if !v.is_none() => v.extract().map(Some),
            _ => Ok(None),
        }
    }
    fn all<M>(&self, name: &str, one: impl Fn(&Fields<'_, 'py>) -> PyResult<M>) -> PyResult<Vec<M>> {
        let Some(list) = self.0.get_item(name)? else { return Ok(Vec::new()) };
        list.try_iter()?.map(|item| one(&Fields(item?.cast::<PyDict>()?))).collect()
    }
    fn texts(&self, name: &str) -> PyResult<Vec<String>> {
        match self.0.get_item(name)? {
            Some(v) => v.extract(),
            None => Ok(Vec::new()),
        }
    }
}

fn model_of(d: &Fields<'_, '_>) -> PyResult<ModelProto> {
    let Some(graph) = d.0.get_item("graph")? else {
        return Err(to_py(Error::value("ONNX: the model has no graph")));
    };
    Ok(ModelProto {
        ir_version: d.get("ir_version")?,
        producer_name: d.text("producer_name")?,
        producer_version: d.text("producer_version")?,
        doc_string: d.text("doc_string")?,
        opset_import: d.all("opset_import", |o| {
            Ok(OperatorSetIdProto { domain: Some(o.text("domain")?.unwrap_or_default()), version: o.get("version")? })
        })?,
        metadata_props: d.all("metadata_props", property_of)?,
        graph: Some(graph_of(&Fields(graph.cast()?))?),
        ..ModelProto::default()
    })
}

fn property_of(d: &Fields<'_, '_>) -> PyResult<StringStringEntryProto> {
    Ok(StringStringEntryProto { key: d.text("key")?, value: d.text("value")? })
}

fn graph_of(d: &Fields<'_, '_>) -> PyResult<GraphProto> {
    Ok(GraphProto {
        name: d.text("name")?,
        node: d.all("node", node_of)?,
        initializer: d.all("initializer", tensor_of)?,
        input: d.all("input", value_info_of)?,
        output: d.all("output", value_info_of)?,
        value_info: d.all("value_info", value_info_of)?,
        ..GraphProto::default()
    })
}

fn node_of(d: &Fields<'_, '_>) -> PyResult<NodeProto> {
    Ok(NodeProto {
        input: d.texts("input")?,
        output: d.texts("output")?,
        name: d.text("name")?,
        op_type: d.text("op_type")?,
        domain: d.text("domain")?,
        attribute: d.all("attribute", attribute_of)?,
        metadata_props: d.all("metadata_props", property_of)?,
        ..NodeProto::default()
    })
}

fn attribute_of(d: &Fields<'_, '_>) -> PyResult<AttributeProto> {
    let kind: i32 = d.get("type")?.unwrap_or(0);
    let mut a = AttributeProto { name: d.text("name")?, r#type: Some(kind), ..AttributeProto::default() };
    let Some(v) = d.0.get_item("value")? else { return Ok(a) };
    match kind {
        1 => a.f = Some(v.extract()?),
        2 => a.i = Some(v.extract()?),
        3 => a.s = Some(Bytes::copy_from_slice(v.extract()?)),
        4 => a.t = Some(tensor_of(&Fields(v.cast()?))?),
        5 => a.g = Some(graph_of(&Fields(v.cast()?))?),
        6 => a.floats = v.extract()?,
        7 => a.ints = v.extract()?,
        8 => a.strings = v.extract::<Vec<Vec<u8>>>()?.into_iter().map(Bytes::from).collect(),
        other => return Err(to_py(Error::value(format!("ONNX: attributes of type {other} are not written")))),
    }
    Ok(a)
}

/// A tensor's elements are bytes, or lie in a tensor of this package.
fn tensor_of(d: &Fields<'_, '_>) -> PyResult<TensorProto> {
    let data = d.0.get_item("data")?.ok_or_else(|| to_py(Error::value("ONNX: a tensor has no data")))?;
    let raw = match get(&data) {
        Some(t) => run(|| host_bytes(t))?,
        None => Bytes::copy_from_slice(data.extract()?),
    };
    Ok(TensorProto {
        name: d.text("name")?,
        data_type: d.get("elem")?,
        dims: d.get("dims")?.unwrap_or_default(),
        raw_data: Some(raw),
        ..TensorProto::default()
    })
}

/// The memory that a contiguous tensor on the host has now: the pin keeps it, whatever becomes of the storage.
struct HostMemory {
    start: *const u8,
    bytes: usize,
    _tensor: Tensor,
    _pin: Option<Pin>,
}
// SAFETY: the memory is only read, and a tensor may be dropped on any thread.
unsafe impl Send for HostMemory {}

impl AsRef<[u8]> for HostMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: there are this many bytes at `start`, by `host_bytes`, for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// A tensor's elements; those of a contiguous tensor on the host are not copied.
fn host_bytes(t: &Tensor) -> Result<Bytes> {
    t.check_memory()?;
    let here = t.device().is_cpu() && t.storage().is_some() && t.is_contiguous();
    // A copy is contiguous.
    let tensor = if here { t.clone() } else { copy_to_host(t)? };
    let bytes = tensor.numel() as usize * tensor.dtype().size();
    if bytes == 0 {
        return Ok(Bytes::new());
    }
    let (start, pin) = (tensor.data_ptr().cast_const(), tensor.storage().map(Storage::pin));
    Ok(Bytes::from_owner(HostMemory { start, bytes, _tensor: tensor, _pin: pin }))
}

fn value_info_of(d: &Fields<'_, '_>) -> PyResult<ValueInfoProto> {
    let mut shape = None;
    if let Some(sizes) = d.0.get_item("sizes")? {
        let mut dims = Vec::new();
        for size in sizes.try_iter()? {
            let size = size?;
            let mut dim = Dimension::default();
            if let Ok(n) = size.extract::<i64>() {
                dim.dim_value = Some(n);
            } else if let Ok(name) = size.extract::<String>() {
                dim.dim_param = Some(name);
            }
            dims.push(dim);
        }
        shape = Some(TensorShapeProto { dim: dims });
    }
    let tensor = TensorType { elem_type: d.get("elem")?, shape };
    let kind = TypeProto { tensor_type: Some(tensor), ..TypeProto::default() };
    Ok(ValueInfoProto { name: d.text("name")?, r#type: Some(kind), ..ValueInfoProto::default() })
}

/// Writes a model to a file; returns the path of the file with its tensors, if there is one.
#[pyfunction]
fn _onnx_write(py: Python<'_>, model: &Bound<'_, PyDict>, path: PathBuf, external: bool) -> PyResult<Option<PathBuf>> {
    let model = model_of(&Fields(model))?;
    run(|| gate::detach(py, || write_file(model, &path, external)))
}

/// The bytes of a model.
#[pyfunction]
fn _onnx_encode<'py>(py: Python<'py>, model: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyBytes>> {
    let model = model_of(&Fields(model))?;
    Ok(PyBytes::new(py, &run(|| oneflow_onnx::encode(&model))?))
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<OnnxElements>()?;
    m.add_function(wrap_pyfunction!(_onnx_read, m)?)?;
    m.add_function(wrap_pyfunction!(_onnx_write, m)?)?;
    m.add_function(wrap_pyfunction!(_onnx_encode, m)?)
}
