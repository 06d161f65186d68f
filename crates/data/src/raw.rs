//! Records of one size in a file, after a header: batches of them in a reproducible order. What the bytes mean is their
//! reader's to say.

use crate::config::Lines;
use crate::{Shuffle, file};
use memmap2::Mmap;
use oneflow_base::{Error, Result};
use oneflow_runtime::{Act, Body};
use std::path::PathBuf;

pub(crate) const KIND: &str = "raw";

/// Batches of `batch` records of `record` bytes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSource {
    pub path: PathBuf,
    /// Bytes before the first record.
    pub header: usize,
    pub record: usize,
    pub batch: usize,
    pub shuffle: bool,
    pub seed: u64,
    /// Batches read so far: part of a checkpoint.
    pub position: u64,
}

impl RawSource {
    /// As a plan keeps it.
    pub fn config(&self) -> Result<Vec<u8>> {
        let l =
            Lines::default().put_path("path", &self.path)?.put("header", self.header)?.put("record", self.record)?;
        let l = l.put("batch", self.batch)?.put("shuffle", self.shuffle)?.put("seed", self.seed)?;
        Ok(l.put("position", self.position)?.bytes())
    }

    /// Reads what `config` wrote.
    pub fn parse(config: &[u8]) -> Result<RawSource> {
        let l = Lines::read(config)?;
        Ok(RawSource {
            path: l.path("path")?,
            header: l.get("header")?,
            record: l.get("record")?,
            batch: l.get("batch")?,
            shuffle: l.get("shuffle")?,
            seed: l.get("seed")?,
            position: l.get("position")?,
        })
    }

    pub fn open(&self) -> Result<RawReader> {
        let map = file::map(&self.path)?;
        let body = map.len().saturating_sub(self.header);
        let n = body.checked_div(self.record).unwrap_or(0);
        let fits = self.batch.checked_mul(self.record).is_some();
        if n == 0 || self.batch == 0 || !fits || body % self.record.max(1) != 0 {
            return Err(Error::value(format!(
                "raw file {}: {} bytes are no records of {} bytes after a header of {}",
                self.path.display(),
                map.len(),
                self.record,
                self.header
            )));
        }
        Ok(RawReader { order: Shuffle::new(n as u64, self.seed), map, n: n as u64, source: self.clone() })
    }
}

/// An open file of records.
pub struct RawReader {
    map: Mmap,
    order: Shuffle,
    n: u64,
    source: RawSource,
}

impl RawReader {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.n as usize
    }
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }
    /// The next batch, record by record.
    pub fn next_batch(&mut self, out: &mut [u8]) {
        let s = &mut self.source;
        for (row, to) in out.chunks_exact_mut(s.record).enumerate() {
            let i = s.position.wrapping_mul(s.batch as u64).wrapping_add(row as u64);
            let i = if s.shuffle { self.order.at(i) } else { i % self.n } as usize;
            let at = s.header + i * s.record;
            to.copy_from_slice(&self.map[at..at + s.record]);
        }
        s.position = s.position.wrapping_add(1);
    }
}

impl Body for RawReader {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        for mut p in act.outs.iter().flatten().copied() {
            let bytes = self.source.batch * self.source.record;
            self.next_batch(file::fill("raw source", &mut p, bytes)?);
        }
        Ok(())
    }
}

pub(crate) fn make(config: &[u8]) -> Result<Box<dyn Body>> {
    Ok(Box::new(RawSource::parse(config)?.open()?))
}
