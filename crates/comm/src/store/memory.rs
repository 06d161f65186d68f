//! A store inside one process, for ranks that are threads. Nothing outside the process can reach it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use super::table::Table;
use super::{DEFAULT_TIMEOUT, Store};

pub struct MemoryStore {
    table: Mutex<Table>,
    changed: Condvar,
    timeout: Duration,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(DEFAULT_TIMEOUT)
    }
}

impl MemoryStore {
    pub fn new(timeout: Duration) -> MemoryStore {
        MemoryStore { table: Mutex::default(), changed: Condvar::new(), timeout }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, what: &str, key: &str, f: impl FnOnce(&mut Table) -> Result<R, &'static str>) -> Result<R> {
        let result = f(&mut self.table());
        self.changed.notify_all();
        result.map_err(|cause| Error::runtime(format!("store: {what} '{key}': {cause}")))
    }
}

impl Store for MemoryStore {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change("set", key, |table| table.set(key.as_bytes(), value))
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.wait(&[key], self.timeout)?;
        let value = self.table().get(key.as_bytes()).map(<[u8]>::to_vec);
        value.ok_or_else(|| Error::runtime(format!("store: get '{key}': the key was deleted")))
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.change("add", key, |table| table.add(key.as_bytes(), amount))
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.change("compare_set", key, |table| table.compare_set(key.as_bytes(), expected, desired))
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change("append", key, |table| table.append(key.as_bytes(), value))
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        Ok(self.table().has_all(keys))
    }

    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        let deadline = Instant::now().checked_add(timeout);
        let mut table = self.table();
        while !table.has_all(keys) {
            let left = deadline.map_or(Duration::from_secs(3600), |d| d.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                let missing: Vec<_> = keys.iter().filter(|k| !table.has_all(&[k.as_bytes()])).collect();
                return Err(Error::runtime(format!("store: timed out after {timeout:?} waiting for keys {missing:?}")));
            }
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<bool> {
        Ok(self.table().delete(key.as_bytes()))
    }

    fn num_keys(&self) -> Result<i64> {
        Ok(self.table().len() as i64)
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        Ok(self.table().keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect())
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.change("queue_push", key, |table| table.push(key.as_bytes(), value))
    }

    fn queue_pop(&self, key: &str, timeout: Option<Duration>) -> Result<Option<Vec<u8>>> {
        let started = Instant::now();
        loop {
            let value = self.table().pop(key.as_bytes());
            if value.is_some() || timeout.is_none() {
                return Ok(value);
            }
            // Somebody else may have been faster: then for what is left of the time.
            let timeout = timeout.unwrap_or_default();
            self.wait(&[key], timeout.saturating_sub(started.elapsed()))?;
        }
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        Ok(self.table().queue_len(key.as_bytes()) as i64)
    }
}
