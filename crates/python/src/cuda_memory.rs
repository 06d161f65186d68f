//! The functions behind `oneflow.cuda.memory`: what the caching allocators count, hold and may hold.

use crate::cuda::{checked, provider};
use crate::gate::run;
use oneflow_ep::cuda::{BlockState, SIZES};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The allocator's counts under PyTorch's keys.
#[pyfunction]
fn _cuda_memory_stats<'py>(py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyDict>> {
    let stats = run(|| Ok(provider()?.memory_stats(checked(index)?)))?;
    let all = PyDict::new(py);
    for (kind, of) in stats.table() {
        for (size, s) in SIZES.iter().zip(of) {
            let counts = [("current", s.current), ("peak", s.peak), ("allocated", s.allocated), ("freed", s.freed)];
            for (name, n) in counts {
                all.set_item(format!("{kind}.{size}.{name}"), n)?;
            }
        }
    }
    all.set_item("num_alloc_retries", stats.n_retries)?;
    all.set_item("num_ooms", stats.n_out_of_memory)?;
    all.set_item("num_device_alloc", stats.n_obtained)?;
    all.set_item("num_device_free", stats.n_returned)?;
    Ok(all)
}

/// Starts new peaks, or new sums of what was allocated and freed.
#[pyfunction]
fn _cuda_reset_memory_stats(index: i64, peaks: bool, sums: bool) -> PyResult<()> {
    run(|| {
        provider()?.reset_memory_stats(checked(index)?, peaks, sums);
        Ok(())
    })
}

/// The segments of a device with their blocks, under PyTorch's keys.
#[pyfunction]
fn _cuda_memory_snapshot<'py>(py: Python<'py>, index: i64) -> PyResult<Bound<'py, PyList>> {
    let segments = run(|| Ok(provider()?.memory_snapshot(checked(index)?)))?;
    let list = PyList::empty(py);
    for s in segments {
        let blocks = PyList::empty(py);
        let sum = |of: &[BlockState], requested: bool| -> usize {
            let counted = s.blocks.iter().filter(|b| of.contains(&b.state));
            counted.map(|b| if requested { b.requested } else { b.bytes }).sum()
        };
        for b in &s.blocks {
            let block = PyDict::new(py);
            block.set_item("address", b.address)?;
            block.set_item("size", b.bytes)?;
            block.set_item("requested_size", b.requested)?;
            let state = match b.state {
                BlockState::Allocated => "active_allocated",
                BlockState::PendingFree => "active_pending_free",
                BlockState::Free => "inactive",
            };
            block.set_item("state", state)?;
            block.set_item("frames", PyList::empty(py))?;
            blocks.append(block)?;
        }
        let segment = PyDict::new(py);
        segment.set_item("device", index)?;
        segment.set_item("address", s.address)?;
        segment.set_item("total_size", s.blocks.iter().map(|b| b.bytes).sum::<usize>())?;
        segment.set_item("allocated_size", sum(&[BlockState::Allocated], false))?;
        segment.set_item("active_size", sum(&[BlockState::Allocated, BlockState::PendingFree], false))?;
        segment.set_item("requested_size", sum(&[BlockState::Allocated], true))?;
        segment.set_item("stream", s.stream)?;
        segment.set_item("segment_type", if s.is_small { "small" } else { "large" })?;
        segment.set_item("segment_pool_id", (0, s.private_pool))?;
        segment.set_item("is_expandable", s.is_expandable)?;
        segment.set_item("frames", PyList::empty(py))?;
        segment.set_item("blocks", blocks)?;
        list.append(segment)?;
    }
    Ok(list)
}

/// The share of a device's memory that its allocator may hold.
#[pyfunction]
fn _cuda_memory_fraction(index: i64) -> PyResult<f64> {
    run(|| provider()?.memory_fraction(checked(index)?))
}

#[pyfunction]
fn _cuda_set_memory_fraction(index: i64, fraction: f64) -> PyResult<()> {
    run(|| provider()?.set_memory_fraction(checked(index)?, fraction))
}

/// Bytes of pinned host memory: obtained from the driver, and free for reuse among them.
#[pyfunction]
fn _cuda_pinned_bytes() -> PyResult<(usize, usize)> {
    run(|| Ok(provider()?.pinned_bytes()))
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_cuda_memory_stats, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_reset_memory_stats, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_memory_snapshot, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_memory_fraction, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_set_memory_fraction, m)?)?;
    m.add_function(wrap_pyfunction!(_cuda_pinned_bytes, m)?)
}
