//! How the processes of a job meet: one store, one generation, one world group.
//!
//! Under torchrun the launcher itself serves the store on `MASTER_PORT`; then every rank is a client, otherwise rank 0 is
//! the host. Which process this is, `launch` reads from the environment. A store that somebody else serves carries addresses
//! that are not trusted: who is a rank, connections prove to each other.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::auth::{Access, HOW, host_name};
use crate::group::ProcessGroup;
use crate::interrupt;
pub use crate::launch::Launch;
use crate::security::Security;
use crate::store::{PrefixStore, Store, TcpStore};
use crate::{set_process_group, tcp};

/// How long a rank that lost the store waits before it looks for it again.
const AGAIN: Duration = Duration::from_millis(50);

impl Launch {
    /// Joins the world group of the job. `store_timeout` bounds the meeting, `timeout` every later operation.
    pub fn connect(&self, store_timeout: Duration, timeout: Duration) -> Result<Arc<dyn ProcessGroup>> {
        let Some((host, port)) = self.master.as_ref().filter(|_| self.world_size > 1) else {
            return tcp::single(WORLD, timeout);
        };
        let said = |e: Error| e.context(format_args!("rendezvous ({}): ", self.source));
        let now = Instant::now();
        let deadline = now.checked_add(store_timeout).unwrap_or(now + Duration::from_secs(365 * 86_400));
        let left = || deadline.saturating_duration_since(Instant::now());
        let is_host = self.rank == 0 && !self.agent_store;
        let security = Security::from_env().map_err(said)?;
        if is_host && matches!(security.access, Access::Anybody) {
            tracing::warn!("oneflow.distributed: ONEFLOW_INSECURE=1: who reaches the ranks' ports can join the job");
        }
        if self.rank == 0 && self.agent_store && security.tls.is_some() {
            tracing::warn!(
                "oneflow.distributed: ONEFLOW_TLS=1: the store at {host}:{port} is the launcher's and has no TLS; the ranks' \
                 addresses are read there in the clear, and everything between ranks is encrypted"
            );
        }
        loop {
            let store = match is_host {
                true => TcpStore::host_as(host, *port, store_timeout, &security).map_err(said)?,
                false if self.agent_store => TcpStore::connect(host, *port, left()).map_err(said)?,
                false => TcpStore::connect_as(host, *port, left(), &security).map_err(said)?,
            };
            let store = Arc::new(PrefixStore::new(format!("oneflow/{}", self.run_id), Arc::new(store)));
            let meeting = Meeting { store, security: security.clone(), name: Some(WORLD), listen: None };
            match join(meeting, self.rank, self.world_size, left, timeout) {
                // What answered may have been the store of the job before, which ends when its rank 0 leaves it.
                Err(e) if !is_host && !is_final(&e) && left() > AGAIN => {
                    interrupt::pause(AGAIN).map_err(|_| said(e))?;
                }
                other => return other.map_err(said),
            }
        }
    }
}

/// Returns true for errors that do not go away by looking for the store again.
fn is_final(error: &Error) -> bool {
    [interrupt::CAUSE, HOW].iter().any(|words| error.text().contains(words))
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
    let store = PrefixStore::borrowed("oneflow/store", store);
    set_process_group(Some(over(store, Some(WORLD), None, rank, world_size, store_timeout, timeout)?));
    Ok(())
}

/// A group of `size` processes that meet in a store of the program, beside the job that they may have joined. The store stays
/// open. This rank listens on `listen`, or where the store is reached.
pub fn group_over(
    store: Arc<dyn Store>,
    listen: Option<IpAddr>,
    rank: usize,
    size: usize,
    store_timeout: Duration,
    timeout: Duration,
) -> Result<Arc<dyn ProcessGroup>> {
    over(PrefixStore::borrowed("oneflow/group", store), None, listen, rank, size, store_timeout, timeout)
}

fn over(
    store: PrefixStore,
    name: Option<&'static str>,
    listen: Option<IpAddr>,
    rank: usize,
    size: usize,
    store_timeout: Duration,
    timeout: Duration,
) -> Result<Arc<dyn ProcessGroup>> {
    if rank >= size {
        return Err(Error::value(format!("rendezvous: rank is {rank}, but world_size is {size}")));
    }
    if size == 1 {
        return match name {
            Some(name) => tcp::single(name, timeout),
            None => tcp::single(&name_of(tcp::random()), timeout),
        };
    }
    let started = Instant::now();
    let left = || store_timeout.saturating_sub(started.elapsed());
    let meeting = Meeting { store: Arc::new(store), security: Security::from_env()?, name, listen };
    join(meeting, rank, size, left, timeout).map_err(|e| e.context("rendezvous (store): "))
}

/// The name of the group of all ranks.
const WORLD: &str = "world";

/// A name that no other group of any of its processes has.
fn name_of(word: u64) -> String {
    format!("group {word:016x}")
}

/// Where and as what ranks meet.
struct Meeting {
    store: Arc<dyn Store>,
    security: Security,
    /// Of the group; rank 0 draws one where there is none.
    name: Option<&'static str>,
    listen: Option<IpAddr>,
}

/// One attempt.
fn join(
    meeting: Meeting,
    rank: usize,
    size: usize,
    left: impl Fn() -> Duration,
    timeout: Duration,
) -> Result<Arc<dyn ProcessGroup>> {
    let Meeting { store, security, name, listen } = meeting;
    let host = matches!(security.access, Access::OneHost).then(host_name);
    let generation = agree(&*store, rank, size, host.as_deref(), left())?;
    // A store that is on no network is one of this host.
    let local_ip = listen.or_else(|| store.local_ip()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let store = Arc::new(PrefixStore::new(generation.to_string(), store));
    let drawn = match name {
        Some(_) => None,
        None => Some(name_of(draw(&*store, rank, left())?)),
    };
    let name = drawn.as_deref().or(name).unwrap_or(WORLD);
    tcp::join(tcp::Site { store, local_ip, generation, security }, name, rank, size, left(), timeout)
}

/// A word that rank 0 draws for all.
fn draw(store: &dyn Store, rank: usize, timeout: Duration) -> Result<u64> {
    const KEY: &str = "name";
    if rank == 0 {
        let word = tcp::random();
        store.set(KEY, format!("{word:016x}").as_bytes())?;
        return Ok(word);
    }
    store.wait(&[KEY], timeout)?;
    let text = store.get(KEY)?;
    let word = std::str::from_utf8(&text).ok().filter(|text| text.len() == 16);
    let word = word.and_then(|text| u64::from_str_radix(text, 16).ok());
    word.ok_or_else(|| Error::runtime("rendezvous: malformed group name in the store"))
}

/// Bytes of a ticket or a refusal that are read: anybody may have written them.
const LONGEST: usize = 1000;

/// A number that all ranks of this attempt share and no earlier attempt over the same store had.
///
/// Restart counts of launchers differ between hosts, and keys of a crashed attempt are still there. So every rank shows
/// up under a random name; rank 0 hands the new generation to the names it sees and goes on when all have confirmed. Where a
/// `host` is given all ranks must name the same one.
pub fn agree(store: &dyn Store, rank: usize, size: usize, host: Option<&str>, timeout: Duration) -> Result<u64> {
    let deadline = Instant::now() + timeout;
    let left = || deadline.saturating_duration_since(Instant::now());
    let join = |r: usize| format!("join/{r}");
    let ack = |generation: i64, r: usize| format!("ack/{generation}/{r}");
    if rank > 0 {
        let name = format!("{:016x}{:016x} {}", tcp::random(), tcp::random(), host.unwrap_or_default());
        store.set(&join(rank), name.as_bytes())?;
        let ticket = format!("ticket/{name}");
        store.wait(&[&ticket], left()).map_err(|e| e.context("rank 0 did not come: "))?;
        let text = store.get(&ticket)?;
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]).into_owned();
        let (number, cause) = text.split_once(": ").unwrap_or((&text, ""));
        let generation = number.parse::<i64>().ok();
        let generation = generation.ok_or_else(|| Error::runtime("rendezvous: malformed generation in the store"))?;
        // Rank 0 hears that who was refused is there: a name of an earlier attempt says nothing.
        store.set(&ack(generation, rank), cause.as_bytes())?;
        if !cause.is_empty() {
            return Err(Error::runtime(cause));
        }
        store.wait(&[&format!("go/{generation}")], left()).map_err(|e| e.context("not all ranks came: "))?;
        let _ = store.delete(&ticket);
        return Ok(generation as u64);
    }
    let generation = store.add("generation", 1)?;
    let mut absent: Vec<usize> = (1..size).collect();
    while !absent.is_empty() {
        if left().is_zero() {
            let note = store.note();
            return Err(Error::runtime(format!("ranks {absent:?} of {size} did not come within {timeout:?}{note}")));
        }
        // A name of an earlier attempt gets a ticket that nobody takes; its successor replaces it and is seen next time.
        let mut acks = Vec::new();
        for &r in &absent {
            if store.check(&[&join(r)])? {
                let name = String::from_utf8_lossy(&store.get(&join(r))?).into_owned();
                let theirs = name.split_once(' ').map_or("", |(_, host)| host);
                let refusal = host.filter(|host| *host != theirs).map(|host| match theirs {
                    "" => format!(": rank {r} has a job secret (or ONEFLOW_INSECURE=1) and rank 0 has none: {HOW}"),
                    _ => format!(": ranks 0 and {r} are on two hosts ({host}, {theirs}) and have no job secret: {HOW}"),
                });
                let ticket = format!("{generation}{}", refusal.unwrap_or_default());
                store.set(&format!("ticket/{name}"), ticket.as_bytes())?;
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
            } else if let cause = store.get(ack)?
                && !cause.is_empty()
            {
                let cause = String::from_utf8_lossy(&cause[..cause.len().min(LONGEST)]).into_owned();
                return Err(Error::runtime(cause));
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
                    std::thread::spawn(move || agree(&*store, rank, 3, Some("h"), Duration::from_secs(60)).unwrap())
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), attempt);
            }
        }
        let error = agree(&*store, 0, 3, None, Duration::from_millis(150)).unwrap_err();
        assert!(error.text().contains("ranks [1, 2] of 3 did not come"), "{error}");
    }

    #[test]
    fn ranks_of_two_hosts_are_told_what_to_set() {
        for (host, words) in [(Some("b"), "ranks 0 and 1 are on two hosts (a, b)"), (None, "rank 1 has a job secret")] {
            let store = Arc::new(MemoryStore::default());
            let errors = std::thread::scope(|scope| {
                let ask = |rank, host| {
                    let store = store.clone();
                    scope.spawn(move || agree(&*store, rank, 2, host, Duration::from_secs(60)).unwrap_err())
                };
                [ask(0, Some("a")), ask(1, host)].map(|thread| thread.join().unwrap())
            });
            for error in errors {
                assert!(error.text().contains(words) && error.text().contains("ONEFLOW_JOB_SECRET"), "{error}");
                assert!(is_final(&error));
            }
        }
    }
}
