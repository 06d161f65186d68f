//! Python objects that hang on a node of the tape: its hooks, what users note on it, and the one object that shows it.

use crate::gate::Shared;
use oneflow_autograd as ag;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

/// Python objects of a node. If one tensor, or the node's own object, alone holds the node, that reports them to the garbage
/// collector.
#[derive(Default)]
pub struct NodeObjects {
    /// Hooks by number.
    pub hooks: OnceLock<Shared>,
    pub metadata: OnceLock<Shared>,
    /// The node's object, which clears this when it goes: a node has one at a time.
    pub object: AtomicUsize,
}

impl NodeObjects {
    pub fn dicts(&self) -> impl Iterator<Item = &Shared> {
        [self.hooks.get(), self.metadata.get()].into_iter().flatten()
    }

    /// Breaks the cycles that the dicts are part of. The collector holds the interpreter.
    pub fn clear(&self) {
        for d in self.dicts() {
            // SAFETY: a dict, and the interpreter is held.
            unsafe { ffi::PyDict_Clear(d.as_ptr()) };
        }
    }
}

pub fn dict_in<'py>(py: Python<'py>, place: &OnceLock<Shared>) -> PyResult<Bound<'py, PyDict>> {
    Ok(place.get_or_init(|| Shared::new(PyDict::new(py).into_any())).bind(py).cast_into()?)
}

pub fn node_objects(node: &ag::Node) -> Option<Arc<NodeObjects>> {
    node.existing_payload()?.downcast::<NodeObjects>().ok()
}

pub fn make_node_objects(node: &ag::Node) -> PyResult<Arc<NodeObjects>> {
    let found = node.payload(|| Arc::new(NodeObjects::default()));
    found.downcast::<NodeObjects>().map_err(|_| PyRuntimeError::new_err("the node holds foreign objects"))
}
