//! The public interface of a process group: ranks that communicate. Handles bytes, dtypes and counts, and no tensor.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oneflow_base::{DType, Device, Error, Result};

use crate::flight::Members;
use crate::request::{Kind, ReduceOp, Request, Span};
use crate::work::Work;

/// A fixed set of ranks that communicate. Every rank of the group must issue the same collectives in the same order.
///
/// The first failure (a dead peer, an expired deadline, ranks out of step) is final: it ends every pending operation on
/// all ranks, and every later operation returns it again.
///
/// Blocking calls may be made from any thread, also while asynchronous operations run; they take their turn.
pub trait ProcessGroup: Send + Sync {
    /// This process's place in the group.
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// The members as ranks of the world group, in the order of the group.
    fn ranks(&self) -> &[usize];
    fn name(&self) -> &str;
    /// `"fake"`, `"tcp"`, `"mpi"`, `"described"` or `"nccl"`.
    fn backend(&self) -> &'static str;
    /// The deadline of every operation, counted from its start.
    fn timeout(&self) -> Duration;
    fn set_timeout(&self, timeout: Duration);
    /// Payload bytes this rank sent and operations it issued, per kind.
    fn counters(&self) -> &Counters;

    /// What this group's backend shares with one for devices; `None` where there can be none beside it.
    fn ledger(&self) -> Option<&Arc<Ledger>> {
        None
    }

    /// Starts an operation and returns at once.
    ///
    /// # Safety
    /// The memory of the request's spans stays valid until the work is complete, and meanwhile nobody writes to a span
    /// that is read or uses a span that is written. Spans of one request do not overlap.
    unsafe fn issue(&self, request: Request) -> Result<Work>;

    /// As `issue`, with a deadline of the operation's own, counted from now; the group's where there is none.
    ///
    /// # Safety
    /// As for [`ProcessGroup::issue`].
    unsafe fn issue_within(&self, request: Request, timeout: Option<Duration>) -> Result<Work> {
        let _own = OwnTimeout::set(timeout);
        // SAFETY: the caller's promise.
        unsafe { self.issue(request) }
    }

    /// Starts several operations, which a backend may run as one: sends and receives among them cannot wait for each other.
    ///
    /// # Safety
    /// As for [`ProcessGroup::issue`].
    unsafe fn issue_all(&self, requests: Vec<Request>) -> Result<Vec<Work>> {
        // SAFETY: the caller's promise.
        requests.into_iter().map(|request| unsafe { self.issue(request) }).collect()
    }

    /// Runs an operation to its end, on the calling thread where that is possible. Operations of a device are
    /// over for what the caller issues to its current queue from now on.
    ///
    /// # Safety
    /// As for [`ProcessGroup::issue`], for the time of the call.
    unsafe fn run(&self, request: Request) -> Result<()> {
        // SAFETY: the caller's promise; a wait without timeout returns only when the work is complete.
        unsafe { self.issue(request) }?.wait(None)
    }

    /// Creates a group of some of this group's ranks, in the given order; others get `None`. Every rank of this group must
    /// call it with the same list, members or not, or with `by_all` false the members alone.
    fn new_group(&self, ranks: &[usize], by_all: bool) -> Result<Option<Arc<dyn ProcessGroup>>>;

    /// Ends every pending operation on all ranks with `reason`.
    fn abort(&self, reason: &str);
    /// The program of this rank has failed. Where ranks are threads this ends the operations of every group that the rank is
    /// part of, also of groups that are made later; processes end, which the others notice.
    fn give_up(&self, reason: &str) {
        self.abort(reason);
    }
    /// This rank leaves in an orderly way: the others can distinguish that from a crash. Later operations are errors. The
    /// last handle's drop does the same, but a process that ends without either looks like one that died.
    fn close(&self);
    /// The failure that ended the group, if one has.
    fn failure(&self) -> Option<Error>;

    /// Cuts the group: ranks with the same `color` form a group, ordered by (`key`, rank). `None` takes no part.
    fn split(&self, color: Option<u64>, key: i64) -> Result<Option<Arc<dyn ProcessGroup>>> {
        let mut mine = [0u8; 24];
        mine[0] = color.is_some() as u8;
        mine[8..16].copy_from_slice(&color.unwrap_or(0).to_le_bytes());
        mine[16..24].copy_from_slice(&key.to_le_bytes());
        let mut all = vec![0u8; 24 * self.size()];
        self.all_gather(&mut all, &mine, DType::U8)?;
        let word = |r: usize, at: usize| all[24 * r + at..][..8].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        let mut colors: Vec<u64> = (0..self.size()).filter(|&r| all[24 * r] == 1).map(|r| word(r, 8)).collect();
        colors.sort_unstable();
        colors.dedup();
        let mut found = None;
        for c in colors {
            let mut ranks: Vec<usize> = (0..self.size()).filter(|&r| all[24 * r] == 1 && word(r, 8) == c).collect();
            ranks.sort_by_key(|&r| (word(r, 16) as i64, r));
            if let Some(group) = self.new_group(&ranks, true)? {
                found = Some(group);
            }
        }
        Ok(found)
    }

    /// Reduces `data` over all ranks, in place.
    fn all_reduce(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        // SAFETY: here and below, the slices are borrowed for the whole blocking call, mutably where they are written.
        unsafe { self.run(Request::AllReduce { data: Span::of_mut(data), dtype, op }) }
    }

    /// `output` = every rank's `input`, one after the other.
    fn all_gather(&self, output: &mut [u8], input: &[u8], dtype: DType) -> Result<()> {
        let counts = vec![input.len() / dtype.size(); self.size()];
        self.all_gather_v(output, input, &counts, dtype)
    }

    /// As [`ProcessGroup::all_gather`], where rank `i` brings `counts[i]` elements.
    fn all_gather_v(&self, output: &mut [u8], input: &[u8], counts: &[usize], dtype: DType) -> Result<()> {
        let (output, input, counts) = (Span::of_mut(output), Span::of(input), counts.to_vec());
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::AllGather { output, input, counts, dtype }) }
    }

    /// Reduces `input` over all ranks and leaves chunk `rank` in `output`.
    fn reduce_scatter(&self, output: &mut [u8], input: &[u8], dtype: DType, op: ReduceOp) -> Result<()> {
        let counts = vec![output.len() / dtype.size(); self.size()];
        self.reduce_scatter_v(output, input, &counts, dtype, op)
    }

    /// As [`ProcessGroup::reduce_scatter`], where rank `i` keeps `counts[i]` elements.
    fn reduce_scatter_v(
        &self,
        output: &mut [u8],
        input: &[u8],
        counts: &[usize],
        dtype: DType,
        op: ReduceOp,
    ) -> Result<()> {
        let (output, input, counts) = (Span::of_mut(output), Span::of(input), counts.to_vec());
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::ReduceScatter { output, input, counts, dtype, op }) }
    }

    /// Equal chunks: chunk `i` of `input` goes to rank `i`, chunk `i` of `output` comes from rank `i`.
    fn all_to_all(&self, output: &mut [u8], input: &[u8], dtype: DType) -> Result<()> {
        if !(input.len() / dtype.size()).is_multiple_of(self.size()) {
            return Err(Error::value(format!(
                "all_to_all: input of {} elements cannot be cut into {} equal pieces",
                input.len() / dtype.size(),
                self.size()
            )));
        }
        let counts = vec![input.len() / dtype.size() / self.size(); self.size()];
        self.all_to_all_v(output, &counts, input, &counts, dtype)
    }

    /// As [`ProcessGroup::all_to_all`] with chunks of any size.
    fn all_to_all_v(
        &self,
        output: &mut [u8],
        recv_counts: &[usize],
        input: &[u8],
        send_counts: &[usize],
        dtype: DType,
    ) -> Result<()> {
        let (recv_counts, send_counts) = (recv_counts.to_vec(), send_counts.to_vec());
        let (output, input) = (Span::of_mut(output), Span::of(input));
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::AllToAll { output, recv_counts, input, send_counts, dtype }) }
    }

    /// `data` of `root` to everybody.
    fn broadcast(&self, data: &mut [u8], dtype: DType, root: usize) -> Result<()> {
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::Broadcast { data: Span::of_mut(data), dtype, root }) }
    }

    /// Reduces into `data` of `root`; elsewhere `data` stays.
    fn reduce(&self, data: &mut [u8], dtype: DType, op: ReduceOp, root: usize) -> Result<()> {
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::Reduce { data: Span::of_mut(data), dtype, op, root }) }
    }

    /// `output` of `root` = the inputs of all ranks; elsewhere `output` is empty.
    fn gather(&self, output: &mut [u8], input: &[u8], dtype: DType, root: usize) -> Result<()> {
        let (output, input) = (Span::of_mut(output), Span::of(input));
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::Gather { output, input, dtype, root }) }
    }

    /// Piece `i` of `input` of `root` to rank `i`; elsewhere `input` is empty.
    fn scatter(&self, output: &mut [u8], input: &[u8], dtype: DType, root: usize) -> Result<()> {
        let (output, input) = (Span::of_mut(output), Span::of(input));
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::Scatter { output, input, dtype, root }) }
    }

    /// Returns when the bytes are on their way, or with the receiver, as the backend needs.
    fn send(&self, data: &[u8], dtype: DType, dst: usize, tag: u32) -> Result<()> {
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::Send { data: Span::of(data), dtype, dst, tag }) }
    }

    /// Receives the next message of `src` with this `tag`; its dtype and size must be those of `data`.
    fn recv(&self, data: &mut [u8], dtype: DType, src: usize, tag: u32) -> Result<()> {
        // SAFETY: see `all_reduce`.
        unsafe { self.run(Request::Recv { data: Span::of_mut(data), dtype, src, tag }) }
    }

    /// Returns when every rank has called it.
    fn barrier(&self) -> Result<()> {
        // SAFETY: a barrier uses no memory.
        unsafe { self.run(Request::Barrier) }
    }
}

thread_local! {
    static OWN_TIMEOUT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// While it lives, what this thread issues has a deadline of its own.
struct OwnTimeout(Option<Duration>);

impl OwnTimeout {
    fn set(timeout: Option<Duration>) -> OwnTimeout {
        OwnTimeout(OWN_TIMEOUT.replace(timeout))
    }
}

impl Drop for OwnTimeout {
    fn drop(&mut self) {
        OWN_TIMEOUT.set(self.0);
    }
}

/// What the backends of one group share: who its ranks are, how long operations may take, what was counted, and the backends for
/// memory of devices, made when they are first asked for (`device.rs`).
pub struct Ledger {
    pub(crate) members: Arc<Members>,
    timeout_ms: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) devices: Mutex<Vec<(Device, Arc<dyn ProcessGroup>)>>,
}

impl Ledger {
    pub(crate) fn new(members: Arc<Members>, timeout: Duration) -> Ledger {
        let ledger =
            Ledger { members, timeout_ms: AtomicU64::new(0), counters: Counters::default(), devices: Mutex::default() };
        ledger.set_timeout(timeout);
        ledger
    }

    pub fn rank(&self) -> usize {
        self.members.rank
    }

    pub fn ranks(&self) -> &[usize] {
        &self.members.ranks
    }

    pub fn name(&self) -> &str {
        &self.members.name
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed))
    }

    pub fn set_timeout(&self, timeout: Duration) {
        self.timeout_ms.store(timeout.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Of an operation that this thread issues now.
    pub fn deadline(&self) -> Instant {
        let now = Instant::now();
        let timeout = OWN_TIMEOUT.get().unwrap_or_else(|| self.timeout());
        // A timeout beyond what the clock can tell is as good as a century.
        now.checked_add(timeout).unwrap_or(now + Duration::from_secs(100 * 365 * 86_400))
    }

    /// The backends for devices that were made; they are no longer this group's.
    pub(crate) fn take_devices(&self) -> Vec<Arc<dyn ProcessGroup>> {
        let taken = std::mem::take(&mut *self.devices.lock().unwrap_or_else(PoisonError::into_inner));
        taken.into_iter().map(|(_, group)| group).collect()
    }
}

/// The bytes that one rank sent, per kind of operation. Headers are not counted.
#[derive(Default)]
pub struct Counters {
    bytes: [AtomicU64; Kind::ALL.len()],
    calls: [AtomicU64; Kind::ALL.len()],
}

impl Counters {
    /// Payload bytes sent by operations of this kind.
    pub fn bytes(&self, kind: Kind) -> u64 {
        self.bytes[kind as usize].load(Ordering::Relaxed)
    }

    /// Operations of this kind that were issued.
    pub fn calls(&self, kind: Kind) -> u64 {
        self.calls[kind as usize].load(Ordering::Relaxed)
    }

    pub fn total_bytes(&self) -> u64 {
        Kind::ALL.into_iter().map(|kind| self.bytes(kind)).sum()
    }

    pub fn reset(&self) {
        self.bytes.iter().chain(&self.calls).for_each(|c| c.store(0, Ordering::Relaxed));
    }

    pub(crate) fn add_bytes(&self, kind: Kind, bytes: usize) {
        self.bytes[kind as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_call(&self, kind: Kind) {
        self.calls[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}
