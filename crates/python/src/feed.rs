//! Sources of data for graphs: a Python iterator that a thread of the runtime reads ahead, and the readers of `oneflow-data`.
//!
//! The runtime knows neither: a Python iterator is a source like any other, whose configuration is its number here.

use crate::gate::{self, Shared, run, to_py};
use crate::object::get;
use oneflow_core::Tensor;
use oneflow_core::base::{DType, Error, Result};
use oneflow_data::{Decoder, How, IndexedSource, RawSource, RecordSource, TokenKind, TokenSource};
use oneflow_runtime::{Act, Body, Piece, make_source, register_source};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

const KIND: &str = "python";

/// A Python callable that returns the next batch as a list of tensors, or None at the end.
pub(crate) struct Feed {
    next: Shared,
    ended: AtomicBool,
    /// The exception that the callable raised.
    error: Mutex<Option<PyErr>>,
}

/// Callables on their way into a session, by the number in its plan.
static OFFERED: LazyLock<Mutex<HashMap<u64, Arc<Feed>>>> = LazyLock::new(Mutex::default);
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Registers a callable for sessions created meanwhile; dropping this unregisters it.
pub(crate) struct Offer {
    pub feed: Arc<Feed>,
    number: u64,
}

impl Offer {
    pub fn new(next: Bound<'_, PyAny>) -> Offer {
        let feed = Arc::new(Feed { next: Shared::new(next), ended: AtomicBool::new(false), error: Mutex::default() });
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        lock(&OFFERED).insert(number, feed.clone());
        Offer { feed, number }
    }
    /// As a plan names it.
    pub fn config(&self) -> Vec<u8> {
        self.number.to_le_bytes().to_vec()
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        lock(&OFFERED).remove(&self.number);
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

impl Feed {
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
    pub fn take_error(&self) -> Option<PyErr> {
        lock(&self.error).take()
    }

    fn batch(&self) -> Result<Vec<Tensor>> {
        gate::attach(|py| {
            let made = self.next.bind(py).call0().and_then(|batch| {
                if batch.is_none() {
                    return Ok(None);
                }
                let tensor = |o: Bound<'_, PyAny>| {
                    get(&o).cloned().ok_or_else(|| to_py(Error::type_("a batch holds something other than tensors")))
                };
                batch.try_iter()?.map(|o| tensor(o?)).collect::<PyResult<Vec<_>>>().map(Some)
            });
            match made {
                Ok(Some(tensors)) => Ok(tensors),
                Ok(None) => {
                    self.ended.store(true, Ordering::Release);
                    Err(Error::runtime("the data have come to an end"))
                }
                Err(e) => {
                    let text = e.to_string();
                    *lock(&self.error) = Some(e);
                    Err(Error::runtime(text))
                }
            }
        })
    }
}

struct Source(Arc<Feed>);

impl Body for Source {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        let tensors = self.0.batch()?;
        let pieces: Vec<&Piece> = act.outs.iter().flatten().collect();
        if pieces.len() != tensors.len() {
            return Err(Error::value(format!(
                "a batch has {} tensors, the graph takes {}",
                tensors.len(),
                pieces.len()
            )));
        }
        for (t, p) in tensors.iter().zip(pieces) {
            let bytes = t.numel() as usize * t.dtype().size();
            if !t.is_contiguous() || !t.device().is_cpu() || bytes != p.bytes || t.storage().is_none() {
                return Err(Error::value("a batch's tensors are not those that the graph was compiled for"));
            }
            // SAFETY: the tensor is contiguous host memory of `bytes`; the piece has as many and is this actor's now.
            unsafe { std::ptr::copy_nonoverlapping(t.data_ptr(), p.ptr, bytes) };
        }
        Ok(())
    }
}

fn make(config: &[u8]) -> Result<Box<dyn Body>> {
    let number = config.try_into().map(u64::from_le_bytes).ok();
    let feed = number.and_then(|n| lock(&OFFERED).get(&n).cloned());
    let feed = feed.ok_or_else(|| Error::value("plan: its data came from a Python iterator that is gone"))?;
    Ok(Box::new(Source(feed)))
}

/// A reader of files: its configuration in a plan, and the reader itself for use without a plan.
#[pyclass(frozen, module = "oneflow", name = "_DataSource")]
pub struct DataSource {
    pub kind: &'static str,
    pub config: Vec<u8>,
    body: Mutex<Option<Box<dyn Body>>>,
}

impl DataSource {
    /// Opens it once, so that wrong files are errors here and not in a run.
    fn new(kind: &'static str, config: Result<Vec<u8>>) -> PyResult<DataSource> {
        run(|| {
            let config = config?;
            let body = make_source(kind, &config)?;
            Ok(DataSource { kind, config, body: Mutex::new(Some(body)) })
        })
    }
}

fn dtype(name: &str) -> PyResult<DType> {
    let known = [DType::U8, DType::I32, DType::I64, DType::F32, DType::F64];
    let found = known.into_iter().find(|d| d.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("a decoder gives no {name}")))
}

#[pymethods]
impl DataSource {
    #[staticmethod]
    fn tokens(
        path: PathBuf,
        dtype: &str,
        batch: usize,
        window: usize,
        seed: u64,
        position: u64,
    ) -> PyResult<DataSource> {
        let kinds = [("uint8", TokenKind::U8), ("uint16", TokenKind::U16), ("uint32", TokenKind::U32)];
        let kind = kinds.into_iter().find(|k| k.0 == dtype).map(|k| k.1);
        let kind =
            kind.ok_or_else(|| PyValueError::new_err(format!("tokens are uint8, uint16 or uint32, not {dtype}")))?;
        Self::new("tokens", TokenSource { path, kind, batch, window, seed, position }.config())
    }
    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn raw(
        path: PathBuf,
        header: usize,
        record: usize,
        batch: usize,
        shuffle: bool,
        seed: u64,
        position: u64,
    ) -> PyResult<DataSource> {
        Self::new("raw", RawSource { path, header, record, batch, shuffle, seed, position }.config())
    }
    #[staticmethod]
    fn indexed(
        prefix: PathBuf,
        batch: usize,
        window: usize,
        shuffle: bool,
        seed: u64,
        position: u64,
    ) -> PyResult<DataSource> {
        Self::new("indexed tokens", IndexedSource { prefix, batch, window, shuffle, seed, position }.config())
    }
    /// `decoders`: name, dtype ("bytes" for bytes as they are), elements a record, whether to pad.
    #[staticmethod]
    fn records(
        files: Vec<PathBuf>,
        decoders: Vec<(String, String, usize, bool)>,
        batch: usize,
        shuffle: bool,
        seed: u64,
        position: u64,
    ) -> PyResult<DataSource> {
        let decoder = |(name, how, count, pad): (String, String, usize, bool)| -> PyResult<Decoder> {
            let how = if how == "bytes" { How::Bytes } else { How::Raw(dtype(&how)?) };
            Ok(Decoder { name, how, count, pad })
        };
        let decoders = decoders.into_iter().map(decoder).collect::<PyResult<_>>()?;
        Self::new("ofrecord", RecordSource { files, decoders, batch, shuffle, seed, position }.config())
    }
    /// The same reader at another position: after this many batches.
    fn at(&self, position: u64) -> PyResult<DataSource> {
        Self::new(self.kind, oneflow_data::at_position(&self.config, position))
    }
    /// Fills the memory of these contiguous tensors with the next batch.
    fn fill(&self, py: Python<'_>, tensors: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let tensors: Vec<Tensor> = tensors.iter().filter_map(|o| get(o).cloned()).collect();
        run(|| {
            let mut outs = Vec::with_capacity(tensors.len());
            for t in &tensors {
                if !t.is_contiguous() || !t.device().is_cpu() || t.storage().is_none() {
                    return Err(Error::value("a reader fills contiguous tensors of the host"));
                }
                outs.push(vec![Piece { ptr: t.data_ptr(), bytes: t.numel() as usize * t.dtype().size() }]);
            }
            gate::detach(py, || {
                let mut body = lock(&self.body);
                let body = body.as_mut().ok_or_else(|| Error::runtime("the reader is closed"))?;
                body.act(&mut Act { ins: &[], outs: &outs, run: None, poll: &mut || Ok(()) })
            })
        })
    }
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    register_source(KIND, make);
    oneflow_data::register();
    m.add_class::<DataSource>()
}

/// The kind under which plans name Python iterators.
pub(crate) const PYTHON: &str = KIND;
