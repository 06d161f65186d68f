//! `Serving`: the rows of a snapshot for programs that answer requests. Many threads look up at once; deltas and newer
//! snapshots take the place of rows between two lookups, so each lookup sees one version whole.
//!
//! Segments and files of pages are mapped, not read: a snapshot pins them, so nobody changes them while it exists. Optimizer state stays
//! on disk. Trains nothing.

use crate::batch::Key;
use crate::config::Config;
use crate::delta::Delta;
use crate::epochs::{check_segments, snapshot_file, sorted};
use crate::folder::Folder;
use crate::index::Index;
use crate::initial::fill_row;
use crate::log::{CHECKSUM, HEADER, Place, checksum, damaged, segment_name};
use crate::manifest;
use crate::page::{PAGE, PageRows, Run, pages_name};
use crate::pages::run_of;
use memmap2::Mmap;
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The rows of a snapshot of one rank or of several, and the deltas that came since.
pub struct Serving {
    now: RwLock<Arc<Version>>,
    /// Held while a new version is made, so that none is lost.
    changes: Mutex<()>,
}

/// What lookups read at one time.
struct Version {
    snapshot: Arc<Snapshot>,
    /// Of each rank the epoch that its rows are of.
    epochs: Vec<u64>,
    newer: Newer,
}

/// Rows that are newer than the snapshot's.
#[derive(Clone, Default)]
struct Newer {
    /// Where the weights of a key stand; None is a key that is gone.
    of: HashMap<Key, Option<usize>>,
    weights: Vec<f32>,
}

struct Snapshot {
    config: Config,
    shards: Vec<Shard>,
}

/// The rows of one rank.
struct Shard {
    entries: Vec<(u64, Place)>,
    index: Index,
    /// In the order of the hashes of their rows.
    runs: Vec<Run>,
    /// Of both kinds.
    files: HashMap<u32, Mmap>,
    width: usize,
}

/// Keys whose lines are asked for ahead.
const AHEAD: usize = 16;

fn key_of(entry: &(u64, Place)) -> Key {
    Key { table: entry.1.table(), id: entry.0 }
}

impl Shard {
    fn open(path: &Path, snapshot: &str) -> Result<(Shard, Config, u64)> {
        let folder = Folder::open_to_read(path, false)?;
        let name = snapshot_file(snapshot)?;
        if !folder.file(&name).exists() {
            return Err(Error::value(format!("embedding: {} has no snapshot {snapshot:?}", path.display())));
        }
        let manifest = manifest::read(&folder, &name)?;
        let config = manifest.head.config.clone();
        let width = config.width();
        let n_records = check_segments(&folder, &manifest, record_bytes(width))?;
        let wrong = |what: String| Error::runtime(format!("embedding: the manifest is damaged: {what}"));
        let runs = manifest.head.pages.iter().map(|of| Run::open(&folder, of, width)).collect::<Result<Vec<_>>>()?;
        let runs = sorted(runs).ok_or_else(|| wrong("two files of pages hold the same rows".to_string()))?;
        let mut files = HashMap::new();
        let records = n_records.keys().map(|s| (*s, segment_name(*s)));
        for (segment, name) in records.chain(runs.iter().map(|r| (r.segment, pages_name(r.segment)))) {
            let path = folder.file(&name);
            let file = folder.open_file(&name)?;
            // SAFETY: a snapshot pins its files: stores append behind what it needs, and never write into it.
            let map = unsafe { Mmap::map(&file) };
            let failed = |e| Error::runtime(format!("embedding: cannot map {}: {e}", path.display()));
            files.insert(segment, map.map_err(failed)?);
        }
        let entries: Vec<(u64, Place)> = manifest.entries().collect();
        let mut index = Index::new();
        for (i, entry) in entries.iter().enumerate() {
            let place = entry.1;
            let is_known = place.is_gone() || n_records.get(&place.segment()).is_some_and(|n| place.record() < *n);
            if !is_known || place.table() as usize >= config.tables.len() {
                return Err(wrong(format!("the row {} lies in no segment", entry.0)));
            }
            index.insert(key_of(entry).hash(), i as u32, |e| key_of(&entries[e as usize]).hash());
        }
        Ok((Shard { entries, index, runs, files, width }, config, manifest.head.epoch))
    }

    /// Copies the weights of a key; false if it has no row.
    fn weights(&self, key: Key, out: &mut [f32]) -> Result<bool> {
        match self.index.find(key.hash(), |e| key_of(&self.entries[e as usize]) == key) {
            Some(entry) if self.entries[entry as usize].1.is_gone() => Ok(false),
            Some(entry) => self.weights_of_record(key, self.entries[entry as usize].1, out).map(|()| true),
            None => self.weights_in_page(key, out),
        }
    }

    fn weights_in_page(&self, key: Key, out: &mut [f32]) -> Result<bool> {
        let hash = key.hash();
        let Some(run) = run_of(&self.runs, hash) else { return Ok(false) };
        let spot = run.find(hash);
        let start = spot.block as usize * PAGE;
        let map = self.files.get(&spot.segment).map_or(&[][..], |m| &m[..]);
        let page = map.get(start..start + spot.n_blocks as usize * PAGE).unwrap_or(&[]);
        let row = PageRows::of(page, spot, self.width)?.find(key);
        if let Some(row) = row {
            row.copy_values(out);
        }
        Ok(row.is_some())
    }

    fn weights_of_record(&self, key: Key, place: Place, out: &mut [f32]) -> Result<()> {
        let n = record_bytes(self.width);
        let start = place.record() as usize * n;
        let map = self.files.get(&place.segment());
        let record = map.and_then(|m| m.get(start..start + n)).ok_or_else(|| damaged(place))?;
        let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|b| record[4 * i + b]));
        let found = Key { table: word(2), id: word(0) as u64 | (word(1) as u64) << 32 };
        if word(CHECKSUM) != checksum(record, place) || found != key {
            return Err(damaged(place));
        }
        for (i, o) in out.iter_mut().enumerate() {
            *o = f32::from_bits(word(HEADER + i));
        }
        Ok(())
    }
}

fn record_bytes(width: usize) -> usize {
    4 * (HEADER + width)
}

impl Snapshot {
    fn open(paths: &[PathBuf], name: &str) -> Result<(Snapshot, Vec<u64>)> {
        let (mut shards, mut epochs, mut config) = (Vec::new(), Vec::new(), None);
        for path in paths {
            let (shard, found, epoch) = Shard::open(path, name)?;
            let first = config.get_or_insert_with(|| found.clone());
            first.expect(&found).map_err(|e| e.context(format!("{}: ", path.display())))?;
            shards.push(shard);
            epochs.push(epoch);
        }
        let config = config.ok_or_else(|| Error::value("embedding: expected the folder of each rank, got none"))?;
        Ok((Snapshot { config, shards }, epochs))
    }
}

impl Version {
    fn weights(&self, key: Key, out: &mut [f32]) -> Result<()> {
        let config = &self.snapshot.config;
        let initial = |out: &mut [f32]| {
            fill_row(&config.tables[key.table as usize], &config.column_dims, config.seed, key, out);
        };
        match self.newer.of.get(&key) {
            Some(Some(at)) => out.copy_from_slice(&self.newer.weights[*at..at + out.len()]),
            Some(None) => initial(out),
            None => {
                let shard = &self.snapshot.shards[key.owner(self.snapshot.shards.len())];
                if !shard.weights(key, out)? {
                    initial(out);
                }
            }
        }
        Ok(())
    }
}

impl Serving {
    /// Opens a snapshot. `paths` are the folders of all ranks that saved it, in their order.
    pub fn open(paths: &[PathBuf], snapshot: &str) -> Result<Serving> {
        let (snapshot, epochs) = Snapshot::open(paths, snapshot)?;
        let version = Version { snapshot: Arc::new(snapshot), epochs, newer: Newer::default() };
        Ok(Serving { now: RwLock::new(Arc::new(version)), changes: Mutex::new(()) })
    }

    fn now(&self) -> Arc<Version> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The configuration of the store.
    pub fn config(&self) -> Config {
        self.now().snapshot.config.clone()
    }

    /// The epoch of each rank's rows.
    pub fn epochs(&self) -> Vec<u64> {
        self.now().epochs.clone()
    }

    /// Writes the weights of each key to `out`, one after the other; all are of one version. Keys without a row have their
    /// initial weights. Runs on any number of threads at once.
    pub fn lookup(&self, keys: &[Key], out: &mut [f32]) -> Result<()> {
        let version = self.now();
        let (config, n) = (&version.snapshot.config, version.snapshot.shards.len());
        let dim = config.dim();
        if keys.len().checked_mul(dim) != Some(out.len()) {
            let (k, o) = (keys.len(), out.len());
            return Err(Error::value(format!("embedding: {k} rows of {dim} numbers do not fit {o} numbers")));
        }
        if let Some(key) = keys.iter().find(|k| k.table as usize >= config.tables.len()) {
            let n = config.tables.len();
            return Err(Error::index(format!("embedding: there is no table {}: the store has {n}", key.table)));
        }
        for (i, (key, out)) in keys.iter().zip(out.chunks_exact_mut(dim)).enumerate() {
            if let Some(next) = keys.get(i + AHEAD) {
                version.snapshot.shards[next.owner(n)].index.prefetch(next.hash());
            }
            version.weights(*key, out)?;
        }
        Ok(())
    }

    /// Takes over deltas, one a rank in their order: later lookups see all of them, lookups under way none. Each must be
    /// since the epoch that its rank's rows are of, or since an earlier one.
    pub fn apply(&self, deltas: &[Delta]) -> Result<()> {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.now();
        if deltas.len() != version.epochs.len() {
            let (n, ranks) = (deltas.len(), version.epochs.len());
            return Err(Error::value(format!("embedding: {n} deltas for a snapshot of {ranks} ranks")));
        }
        for (rank, (delta, epoch)) in deltas.iter().zip(&version.epochs).enumerate() {
            if delta.since > *epoch || delta.epoch < *epoch {
                return Err(Error::value(format!(
                    "embedding: rank {rank} serves epoch {epoch}: a delta from epoch {} to {} does not follow it",
                    delta.since, delta.epoch
                )));
            }
        }
        let (dim, width) = (version.snapshot.config.dim(), version.snapshot.config.width());
        let mut newer = version.newer.clone();
        for delta in deltas {
            for (key, values) in delta.changed.keys.iter().zip(delta.changed.values.chunks_exact(width)) {
                // Rows are replaced in their place, so that many deltas of the same rows take the room of one.
                match newer.of.get(key).copied().flatten() {
                    Some(at) => newer.weights[at..at + dim].copy_from_slice(&values[..dim]),
                    None => {
                        newer.of.insert(*key, Some(newer.weights.len()));
                        newer.weights.extend_from_slice(&values[..dim]);
                    }
                }
            }
            newer.of.extend(delta.gone.iter().map(|key| (*key, None)));
        }
        let epochs = deltas.iter().map(|d| d.epoch).collect();
        self.become_version(Version { snapshot: version.snapshot.clone(), epochs, newer });
        Ok(())
    }

    /// Takes over a newer snapshot of the same store; deltas until now are part of it.
    pub fn reload(&self, paths: &[PathBuf], snapshot: &str) -> Result<()> {
        let _alone = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, epochs) = Snapshot::open(paths, snapshot)?;
        self.now().snapshot.config.expect(&snapshot.config)?;
        self.become_version(Version { snapshot: Arc::new(snapshot), epochs, newer: Newer::default() });
        Ok(())
    }

    fn become_version(&self, version: Version) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(version);
    }
}
