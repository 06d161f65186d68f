//! Which process of which job this is: reads what launchers put into the environment, and connects the world.
//!
//! The contract is torchrun's. Under torchrun the launcher itself serves the store on `MASTER_PORT`; then every rank is a
//! client, otherwise rank 0 is the host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::group::ProcessGroup;
use crate::store::{PrefixStore, Store, TcpStore};
use crate::{set_process_group, tcp};

/// A process's place in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub rank: usize,
    pub world_size: usize,
    /// Among the processes of this host; 0 where the launcher does not tell.
    pub local_rank: usize,
    pub local_world_size: usize,
    /// Where the store is. `None` for a process on its own.
    pub master: Option<(String, u16)>,
    /// The launcher serves the store.
    pub agent_store: bool,
    pub run_id: String,
    /// What this was read from, for logs and errors.
    pub source: &'static str,
}

const REQUIRED: [&str; 4] = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"];

impl Launch {
    /// From this process's environment.
    pub fn from_env() -> Result<Launch> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    /// From any source of variables. None of the required ones: a process on its own. Some of them: an error.
    pub fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Launch> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let missing: Vec<&str> = REQUIRED.into_iter().filter(|name| var(name).is_none()).collect();
        if missing.len() == REQUIRED.len() {
            return Ok(Launch {
                rank: 0,
                world_size: 1,
                local_rank: 0,
                local_world_size: 1,
                master: None,
                agent_store: false,
                run_id: String::new(),
                source: "no launcher: a single process",
            });
        }
        if !missing.is_empty() {
            let set: Vec<&str> = REQUIRED.into_iter().filter(|name| !missing.contains(name)).collect();
            return Err(Error::value(format!(
                "rendezvous: {} {} not set, while {} {}; all of {} belong together (unset them all to run one process)",
                missing.join(", "),
                if missing.len() == 1 { "is" } else { "are" },
                set.join(", "),
                if set.len() == 1 { "is" } else { "are" },
                REQUIRED.join(", "),
            )));
        }
        let number = |name: &str, default: usize| match var(name) {
            None => Ok(default),
            Some(text) => text.trim().parse::<usize>().map_err(|_| {
                Error::value(format!("rendezvous: {name} is '{text}', expected a non-negative whole number"))
            }),
        };
        let (rank, world_size) = (number("RANK", 0)?, number("WORLD_SIZE", 1)?);
        if rank >= world_size {
            return Err(Error::value(format!("rendezvous: RANK is {rank}, but WORLD_SIZE is {world_size}")));
        }
        let port = number("MASTER_PORT", 0)?;
        let port = u16::try_from(port).ok().filter(|&p| p > 0);
        let port = port.ok_or_else(|| {
            let text = var("MASTER_PORT").unwrap_or_default();
            Error::value(format!("rendezvous: MASTER_PORT is '{text}', expected a port from 1 to 65535"))
        })?;
        let agent_store = var("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|v| v.eq_ignore_ascii_case("true"));
        Ok(Launch {
            rank,
            world_size,
            local_rank: number("LOCAL_RANK", 0)?,
            local_world_size: number("LOCAL_WORLD_SIZE", 1)?,
            master: Some((var("MASTER_ADDR").unwrap_or_default(), port)),
            agent_store,
            run_id: var("TORCHELASTIC_RUN_ID").unwrap_or_else(|| "none".to_owned()),
            source: match agent_store {
                true => "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT with the store of torchrun",
                false => "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
            },
        })
    }

    /// Joins the world group of the job. `store_timeout` bounds the meeting, `timeout` every later operation.
    pub fn connect(&self, store_timeout: Duration, timeout: Duration) -> Result<Arc<dyn ProcessGroup>> {
        let Some((host, port)) = self.master.as_ref().filter(|_| self.world_size > 1) else {
            return tcp::single(timeout);
        };
        let said = |e: Error| e.context(format_args!("rendezvous ({}): ", self.source));
        let store = match self.rank == 0 && !self.agent_store {
            true => TcpStore::host(host, *port, store_timeout).map_err(said)?,
            false => TcpStore::connect(host, *port, store_timeout).map_err(said)?,
        };
        let local_ip = store.local_ip();
        let store: Arc<dyn Store> = Arc::new(PrefixStore::new(format!("oneflow/{}", self.run_id), Arc::new(store)));
        let generation = agree(&*store, self.rank, self.world_size, store_timeout).map_err(said)?;
        let store = Arc::new(PrefixStore::new(generation.to_string(), store));
        tcp::join(store, local_ip, self.rank, self.world_size, generation, timeout).map_err(said)
    }
}

/// Reads the environment, connects, and makes the result the world of this process.
pub fn init(store_timeout: Duration, timeout: Duration) -> Result<Launch> {
    let launch = Launch::from_env()?;
    set_process_group(Some(launch.connect(store_timeout, timeout)?));
    Ok(launch)
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
        let _ = store.wait(&acks, left().min(Duration::from_millis(100)));
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

    fn launch(vars: &[(&str, &str)]) -> Result<Launch> {
        Launch::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    const FULL: [(&str, &str); 4] =
        [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29500")];

    #[test]
    fn the_environment_is_all_or_nothing() {
        let alone = launch(&[("LOCAL_RANK", "0")]).unwrap();
        assert_eq!((alone.rank, alone.world_size, alone.master), (0, 1, None));
        let full = launch(&FULL).unwrap();
        assert_eq!((full.rank, full.world_size, full.agent_store), (1, 2, false));
        for (i, (name, _)) in FULL.iter().enumerate() {
            let mut vars = FULL.to_vec();
            vars.remove(i);
            let error = launch(&vars).unwrap_err();
            assert!(error.text().contains(&format!("rendezvous: {name} is not set")), "{error}");
        }
        let mut torchrun = FULL.to_vec();
        torchrun.push(("TORCHELASTIC_USE_AGENT_STORE", "True"));
        let torchrun = launch(&torchrun).unwrap();
        assert!(torchrun.agent_store && torchrun.source.contains("torchrun"));
    }

    #[test]
    fn nonsense_is_named() {
        for (name, value, words) in [
            ("RANK", "two", "RANK is 'two'"),
            ("RANK", "2", "RANK is 2, but WORLD_SIZE is 2"),
            ("RANK", "-1", "RANK is '-1'"),
            ("WORLD_SIZE", "0", "WORLD_SIZE is 0"),
            ("MASTER_PORT", "70000", "MASTER_PORT is '70000'"),
            ("MASTER_PORT", "0", "MASTER_PORT is '0'"),
            ("RANK", "", "RANK is not set"),
        ] {
            let mut vars = FULL.to_vec();
            vars.retain(|(n, _)| *n != name);
            vars.push((name, value));
            let error = launch(&vars).unwrap_err();
            assert!(error.text().contains(words), "{error}");
        }
    }

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
