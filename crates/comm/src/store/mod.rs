//! Key-value stores through which ranks find each other: small values, waits with deadlines.
//!
//! [`TcpStore`] and [`Server`] speak the protocol of torch's `TCPStore`, so either end may be torch's: a launcher's store
//! can be joined as it is. Between two of ours, both ends first prove that they know the job's secret, where there is one.
//! [`MemoryStore`] serves threads of one process, [`FileStore`] processes that share a file. Tensor data never go through a store.

mod client;
mod file;
mod memory;
mod server;
mod table;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use oneflow_base::{Error, Result};

pub use client::TcpStore;
pub use file::FileStore;
pub use memory::MemoryStore;
pub use server::Server;

/// The deadline of store operations when nobody asks for another, as torch's.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Longest key and value, and most keys of one request, that are accepted from a peer.
pub(crate) const MAX_KEY: usize = 8 << 10;
pub(crate) const MAX_VALUE: usize = 8 << 20;
pub(crate) const MAX_KEYS: usize = 128 << 10;

/// The operations of the protocol, by their first byte.
mod code {
    pub const VALIDATE: u8 = 0x00;
    pub const SET: u8 = 0x01;
    pub const COMPARE_SET: u8 = 0x02;
    pub const GET: u8 = 0x03;
    pub const ADD: u8 = 0x04;
    pub const CHECK: u8 = 0x05;
    pub const WAIT: u8 = 0x06;
    pub const NUM_KEYS: u8 = 0x07;
    pub const DELETE: u8 = 0x08;
    pub const APPEND: u8 = 0x09;
    pub const MULTI_GET: u8 = 0x0a;
    pub const MULTI_SET: u8 = 0x0b;
    pub const CANCEL_WAIT: u8 = 0x0c;
    pub const PING: u8 = 0x0d;
    pub const QUEUE_PUSH: u8 = 0x0e;
    pub const QUEUE_POP: u8 = 0x0f;
    pub const QUEUE_LEN: u8 = 0x10;
    pub const LIST_KEYS: u8 = 0x11;
    pub const BARRIER: u8 = 0x12;
    /// Not torch's: asks for a proof of the job's secret, before anything else.
    pub const PROVE: u8 = 0x7a;

    pub const MAGIC: u32 = 0x3c85_f7ce;
    /// Answers to check and wait.
    pub const YES: u8 = 0;
    pub const NO: u8 = 1;
    /// In place of the first echo: the client is refused for the lack of a secret, or because it is on another host.
    pub const NEEDS_SECRET: [u8; 4] = *b"SECR";
    pub const NEEDS_ONE_HOST: [u8; 4] = *b"HOST";
}

/// Purposes of proofs: one end's is no proof of the other's.
const CLIENT: &str = "a client of the store";
const SERVER: &str = "the store";

const NO_QUEUES: &str = "store: queue support is not implemented for this one";

/// A shared map from names to bytes.
pub trait Store: Send + Sync {
    /// How long operations wait when not told.
    fn timeout(&self) -> Duration;
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;
    /// Waits until the key exists.
    fn get(&self, key: &str) -> Result<Vec<u8>>;
    /// Adds to a number (0 when absent) that is kept as decimal text, and returns the new one.
    fn add(&self, key: &str, amount: i64) -> Result<i64>;
    /// Sets `desired` if the value is `expected`, or if the key is absent and `expected` is empty. Returns the value that
    /// is there afterwards (`expected` when nothing is).
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>>;
    fn append(&self, key: &str, value: &[u8]) -> Result<()>;
    /// Whether all keys exist.
    fn check(&self, keys: &[&str]) -> Result<bool>;
    /// Waits until all keys exist; the error names the ones that do not.
    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()>;
    /// Whether there was one to delete.
    fn delete(&self, key: &str) -> Result<bool>;
    fn num_keys(&self) -> Result<i64>;
    /// All keys, in no order; those of queues are none.
    fn list_keys(&self) -> Result<Vec<String>> {
        Err(Error::not_implemented("store: this one cannot list its keys"))
    }
    /// Puts a value at the end of a queue, which has a name of its own: no other operation but `check` and `wait`, which
    /// ask whether it has values, knows of it. Of those who wait for a queue one goes on for each value.
    fn queue_push(&self, _key: &str, _value: &[u8]) -> Result<()> {
        Err(Error::not_implemented(NO_QUEUES))
    }
    /// Takes the first value of a queue. Waits for one, or with no timeout returns `None` where there is none now.
    fn queue_pop(&self, _key: &str, _timeout: Option<Duration>) -> Result<Option<Vec<u8>>> {
        Err(Error::not_implemented(NO_QUEUES))
    }
    fn queue_len(&self, _key: &str) -> Result<i64> {
        Err(Error::not_implemented(NO_QUEUES))
    }
    /// Gives up the connections, and the port of a server that this process holds. Later operations may fail.
    fn close(&self) {}
    /// What a server that this process holds has to say when somebody is missed: whom it refused. Empty otherwise.
    fn note(&self) -> String {
        String::new()
    }
    /// The address of this host through which the store is reached, where that can be told.
    fn local_ip(&self) -> Option<IpAddr> {
        None
    }
}

/// A store where every key starts with `prefix/`.
pub struct PrefixStore {
    prefix: String,
    store: Arc<dyn Store>,
    owns: bool,
}

impl PrefixStore {
    pub fn new(prefix: impl Into<String>, store: Arc<dyn Store>) -> PrefixStore {
        PrefixStore { prefix: prefix.into(), store, owns: true }
    }

    /// Closing this one leaves the store open.
    pub fn borrowed(prefix: impl Into<String>, store: Arc<dyn Store>) -> PrefixStore {
        PrefixStore { owns: false, ..Self::new(prefix, store) }
    }

    fn key(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }

    fn with_keys<R>(&self, keys: &[&str], f: impl FnOnce(&[&str]) -> R) -> R {
        let keys: Vec<String> = keys.iter().map(|k| self.key(k)).collect();
        f(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

impl Store for PrefixStore {
    fn timeout(&self) -> Duration {
        self.store.timeout()
    }
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(&self.key(key), value)
    }
    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.store.get(&self.key(key))
    }
    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.store.add(&self.key(key), amount)
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.store.compare_set(&self.key(key), expected, desired)
    }
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.append(&self.key(key), value)
    }
    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.with_keys(keys, |keys| self.store.check(keys))
    }
    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        self.with_keys(keys, |keys| self.store.wait(keys, timeout))
    }
    fn delete(&self, key: &str) -> Result<bool> {
        self.store.delete(&self.key(key))
    }
    fn close(&self) {
        if self.owns {
            self.store.close();
        }
    }
    fn note(&self) -> String {
        self.store.note()
    }
    fn local_ip(&self) -> Option<IpAddr> {
        self.store.local_ip()
    }
    /// Of the whole store: the protocol cannot count by prefix.
    fn num_keys(&self) -> Result<i64> {
        self.store.num_keys()
    }
    fn list_keys(&self) -> Result<Vec<String>> {
        let (keys, before) = (self.store.list_keys()?, self.key(""));
        Ok(keys.iter().filter_map(|key| key.strip_prefix(&before)).map(str::to_owned).collect())
    }
    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.queue_push(&self.key(key), value)
    }
    fn queue_pop(&self, key: &str, timeout: Option<Duration>) -> Result<Option<Vec<u8>>> {
        self.store.queue_pop(&self.key(key), timeout)
    }
    fn queue_len(&self, key: &str) -> Result<i64> {
        self.store.queue_len(&self.key(key))
    }
}
