//! Tensors of the host as slices and back: dtypes, sizes and devices are checked here, since memory becomes slices.

use crate::gate::run;
use crate::object::{bound, get};
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Error, Result};
use oneflow_embedding::{Key, Records};
use pyo3::prelude::*;

/// A contiguous tensor of the host, whose memory the work reads.
pub fn host<'a>(what: &str, t: &'a Bound<'_, PyAny>, dtypes: &[DType]) -> Result<&'a Tensor> {
    let t = get(t).ok_or_else(|| Error::type_(format!("one_embedding: {what} must be a tensor")))?;
    if !t.device().is_cpu() || t.storage().is_none() {
        return Err(Error::not_implemented(format!(
            "one_embedding: {what} lie on {}: rows are kept and updated on the CPU alone; call .cpu() first",
            t.device()
        )));
    }
    if !dtypes.contains(&t.dtype()) || !t.is_contiguous() {
        let names: Vec<_> = dtypes.iter().map(|d| d.name()).collect();
        return Err(Error::type_(format!(
            "one_embedding: {what} must be a contiguous tensor of {}, got {}",
            names.join(" or "),
            t.dtype().name()
        )));
    }
    Ok(t)
}

/// The elements of a tensor that `host` accepted for the size of `T`.
///
/// # Safety
/// The tensor's memory is pinned for as long as the slice lives, and its dtype has the layout of `T`.
pub unsafe fn elements<'a, T>(t: &Tensor) -> &'a [T] {
    match t.numel() {
        0 => &[],
        // SAFETY: contiguous, so the elements follow each other; the caller's promise.
        n => unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<T>(), n as usize) },
    }
}

/// Integers as 64 bits each.
///
/// # Safety
/// As for `elements`, with a dtype of `INTEGERS`.
pub unsafe fn integers(t: &Tensor) -> Vec<u64> {
    // SAFETY: the caller's promise.
    unsafe {
        match t.dtype() {
            DType::I32 => elements::<i32>(t).iter().map(|v| *v as i64 as u64).collect(),
            _ => elements::<u64>(t).to_vec(),
        }
    }
}

pub const INTEGERS: [DType; 3] = [DType::I32, DType::I64, DType::U64];

pub fn int64(py: Python<'_>, numbers: Vec<i64>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: numbers of this very type.
    bound(py, run(|| unsafe { Tensor::from_host(&numbers, DType::I64, &[numbers.len() as i64]) })?)
}

pub fn float32<'py>(py: Python<'py>, numbers: &[f32], sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: numbers of this very type; their number is checked.
    bound(py, run(|| unsafe { Tensor::from_host(numbers, DType::F32, sizes) })?)
}

/// Tables and ids as two tensors of int64; uint64 ids by their bits.
pub fn key_tensors<'py>(py: Python<'py>, keys: &[Key]) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let tables = int64(py, keys.iter().map(|k| k.table as i64).collect())?;
    Ok((tables, int64(py, keys.iter().map(|k| k.id as i64).collect())?))
}

/// Integers of a tensor of the host.
pub fn numbers_of(what: &str, t: &Bound<'_, PyAny>) -> Result<Vec<u64>> {
    let t = host(what, t, &INTEGERS)?.clone();
    let _pin = t.storage().map(|s| s.pin());
    // SAFETY: checked by `host`, and pinned.
    Ok(unsafe { integers(&t) })
}

pub fn narrow(what: &str, numbers: Vec<u64>) -> Result<Vec<u32>> {
    let narrow = numbers.into_iter().map(u32::try_from).collect::<std::result::Result<Vec<_>, _>>();
    narrow.map_err(|_| Error::value(format!("one_embedding: {what} must lie in [0, 2^32)")))
}

/// Tables, ids, steps and counts as int64, and values as float32 of (rows, width).
pub type RecordTensors<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

pub fn record_tensors<'py>(py: Python<'py>, rows: &Records, width: usize) -> PyResult<RecordTensors<'py>> {
    let (tables, ids) = key_tensors(py, &rows.keys)?;
    let numbers = |n: &[u32]| int64(py, n.iter().map(|n| *n as i64).collect());
    let values = float32(py, &rows.values, &[rows.keys.len() as i64, width as i64])?;
    Ok((tables, ids, numbers(&rows.steps)?, numbers(&rows.counts)?, values))
}
