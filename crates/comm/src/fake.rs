//! Ranks as threads of one process: the whole of a distributed program in one debugger, without sockets.
//!
//! Messages are copied straight from the sender's memory to the receiver's. The algorithms, the order of reductions and
//! the byte counts are those of the socket backend. Point-to-point sends are buffered and complete at once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::engine::{Group, comm_id};
use crate::group::ProcessGroup;
use crate::interrupt;
use crate::p2p::{Inbox, Outcome, gone};
use crate::registry::set_thread_group;
use crate::request::{ANY_RANK, Header, Kind, Span, Stamp};
use crate::transport::{PointToPoint, Transport};

/// One connected group per rank; give each to its own thread.
pub fn groups(n: usize, timeout: Duration) -> Vec<Arc<dyn ProcessGroup>> {
    let hub = Arc::new(Hub::default());
    let ranks: Vec<usize> = (0..n).collect();
    ranks
        .iter()
        .map(|&rank| -> Arc<dyn ProcessGroup> { Arc::new(member(&hub, rank, &ranks, "world", timeout)) })
        .collect()
}

/// A group of one rank.
pub fn single(timeout: Duration) -> Arc<dyn ProcessGroup> {
    Arc::new(member(&Arc::default(), 0, &[0], "world", timeout))
}

/// Runs `f` once per rank, each on its own thread where [`crate::world`] is that rank's group.
///
/// A rank that returns an error or panics takes the others with it: they get an error that names it, and do not hang.
/// The results stand in rank order; a panic is an error here.
pub fn run_ranks<R: Send>(
    n: usize,
    timeout: Duration,
    f: impl Fn(Arc<dyn ProcessGroup>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let run = |group: Arc<dyn ProcessGroup>| {
        set_thread_group(Some(group.clone()));
        let guard = GiveUpOnPanic(group.clone());
        let result = f(group.clone());
        drop(guard);
        if let Err(error) = &result {
            group.give_up(error.text());
        }
        set_thread_group(None);
        result
    };
    std::thread::scope(|scope| {
        let run = &run;
        let start = |(rank, group): (usize, Arc<dyn ProcessGroup>)| {
            // The stack of a main thread: a rank runs whole programs.
            let thread = std::thread::Builder::new().name(format!("rank {rank}")).stack_size(8 << 20);
            thread.spawn_scoped(scope, move || run(group))
        };
        // If one cannot be started its group is dropped, which the others notice.
        let threads: Vec<_> = groups(n, timeout).into_iter().enumerate().map(start).collect();
        let join = |(rank, thread): (usize, std::io::Result<std::thread::ScopedJoinHandle<'_, Result<R>>>)| match thread
        {
            Ok(thread) => thread.join().unwrap_or_else(|_| Err(Error::runtime(format!("rank {rank} panicked")))),
            Err(e) => Err(Error::runtime(format!("rank {rank} cannot be started: {e}"))),
        };
        threads.into_iter().enumerate().map(join).collect()
    })
}

struct GiveUpOnPanic(Arc<dyn ProcessGroup>);

impl Drop for GiveUpOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up("its thread panicked");
        }
    }
}

fn member(hub: &Arc<Hub>, rank: usize, ranks: &[usize], name: &str, timeout: Duration) -> Group<Member> {
    Group::new(Member::enter(hub, name, rank, ranks), name, rank, ranks.to_vec(), timeout)
}

/// One rank's place in one group.
struct Member {
    hub: Arc<Hub>,
    comm: u64,
    rank: usize,
    size: usize,
}

/// Where the threads meet. One lock: the ranks of a test are few, and data are copied outside of it.
#[derive(Default)]
struct Hub {
    comms: Mutex<Comms>,
    changed: Condvar,
}

#[derive(Default)]
struct Comms {
    comms: HashMap<u64, Comm>,
    next_batch: u64,
    /// Messages of an exchange that were not copied yet, by batch number.
    pending: HashMap<u64, usize>,
    /// Ranks of the world whose programs have failed, and why: groups that are made with them later have failed, too.
    given_up: HashMap<usize, String>,
}

struct Comm {
    /// The members as ranks of the world.
    ranks: Vec<usize>,
    /// Who failed, and why.
    failed: Option<(usize, String)>,
    left: Vec<bool>,
    /// Messages on offer, by `src * size + dst`.
    offers: Vec<VecDeque<Offer>>,
    inboxes: Vec<Inbox>,
}

struct Offer {
    header: Header,
    data: Span,
    batch: u64,
}

impl Comm {
    fn new(ranks: &[usize]) -> Comm {
        let n = ranks.len();
        Comm {
            ranks: ranks.to_vec(),
            failed: None,
            left: vec![false; n],
            offers: (0..n * n).map(|_| VecDeque::new()).collect(),
            inboxes: (0..n).map(|_| Inbox::new(n)).collect(),
        }
    }

    fn failure(&self, rank: usize) -> Option<String> {
        self.failed.as_ref().map(|(origin, cause)| match *origin == rank {
            true => cause.clone(),
            false => format!("rank {origin} aborted: {cause}"),
        })
    }

    /// A receive of `rank` has met its message, or one that is not its own, which ends the group.
    fn received(&mut self, rank: usize, met: Option<Outcome>, done: &mut Vec<Outcome>) {
        let Some((recv, result)) = met else { return };
        let result = result.map_err(|cause| format!("on rank {rank}: {cause}"));
        if let Err(cause) = &result {
            done.extend(self.fail(rank, cause));
        }
        done.push((recv, result));
    }

    /// Fails this group for all of its ranks, unless it has failed before. The receives that end with it.
    fn fail(&mut self, origin: usize, cause: &str) -> Vec<Outcome> {
        let mut done = Vec::new();
        if self.failed.is_none() {
            self.failed = Some((origin, cause.to_owned()));
            for rank in 0..self.inboxes.len() {
                let cause = self.failure(rank).unwrap_or_default();
                done.extend(self.inboxes[rank].drain().into_iter().map(|p2p| (p2p, Err(cause.clone()))));
            }
        }
        done
    }
}

impl Hub {
    fn lock(&self) -> MutexGuard<'_, Comms> {
        self.comms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Comms {
    /// The entry exists as long as the member that asks: the last one to leave removes it.
    fn comm(&mut self, id: u64) -> Option<&mut Comm> {
        self.comms.get_mut(&id)
    }
}

const GONE: &str = "the group is closed";

impl Member {
    /// The place of `rank` in the group of this name. `ranks` are its members as ranks of the world.
    fn enter(hub: &Arc<Hub>, name: &str, rank: usize, ranks: &[usize]) -> Member {
        let comm = comm_id(name);
        let mut comms = hub.lock();
        if !comms.comms.contains_key(&comm) {
            let mut entry = Comm::new(ranks);
            if let Some((origin, cause)) = ranks.iter().enumerate().find_map(|(i, r)| Some((i, comms.given_up.get(r)?)))
            {
                entry.fail(origin, cause);
            }
            comms.comms.insert(comm, entry);
        }
        Member { hub: hub.clone(), comm, rank, size: ranks.len() }
    }

    /// Takes one message that is on offer for an outstanding receive. `Ok(None)`: nothing there yet.
    fn take(
        &self,
        comms: &mut Comms,
        stamp: &Stamp,
        recvs: &[(usize, &mut [u8])],
        done: &[bool],
    ) -> Result<Option<(usize, Offer)>, String> {
        let comm = comms.comm(self.comm).ok_or(GONE)?;
        for (i, (src, data)) in recvs.iter().enumerate() {
            if done[i] {
                continue;
            }
            let offers = &mut comm.offers[src * self.size + self.rank];
            if let Some(offer) = offers.front() {
                offer.header.expect(stamp, data.len(), self.rank, *src)?;
                return Ok(offers.pop_front().map(|offer| (i, offer)));
            }
            if comm.left[*src] {
                return Err(format!("rank {src} has left the group"));
            }
        }
        Ok(None)
    }

    /// A rank that left before it took its message of this batch.
    fn unwanted(&self, comms: &mut Comms, sends: &[(usize, &[u8])], batch: u64) -> Option<usize> {
        let comm = comms.comm(self.comm)?;
        let offered = |dst: usize| comm.offers[self.rank * self.size + dst].iter().any(|offer| offer.batch == batch);
        sends.iter().map(|(dst, _)| *dst).find(|&dst| comm.left[dst] && offered(dst))
    }

    /// Withdraws what was not taken and waits for copies that others are making right now.
    fn withdraw(&self, mut comms: MutexGuard<'_, Comms>, batch: u64) {
        if let Some(comm) = comms.comm(self.comm) {
            let mut n = 0;
            for offers in &mut comm.offers {
                let before = offers.len();
                offers.retain(|offer| offer.batch != batch);
                n += before - offers.len();
            }
            if let Some(pending) = comms.pending.get_mut(&batch) {
                *pending -= n;
            }
        }
        // Bounded by the time of a copy, so this wait needs no deadline.
        while comms.pending.get(&batch).is_some_and(|&n| n > 0) {
            comms = self.hub.changed.wait(comms).unwrap_or_else(PoisonError::into_inner);
        }
        comms.pending.remove(&batch);
    }
}

impl Transport for Member {
    const NAME: &'static str = "fake";

    fn exchange(
        &self,
        stamp: &Stamp,
        sends: &[(usize, &[u8])],
        recvs: &mut [(usize, &mut [u8])],
        deadline: Instant,
    ) -> Result<(), String> {
        let mut comms = self.hub.lock();
        let batch = comms.next_batch;
        comms.next_batch += 1;
        comms.pending.insert(batch, sends.len());
        let comm = comms.comm(self.comm).ok_or(GONE)?;
        for (dst, data) in sends {
            let header = Header { stamp: *stamp, bytes: data.len() as u64 };
            comm.offers[self.rank * self.size + dst].push_back(Offer { header, data: Span::of(data), batch });
        }
        self.hub.changed.notify_all();
        let mut done = vec![false; recvs.len()];
        loop {
            if let Some(cause) = comms.comm(self.comm).and_then(|comm| comm.failure(self.rank)) {
                self.withdraw(comms, batch);
                return Err(cause);
            }
            match self.take(&mut comms, stamp, recvs, &done) {
                Err(cause) => {
                    self.withdraw(comms, batch);
                    return Err(cause);
                }
                Ok(Some((i, offer))) => {
                    drop(comms);
                    let to = &mut recvs[i].1;
                    // SAFETY: the sender stays in its exchange, its memory borrowed, until `pending` says it was copied;
                    // `take` compared the lengths. Ranks are threads, so two may hold one tensor: the memory may overlap.
                    unsafe { std::ptr::copy(offer.data.ptr.cast_const(), to.as_mut_ptr(), to.len()) };
                    done[i] = true;
                    comms = self.hub.lock();
                    if let Some(pending) = comms.pending.get_mut(&offer.batch) {
                        *pending -= 1;
                    }
                    self.hub.changed.notify_all();
                    continue;
                }
                Ok(None) => {}
            }
            if let Some(dst) = self.unwanted(&mut comms, sends, batch) {
                self.withdraw(comms, batch);
                return Err(format!("rank {dst} has left the group"));
            }
            if done.iter().all(|&d| d) && comms.pending.get(&batch).is_none_or(|&n| n == 0) {
                comms.pending.remove(&batch);
                return Ok(());
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                let mut missing: Vec<usize> = recvs.iter().zip(&done).filter(|(_, d)| !**d).map(|(r, _)| r.0).collect();
                if let Some(comm) = comms.comm(self.comm) {
                    let waits = |p: &usize| comm.offers[self.rank * self.size + p].iter().any(|o| o.batch == batch);
                    missing.extend(sends.iter().map(|s| s.0).filter(waits));
                }
                missing.sort_unstable();
                missing.dedup();
                self.withdraw(comms, batch);
                return Err(format!("timed out waiting for rank(s) {missing:?}"));
            };
            let nap = left.min(interrupt::PERIOD);
            comms = self.hub.changed.wait_timeout(comms, nap).unwrap_or_else(PoisonError::into_inner).0;
            // The check may run anything, so not under the lock.
            drop(comms);
            let stop = interrupt::interrupted();
            comms = self.hub.lock();
            if stop {
                self.withdraw(comms, batch);
                return Err(interrupt::CAUSE.to_owned());
            }
        }
    }

    unsafe fn post(&self, p2p: PointToPoint) {
        let mut comms = self.hub.lock();
        let failure = match comms.comm(self.comm) {
            None => Some(GONE.to_owned()),
            Some(comm) => comm.failure(self.rank).or_else(|| {
                let left = match p2p.peer {
                    ANY_RANK => (0..self.size).all(|peer| peer == self.rank || comm.left[peer]),
                    peer => comm.left[peer],
                };
                let nobody = left && (p2p.stamp.kind == Kind::Send || comm.inboxes[self.rank].lacks(&p2p));
                nobody.then(|| gone(p2p.peer))
            }),
        };
        let mut done = Vec::new();
        if let Some(cause) = failure {
            done.push((p2p, Err(cause)));
        } else if let Some(comm) = comms.comm(self.comm) {
            if p2p.stamp.kind == Kind::Send {
                // SAFETY: the issuer's promise: the span is valid until the work is complete.
                let data = unsafe { p2p.span.bytes() }.to_vec();
                let header = Header { stamp: p2p.stamp, bytes: data.len() as u64 };
                let met = comm.inboxes[p2p.peer].deliver(self.rank, header, data);
                comm.received(p2p.peer, met, &mut done);
                done.push((p2p, Ok(())));
            } else {
                let met = comm.inboxes[self.rank].post(p2p);
                comm.received(self.rank, met, &mut done);
            }
        }
        drop(comms);
        self.hub.changed.notify_all();
        self.finish(done);
    }

    fn fail(&self, cause: &str) {
        let mut comms = self.hub.lock();
        let Some(comm) = comms.comm(self.comm) else { return };
        let done = comm.fail(self.rank, cause);
        drop(comms);
        self.hub.changed.notify_all();
        self.finish(done);
    }

    fn give_up(&self, cause: &str) {
        let mut comms = self.hub.lock();
        let Some(here) = comms.comm(self.comm).map(|comm| comm.ranks[self.rank]) else { return };
        comms.given_up.entry(here).or_insert_with(|| cause.to_owned());
        let mut done = Vec::new();
        for comm in comms.comms.values_mut() {
            if let Some(origin) = comm.ranks.iter().position(|&rank| rank == here) {
                done.extend(comm.fail(origin, cause));
            }
        }
        drop(comms);
        self.hub.changed.notify_all();
        self.finish(done);
    }

    fn failure(&self) -> Option<String> {
        self.hub.lock().comm(self.comm).and_then(|comm| comm.failure(self.rank))
    }

    fn close(&self) {
        let mut comms = self.hub.lock();
        let Some(comm) = comms.comm(self.comm) else { return };
        comm.left[self.rank] = true;
        let mut done = Vec::new();
        done.extend(comm.inboxes[self.rank].drain().into_iter().map(|p2p| (p2p, Err(gone(self.rank)))));
        for (rank, inbox) in comm.inboxes.iter_mut().enumerate() {
            done.extend(inbox.drain_from(self.rank).into_iter().map(|p2p| (p2p, Err(gone(self.rank)))));
            if (0..self.size).all(|peer| peer == rank || comm.left[peer]) {
                done.extend(inbox.drain_any().into_iter().map(|p2p| (p2p, Err(gone(ANY_RANK)))));
            }
        }
        if comm.left.iter().all(|&l| l) {
            comms.comms.remove(&self.comm);
        }
        drop(comms);
        self.hub.changed.notify_all();
        self.finish(done);
    }

    fn form(&self, name: &str, ranks: &[usize], _timeout: Duration) -> Result<Self> {
        let rank = ranks.iter().position(|&r| r == self.rank).unwrap_or(0);
        let of_world = self.hub.lock().comm(self.comm).map(|comm| ranks.iter().map(|&r| comm.ranks[r]).collect());
        let of_world: Vec<usize> = of_world.ok_or_else(|| Error::runtime(GONE))?;
        Ok(Member::enter(&self.hub, name, rank, &of_world))
    }
}

impl Member {
    /// Completes works outside the lock: their owners may be anything.
    fn finish(&self, done: Vec<Outcome>) {
        for (p2p, result) in done {
            p2p.work.end(result);
        }
    }
}
