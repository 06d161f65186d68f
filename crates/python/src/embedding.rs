//! `_EmbeddingStore`: the store of `oneflow-embedding` over tensors, for `oneflow.one_embedding`.
//!
//! Checks dtypes, sizes and devices, since the memory of tensors becomes slices here; everything else the store checks. Other
//! Python threads run during its work.

use crate::gate::{detach, run};
use crate::object::{bound, get};
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Device, Error, Result};
use oneflow_embedding::{
    Admission, Bags, Batch, Config, Forget, Initializer, Key, KeySet, Options, Records, Rule, Saved, Score, Step, Store,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The keys of one lookup, each once, with their positions.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingBatch")]
struct PyBatch(Batch);

/// A set of keys: those of a batch, in their order.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingKeys")]
struct PyKeys(KeySet);

#[pymethods]
impl PyKeys {
    #[new]
    fn new(batch: &PyBatch) -> PyKeys {
        PyKeys(KeySet::new(batch.0.keys()))
    }
}

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

fn int64(py: Python<'_>, numbers: Vec<i64>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: numbers of this very type.
    bound(py, run(|| unsafe { Tensor::from_host(&numbers, DType::I64, &[numbers.len() as i64]) })?)
}

fn float32<'py>(py: Python<'py>, numbers: &[f32], sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: numbers of this very type; their number is checked.
    bound(py, run(|| unsafe { Tensor::from_host(numbers, DType::F32, sizes) })?)
}

/// Tables and ids as two tensors of int64; uint64 ids by their bits.
fn key_tensors<'py>(py: Python<'py>, keys: &[Key]) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let tables = int64(py, keys.iter().map(|k| k.table as i64).collect())?;
    Ok((tables, int64(py, keys.iter().map(|k| k.id as i64).collect())?))
}

/// Integers of a tensor of the host.
fn numbers_of(what: &str, t: &Bound<'_, PyAny>) -> Result<Vec<u64>> {
    let t = host(what, t, &INTEGERS)?.clone();
    let _pin = t.storage().map(|s| s.pin());
    // SAFETY: checked by `host`, and pinned.
    Ok(unsafe { integers(&t) })
}

fn narrow(what: &str, numbers: Vec<u64>) -> Result<Vec<u32>> {
    let narrow = numbers.into_iter().map(u32::try_from).collect::<std::result::Result<Vec<_>, _>>();
    narrow.map_err(|_| Error::value(format!("one_embedding: {what} must lie in [0, 2^32)")))
}

/// Positions of a batch that are pooled: the bag and the factor of each.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingBags")]
struct PyBags {
    of: Vec<u32>,
    factors: Option<Vec<f32>>,
    n_bags: usize,
}

impl PyBags {
    fn bags(&self) -> Bags<'_> {
        Bags { of: &self.of, factors: self.factors.as_deref(), n_bags: self.n_bags }
    }
}

#[pymethods]
impl PyBags {
    /// `offsets`: where bags begin, and with `has_end` where the last one ends; without offsets all bags are of `size` ids.
    /// `factors` multiply rows; with `is_mean` each row counts for its share of the bag's ids that are no padding.
    #[new]
    fn new(
        batch: &PyBatch,
        offsets: Option<&Bound<'_, PyAny>>,
        has_end: bool,
        size: usize,
        factors: Option<&Bound<'_, PyAny>>,
        is_mean: bool,
    ) -> PyResult<PyBags> {
        run(|| {
            let n = batch.0.len();
            let mut ends = match offsets {
                Some(offsets) => numbers_of("offsets", offsets)?,
                None if size == 0 => vec![0],
                None => (0..=n / size).map(|bag| (bag * size) as u64).collect(),
            };
            if offsets.is_some() && !has_end {
                ends.push(n as u64);
            }
            let rises = ends.windows(2).all(|w| w[0] <= w[1]);
            if ends.is_empty() || (ends.len() > 1 && ends[0] != 0) || !rises || ends.last() > Some(&(n as u64)) {
                let shown: Vec<i64> = ends.iter().take(20).map(|e| *e as i64).collect();
                return Err(Error::value(format!(
                    "EmbeddingBag: offsets must rise from 0 to at most {n}, got {shown:?}"
                )));
            }
            let last = ends.last().copied().unwrap_or(0);
            if last != n as u64 {
                return Err(Error::value(format!("EmbeddingBag: the last bag ends at {last}, and there are {n} ids")));
            }
            let n_bags = ends.len() - 1;
            let mut of = Vec::with_capacity(n);
            for (bag, w) in ends.windows(2).enumerate() {
                of.resize(w[1] as usize, bag as u32);
            }
            let mut owned = None;
            if let Some(factors) = factors {
                let factors = host("per_sample_weights", factors, &[DType::F32])?.clone();
                let _pin = factors.storage().map(|s| s.pin());
                // SAFETY: float32 of the host by `host`, and pinned.
                owned = Some(unsafe { elements(&factors) }.to_vec());
            } else if is_mean {
                let inverse = batch.0.inverse();
                let mut shares = Vec::with_capacity(n);
                for w in ends.windows(2) {
                    let part = &inverse[w[0] as usize..w[1] as usize];
                    let counted = part.iter().filter(|k| **k != u32::MAX).count();
                    shares.resize(w[1] as usize, 1.0 / counted.max(1) as f32);
                }
                owned = Some(shares);
            }
            Ok(PyBags { of, factors: owned, n_bags })
        })
    }

    fn __len__(&self) -> usize {
        self.n_bags
    }
}

/// How a table admits keys: by its number, with a count, a probability and the bytes of a filter.
fn admission((kind, at_least, probability, n_bytes): (u8, u32, f64, usize)) -> Result<Admission> {
    Ok(match kind {
        0 => Admission::Always,
        1 => Admission::Count { at_least },
        2 => Admission::CountingBloom { at_least: at_least.min(255) as u8, n_bytes },
        3 => Admission::Probability(probability),
        _ => return Err(Error::value(format!("one_embedding: there is no admission {kind}"))),
    })
}

fn describe<'py>(py: Python<'py>, config: &Config) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("column_dims", &config.column_dims)?;
    d.set_item("state_width", config.state_width)?;
    d.set_item("n_tables", config.tables.len())?;
    d.set_item("seed", config.seed)?;
    Ok(d)
}

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
            detach(py, || Batch::from_ids(&ids, tables.as_deref(), n_tables, padding))
        })
        .map(PyBatch)
    }

    /// Tables and ids of the different keys, in the order in which they first appear, as int64.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        key_tensors(py, self.0.keys())
    }

    /// For each position the number of its key; -1 is padding.
    fn inverse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let numbers = self.0.inverse().iter().map(|k| if *k == u32::MAX { -1 } else { *k as i64 });
        int64(py, numbers.collect())
    }

    /// Numbers of the keys that are not in a set, those of the first of `n` owners first, and how many each owner has.
    #[pyo3(signature = (n, except=None))]
    fn by_owner<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        except: Option<&PyKeys>,
    ) -> PyResult<(Bound<'py, PyAny>, Vec<usize>)> {
        let (order, counts) = self.0.by_owner(n.max(1), except.map(|k| &k.0));
        Ok((int64(py, order.into_iter().map(i64::from).collect())?, counts))
    }

    /// Which keys belong to a set: their numbers here, and there.
    fn members<'py>(&self, py: Python<'py>, set: &PyKeys) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (here, there) = self.0.members(&set.0);
        let wide = |n: Vec<u32>| int64(py, n.into_iter().map(i64::from).collect());
        Ok((wide(here)?, wide(there)?))
    }

    /// The sum of the rows at the positions of each key.
    fn sums<'py>(&self, py: Python<'py>, rows: &Bound<'_, PyAny>, width: i64) -> PyResult<Bound<'py, PyAny>> {
        let rows = run(|| host("rows", rows, &[DType::F32]).cloned())?;
        let _pin = rows.storage().map(|s| s.pin());
        // SAFETY: float32 of the host by `host`, and pinned.
        let sums = run(|| detach(py, || self.0.sums(unsafe { elements(&rows) }, width.max(0) as usize)))?;
        float32(py, &sums, &[self.0.n_unique() as i64, width])
    }

    /// The row of each position, from one row a different key.
    fn to_positions<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'_, PyAny>,
        width: usize,
        sizes: Vec<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rows = run(|| host("rows", rows, &[DType::F32]).cloned())?;
        let _pin = rows.storage().map(|s| s.pin());
        let mut out = vec![0.0; self.0.len() * width];
        // SAFETY: float32 of the host by `host`, and pinned.
        run(|| detach(py, || self.0.to_positions(unsafe { elements(&rows) }, width, &mut out)))?;
        float32(py, &out, &sizes)
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
        "smart_decay_adam" => Rule::SmartDecayAdam {
            betas: [number("beta1"), number("beta2")],
            eps: float("eps"),
            weight_decay,
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
    #[pyo3(signature = (path, column_dims, state_width, tables, seed, memory_budget, admissions, direct_block=None))]
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
    ) -> PyResult<PyStore> {
        run(|| {
            let columns = |t: Vec<(u8, [f32; 4])>| t.into_iter().map(initializer).collect::<Result<Vec<_>>>();
            let tables = tables.into_iter().map(columns).collect::<Result<Vec<_>>>()?;
            let config = Config { column_dims, state_width, tables, seed };
            let admission = admissions.into_iter().map(admission).collect::<Result<Vec<_>>>()?;
            let options = Options { memory_budget, admission, direct_block, ..Options::default() };
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
        self.with(py, |store| Ok(store.rows_by_table()))
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
        let mut prefetch = self.with(py, |store| store.start_prefetch(&batch.0))?;
        run(|| detach(py, || prefetch.read()))?;
        self.with(py, |store| store.finish_prefetch(prefetch))
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
        key_tensors(py, &self.with(py, |store| Ok(store.keys()))?)
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

/// The rows of an epoch or a snapshot, in the order of their keys, read without changing the folder.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingSaved")]
struct PySaved(Mutex<Saved>);

/// Tables, ids, steps and counts as int64, and values as float32 of (rows, width).
type RecordTensors<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn record_tensors<'py>(py: Python<'py>, rows: &Records, width: usize) -> PyResult<RecordTensors<'py>> {
    let (tables, ids) = key_tensors(py, &rows.keys)?;
    let numbers = |n: &[u32]| int64(py, n.iter().map(|n| *n as i64).collect());
    let values = float32(py, &rows.values, &[rows.keys.len() as i64, width as i64])?;
    Ok((tables, ids, numbers(&rows.steps)?, numbers(&rows.counts)?, values))
}

impl PySaved {
    fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut Saved) -> Result<R>) -> PyResult<R> {
        run(|| detach(py, || f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))))
    }

    fn tensors<'py>(
        &self,
        py: Python<'py>,
        f: impl FnOnce(&mut Saved) -> Result<Records>,
    ) -> PyResult<RecordTensors<'py>> {
        let (rows, width) = self.with(py, |saved| Ok((f(saved)?, saved.config().width())))?;
        record_tensors(py, &rows, width)
    }
}

#[pymethods]
impl PySaved {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, snapshot: Option<&str>) -> PyResult<PySaved> {
        run(|| detach(py, || Saved::open(&path, snapshot))).map(|saved| PySaved(Mutex::new(saved)))
    }
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |saved| Ok(saved.len()))
    }
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |saved| Ok(saved.epoch()))
    }
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let config = self.with(py, |saved| Ok(saved.config().clone()))?;
        describe(py, &config)
    }
    /// Rows from `start` to `end`.
    fn records<'py>(&self, py: Python<'py>, start: usize, end: usize) -> PyResult<RecordTensors<'py>> {
        self.tensors(py, |saved| saved.records(start..end))
    }
    /// Rows by their places in the order of the keys.
    fn select<'py>(&self, py: Python<'py>, entries: Vec<usize>) -> PyResult<RecordTensors<'py>> {
        self.tensors(py, |saved| saved.select(&entries))
    }
    /// Places of the rows that may have changed since an older one, and tables and ids of those that are gone.
    fn since<'py>(
        &self,
        py: Python<'py>,
        older: &PySaved,
    ) -> PyResult<(Vec<usize>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        if std::ptr::eq(self, older) {
            let (tables, ids) = key_tensors(py, &[])?;
            return Ok((Vec::new(), tables, ids));
        }
        let (changed, gone) = run(|| {
            detach(py, || {
                // Always in one order, so that two threads that compare the same two do not wait for each other.
                let is_first = std::ptr::from_ref(self) < std::ptr::from_ref(older);
                let (a, b) = if is_first { (self, older) } else { (older, self) };
                let (a, b) = (
                    a.0.lock().unwrap_or_else(PoisonError::into_inner),
                    b.0.lock().unwrap_or_else(PoisonError::into_inner),
                );
                if is_first { a.since(&b) } else { b.since(&a) }
            })
        })?;
        let (tables, ids) = key_tensors(py, &gone)?;
        Ok((changed, tables, ids))
    }
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyBatch>()?;
    m.add_class::<PyBags>()?;
    m.add_class::<PyKeys>()?;
    m.add_class::<PySaved>()?;
    m.add_class::<PyStore>()
}
