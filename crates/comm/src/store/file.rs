//! A store in a file that all processes can open: a log of what was set, under a lock. Needs a file system with `flock`.
//!
//! Nothing of the file is trusted before its lengths are checked. What a writer that died left unfinished is cut off. The
//! file stays when the processes are gone.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};
use rustix::fs::{FlockOperation, flock};

use super::table::Table;
use super::{MAX_KEY, MAX_VALUE, Store};
use crate::interrupt;

/// How long who waits for a key or for the lock sleeps before it looks again.
const PAUSE: Duration = Duration::from_millis(5);
/// In place of a value's length: the key is deleted.
const DELETED: u32 = u32::MAX;

pub struct FileStore {
    path: PathBuf,
    state: Mutex<State>,
    timeout: Duration,
}

struct State {
    file: File,
    /// What the file says up to `read`.
    table: Table,
    read: u64,
}

impl FileStore {
    /// Opens the file, or makes it.
    pub fn open(path: impl AsRef<Path>, timeout: Duration) -> Result<FileStore> {
        let path = path.as_ref().to_path_buf();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|e| Error::runtime(format!("store: cannot open '{}': {e}", path.display())))?;
        Ok(FileStore { path, state: Mutex::new(State { file, table: Table::default(), read: 0 }), timeout })
    }

    /// Runs `f` over what the file says now, alone of all processes. What it returns beside its result is written.
    fn locked<R>(
        &self,
        what: &str,
        key: &str,
        f: impl FnOnce(&mut Table) -> Result<(R, Vec<u8>), &'static str>,
    ) -> Result<R> {
        let fail = |cause: &str| Error::runtime(format!("store in '{}': {what} '{key}': {cause}", self.path.display()));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + self.timeout.min(Duration::from_secs(365 * 86_400));
        loop {
            match flock(&state.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    interrupt::pause(PAUSE)?;
                }
                Err(e) => return Err(fail(&format!("cannot lock the file: {e}"))),
            }
        }
        let result = state.catch_up().map_err(|e| e.to_string()).and_then(|()| {
            let (result, record) = f(&mut state.table).map_err(str::to_owned)?;
            state.append(&record).map_err(|e| e.to_string())?;
            Ok(result)
        });
        let _ = flock(&state.file, FlockOperation::Unlock);
        result.map_err(|cause| fail(&cause))
    }
}

impl State {
    fn catch_up(&mut self) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        (&mut self.file).take(1 << 30).read_to_end(&mut new)?;
        let mut rest = &new[..];
        while !rest.is_empty() {
            let Some((record, after)) = parse(rest)? else { break };
            match record {
                (key, Some(value)) => {
                    let broken = |cause| std::io::Error::new(ErrorKind::InvalidData, cause);
                    self.table.set(key, value).map_err(broken)?;
                }
                (key, None) => drop(self.table.delete(key)),
            }
            self.read += (rest.len() - after.len()) as u64;
            rest = after;
        }
        if !rest.is_empty() {
            self.file.set_len(self.read)?;
        }
        Ok(())
    }

    fn append(&mut self, record: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.read))?;
        self.file.write_all(record)?;
        self.read += record.len() as u64;
        Ok(())
    }
}

type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// The first record and what follows it; `None`: it is not complete.
fn parse(data: &[u8]) -> std::io::Result<Option<(Record<'_>, &[u8])>> {
    let Some((head, rest)) = data.split_at_checked(8) else { return Ok(None) };
    let word = |at: usize| head[at..at + 4].iter().rev().fold(0u32, |v, &b| v << 8 | u32::from(b));
    let (key, value) = (word(0), word(4));
    let n_value = if value == DELETED { 0 } else { value as usize };
    if key as usize > MAX_KEY || n_value > MAX_VALUE {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "it is no store: a record is longer than any can be"));
    }
    let Some((key, rest)) = rest.split_at_checked(key as usize) else { return Ok(None) };
    let Some((bytes, rest)) = rest.split_at_checked(n_value) else { return Ok(None) };
    Ok(Some(((key, (value != DELETED).then_some(bytes)), rest)))
}

fn record(key: &str, value: Option<&[u8]>) -> Vec<u8> {
    let n_value = value.map_or(DELETED, |v| v.len() as u32);
    [&(key.len() as u32).to_le_bytes()[..], &n_value.to_le_bytes(), key.as_bytes(), value.unwrap_or_default()].concat()
}

fn limits(key: &str) -> Result<(), &'static str> {
    if key.len() > MAX_KEY { Err("the key is longer than 8 KiB") } else { Ok(()) }
}

impl Store for FileStore {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.locked("set", key, |table| {
            limits(key)?;
            table.set(key.as_bytes(), value)?;
            Ok(((), record(key, Some(value))))
        })
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.wait(&[key], self.timeout)?;
        let value = self.locked("get", key, |table| Ok((table.get(key.as_bytes()).map(<[u8]>::to_vec), Vec::new())))?;
        value.ok_or_else(|| Error::runtime(format!("store: get '{key}': the key was deleted")))
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.locked("add", key, |table| {
            limits(key)?;
            let sum = table.add(key.as_bytes(), amount)?;
            Ok((sum, record(key, Some(sum.to_string().as_bytes()))))
        })
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.locked("compare_set", key, |table| {
            limits(key)?;
            let now = table.compare_set(key.as_bytes(), expected, desired)?;
            let there = table.get(key.as_bytes()).map(|value| record(key, Some(value)));
            Ok((now, there.unwrap_or_default()))
        })
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.locked("append", key, |table| {
            limits(key)?;
            table.append(key.as_bytes(), value)?;
            Ok(((), record(key, table.get(key.as_bytes()))))
        })
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.locked("check", keys.first().unwrap_or(&""), |table| Ok((table.has_all(keys), Vec::new())))
    }

    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        let started = Instant::now();
        while !self.check(keys)? {
            if started.elapsed() >= timeout {
                let missing: Vec<_> = keys.iter().filter(|key| !matches!(self.check(&[key]), Ok(true))).collect();
                return Err(Error::runtime(format!(
                    "store in '{}': timed out after {timeout:?} waiting for keys {missing:?}",
                    self.path.display()
                )));
            }
            interrupt::pause(PAUSE)?;
        }
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<bool> {
        self.locked("delete", key, |table| {
            let there = table.delete(key.as_bytes());
            Ok((there, if there { record(key, None) } else { Vec::new() }))
        })
    }

    fn num_keys(&self) -> Result<i64> {
        self.locked("num_keys", "", |table| Ok((table.len() as i64, Vec::new())))
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        let keys = |table: &Table| table.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        self.locked("list_keys", "", |table| Ok((keys(table), Vec::new())))
    }
}
