//! `Saved`: the rows of an epoch or a snapshot, read without changing the folder.
//!
//! For exports, deltas and stores of another number of ranks. A snapshot can be read while its store trains; the last epoch
//! only while nobody writes, since the next one gives its files away.

use crate::batch::Key;
use crate::config::Config;
use crate::epochs::{check_segments, newest_epoch, snapshot_file};
use crate::folder::Folder;
use crate::log::{HEADER, Log, Place};
use crate::manifest::{self, Manifest};
use crate::readers::{Io, Readers};
use crate::rows::{COUNT, STEP, floats};
use crate::store::DEPTH;
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An epoch or a snapshot.
pub struct Saved {
    log: Log,
    readers: Readers,
    config: Config,
    epoch: u64,
    /// In the order of the keys.
    entries: Vec<(Key, Place)>,
}

/// Rows with all that a store knows of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    pub keys: Vec<Key>,
    /// Step of the last update, and how often updates named the row.
    pub steps: Vec<u32>,
    pub counts: Vec<u32>,
    /// Weights and state of each row.
    pub values: Vec<f32>,
}

impl Saved {
    /// The last epoch of a folder, or the snapshot of this name.
    pub fn open(path: &Path, snapshot: Option<&str>) -> Result<Saved> {
        let folder = Arc::new(Folder::open_to_read(path, snapshot.is_none())?);
        let name = match snapshot {
            Some(name) => snapshot_file(name)?,
            None => newest_epoch(&folder)?
                .ok_or_else(|| Error::value(format!("embedding: {} holds no epoch of a store", path.display())))?,
        };
        if snapshot.is_some() && !folder.file(&name).exists() {
            let snapshot = snapshot.unwrap_or_default();
            return Err(Error::value(format!("embedding: {} has no snapshot {snapshot:?}", path.display())));
        }
        let manifest = manifest::read(&folder, &name)?;
        let config = manifest.head.config.clone();
        let log = Log::new(folder.clone(), config.width(), 0, 0);
        let segments = check_segments(&folder, &manifest, log.record_bytes())?;
        let entries = sorted_entries(&manifest, config.tables.len() as u32, &segments)?;
        Ok(Saved { log, readers: Readers::new(2, Io::Best, 1, DEPTH), epoch: manifest.head.epoch, config, entries })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// Rows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// The key of each row, in order.
    pub fn key(&self, entry: usize) -> Option<Key> {
        self.entries.get(entry).map(|e| e.0)
    }
    /// The place of a key's row in that order.
    pub fn find(&self, key: Key) -> Option<usize> {
        self.entries.binary_search_by_key(&key, |e| e.0).ok()
    }

    /// A range of the rows, in the order of their keys.
    pub fn records(&mut self, range: Range<usize>) -> Result<Records> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let entries: Vec<usize> = range.collect();
        self.select(&entries)
    }

    /// Rows by their place in the order of the keys.
    pub fn select(&mut self, entries: &[usize]) -> Result<Records> {
        let width = self.config.width();
        let found = entries.iter().map(|e| self.entries.get(*e).copied()).collect::<Option<Vec<_>>>();
        let found = found.ok_or_else(|| Error::index("embedding: there are fewer rows than asked for"))?;
        let places: Vec<Place> = found.iter().map(|e| e.1).collect();
        let ids: Vec<u64> = found.iter().map(|e| e.0.id).collect();
        let words = self.log.read(&self.readers, &places, &ids)?;
        let mut records = Records::default();
        for (row, (key, _)) in words.chunks_exact(HEADER + width).zip(&found) {
            records.keys.push(*key);
            records.steps.push(row[STEP]);
            records.counts.push(row[COUNT]);
            records.values.extend(floats(&row[HEADER..]));
        }
        Ok(records)
    }

    /// What became of `older`, an earlier snapshot of the same store: places of the rows that are new or may have changed, and
    /// the keys that are gone. A row that collection moved meanwhile counts as changed.
    pub fn since(&self, older: &Saved) -> Result<(Vec<usize>, Vec<Key>)> {
        older.config.expect(&self.config)?;
        let before: HashMap<Key, Place> = older.entries.iter().copied().collect();
        let is_new = |i: &usize| before.get(&self.entries[*i].0) != Some(&self.entries[*i].1);
        let changed = (0..self.len()).filter(is_new).collect();
        let gone = older.entries.iter().map(|e| e.0).filter(|k| self.find(*k).is_none()).collect();
        Ok((changed, gone))
    }
}

fn sorted_entries(from: &Manifest, n_tables: u32, n_records: &HashMap<u32, u32>) -> Result<Vec<(Key, Place)>> {
    let damaged =
        |id: u64| Error::runtime(format!("embedding: the manifest is damaged: the row {id} lies in no segment"));
    let mut entries = Vec::with_capacity(from.entries().len());
    for (id, place) in from.entries() {
        if n_records.get(&place.segment()).is_none_or(|n| place.record() >= *n) || place.table() >= n_tables {
            return Err(damaged(id));
        }
        entries.push((Key { table: place.table(), id }, place));
    }
    entries.sort_unstable();
    if entries.windows(2).any(|w| w[0].0 == w[1].0) {
        return Err(Error::runtime("embedding: the manifest is damaged: a row stands in it twice"));
    }
    Ok(entries)
}
