//! `_EmbeddingStore`: the store of `oneflow-embedding` over tensors, for `oneflow.one_embedding`.
//!
//! Checks dtypes, sizes and devices, since the memory of tensors becomes slices here; everything else the store checks. Other
//! Python threads run during its work.

use crate::gate::{detach, run};
use crate::object::{bound, get};
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Device, Error, Result};
use oneflow_embedding::{Batch, Config, Initializer, Key, Options, Rule, Step, Store};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The keys of one lookup, each once, with their positions.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingBatch")]
struct PyBatch(Batch);

/// A store of embedding rows in a folder; None once it is closed.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingStore")]
struct PyStore(Mutex<Option<Store>>);

/// A contiguous tensor of the host, whose memory the work reads.
fn host<'a>(what: &str, t: &'a Bound<'_, PyAny>, dtypes: &[DType]) -> Result<&'a Tensor> {
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
unsafe fn elements<'a, T>(t: &Tensor) -> &'a [T] {
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
unsafe fn integers(t: &Tensor) -> Vec<u64> {
    // SAFETY: the caller's promise.
    unsafe {
        match t.dtype() {
            DType::I32 => elements::<i32>(t).iter().map(|v| *v as i64 as u64).collect(),
            _ => elements::<u64>(t).to_vec(),
        }
    }
}

const INTEGERS: [DType; 3] = [DType::I32, DType::I64, DType::U64];

#[pymethods]
impl PyBatch {
    /// `ids` and, for each, the number of its table; without those, ids of several tables stand in the last dimension.
    #[new]
    fn new(
        py: Python<'_>,
        ids: &Bound<'_, PyAny>,
        table_ids: Option<&Bound<'_, PyAny>>,
        n_tables: u32,
        padding: Option<u64>,
    ) -> PyResult<PyBatch> {
        run(|| {
            let ids = host("ids", ids, &INTEGERS)?.clone();
            let tables = table_ids.map(|t| host("table_ids", t, &INTEGERS).cloned()).transpose()?;
            if tables.as_ref().is_some_and(|t| t.numel() != ids.numel()) {
                return Err(Error::value(format!(
                    "one_embedding: ids and table_ids have one shape, got {} and {} elements",
                    ids.numel(),
                    tables.map_or(0, |t| t.numel())
                )));
            }
            let pins: Vec<_> =
                [Some(&ids), tables.as_ref()].into_iter().flatten().filter_map(Tensor::storage).collect();
            let _pins: Vec<_> = pins.into_iter().map(|s| s.pin()).collect();
            // SAFETY: both were checked by `host`, and are pinned.
            let (ids, tables) = unsafe { (integers(&ids), tables.map(|t| integers(&t))) };
            detach(py, || {
                let table_of = |i: usize| match &tables {
                    Some(t) => u32::try_from(t[i]).unwrap_or(u32::MAX),
                    None => (i % n_tables.max(1) as usize) as u32,
                };
                let key = |(i, id): (usize, &u64)| (Some(*id) != padding).then(|| Key { table: table_of(i), id: *id });
                Batch::new(ids.iter().enumerate().map(key))
            })
        })
        .map(PyBatch)
    }
    fn __len__(&self) -> usize {
        self.0.len()
    }
    #[getter]
    fn n_unique(&self) -> usize {
        self.0.n_unique()
    }
}

/// An initializer by its number: constant, uniform, normal, normal within bounds.
fn initializer((kind, n): (u8, [f32; 4])) -> Result<Initializer> {
    Ok(match kind {
        0 => Initializer::Constant(n[0]),
        1 => Initializer::Uniform { low: n[0], high: n[1] },
        2 => Initializer::Normal { mean: n[0], std: n[1] },
        3 => Initializer::TruncNormal { mean: n[0], std: n[1], a: n[2], b: n[3] },
        _ => return Err(Error::value(format!("one_embedding: there is no initializer {kind}"))),
    })
}

/// An optimizer by its name, with its options; those that are not given are 0.
fn rule(name: &str, options: &HashMap<String, f64>) -> Result<Rule> {
    let number = |name: &str| options.get(name).copied().unwrap_or(0.0);
    let float = |name: &str| number(name) as f32;
    let flag = |name: &str| number(name) != 0.0;
    let weight_decay = float("weight_decay");
    Ok(match name {
        "sgd" => Rule::Sgd {
            momentum: float("momentum"),
            dampening: float("dampening"),
            nesterov: flag("nesterov"),
            weight_decay,
            maximize: flag("maximize"),
        },
        "adam" => Rule::Adam {
            betas: [number("beta1"), number("beta2")],
            eps: float("eps"),
            weight_decay,
            decoupled: flag("decoupled"),
            bias_correction: flag("bias_correction"),
            maximize: flag("maximize"),
        },
        "adagrad" => {
            Rule::Adagrad { eps: float("eps"), weight_decay, initial: float("initial"), maximize: flag("maximize") }
        }
        "row_wise_adagrad" => Rule::RowWiseAdagrad { eps: float("eps"), weight_decay, initial: float("initial") },
        "ftrl" => Rule::Ftrl {
            lr_power: float("lr_power"),
            lambda1: float("lambda1"),
            lambda2: float("lambda2"),
            beta: float("beta"),
            weight_decay,
            initial: float("initial"),
        },
        _ => return Err(Error::not_implemented(format!("one_embedding: rows have no optimizer {name}"))),
    })
}

impl PyStore {
    /// Runs work on the store without the interpreter.
    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Store) -> Result<R>) -> PyResult<R> {
        run(|| {
            detach(py, || {
                let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                f(store.as_mut().ok_or_else(|| Error::runtime("one_embedding: the store is closed"))?)
            })
        })
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        batch: &PyBatch,
        sizes: Vec<i64>,
        f: impl FnOnce(&mut Store, &mut [f32]) -> Result<()>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let out = self.with(py, |store| {
            let out = Tensor::empty(DType::F32, Device::CPU, &sizes)?;
            let n = out.numel() as usize;
            let slice: &mut [f32] = match n {
                0 => &mut [],
                _ => {
                    let p = out.data_ptr().cast::<f32>();
                    // SAFETY: fresh memory of the host for `n` numbers, which nobody else knows yet.
                    unsafe {
                        p.write_bytes(0, n);
                        std::slice::from_raw_parts_mut(p, n)
                    }
                }
            };
            if batch.0.is_empty() { Ok(out) } else { f(store, slice).map(|()| out) }
        })?;
        bound(py, out)
    }
}

#[pymethods]
impl PyStore {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        column_dims: Vec<usize>,
        state_width: usize,
        tables: Vec<Vec<(u8, [f32; 4])>>,
        seed: u64,
        memory_budget: u64,
    ) -> PyResult<PyStore> {
        run(|| {
            let columns = |t: Vec<(u8, [f32; 4])>| t.into_iter().map(initializer).collect::<Result<Vec<_>>>();
            let tables = tables.into_iter().map(columns).collect::<Result<Vec<_>>>()?;
            let config = Config { column_dims, state_width, tables, seed };
            let options = Options { memory_budget, ..Options::default() };
            detach(py, || Store::open(&path, config, &options))
        })
        .map(|store| PyStore(Mutex::new(Some(store))))
    }

    /// The weights of a batch, in a new tensor of these sizes.
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        batch: &PyBatch,
        sizes: Vec<i64>,
        trains: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, batch, sizes, |store, out| store.lookup(&batch.0, trains, out))
    }

    /// Weights and state of a batch.
    fn read_rows<'py>(&self, py: Python<'py>, batch: &PyBatch, sizes: Vec<i64>) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, batch, sizes, |store, out| store.read_rows(&batch.0, out))
    }

    /// Applies the gradients of all lookups of a step as one update.
    fn update(
        &self,
        py: Python<'_>,
        batches: Vec<PyRef<'_, PyBatch>>,
        grads: Vec<Bound<'_, PyAny>>,
        name: &str,
        options: HashMap<String, f64>,
        lr: f64,
        step: u64,
        scale: f32,
    ) -> PyResult<()> {
        let (rule, grads) = run(|| {
            let grads =
                grads.iter().map(|g| host("gradients", g, &[DType::F32]).cloned()).collect::<Result<Vec<_>>>()?;
            Ok((rule(name, &options)?, grads))
        })?;
        let _pins: Vec<_> = grads.iter().filter_map(Tensor::storage).map(|s| s.pin()).collect();
        let batches: Vec<&Batch> = batches.iter().map(|b| &b.0).collect();
        self.with(py, |store| {
            // SAFETY: float32 of the host by `host`, and pinned.
            let parts: Vec<&[f32]> = grads.iter().map(|g| unsafe { elements(g) }).collect();
            let at = Step { lr, step, scale };
            match (&batches[..], &parts[..]) {
                ([batch], [grads]) => store.update(batch, grads, &rule, &at),
                _ => store.update(&Batch::joined(batches.iter().copied())?, &parts.concat(), &rule, &at),
            }
        })
    }

    /// Sets weights, or weights and state, of the rows of a batch.
    fn write(&self, py: Python<'_>, batch: &PyBatch, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let values = run(|| host("values", values, &[DType::F32]).cloned())?;
        let _pin = values.storage().map(|s| s.pin());
        // SAFETY: float32 of the host by `host`, and pinned.
        self.with(py, |store| store.write(&batch.0, unsafe { elements(&values) }))
    }

    /// Removes the rows of a batch; returns how many there were.
    fn remove(&self, py: Python<'_>, batch: &PyBatch) -> PyResult<usize> {
        self.with(py, |store| store.remove(batch.0.keys()))
    }

    /// Tables and ids of all rows, as two tensors of int64.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let keys = self.with(py, |store| Ok(store.keys()))?;
        let column = |f: fn(&Key) -> i64| {
            let numbers: Vec<i64> = keys.iter().map(f).collect();
            // SAFETY: numbers of this very type.
            run(|| unsafe { Tensor::from_host(&numbers, DType::I64, &[keys.len() as i64]) })
        };
        Ok((bound(py, column(|k| k.table as i64)?)?, bound(py, column(|k| k.id as i64)?)?))
    }

    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, Store::commit)
    }
    fn save_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |store| store.save_snapshot(name))
    }
    fn load_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |store| store.load_snapshot(name))
    }
    fn remove_snapshot(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |store| store.remove_snapshot(name))
    }
    fn snapshots(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |store| store.snapshots())
    }
    fn verify(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Store::verify)
    }

    /// Closes the store without an epoch: what came after the last one is gone.
    fn close(&self, py: Python<'_>) {
        let store = detach(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(store);
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let s = self.with(py, |store| Ok(store.stats()))?;
        let d = PyDict::new(py);
        for (name, value) in [
            ("rows", s.rows),
            ("rows_in_memory", s.resident),
            ("capacity_in_memory", s.capacity),
            ("memory_bytes", s.memory_bytes),
            ("index_bytes", s.index_bytes),
            ("disk_bytes", s.disk_bytes),
            ("live_bytes", s.live_bytes),
            ("epoch", s.epoch),
            ("hits", s.counts.hits),
            ("reads", s.counts.reads),
            ("initial", s.counts.initial),
            ("evictions", s.counts.evictions),
            ("writes", s.counts.writes),
            ("moved", s.counts.moved),
        ] {
            d.set_item(name, value)?;
        }
        Ok(d)
    }
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyBatch>()?;
    m.add_class::<PyStore>()
}
