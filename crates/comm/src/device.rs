//! Backends of a group for memory of devices. Another crate registers one; here are what it needs of a group, and the
//! bookkeeping of its operations: checks, numbers, records, works. Moves no byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Instant;

use oneflow_base::{Device, Error, Result};

use crate::flight::{self, Members, Ticket};
use crate::group::{Ledger, ProcessGroup};
use crate::request::{Kind, Request, Stamp};
use crate::work::{Abort, OnDevice, Work};

type Shared = Arc<dyn ProcessGroup>;

/// What serves memory of devices.
pub struct DeviceBackend {
    /// Makes the backend of a group whose ranks are connected.
    pub make: fn(&Shared, Device) -> Result<Shared>,
    /// Returns true if it serves this device here.
    pub serves: fn(Device) -> bool,
}

static DEVICE_BACKEND: OnceLock<DeviceBackend> = OnceLock::new();

/// Sets what serves memory of devices, once.
pub fn set_device_backend(backend: DeviceBackend) {
    let _ = DEVICE_BACKEND.set(backend);
}

/// Returns true if ranks can exchange what lies on `device` without the host, as far as this process knows.
pub fn serves_device(device: Device) -> bool {
    DEVICE_BACKEND.get().is_some_and(|backend| (backend.serves)(device))
}

/// The backend of `group` for memory of a device of this rank: the same ranks, spans that are addresses on the device, operations
/// in the order of its queues.
///
/// # Errors
/// What keeps the backend from working here, as a library that is missing.
pub fn on_device(group: &Shared, device: Device) -> Result<Shared> {
    let Some(ledger) = group.ledger() else {
        let name = group.backend();
        return Err(Error::not_implemented(format!("the backend {name:?} moves no memory of devices")));
    };
    let mut made = ledger.devices.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = made.iter().find(|(of, _)| *of == device) {
        return Ok(found.clone());
    }
    let backend = DEVICE_BACKEND.get().ok_or_else(|| Error::not_implemented("no backend moves memory of devices"))?;
    let new = (backend.make)(group, device)?;
    made.push((device, new.clone()));
    Ok(new)
}

/// Admits the operations of a backend that another crate holds: checks them, numbers and records them.
pub struct Desk {
    ledger: Arc<Ledger>,
    /// The ranks under a name of their own in the flight record: sequence numbers are this backend's.
    members: Arc<Members>,
    seq: AtomicU64,
    p2p_seq: AtomicU64,
}

/// An operation that was checked. One that a graph holds is numbered and recorded each time that the graph is launched.
pub struct Described {
    stamp: Stamp,
    peer: Option<usize>,
    sent: usize,
}

/// An operation that was admitted, or several that are one for the device.
pub struct Admitted {
    ticket: Ticket,
    /// Of a receive, whose message it gets.
    source: Option<usize>,
    /// Its number, kind, dtype, size, rank and group.
    pub what: String,
}

impl Desk {
    pub fn new(ledger: Arc<Ledger>, backend: &str) -> Desk {
        let name = format!("{} ({backend})", ledger.name());
        let members = flight::group(&name, ledger.rank(), ledger.ranks());
        Desk { ledger, members, seq: AtomicU64::new(0), p2p_seq: AtomicU64::new(0) }
    }

    /// Checks a request.
    pub fn describe(&self, request: &Request) -> Result<Described> {
        request.check(self.members.rank, self.members.ranks.len())?;
        let (peer, sent) = match request {
            Request::Send { dst, data, .. } => (Some(*dst), data.len),
            Request::Recv { src, .. } => (Some(*src), 0),
            other => (None, bytes_sent(other, self.members.rank)),
        };
        Ok(Described { stamp: request.stamp(), peer, sent })
    }

    /// Checks a request, gives it its number and notes it. The caller keeps the order of the operations.
    pub fn admit(&self, request: &Request) -> Result<Admitted> {
        let operation = self.describe(request)?;
        let stamp = self.number(&operation);
        let (what, source) = (self.words(&stamp, operation.peer), operation.source());
        Ok(Admitted { ticket: flight::issued(&self.members, stamp, operation.peer), source, what })
    }

    /// The operations of a graph that is launched, as one: each gets its number and is noted.
    pub fn admit_launch(&self, operations: &[Described]) -> Admitted {
        let stamps: Vec<Stamp> = operations.iter().map(|operation| self.number(operation)).collect();
        let first = stamps.iter().zip(operations).next().map(|(s, o)| self.words(s, o.peer)).unwrap_or_default();
        let what = match operations.len() {
            0 | 1 => format!("{first}, in a captured graph"),
            // Which of them runs is not known to the host.
            n => format!("{first}, the first of {n} operations in a captured graph ({})", kinds(operations)),
        };
        let all = stamps.into_iter().zip(operations).map(|(stamp, operation)| (stamp, operation.peer));
        Admitted { ticket: flight::issued_together(&self.members, all), source: None, what }
    }

    fn number(&self, operation: &Described) -> Stamp {
        let seq = if operation.peer.is_some() { &self.p2p_seq } else { &self.seq };
        let stamp = Stamp { seq: seq.fetch_add(1, Ordering::Relaxed), ..operation.stamp };
        self.ledger.counters.add_call(stamp.kind);
        self.ledger.counters.add_bytes(stamp.kind, operation.sent);
        stamp
    }

    fn words(&self, stamp: &Stamp, peer: Option<usize>) -> String {
        let other = match (stamp.kind, peer) {
            (Kind::Send, Some(peer)) => format!(" to rank {peer}"),
            (Kind::Recv, Some(peer)) => format!(" from rank {peer}"),
            _ => String::new(),
        };
        format!("{stamp}{other} on rank {} of group '{}'", self.members.rank, self.members.name)
    }
}

/// How often operations are of which kind, in the order in which they come.
fn kinds(operations: &[Described]) -> String {
    let mut found: Vec<(Kind, usize)> = Vec::new();
    for kind in operations.iter().map(|operation| operation.stamp.kind) {
        match found.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, n)) => *n += 1,
            None => found.push((kind, 1)),
        }
    }
    let words: Vec<String> = found.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    words.join(", ")
}

impl Drop for Desk {
    fn drop(&mut self) {
        flight::leave(&self.members);
    }
}

impl Described {
    /// The handle of the operation while it is captured, when nothing runs.
    pub fn captured(&self, deadline: Instant, end: Arc<dyn OnDevice>, abort: Abort) -> Work {
        let work = Work::on_device(format!("a captured {}", self.stamp.kind), deadline, abort, None, end);
        self.source().iter().for_each(|rank| work.set_source(*rank));
        work
    }

    /// Of a receive, whose message it gets.
    fn source(&self) -> Option<usize> {
        self.peer.filter(|_| self.stamp.kind == Kind::Recv)
    }
}

impl Admitted {
    /// The handle of the operation, which a device runs. Whoever sees its end calls [`Work::complete`].
    pub fn work(&self, deadline: Instant, end: Arc<dyn OnDevice>, abort: Abort) -> Work {
        flight::started(self.ticket);
        let work = Work::on_device(self.what.clone(), deadline, abort, Some(self.ticket), end);
        self.source.iter().for_each(|rank| work.set_source(*rank));
        work
    }

    /// It could not be issued.
    pub fn refused(&self, error: Error) -> Error {
        flight::ended(self.ticket, false);
        error.context(format_args!("{}: ", self.what))
    }
}

/// What a rank brings: the bytes that leave it at least once.
fn bytes_sent(request: &Request, rank: usize) -> usize {
    match request {
        Request::AllReduce { data, .. } | Request::Reduce { data, .. } => data.len,
        Request::Broadcast { data, root, .. } if *root == rank => data.len,
        Request::AllGather { input, .. }
        | Request::ReduceScatter { input, .. }
        | Request::AllToAll { input, .. }
        | Request::Gather { input, .. }
        | Request::Scatter { input, .. } => input.len,
        _ => 0,
    }
}
