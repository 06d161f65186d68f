//! Hooks on what is saved for backward, on the writes that could change it, and a transform's refusal of writes to what its
//! function captured.

use crate::gate::{self, OrPending, Shared, run};
use crate::object::{bound, get};
use oneflow_autograd as ag;
use oneflow_core::Tensor;
use oneflow_core::base::{Error, Result};
use pyo3::prelude::*;
use std::sync::Arc;

/// Packs whatever this thread keeps for backward by `pack(tensor)`, and brings it back by `unpack(packed)`.
#[pyfunction]
fn _push_saved_hooks(pack: Bound<'_, PyAny>, unpack: Bound<'_, PyAny>) -> PyResult<()> {
    let (pack, unpack) = (Shared::new(pack), Arc::new(Shared::new(unpack)));
    let hook: ag::Pack = Arc::new(move |t| {
        gate::attach(|py| {
            let packed = pack.bind(py).call1((bound(py, t.clone()).pend(py)?,)).pend(py)?;
            let (packed, unpack) = (Shared::new(packed), unpack.clone());
            Ok(Arc::new(move || gate::attach(|py| unpacked(py, &unpack, &packed))) as ag::Unpack)
        })
    });
    run(|| ag::push_saved_hooks(hook))
}

fn unpacked(py: Python<'_>, unpack: &Shared, packed: &Shared) -> Result<Tensor> {
    let result = unpack.bind(py).call1((packed.bind(py),)).pend(py)?;
    get(&result).cloned().ok_or_else(|| {
        Error::type_(format!(
            "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {}",
            crate::value::type_name(py, result.as_ptr())
        ))
    })
}

/// `listener` is called with each tensor that an op of this thread is about to write; None ends that.
#[pyfunction]
fn _set_before_write(listener: Option<Bound<'_, PyAny>>) {
    oneflow_core::set_before_write(listener.map(|f| {
        let f = Shared::new(f);
        Arc::new(move |t: &Tensor| {
            gate::attach(|py| f.bind(py).call1((bound(py, t.shallow()).pend(py)?,)).pend(py).map(drop))
        }) as oneflow_core::BeforeWrite
    }));
}

/// From now on this thread's ops fail where they would write a tensor that is older than this call and none of `inputs`.
/// Returns what `_leave_transform` needs to restore the state before.
#[pyfunction]
fn _enter_transform(inputs: Vec<Bound<'_, PyAny>>) -> u64 {
    let generation = oneflow_core::start_generation();
    // A tensor of samples lies in another one.
    let whole = |x| std::iter::successors(get(x), |t| oneflow_batch::shown(t).map(|(_, inner)| inner)).last();
    for storage in inputs.iter().filter_map(|x| whole(x)?.storage()) {
        storage.set_generation(generation);
    }
    oneflow_core::refuse_writes_before(generation)
}

#[pyfunction]
fn _leave_transform(former: u64) {
    oneflow_core::refuse_writes_before(former);
}

#[pyfunction]
fn _pop_saved_hooks() {
    ag::pop_saved_hooks();
}

/// Refuses saved-tensor hooks with this text, or allows them again; returns the former text.
#[pyfunction]
fn _refuse_saved_hooks(why: Option<String>) -> PyResult<Option<String>> {
    run(|| ag::refuse_saved_hooks(why))
}

/// Adds the functions that only the package itself calls.
pub fn add_private(private: &Bound<'_, PyModule>) -> PyResult<()> {
    private.setattr("_push_saved_hooks", wrap_pyfunction!(_push_saved_hooks, private)?)?;
    private.setattr("_set_before_write", wrap_pyfunction!(_set_before_write, private)?)?;
    private.setattr("_enter_transform", wrap_pyfunction!(_enter_transform, private)?)?;
    private.setattr("_leave_transform", wrap_pyfunction!(_leave_transform, private)?)?;
    private.setattr("_pop_saved_hooks", wrap_pyfunction!(_pop_saved_hooks, private)?)?;
    private.setattr("_refuse_saved_hooks", wrap_pyfunction!(_refuse_saved_hooks, private)?)
}
