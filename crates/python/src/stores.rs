//! Key-value stores as Python sees them; the package gives them PyTorch's names.

use crate::gate::{self, run};
use oneflow_comm::Security;
use oneflow_comm::store::{FileStore, MemoryStore, PrefixStore, Store, TcpStore};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A shared map from names to bytes.
#[pyclass(frozen, name = "_Store", module = "oneflow.distributed")]
pub struct PyStore {
    store: Arc<dyn Store>,
    /// Of a server, where the system chose it.
    port: OnceLock<u16>,
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("timeout must be a number of seconds, got {seconds}")))
}

impl PyStore {
    pub fn shared(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn of(store: impl Store + 'static) -> PyStore {
        PyStore { store: Arc::new(store), port: OnceLock::new() }
    }
}

#[pymethods]
impl PyStore {
    /// One in a server that this process holds, for those who may join its job, or in another one.
    #[staticmethod]
    fn tcp(py: Python<'_>, host: &str, port: u16, is_server: bool, timeout: f64) -> PyResult<PyStore> {
        let timeout = duration(timeout)?;
        let store = run(|| {
            gate::detach(py, || {
                let security = Security::from_env()?;
                match is_server {
                    true => TcpStore::host_as(host, port, timeout, &security),
                    false => TcpStore::connect_to_any(host, port, timeout, &security),
                }
            })
        })?;
        let port = store.address().port();
        let of = PyStore::of(store);
        let _ = of.port.set(port);
        Ok(of)
    }
    /// One inside this process.
    #[staticmethod]
    fn memory(timeout: f64) -> PyResult<PyStore> {
        Ok(PyStore::of(MemoryStore::new(duration(timeout)?)))
    }
    /// One in a file.
    #[staticmethod]
    fn file(path: &str, timeout: f64) -> PyResult<PyStore> {
        let timeout = duration(timeout)?;
        Ok(PyStore::of(run(|| FileStore::open(path, timeout))?))
    }
    /// The keys of this one that begin so.
    fn prefixed(&self, prefix: &str) -> PyStore {
        PyStore::of(PrefixStore::borrowed(prefix, self.shared()))
    }
    fn port(&self) -> Option<u16> {
        self.port.get().copied()
    }
    fn set(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        run(|| gate::detach(py, || self.store.set(key, value)))
    }
    fn get<'py>(&self, py: Python<'py>, key: &str, timeout: f64) -> PyResult<Bound<'py, PyBytes>> {
        let timeout = duration(timeout)?;
        let value = run(|| gate::detach(py, || self.store.wait(&[key], timeout).and_then(|()| self.store.get(key))))?;
        Ok(PyBytes::new(py, &value))
    }
    fn add(&self, py: Python<'_>, key: &str, amount: i64) -> PyResult<i64> {
        run(|| gate::detach(py, || self.store.add(key, amount)))
    }
    fn compare_set<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        expected: &[u8],
        desired: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = run(|| gate::detach(py, || self.store.compare_set(key, expected, desired)))?;
        Ok(PyBytes::new(py, &value))
    }
    fn append(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        run(|| gate::detach(py, || self.store.append(key, value)))
    }
    fn check(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<bool> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        run(|| gate::detach(py, || self.store.check(&keys)))
    }
    fn wait(&self, py: Python<'_>, keys: Vec<String>, timeout: f64) -> PyResult<()> {
        let (keys, timeout): (Vec<&str>, _) = (keys.iter().map(String::as_str).collect(), duration(timeout)?);
        run(|| gate::detach(py, || self.store.wait(&keys, timeout)))
    }
    fn delete_key(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        run(|| gate::detach(py, || self.store.delete(key)))
    }
    fn num_keys(&self, py: Python<'_>) -> PyResult<i64> {
        run(|| gate::detach(py, || self.store.num_keys()))
    }
    fn list_keys(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        run(|| gate::detach(py, || self.store.list_keys()))
    }
    fn queue_push(&self, py: Python<'_>, key: &str, value: &[u8]) -> PyResult<()> {
        run(|| gate::detach(py, || self.store.queue_push(key, value)))
    }
    /// With a timeout it waits for a value; without one there may be none.
    #[pyo3(signature = (key, timeout=None))]
    fn queue_pop<'py>(
        &self,
        py: Python<'py>,
        key: &str,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let timeout = timeout.map(duration).transpose()?;
        let value = run(|| gate::detach(py, || self.store.queue_pop(key, timeout)))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }
    fn queue_len(&self, py: Python<'_>, key: &str) -> PyResult<i64> {
        run(|| gate::detach(py, || self.store.queue_len(key)))
    }
    fn close(&self) {
        self.store.close();
    }
}
