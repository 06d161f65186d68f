//! `_EmbeddingStore`: the store of `oneflow-embedding` over tensors.
//!
//! Everything but the tensors the store checks. Other Python threads run during its work.

use super::batch::{PyBags, PyBatch};
use super::options::{admission, describe, initializer, rule};
use super::tensors::{RecordTensors, elements, host, int64, key_tensors, narrow, numbers_of, record_tensors};
use crate::gate::{detach, run};
use crate::object::bound;
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Device, Error, Result};
use oneflow_embedding::{Bags, Batch, Config, Forget, Key, Options, Records, Score, Step, Store};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A store of embedding rows in a folder; None once it is closed.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingStore")]
pub struct PyStore(Mutex<Option<Store>>);

/// Work on the store with a batch, its bags if it is pooled, and the gradients of its positions or bags.
type WithGradients<'a, R> = &'a mut dyn FnMut(&mut Store, &Batch, Option<&Bags<'_>>, &[f32]) -> Result<R>;

impl PyStore {
    /// Calls `f` with the gradients of all lookups of a step as those of one batch.
    fn with_gradients<R>(
        &self,
        py: Python<'_>,
        batches: &[PyRef<'_, PyBatch>],
        grads: &[Bound<'_, PyAny>],
        bags: &[Option<PyRef<'_, PyBags>>],
        mut f: impl FnMut(&mut Store, &Batch, Option<&Bags<'_>>, &[f32]) -> Result<R>,
    ) -> PyResult<R> {
        let f: WithGradients<'_, R> = &mut f;
        let grads = run(|| {
            if batches.len() != grads.len() || batches.len() != bags.len() {
                return Err(Error::value("one_embedding: as many batches, gradients and bags are expected"));
            }
            grads.iter().map(|g| host("gradients", g, &[DType::F32]).cloned()).collect::<Result<Vec<_>>>()
        })?;
        let _pins: Vec<_> = grads.iter().filter_map(Tensor::storage).map(|s| s.pin()).collect();
        let batches: Vec<&Batch> = batches.iter().map(|b| &b.0).collect();
        let bags: Vec<Option<Bags<'_>>> = bags.iter().map(|b| b.as_ref().map(|b| b.bags())).collect();
        self.with(py, |store| {
            // SAFETY: float32 of the host by `host`, and pinned.
            let parts: Vec<&[f32]> = grads.iter().map(|g| unsafe { elements(g) }).collect();
            if let ([batch], [grads], [bags]) = (&batches[..], &parts[..], &bags[..]) {
                return f(store, batch, bags.as_ref(), grads);
            }
            let dim = store.config().dim();
            let mut all = Vec::new();
            for (part, bags) in parts.iter().zip(&bags) {
                match bags {
                    None => all.extend_from_slice(part),
                    Some(bags) => all.extend(bags.to_positions(part, dim)?),
                }
            }
            f(store, &Batch::joined(batches.iter().copied())?, None, &all)
        })
    }

    /// Runs work on the store without the interpreter.
    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Store) -> Result<R>) -> PyResult<R> {
        run(|| detach(py, || self.locked(f)))
    }

    fn locked<R>(&self, f: impl FnOnce(&mut Store) -> Result<R>) -> Result<R> {
        let mut store = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(store.as_mut().ok_or_else(|| Error::runtime("one_embedding: the store is closed"))?)
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
                    // SAFETY: fresh memory of the host for `n` numbers, which nobody else knows yet. The store writes all of
                    // it before it returns, and reads none; a tensor whose call failed is dropped.
                    unsafe { std::slice::from_raw_parts_mut(p, n) }
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
    #[pyo3(signature = (path, column_dims, state_width, tables, seed, memory_budget, admissions, direct_block=None, pages=None, bounds_disk=false))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        column_dims: Vec<usize>,
        state_width: usize,
        tables: Vec<Vec<(u8, [f32; 4])>>,
        seed: u64,
        memory_budget: u64,
        admissions: Vec<(u8, u32, f64, usize)>,
        direct_block: Option<usize>,
        pages: Option<bool>,
        bounds_disk: bool,
    ) -> PyResult<PyStore> {
        run(|| {
            let columns = |t: Vec<(u8, [f32; 4])>| t.into_iter().map(initializer).collect::<Result<Vec<_>>>();
            let tables = tables.into_iter().map(columns).collect::<Result<Vec<_>>>()?;
            let config = Config { column_dims, state_width, tables, seed };
            let admission = admissions.into_iter().map(admission).collect::<Result<Vec<_>>>()?;
            let options = Options { memory_budget, admission, direct_block, pages, bounds_disk, ..Options::default() };
            detach(py, || Store::open(&path, config, &options))
        })
        .map(|store| PyStore(Mutex::new(Some(store))))
    }

    /// Opens a store that is there, as it was created.
    #[staticmethod]
    fn existing(py: Python<'_>, path: PathBuf, memory_budget: u64) -> PyResult<PyStore> {
        let options = Options { memory_budget, ..Options::default() };
        run(|| detach(py, || Store::open_existing(&path, &options))).map(|store| PyStore(Mutex::new(Some(store))))
    }

    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let config = self.with(py, |store| Ok(store.config().clone()))?;
        describe(py, &config)
    }

    /// The sums of the bags of a batch, in a new tensor of these sizes.
    fn lookup_bags<'py>(
        &self,
        py: Python<'py>,
        batch: &PyBatch,
        bags: &PyBags,
        sizes: Vec<i64>,
        trains: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.read(py, batch, sizes, |store, out| store.lookup_bags(&batch.0, &bags.bags(), trains, out))
    }

    /// Sets rows with their steps and counts.
    fn put(
        &self,
        py: Python<'_>,
        tables: &Bound<'_, PyAny>,
        ids: &Bound<'_, PyAny>,
        steps: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let rows = run(|| {
            let tables = narrow("tables", numbers_of("tables", tables)?)?;
            let ids = numbers_of("ids", ids)?;
            if tables.len() != ids.len() {
                return Err(Error::value("one_embedding: tables and ids have one length"));
            }
            let values = host("values", values, &[DType::F32])?.clone();
            let _pin = values.storage().map(|s| s.pin());
            Ok(Records {
                keys: tables.into_iter().zip(ids).map(|(table, id)| Key { table, id }).collect(),
                steps: narrow("steps", numbers_of("steps", steps)?)?,
                counts: narrow("counts", numbers_of("counts", counts)?)?,
                // SAFETY: float32 of the host by `host`, and pinned.
                values: unsafe { elements(&values) }.to_vec(),
            })
        })?;
        self.with(py, |store| store.put(&rows))
    }

    /// Removes rows of a table, or of all; returns how many. `keep` is a score (count, recency, norm) and a number of rows.
    fn forget(
        &self,
        py: Python<'_>,
        table: Option<u32>,
        before_step: Option<u32>,
        below_count: Option<u32>,
        below_norm: Option<f32>,
        keep: Option<(&str, usize)>,
    ) -> PyResult<usize> {
        let score = |(name, n): (&str, usize)| match name {
            "count" => Ok((Score::Count, n)),
            "recency" => Ok((Score::Recency, n)),
            "norm" => Ok((Score::Norm, n)),
            _ => Err(Error::value(format!("one_embedding: a score is count, recency or norm, got {name:?}"))),
        };
        let keep = run(|| keep.map(score).transpose())?;
        self.with(py, |store| store.forget(&Forget { table, before_step, below_count, below_norm, keep }))
    }

    /// Tables, ids and counts of the rows that updates named most often.
    fn hottest<'py>(
        &self,
        py: Python<'py>,
        n: usize,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (keys, counts): (Vec<Key>, Vec<u32>) = self.with(py, |store| store.hottest(n))?.into_iter().unzip();
        let (tables, ids) = key_tensors(py, &keys)?;
        Ok((tables, ids, int64(py, counts.into_iter().map(i64::from).collect())?))
    }

    /// The rows of a batch's keys: tables, ids, steps, counts, values.
    fn records<'py>(&self, py: Python<'py>, batch: &PyBatch) -> PyResult<RecordTensors<'py>> {
        let (rows, width) = self.with(py, |store| Ok((store.records(batch.0.keys())?, store.config().width())))?;
        record_tensors(py, &rows, width)
    }

    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Store::compact)
    }
    fn rows_by_table(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.with(py, Store::rows_by_table)
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

    /// Brings rows of a batch into memory that are on disk. Others may use the store while the disk is read.
    fn prefetch(&self, py: Python<'_>, batch: &PyBatch) -> PyResult<()> {
        run(|| {
            detach(py, || {
                let mut prefetch = self.locked(|store| store.start_prefetch(&batch.0))?;
                prefetch.read()?;
                // Others have their turn between the steps.
                while !self.locked(|store| store.continue_prefetch(&mut prefetch))? {}
                Ok(())
            })
        })
    }
    /// What reads from disk, and whether past the system's cache.
    fn reads_by(&self, py: Python<'_>) -> PyResult<(&'static str, bool)> {
        self.with(py, |store| Ok(store.reads_by()))
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
        bags: Vec<Option<PyRef<'_, PyBags>>>,
        name: &str,
        options: HashMap<String, f64>,
        lr: f64,
        step: u64,
        scale: f32,
    ) -> PyResult<()> {
        let rule = run(|| rule(name, &options))?;
        let at = Step { lr, step, scale };
        self.with_gradients(py, &batches, &grads, &bags, |store, batch, bags, grads| match bags {
            None => store.update(batch, grads, &rule, &at),
            Some(bags) => store.update_bags(batch, bags, grads, &rule, &at),
        })
    }

    /// The squared norm of the gradients of all lookups of a step, those of the same key added.
    fn gradient_square(
        &self,
        py: Python<'_>,
        batches: Vec<PyRef<'_, PyBatch>>,
        grads: Vec<Bound<'_, PyAny>>,
        bags: Vec<Option<PyRef<'_, PyBags>>>,
    ) -> PyResult<f64> {
        self.with_gradients(py, &batches, &grads, &bags, |store, batch, bags, grads| {
            let dim = store.config().dim();
            let sums = match bags {
                None => batch.sums(grads, dim)?,
                Some(bags) => batch.sums(&bags.to_positions(grads, dim)?, dim)?,
            };
            Ok(sums.iter().map(|s| *s as f64 * *s as f64).sum())
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
        key_tensors(py, &self.with(py, Store::keys)?)
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
            ("prefetched", s.counts.prefetched),
            ("initial", s.counts.initial),
            ("evictions", s.counts.evictions),
            ("writes", s.counts.writes),
            ("moved", s.counts.moved),
            ("refused", s.counts.refused),
            ("forgotten", s.counts.forgotten),
            ("stalled_ns", s.counts.stalled),
        ] {
            d.set_item(name, value)?;
        }
        Ok(d)
    }
}
