//! Embedding rows for `oneflow.one_embedding`: the store of `oneflow-embedding`, its batches and what it saved, over tensors.

mod batch;
mod options;
mod saved;
mod store;
mod tensors;

use pyo3::prelude::*;

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<batch::PyBatch>()?;
    m.add_class::<batch::PyBags>()?;
    m.add_class::<batch::PyKeys>()?;
    m.add_class::<saved::PySaved>()?;
    m.add_class::<store::PyStore>()
}
