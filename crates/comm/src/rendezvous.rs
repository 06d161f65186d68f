//! How the processes of a job meet: one store, one generation, one world group.
//!
//! Under torchrun the launcher itself serves the store on `MASTER_PORT`; then every rank is a client, otherwise rank 0 is
//! the host. Which process this is, `launch` reads from the environment.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::group::ProcessGroup;
use crate::interrupt;
pub use crate::launch::Launch;
use crate::store::{PrefixStore, Store, TcpStore};
use crate::{set_process_group, tcp};

/// How long a rank that lost the store waits before it looks for it again.
const AGAIN: Duration = Duration::from_millis(50);

impl Launch {
    /// Joins the world group of the job. `store_timeout` bounds the meeting, `timeout` every later operation.
    pub fn connect(&self, store_timeout: Duration, timeout: Duration) -> Result<Arc<dyn ProcessGroup>> {
        let Some((host, port)) = self.master.as_ref().filter(|_| self.world_size > 1) else {
            return tcp::single(timeout);
        };
        let said = |e: Error| e.context(format_args!("rendezvous ({}): ", self.source));
        let now = Instant::now();
        let deadline = now.checked_add(store_timeout).unwrap_or(now + Duration::from_secs(365 * 86_400));
        let left = || deadline.saturating_duration_since(Instant::now());
        let is_host = self.rank == 0 && !self.agent_store;
        loop {
            let store = match is_host {
                true => TcpStore::host(host, *port, store_timeout).map_err(said)?,
                false => TcpStore::connect(host, *port, left()).map_err(said)?,
            };
            let store = Arc::new(PrefixStore::new(format!("oneflow/{}", self.run_id), Arc::new(store)));
            match join(store, self.rank, self.world_size, left, timeout) {
                // What answered may have been the store of the job before, which ends when its rank 0 leaves it.
                Err(e) if !is_host && !e.text().contains(interrupt::CAUSE) && left() > AGAIN => {
                    interrupt::pause(AGAIN).map_err(|_| said(e))?;
                }
                other => return other.map_err(said),
            }
        }
    }
}

/// Connects, and makes the result the world of this process.
pub fn init(launch: &Launch, store_timeout: Duration, timeout: Duration) -> Result<()> {
    set_process_group(Some(launch.connect(store_timeout, timeout)?));
    Ok(())
}

/// Meets the others in a store that the program has, which stays open, and makes the result the world of this process.
pub fn init_over(
    store: Arc<dyn Store>,
    rank: usize,
    world_size: usize,
    store_timeout: Duration,
    timeout: Duration,
) -> Result<()> {
    if rank >= world_size {
        return Err(Error::value(format!("rendezvous: rank is {rank}, but world_size is {world_size}")));
    }
    let group = if world_size == 1 {
        tcp::single(timeout)?
    } else {
        let started = Instant::now();
        let left = || store_timeout.saturating_sub(started.elapsed());
        let store = Arc::new(PrefixStore::borrowed("oneflow/store", store));
        join(store, rank, world_size, left, timeout).map_err(|e| e.context("rendezvous (store): "))?
    };
    set_process_group(Some(group));
    Ok(())
}

/// One attempt.
fn join(
    store: Arc<dyn Store>,
    rank: usize,
    size: usize,
    left: impl Fn() -> Duration,
    timeout: Duration,
) -> Result<Arc<dyn ProcessGroup>> {
    let generation = agree(&*store, rank, size, left())?;
    // A store that is on no network is one of this host.
    let local_ip = store.local_ip().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let store = Arc::new(PrefixStore::new(generation.to_string(), store));
    tcp::join(store, local_ip, rank, size, generation, left(), timeout)
}

/// A number that all ranks of this attempt share and no earlier attempt over the same store had.
///
/// Restart counts of launchers differ between hosts, and keys of a crashed attempt are still there. So every rank shows
/// up under a random name; rank 0 hands the new generation to the names it sees and goes on when all have confirmed.
pub fn agree(store: &dyn Store, rank: usize, size: usize, timeout: Duration) -> Result<u64> {
    let deadline = Instant::now() + timeout;
    let left = || deadline.saturating_duration_since(Instant::now());
    let join = |r: usize| format!("join/{r}");
    let ack = |generation: i64, r: usize| format!("ack/{generation}/{r}");
    if rank > 0 {
        let name = format!("{:016x}{:016x}", tcp::random(), tcp::random());
        store.set(&join(rank), name.as_bytes())?;
        let ticket = format!("ticket/{name}");
        store.wait(&[&ticket], left()).map_err(|e| e.context("rank 0 did not come: "))?;
        let text = store.get(&ticket)?;
        let generation = std::str::from_utf8(&text).ok().and_then(|t| t.parse::<i64>().ok());
        let generation = generation.ok_or_else(|| Error::runtime("rendezvous: malformed generation in the store"))?;
        store.set(&ack(generation, rank), b"1")?;
        store.wait(&[&format!("go/{generation}")], left()).map_err(|e| e.context("not all ranks came: "))?;
        let _ = store.delete(&ticket);
        return Ok(generation as u64);
    }
    let generation = store.add("generation", 1)?;
    let mut absent: Vec<usize> = (1..size).collect();
    while !absent.is_empty() {
        if left().is_zero() {
            return Err(Error::runtime(format!("ranks {absent:?} of {size} did not come within {timeout:?}")));
        }
        // A name of an earlier attempt gets a ticket that nobody takes; its successor replaces it and is seen next time.
        let mut acks = Vec::new();
        for &r in &absent {
            if store.check(&[&join(r)])? {
                let name = String::from_utf8_lossy(&store.get(&join(r))?).into_owned();
                store.set(&format!("ticket/{name}"), generation.to_string().as_bytes())?;
            }
            acks.push(ack(generation, r));
        }
        let acks: Vec<&str> = acks.iter().map(String::as_str).collect();
        // Expiry only means looking again.
        match store.wait(&acks, left().min(Duration::from_millis(100))) {
            Err(e) if e.text().contains(interrupt::CAUSE) => return Err(e),
            _ => {}
        }
        let mut still = Vec::new();
        for (&r, ack) in absent.iter().zip(acks) {
            if !store.check(&[ack])? {
                still.push(r);
            }
        }
        absent = still;
    }
    store.set(&format!("go/{generation}"), b"1")?;
    Ok(generation as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    #[test]
    fn every_attempt_over_a_store_gets_a_generation_of_its_own() {
        let store = Arc::new(MemoryStore::default());
        // Left over from a rank that died before the others came.
        store.set("join/2", b"ghost").unwrap();
        for attempt in 1..=3 {
            let threads: Vec<_> = (0..3)
                .map(|rank| {
                    let store = store.clone();
                    std::thread::spawn(move || agree(&*store, rank, 3, Duration::from_secs(60)).unwrap())
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), attempt);
            }
        }
        let error = agree(&*store, 0, 3, Duration::from_millis(150)).unwrap_err();
        assert!(error.text().contains("ranks [1, 2] of 3 did not come"), "{error}");
    }
}
