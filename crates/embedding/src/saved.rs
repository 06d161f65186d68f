//! `Saved`: the rows of an epoch or a snapshot, read without changing the folder.
//!
//! For exports, deltas and stores of another number of ranks. A snapshot can be read while its store trains; the last epoch
//! only while nobody writes, since the next one gives its files away.

use crate::batch::Key;
use crate::config::Config;
use crate::disk::{Wanted, Where};
use crate::epochs::{check_segments, known_segments, newest_epoch, snapshot_file};
use crate::folder::Folder;
use crate::log::{HEADER, Log};
use crate::manifest::{self, Manifest};
use crate::page::Run;
use crate::readers::{Io, Readers};
use crate::rows::{COUNT, STEP, floats};
use crate::store::DEPTH;
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Rows that are compared at once.
const AT_ONCE: usize = 1 << 12;

/// An epoch or a snapshot.
pub struct Saved {
    log: Log,
    readers: Readers,
    config: Config,
    epoch: u64,
    /// In the order of the keys.
    entries: Vec<Wanted>,
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
        let mut log = Log::new(folder.clone(), config.width(), 0, 1, 0);
        log.segments.extend(known_segments(&manifest.head));
        let segments = check_segments(&folder, &manifest, log.record_bytes())?;
        let readers = Readers::new(2, Io::Best, 1, DEPTH);
        let in_pages = rows_of_pages(&folder, &manifest, &mut log, &readers)?;
        let entries = sorted_entries(&manifest, &segments, in_pages)?;
        Ok(Saved { log, readers, epoch: manifest.head.epoch, config, entries })
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
        self.entries.get(entry).map(|e| e.key)
    }
    /// The place of a key's row in that order.
    pub fn find(&self, key: Key) -> Option<usize> {
        self.entries.binary_search_by_key(&key, |e| e.key).ok()
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
        let read = self.log.read(&self.readers, &found)?;
        let mut records = Records::default();
        for ((row, is_there), wanted) in read.words.chunks_exact(HEADER + width).zip(read.are_there).zip(&found) {
            if !is_there {
                let (id, file) = (wanted.key.id, wanted.at.segment());
                return Err(Error::runtime(format!("embedding: the row {id} is gone from the file of pages {file}")));
            }
            records.keys.push(wanted.key);
            records.steps.push(row[STEP]);
            records.counts.push(row[COUNT]);
            records.values.extend(floats(&row[HEADER..]));
        }
        Ok(records)
    }

    /// What became of `older`, an earlier snapshot of the same store: places of the rows that are new or changed, and the keys
    /// that are gone. Rows that lie elsewhere now are read in both and compared.
    pub fn since(&mut self, older: &mut Saved) -> Result<(Vec<usize>, Vec<Key>)> {
        older.config.expect(&self.config)?;
        let (mut changed, mut both) = (Vec::new(), Vec::new());
        for (i, entry) in self.entries.iter().enumerate() {
            match older.find(entry.key) {
                None => changed.push(i),
                Some(before) if older.entries[before].at != entry.at => both.push((i, before)),
                Some(_) => {}
            }
        }
        // In the order in which they lie on disk.
        both.sort_unstable_by_key(|(i, _)| self.entries[*i].at.order());
        for part in both.chunks(AT_ONCE) {
            let (now, before): (Vec<usize>, Vec<usize>) = part.iter().copied().unzip();
            let (now, before) = (self.select(&now)?, older.select(&before)?);
            let width = self.config.width();
            let of = |r: &Records, k: usize| {
                let bits: Vec<u32> = r.values[k * width..(k + 1) * width].iter().map(|v| v.to_bits()).collect();
                (r.steps[k], r.counts[k], bits)
            };
            changed.extend(part.iter().enumerate().filter(|(k, _)| of(&now, *k) != of(&before, *k)).map(|(_, p)| p.0));
        }
        changed.sort_unstable();
        let gone = older.entries.iter().map(|e| e.key).filter(|k| self.find(*k).is_none()).collect();
        Ok((changed, gone))
    }
}

/// The rows of all files of pages, superseded ones too.
fn rows_of_pages(folder: &Folder, from: &Manifest, log: &mut Log, readers: &Readers) -> Result<Vec<Wanted>> {
    let width = from.head.config.width();
    let mut rows = Vec::new();
    for of in &from.head.pages {
        let run = Run::open(folder, of, width)?;
        let file = log.file_to_read(run.segment)?;
        run.visit(&file, readers, width, |spot, row| {
            rows.push(Wanted { key: row.key(), at: Where::Page(spot) });
            true
        })?;
    }
    Ok(rows)
}

fn sorted_entries(from: &Manifest, n_records: &HashMap<u32, u32>, in_pages: Vec<Wanted>) -> Result<Vec<Wanted>> {
    let damaged = |what: String| Error::runtime(format!("embedding: the manifest is damaged: {what}"));
    let n_tables = from.head.config.tables.len() as u32;
    let mut entries = Vec::with_capacity(from.entries().len() + in_pages.len());
    for (id, place) in from.entries() {
        let is_known = place.is_gone() || n_records.get(&place.segment()).is_some_and(|n| place.record() < *n);
        if !is_known || place.table() >= n_tables {
            return Err(damaged(format!("the row {id} lies in no segment")));
        }
        entries.push(Wanted { key: Key { table: place.table(), id }, at: Where::Record(place) });
    }
    entries.sort_unstable_by_key(|e| e.key);
    if entries.windows(2).any(|w| w[0].key == w[1].key) {
        return Err(damaged("a row stands in it twice".to_string()));
    }
    // What the log says of a row counts, then what a page does.
    entries.extend(in_pages);
    entries.sort_by_key(|e| e.key);
    entries.dedup_by_key(|e| e.key);
    entries.retain(|e| !matches!(e.at, Where::Record(place) if place.is_gone()));
    if entries.len() as u64 != from.head.n_rows {
        return Err(damaged(format!("it has {} rows, and says {}", entries.len(), from.head.n_rows)));
    }
    Ok(entries)
}
