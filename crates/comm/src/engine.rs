//! Order and bookkeeping of one group: who may use the transport now, sequence numbers, deadlines, the first failure.
//!
//! Collectives of a group run one at a time in the order they were issued: a blocking one on its caller's thread when
//! nothing is queued, the others on one worker thread, started when it is first needed. Point-to-point operations go to
//! the transport directly and do not wait for collectives. How bytes move is the transport's business.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::collective;
use crate::flight::{self, Members, Ticket};
use crate::group::{Counters, Ledger, ProcessGroup};
use crate::prompt;
use crate::request::{Kind, Request, Stamp};
use crate::transport::{Member, PointToPoint, Transport, Turn};
use crate::waits;
use crate::work::{Abort, Work};

/// A process group over a transport. Dropping it closes it.
pub(crate) struct Group<T: Transport>(Arc<Shared<T>>);

pub(crate) struct Shared<T> {
    pub transport: T,
    ledger: Arc<Ledger>,
    /// Of this group among all groups of the job; in every header.
    comm: u64,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Request, Stamp, Instant, Work, Ticket)>,
    /// Somebody has the transport's collective lane.
    busy: bool,
    /// An operation is in progress on it. Not while its completion is announced, when the lane is still held so that
    /// later operations do not complete earlier.
    running: bool,
    closed: bool,
    seq: u64,
    p2p_seq: u64,
    n_children: u64,
    /// Groups that their members alone have made, by members.
    n_local: HashMap<Vec<usize>, u64>,
    worker: Option<JoinHandle<()>>,
}

impl<T: Transport> Shared<T> {
    fn member(&self) -> Member<'_> {
        Member { group: self.ledger.name(), rank: self.ledger.rank(), size: self.ledger.ranks().len() }
    }

    fn error(&self, stamp: &Stamp, cause: &str) -> Error {
        self.member().error(stamp, cause)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How waits for this group's collectives are known.
    fn key(&self) -> waits::Key {
        (self.comm, self.ledger.rank())
    }

    fn execute(&self, request: &Request, stamp: &Stamp, deadline: Instant) -> Result<()> {
        if let Some(cause) = self.transport.failure() {
            return Err(self.error(stamp, &cause));
        }
        let turn = Turn {
            transport: &self.transport,
            counters: self.ledger.counters(),
            member: self.member(),
            stamp,
            deadline,
        };
        // SAFETY: the request was checked when it was issued, and its issuer keeps the memory until this is complete.
        unsafe { collective::run(&turn, request) }
    }

    /// The worker's life: run what is queued whenever the lane is free.
    fn work_off(&self) {
        let mut queue = self.queue();
        loop {
            while queue.busy || (queue.jobs.is_empty() && !queue.closed) {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let Some((request, stamp, deadline, work, ticket)) = queue.jobs.pop_front() else { return };
            (queue.busy, queue.running) = (true, true);
            drop(queue);
            flight::started(ticket);
            let result = self.execute(&request, &stamp, deadline);
            self.queue().running = false;
            work.complete(result);
            // Its destructor may run anything: not under the lock.
            drop(work);
            queue = self.queue();
            queue.busy = false;
            self.changed.notify_all();
        }
    }
}

impl<T: Transport> Group<T> {
    /// `ranks` are the members as world ranks; `rank` is this one's place among them.
    pub fn new(transport: T, name: &str, rank: usize, ranks: Vec<usize>, timeout: Duration) -> Group<T> {
        // Ranks that are threads have one record together, and groups of equal names.
        let members = match T::NAME {
            "fake" => Arc::new(Members { name: name.to_owned(), rank, ranks }),
            _ => flight::group(name, rank, &ranks),
        };
        Group(Arc::new(Shared {
            transport,
            comm: comm_id(name),
            ledger: Arc::new(Ledger::new(members, timeout)),
            queue: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn abort_with(&self) -> Abort {
        let group = Arc::downgrade(&self.0);
        Box::new(move |reason| {
            if let Some(group) = group.upgrade() {
                group.transport.fail(reason);
            }
        })
    }

    /// Checks the request and gives it its place in the order.
    fn admit(&self, queue: &mut Queue, request: &Request) -> Result<Stamp> {
        request.check(self.0.ledger.members.rank, self.0.ledger.members.ranks.len())?;
        if queue.closed {
            return Err(Error::runtime(format!(
                "{}: group '{}' was closed",
                request.kind(),
                self.0.ledger.members.name
            )));
        }
        let mut stamp = request.stamp();
        let seq = match stamp.kind {
            Kind::Send | Kind::Recv => &mut queue.p2p_seq,
            _ => &mut queue.seq,
        };
        (stamp.comm, stamp.seq) = (self.0.comm, *seq);
        *seq += 1;
        if !matches!(stamp.kind, Kind::Send | Kind::Recv) {
            waits::issued(self.0.key(), stamp.seq);
        }
        self.0.ledger.counters.add_call(stamp.kind);
        Ok(stamp)
    }

    /// Starts an operation. With `waits` the caller waits for it at once.
    ///
    /// # Safety
    /// As for `ProcessGroup::issue`.
    unsafe fn start(&self, request: Request, waits: bool) -> Result<Work> {
        let deadline = self.0.ledger.deadline();
        let mut queue = self.0.queue();
        let p2p = match request {
            Request::Send { data, dst, .. } => Some((dst, data)),
            Request::Recv { data, src, .. } => Some((src, data)),
            _ => None,
        };
        let stamp = self.admit(&mut queue, &request)?;
        if p2p.is_none() {
            self.start_worker(&mut queue)?;
        }
        let Some((peer, span)) = p2p else {
            // The lane watches the deadline itself and knows better words; the work's is a backstop.
            let ticket = flight::issued(&self.0.ledger.members, stamp, None);
            let limit = deadline + Duration::from_secs(5);
            let of = (stamp, self.0.ledger.members.clone());
            let work = Work::of_group(of, limit, self.abort_with(), ticket, self.0.key());
            queue.jobs.push_back((request, stamp, deadline, work.clone(), ticket));
            self.0.changed.notify_all();
            return Ok(work);
        };
        drop(queue);
        let ticket = flight::issued(&self.0.ledger.members, stamp, Some(peer));
        let of = (stamp, peer, self.0.ledger.members.clone());
        let work = Work::of_message(of, deadline, self.abort_with(), ticket, self.0.transport.drive());
        if stamp.kind == Kind::Send {
            self.0.ledger.counters.add_bytes(Kind::Send, span.len);
        }
        // SAFETY: the caller's promise is the transport's.
        unsafe { self.0.transport.post(PointToPoint { stamp, peer, span, work: work.clone(), driven: waits }) };
        Ok(work)
    }

    fn start_worker(&self, queue: &mut Queue) -> Result<()> {
        if queue.worker.is_none() {
            let shared = self.0.clone();
            let worker = std::thread::Builder::new().name(format!("comm {}", self.0.ledger.members.name));
            let worker = worker.spawn(move || {
                prompt::run_promptly();
                shared.work_off();
            });
            queue.worker =
                Some(worker.map_err(|e| Error::runtime(format!("cannot start a communication thread: {e}")))?);
        }
        Ok(())
    }
}

impl<T: Transport> ProcessGroup for Group<T> {
    fn rank(&self) -> usize {
        self.0.ledger.members.rank
    }

    fn size(&self) -> usize {
        self.0.ledger.members.ranks.len()
    }

    fn ranks(&self) -> &[usize] {
        &self.0.ledger.members.ranks
    }

    fn name(&self) -> &str {
        &self.0.ledger.members.name
    }

    fn backend(&self) -> &'static str {
        T::NAME
    }

    fn timeout(&self) -> Duration {
        self.0.ledger.timeout()
    }

    fn set_timeout(&self, timeout: Duration) {
        self.0.ledger.set_timeout(timeout);
    }

    fn counters(&self) -> &Counters {
        self.0.ledger.counters()
    }

    fn ledger(&self) -> Option<&Arc<Ledger>> {
        Some(&self.0.ledger)
    }

    unsafe fn issue(&self, request: Request) -> Result<Work> {
        // SAFETY: the caller's promise.
        unsafe { self.start(request, false) }
    }

    unsafe fn run(&self, request: Request) -> Result<()> {
        let mut queue = self.0.queue();
        if matches!(request.kind(), Kind::Send | Kind::Recv) || queue.busy || !queue.jobs.is_empty() {
            drop(queue);
            // SAFETY: the caller's promise; a wait without timeout returns only when the work is complete.
            return unsafe { self.start(request, true) }?.wait(None);
        }
        let deadline = self.0.ledger.deadline();
        let stamp = self.admit(&mut queue, &request)?;
        (queue.busy, queue.running) = (true, true);
        drop(queue);
        let ticket = flight::issued(&self.0.ledger.members, stamp, None);
        flight::started(ticket);
        let waits = waits::enter(self.0.key());
        let result = self.0.execute(&request, &stamp, deadline);
        drop(waits);
        flight::ended(ticket, result.is_ok());
        queue = self.0.queue();
        (queue.busy, queue.running) = (false, false);
        drop(queue);
        self.0.changed.notify_all();
        result
    }

    fn new_group(&self, ranks: &[usize], by_all: bool) -> Result<Option<Arc<dyn ProcessGroup>>> {
        let size = self.0.ledger.members.ranks.len();
        let mut seen = vec![false; size];
        for &r in ranks {
            if r >= size || std::mem::replace(&mut seen[r], true) {
                return Err(Error::value(format!(
                    "new_group: {ranks:?} must be distinct ranks below {size}, the size of group '{}'",
                    self.0.ledger.members.name
                )));
            }
        }
        if ranks.is_empty() {
            return Err(Error::value("new_group: a group needs at least one rank"));
        }
        let place = ranks.iter().position(|&r| r == self.0.ledger.members.rank);
        let child = {
            let mut queue = self.0.queue();
            if queue.closed {
                return Err(Error::runtime(format!("new_group: group '{}' was closed", self.0.ledger.members.name)));
            }
            if by_all {
                queue.n_children += 1;
                queue.n_children.to_string()
            } else if place.is_some() {
                // Others do not count it: the number is among groups of these very members.
                let n = queue.n_local.entry(ranks.to_vec()).or_default();
                *n += 1;
                format!("local{n}")
            } else {
                return Ok(None);
            }
        };
        let Some(rank) = place else { return Ok(None) };
        // The members stand in the name: ranks that disagree about them do not find each other and time out by name.
        let members: Vec<String> = ranks.iter().map(usize::to_string).collect();
        let name = format!("{}/{child}:{}", self.0.ledger.members.name, members.join(","));
        let transport = self.0.transport.form(&name, ranks, self.timeout())?;
        let world = ranks.iter().map(|&r| self.0.ledger.members.ranks[r]).collect();
        Ok(Some(Arc::new(Group::new(transport, &name, rank, world, self.timeout()))))
    }

    fn abort(&self, reason: &str) {
        self.0.transport.fail(reason);
    }

    fn give_up(&self, reason: &str) {
        self.0.transport.give_up(reason);
    }

    fn close(&self) {
        self.0.ledger.take_devices().iter().for_each(|group| group.close());
        let (pending, worker) = {
            let mut queue = self.0.queue();
            if std::mem::replace(&mut queue.closed, true) {
                return;
            }
            (queue.jobs.len() + usize::from(queue.running), queue.worker.take())
        };
        if pending > 0 {
            self.0.transport.fail(&format!("the group was closed while {pending} of its operations were pending"));
        }
        self.0.changed.notify_all();
        if let Some(worker) = worker
            && worker.thread().id() != std::thread::current().id()
        {
            // A worker that panicked has nothing more to say.
            let _ = worker.join();
        }
        self.0.transport.close();
        waits::forget(self.0.key());
        flight::leave(&self.0.ledger.members);
    }

    fn failure(&self) -> Option<Error> {
        self.0.transport.failure().map(Error::runtime)
    }
}

impl<T: Transport> Drop for Group<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// FNV-1a: the same on every rank and build, unlike the standard library's hashers.
pub(crate) fn comm_id(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}
