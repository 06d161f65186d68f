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

/// An operation that was admitted.
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

    /// Checks a request, gives it its number and notes it. The caller keeps the order of the operations.
    pub fn admit(&self, request: &Request) -> Result<Admitted> {
        request.check(self.members.rank, self.members.ranks.len())?;
        let (seq, peer, sent) = match request {
            Request::Send { dst, data, .. } => (&self.p2p_seq, Some(*dst), data.len),
            Request::Recv { src, .. } => (&self.p2p_seq, Some(*src), 0),
            other => (&self.seq, None, bytes_sent(other, self.members.rank)),
        };
        let stamp = Stamp { seq: seq.fetch_add(1, Ordering::Relaxed), ..request.stamp() };
        self.ledger.counters.add_call(stamp.kind);
        self.ledger.counters.add_bytes(stamp.kind, sent);
        let other = match (stamp.kind, peer) {
            (Kind::Send, Some(peer)) => format!(" to rank {peer}"),
            (Kind::Recv, Some(peer)) => format!(" from rank {peer}"),
            _ => String::new(),
        };
        let what = format!("{stamp}{other} on rank {} of group '{}'", self.members.rank, self.members.name);
        let source = peer.filter(|_| stamp.kind == Kind::Recv);
        Ok(Admitted { ticket: flight::issued(&self.members, stamp, peer), source, what })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        flight::leave(&self.members);
    }
}

impl Admitted {
    /// The handle of the operation, which a device runs. Whoever sees its end calls [`Work::complete`].
    pub fn work(&self, deadline: Instant, end: Arc<dyn OnDevice>, abort: Abort) -> Work {
        flight::started(self.ticket);
        let work = Work::on_device(self.what.clone(), deadline, abort, self.ticket, end);
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
