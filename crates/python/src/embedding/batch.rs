//! `_EmbeddingBatch`, `_EmbeddingBags` and `_EmbeddingKeys`: the keys of a lookup, how they are pooled, and sets of keys.

use super::tensors::{INTEGERS, elements, float32, host, int64, integers, key_tensors, numbers_of};
use crate::gate::{detach, run};
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Error};
use oneflow_embedding::{Bags, Batch, KeySet};
use pyo3::prelude::*;

/// The keys of one lookup, each once, with their positions.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingBatch")]
pub struct PyBatch(pub Batch);

/// A set of keys: those of a batch, in their order.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingKeys")]
pub struct PyKeys(KeySet);

#[pymethods]
impl PyKeys {
    #[new]
    fn new(batch: &PyBatch) -> PyKeys {
        PyKeys(KeySet::new(batch.0.keys()))
    }
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
            detach(py, || Batch::from_ids(ids, tables.as_deref(), n_tables, padding))
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

/// Positions of a batch that are pooled: where each bag ends, and the factor of each position.
#[pyclass(frozen, module = "oneflow", name = "_EmbeddingBags")]
pub struct PyBags {
    ends: Vec<u32>,
    factors: Option<Vec<f32>>,
}

impl PyBags {
    pub fn bags(&self) -> Bags<'_> {
        Bags { ends: &self.ends, factors: self.factors.as_deref() }
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
            // A batch has at most 2^31 ids.
            Ok(PyBags { ends: ends[1..].iter().map(|e| *e as u32).collect(), factors: owned })
        })
    }

    fn __len__(&self) -> usize {
        self.ends.len()
    }
}
