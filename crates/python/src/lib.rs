//! `oneflow._oneflow`: the compiled half of the Python package.
//!
//! Arguments in, results out, errors mapped. No maths, no element loops, no policy: what an op means stands in the op table, and
//! its functions, methods, in-place and `out=` forms are made from there.

mod attrs;
mod autocast;
mod autograd;
mod batch;
mod call;
mod class;
mod classes;
mod convert;
mod create;
mod cuda;
mod cuda_graph;
mod cuda_memory;
mod default_device;
mod distributed;
mod dlpack;
mod dynamic;
mod embedding;
mod entry;
mod feed;
mod forms;
mod function;
mod gate;
mod generator;
mod global;
mod graph;
mod halves;
mod hand;
mod index;
mod inspect;
mod interceptors;
mod layouts;
mod loaded;
mod logging;
mod methods;
mod node_objects;
mod numpy;
mod object;
mod old_order;
mod onnx;
mod operators;
mod overload;
mod overrides;
mod parse;
mod placed;
mod profiler;
mod records;
mod return_types;
mod saved;
mod scalar;
mod settings;
mod simulate;
mod size;
mod sparse;
mod storage;
mod stores;
mod subclass;
mod table;
mod traced;
mod value;

use pyo3::prelude::*;

#[pymodule]
fn _oneflow(m: &Bound<'_, PyModule>) -> PyResult<()> {
    oneflow_kernels::register_all();
    logging::install();
    oneflow_ops::register();
    oneflow_autograd::register();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("OutOfMemoryError", m.py().get_type::<gate::OutOfMemoryError>())?;
    m.add("_LinAlgError", m.py().get_type::<gate::LinAlgError>())?;
    class::make(m)?;
    size::add(m)?;
    classes::add(m)?;
    generator::add(m)?;
    autocast::add(m)?;
    autograd::add(m)?;
    function::add(m)?;
    storage::add(m)?;
    oneflow_sparse::register();
    batch::add(m)?;
    numpy::add(m)?;
    settings::add(m)?;
    default_device::add(m)?;
    cuda::add(m)?;
    cuda_graph::add(m)?;
    cuda_memory::add(m)?;
    global::add(m)?;
    placed::add(m)?;
    distributed::add(m)?;
    dynamic::add(m)?;
    graph::add(m)?;
    simulate::add(m)?;
    loaded::add(m)?;
    onnx::add(m)?;
    feed::add(m)?;
    records::add(m)?;
    embedding::add(m)?;
    forms::add(m)?;
    return_types::add(m)?;
    profiler::add(m)?;
    table::fill(m)?;
    inspect::add(m)
}
