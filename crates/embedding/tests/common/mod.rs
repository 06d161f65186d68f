//! Helpers that the tests share: temporary folders, small stores, and faults that strike once.
#![allow(dead_code)]

use oneflow_embedding::{Batch, Config, Faults, Initializer, Key, Op, Options, Store, Verdict};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where rows lie on disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tier {
    Log,
    Pages,
}

impl Tier {
    /// How the names of files end that hold most rows.
    pub fn ending(self) -> &'static str {
        match self {
            Tier::Log => ".rows",
            Tier::Pages => ".pages",
        }
    }
    /// Bytes that files may take besides twice the rows in use: superseded records that are not worth collecting, and blocks and
    /// feet of files of pages.
    pub fn slack(self) -> u64 {
        match self {
            Tier::Log => 24_000,
            Tier::Pages => 64_000,
        }
    }
}

/// Runs tests over both tiers.
#[macro_export]
macro_rules! over_tiers {
    ($($name:ident),+ $(,)?) => {
        mod log {
            $(#[test] fn $name() { super::$name($crate::common::Tier::Log) })+
        }
        mod pages {
            $(#[test] fn $name() { super::$name($crate::common::Tier::Pages) })+
        }
    };
}

/// A folder for a store, and where its rows lie there.
pub struct Scratch(PathBuf, Tier);

impl Scratch {
    pub fn new(name: &str, tier: Tier) -> Scratch {
        static N: AtomicU64 = AtomicU64::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("oneflow_embedding_{name}_{}_{n}", std::process::id()));
        // May be there from a run whose process had this number.
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path, tier)
    }
    /// As few rows in memory as there may be for a budget of 0.
    pub fn options(&self, memory_budget: u64) -> Options {
        let pages = Some(self.1 == Tier::Pages);
        Options { memory_budget, pages, records_per_segment: 100, n_readers: 2, ..Options::default() }
    }
    /// Bytes of rows.
    pub fn bytes(&self) -> u64 {
        let files = [".rows", ".pages"].into_iter().flat_map(|end| self.files(end));
        files.map(|f| f.metadata().unwrap().len()).sum()
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// Files whose names end so, in order.
    pub fn files(&self, end: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().path());
        let mut files: Vec<_> = entries.filter(|p| p.to_string_lossy().ends_with(end)).collect();
        files.sort();
        files
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Two tables of one column.
pub fn config(dim: usize, state_width: usize) -> Config {
    let tables =
        vec![vec![Initializer::Normal { mean: 0.0, std: 1.0 }], vec![Initializer::Uniform { low: -1.0, high: 1.0 }]];
    Config { column_dims: vec![dim], state_width, tables, seed: 11 }
}

pub fn batch(keys: &[Key]) -> Batch {
    Batch::new(keys.iter().copied().map(Some)).unwrap()
}

/// Weights of keys, as evaluation reads them.
pub fn fill(store: &mut Store, keys: &[Key]) -> Vec<f32> {
    let mut out = vec![f32::NAN; keys.len() * store.config().dim()];
    store.lookup(&batch(keys), false, &mut out).unwrap();
    out
}

pub fn keys_of(store: &mut Store) -> Vec<Key> {
    store.keys().unwrap()
}

/// Fails the n-th change of the disk. After a crash all that follow fail too.
pub struct Countdown {
    left: Mutex<Option<usize>>,
    crash: bool,
    torn: bool,
    fired: Mutex<bool>,
    /// Bytes of each file that are known to be on the disk.
    synced: Mutex<HashMap<PathBuf, u64>>,
}

impl Countdown {
    pub fn new(n: usize, crash: bool, torn: bool) -> Countdown {
        Countdown { left: Mutex::new(Some(n)), crash, torn, fired: Mutex::new(false), synced: Mutex::default() }
    }
    pub fn has_fired(&self) -> bool {
        *self.fired.lock().unwrap()
    }
    pub fn has_crashed(&self) -> bool {
        self.crash && self.has_fired()
    }
    /// A computer that lost power keeps of a file what was synced.
    pub fn lose_unsynced(&self) {
        for (path, n) in self.synced.lock().unwrap().iter() {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(path) {
                let n = (*n).min(file.metadata().unwrap().len());
                file.set_len(n).unwrap();
            }
        }
    }
    fn follow(&self, op: Op, path: &Path) {
        let mut synced = self.synced.lock().unwrap();
        match op {
            Op::Create => drop(synced.insert(path.to_path_buf(), 0)),
            Op::Sync => drop(synced.insert(path.to_path_buf(), std::fs::metadata(path).map_or(0, |m| m.len()))),
            Op::Remove => drop(synced.remove(path)),
            Op::Rename => {
                let mut from = path.as_os_str().to_os_string();
                from.push(".tmp");
                if let Some(n) = synced.remove(Path::new(&from)) {
                    synced.insert(path.to_path_buf(), n);
                }
            }
            Op::Write(_) | Op::SyncFolder => {}
        }
    }
}

impl Faults for Countdown {
    fn judge(&self, op: Op, path: &Path) -> Verdict {
        let n = match op {
            Op::Write(n) if self.torn => n / 2,
            _ => 0,
        };
        if self.has_crashed() {
            return Verdict::Fail(0);
        }
        let mut left = self.left.lock().unwrap();
        match *left {
            Some(0) => {
                *left = None;
                *self.fired.lock().unwrap() = true;
                Verdict::Fail(n)
            }
            k => {
                *left = k.map(|k| k - 1);
                self.follow(op, path);
                Verdict::Go
            }
        }
    }
}
