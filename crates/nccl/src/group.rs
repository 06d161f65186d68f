//! A group on one device of each rank: requests between the caller's queue and the communicator's.
//!
//! An operation waits on the device for what the caller has issued to its current queue, runs on the communicator's queue, and
//! marks its end with an event, for which queues wait. The host waits only for barriers, or with a timeout. Buffers are kept by
//! the work until it was waited for or has ended. The first failure is final, here and in the group that stands behind.

use crate::calls::{self, Place};
use crate::captured::{Captures, Watching};
use crate::communicators::Communicators;
use crate::watchdog::{Guarded, Pending, Watched};
use oneflow_base::{Device, DeviceType, Error, Result};
use oneflow_comm::{Abort, Admitted, Counters, Described, Desk, Kind, Ledger, OnDevice, ProcessGroup, Request, Work};
use oneflow_ep::cuda::nccl::{Call, Communicator};
use oneflow_ep::cuda::{self, Cuda, Event};
use oneflow_ep::{Block, Provider, Queue};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long a group that is closed lets its operations end.
const PATIENCE: Duration = Duration::from_secs(10);

struct NcclGroup(Arc<Shared>);

struct Shared {
    /// The group that stands behind: its ranks are connected.
    host: Weak<dyn ProcessGroup>,
    ledger: Arc<Ledger>,
    desk: Desk,
    cuda: &'static Cuda,
    device: u16,
    communicators: Communicators,
    pending: Pending,
    captures: Captures,
    /// One operation at a time is numbered and issued.
    order: Mutex<()>,
    /// A byte that barriers reduce.
    scratch: OnceLock<Block>,
    failure: Mutex<Option<String>>,
    is_closed: AtomicBool,
}

/// The group of the same ranks for memory of `device`.
pub fn beside(host: &Arc<dyn ProcessGroup>, device: Device) -> Result<Arc<dyn ProcessGroup>> {
    if device.kind != DeviceType::CUDA {
        return Err(Error::not_implemented(format!("no backend moves memory of {device} between ranks")));
    }
    // Said here rather than at the first operation.
    crate::available()?;
    keep_graphs_apart();
    let cuda = cuda::provider().ok_or_else(|| Error::runtime("CUDA is not available"))?;
    cuda.device(device.index)?;
    let ledger = host.ledger().ok_or_else(|| Error::runtime("the group has no ledger"))?.clone();
    Ok(Arc::new(NcclGroup(Arc::new(Shared {
        host: Arc::downgrade(host),
        desk: Desk::new(ledger.clone(), "nccl"),
        ledger,
        cuda,
        device: device.index,
        communicators: Communicators::default(),
        pending: Pending::default(),
        captures: Captures::default(),
        order: Mutex::default(),
        scratch: OnceLock::new(),
        failure: Mutex::default(),
        is_closed: AtomicBool::new(false),
    }))))
}

/// Lets captured operations use memory as others do. By default the library registers the buffers of captured ones with the
/// other ranks, which all of them would have to do in the same launch, and which memory of growing ranges does not allow.
fn keep_graphs_apart() {
    const VARIABLE: &str = "NCCL_GRAPH_REGISTER";
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os(VARIABLE).is_none() {
            // SAFETY: Rust's readers of the environment wait, and the library reads the variable when a communicator forms.
            unsafe { std::env::set_var(VARIABLE, "0") };
        }
    });
}

/// The end of an operation on the device.
struct End {
    cuda: &'static Cuda,
    device: u16,
    event: Event,
    is_barrier: bool,
    /// Recorded in a graph: it ends each time that the graph has run.
    is_captured: bool,
    /// A queue goes on after it without the host's knowledge.
    is_awaited: AtomicBool,
}

impl OnDevice for End {
    fn order(&self) -> Result<()> {
        self.is_awaited.store(true, Ordering::Relaxed);
        self.cuda.wait(self.cuda.queue(self.device), &self.event)
    }

    fn test(&self) -> Option<Result<()>> {
        if self.is_captured {
            return Some(Ok(()));
        }
        match self.cuda.outside_of_captures(|| self.event.is_done()) {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(e) => Some(Err(e)),
        }
    }

    fn is_waited_for(&self) -> bool {
        self.is_barrier
    }

    fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }
}

impl Guarded for Shared {
    fn name(&self) -> &str {
        self.ledger.name()
    }

    fn pending(&self) -> &Pending {
        &self.pending
    }

    fn trouble(&self) -> Option<String> {
        Some(self.host.upgrade()?.failure()?.text().to_owned())
    }

    fn check(&self) -> Result<()> {
        self.communicators.all().iter().try_for_each(|c| c.check())
    }

    fn fail(&self, cause: &str) {
        self.failure().get_or_insert_with(|| cause.to_owned());
        for Watched { work, what, .. } in self.pending.take() {
            let error = match cause.starts_with(&what) {
                true => Error::runtime(cause),
                false => Error::runtime(format!("{what}: {cause}")),
            };
            // A queue that waits for it goes on with what there is: whoever reads that shall hear of it.
            if work.test().is_none() && work.is_awaited_by_device() {
                self.cuda.report(self.device, error.clone());
            }
            work.complete(Err(error));
        }
        self.communicators.take().iter().for_each(|c| c.abort());
    }

    fn fail_everywhere(&self, cause: &str) {
        // Held from here on: whoever hears of the failure may let go of the group before the other ranks are told.
        let host = self.host.upgrade();
        self.fail(cause);
        if let Some(host) = host {
            host.abort(cause);
        }
    }
}

impl Watching for Shared {
    fn may_launch(&self) -> Result<()> {
        self.usable("the launch of a captured graph")?;
        match self.cause() {
            Some(cause) => Err(Error::runtime(format!("the launch of a captured graph: {cause}"))),
            None => Ok(()),
        }
    }

    fn watch_launch(self: Arc<Self>, operations: &[Described], queue: Queue) -> Result<()> {
        let _one = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let event = self.cuda.record(queue)?;
        // Whatever is issued behind the graph goes on without the host's knowledge.
        let (cuda, device, is_awaited) = (self.cuda, self.device, AtomicBool::new(true));
        let end = End { cuda, device, event, is_barrier: false, is_captured: false, is_awaited };
        self.watch(&self.desk.admit_launch(operations), Arc::new(end)).map(drop)
    }
}

impl Shared {
    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn host(&self) -> Result<Arc<dyn ProcessGroup>> {
        self.host.upgrade().ok_or_else(|| Error::runtime(format!("group '{}' was closed", self.name())))
    }

    /// The error of a wait for the library, when something has failed or `deadline` has passed.
    fn go_on(&self, deadline: Instant) -> Result<()> {
        if let Some(cause) = self.cause() {
            return Err(Error::runtime(cause));
        }
        if oneflow_comm::interrupted() {
            return Err(Error::runtime("interrupted"));
        }
        if Instant::now() >= deadline {
            let (timeout, n) = (self.ledger.timeout(), self.ledger.ranks().len());
            return Err(Error::runtime(format!("not all of the {n} ranks came within {timeout:?}")));
        }
        Ok(())
    }

    fn usable(&self, what: impl std::fmt::Display) -> Result<()> {
        match self.is_closed.load(Ordering::Relaxed) {
            true => Err(Error::runtime(format!("{what}: group '{}' was closed", self.name()))),
            false => Ok(()),
        }
    }

    /// The queue of the caller's work.
    fn current(&self) -> Queue {
        self.cuda.queue(self.device)
    }

    /// Why nothing can be issued any more.
    fn cause(&self) -> Option<String> {
        self.failure().clone().or_else(|| self.trouble())
    }

    fn admit(&self, request: &Request) -> Result<Admitted> {
        self.usable(request.kind())?;
        let admitted = self.desk.admit(request)?;
        match self.cause() {
            Some(cause) => Err(admitted.refused(Error::runtime(cause))),
            None => Ok(admitted),
        }
    }

    fn scratch(&self) -> Result<*mut u8> {
        if let Some(block) = self.scratch.get() {
            return Ok(block.ptr);
        }
        let block = self.cuda.alloc_on(self.cuda.own_queue(self.device), 1)?;
        Ok(self.scratch.get_or_init(|| block).ptr)
    }

    /// # Safety
    /// As for `ProcessGroup::issue`.
    unsafe fn issue(self: &Arc<Self>, requests: &[Request], is_batch: bool) -> Result<Vec<Work>> {
        let _one = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        // A request that cannot be served has no number and no part in the order.
        let place = Place { rank: self.ledger.rank(), size: self.ledger.ranks().len() };
        let peer = match requests {
            // A batch may have its other halves in larger batches of other ranks.
            [Request::Send { dst: peer, .. } | Request::Recv { src: peer, .. }] if !is_batch => Some(*peer),
            _ => None,
        };
        let mut all = Vec::new();
        for request in requests {
            let scratch = if request.kind() == Kind::Barrier { self.scratch()? } else { std::ptr::null_mut() };
            all.extend(calls::of(request, place, scratch)?);
        }
        let is_barrier = requests.iter().any(|r| r.kind() == Kind::Barrier);
        if let Some(id) = self.cuda.capture(self.current()) {
            let described = requests.iter().map(|request| self.desk.describe(request)).collect::<Result<Vec<_>>>()?;
            requests.iter().try_for_each(|request| self.usable(request.kind()))?;
            // SAFETY: the caller's promise.
            let end = unsafe { self.issue_calls(all, peer, is_barrier)? };
            let captured =
                |operation: &Described| operation.captured(self.ledger.deadline(), end.clone(), self.abort());
            let works = described.iter().map(captured).collect();
            self.captures.add(self, id, described, |heard| self.cuda.tell_of_launches(self.current(), heard));
            return Ok(works);
        }
        let admitted = requests.iter().map(|request| self.admit(request)).collect::<Result<Vec<_>>>()?;
        // SAFETY: the caller's promise.
        match unsafe { self.issue_calls(all, peer, is_barrier) } {
            Ok(end) => admitted.into_iter().map(|one| self.watch(&one, end.clone())).collect(),
            Err(e) => Err(admitted.into_iter().fold(e, |e, one| one.refused(e))),
        }
    }

    /// # Safety
    /// As for `ProcessGroup::issue`.
    unsafe fn issue_calls(&self, mut calls: Vec<Call>, peer: Option<usize>, is_barrier: bool) -> Result<Arc<End>> {
        let deadline = self.ledger.deadline();
        let go_on = || self.go_on(deadline);
        let host = self.host()?;
        let communicator = self.communicators.get(&*host, self.cuda, self.device, peer, &go_on)?;
        if let Some(peer) = peer {
            // Of a pair the lower rank is the first.
            calls.iter_mut().for_each(|call| name_peer(call, usize::from(peer > host.rank())));
        }
        let current = self.current();
        let is_captured = self.cuda.is_capturing(current);
        let event = self.issue_between(&communicator, &calls, current, &go_on);
        let (cuda, device, is_awaited) = (self.cuda, self.device, AtomicBool::new(false));
        Ok(Arc::new(End { cuda, device, event: event?, is_barrier, is_captured, is_awaited }))
    }

    /// Behind the current queue, and with an event at the end.
    fn issue_between(
        &self,
        communicator: &Communicator,
        calls: &[Call],
        current: Queue,
        go_on: &dyn Fn() -> Result<()>,
    ) -> Result<Event> {
        let before = || self.cuda.order(current, communicator.queue);
        let after = || self.cuda.record(communicator.queue);
        // SAFETY: the issuer's promise: the memory stays until the work is complete.
        unsafe { communicator.issue(calls, before, after, go_on) }
    }

    fn abort(self: &Arc<Self>) -> Abort {
        let group = Arc::downgrade(self);
        Box::new(move |reason: &str| {
            if let Some(group) = group.upgrade() {
                group.fail_everywhere(reason);
            }
        })
    }

    fn watch(self: &Arc<Self>, admitted: &Admitted, end: Arc<End>) -> Result<Work> {
        let (issued, deadline) = (Instant::now(), self.ledger.deadline());
        let work = admitted.work(deadline, end, self.abort());
        let what = admitted.what.clone();
        self.pending.watch(self, Watched { work: work.clone(), what, issued, deadline })?;
        Ok(work)
    }

    fn close(&self) {
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return;
        }
        if !self.pending.drain(PATIENCE) {
            self.fail("the group was closed while operations were under way that did not end");
        }
        let deadline = Instant::now() + PATIENCE;
        for communicator in self.communicators.take() {
            communicator.end(&|| match Instant::now() < deadline {
                true => Ok(()),
                false => Err(Error::runtime("the communicator does not end")),
            });
        }
        self.pending.close();
        if let Some(block) = self.scratch.get() {
            self.cuda.free_on(self.cuda.own_queue(self.device), *block);
        }
    }
}

fn name_peer(call: &mut Call, place: usize) {
    if let Call::Send { peer, .. } | Call::Recv { peer, .. } = call {
        *peer = place;
    }
}

impl ProcessGroup for NcclGroup {
    fn rank(&self) -> usize {
        self.0.ledger.rank()
    }

    fn size(&self) -> usize {
        self.0.ledger.ranks().len()
    }

    fn ranks(&self) -> &[usize] {
        self.0.ledger.ranks()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn backend(&self) -> &'static str {
        "nccl"
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

    unsafe fn issue(&self, request: Request) -> Result<Work> {
        // SAFETY: the caller's promise.
        let mut works = unsafe { self.0.issue(std::slice::from_ref(&request), false) }?;
        works.pop().ok_or_else(|| Error::runtime("no work was issued"))
    }

    unsafe fn issue_all(&self, requests: Vec<Request>) -> Result<Vec<Work>> {
        // SAFETY: the caller's promise.
        unsafe { self.0.issue(&requests, true) }
    }

    fn new_group(&self, _ranks: &[usize], _by_all: bool) -> Result<Option<Arc<dyn ProcessGroup>>> {
        Err(Error::not_implemented("new_group: make it from the group that stands behind this one"))
    }

    fn abort(&self, reason: &str) {
        self.0.fail_everywhere(reason);
    }

    fn close(&self) {
        self.0.close();
    }

    fn failure(&self) -> Option<Error> {
        self.0.failure().clone().map(Error::runtime)
    }
}

impl Drop for NcclGroup {
    fn drop(&mut self) {
        self.close();
    }
}
