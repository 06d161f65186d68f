//! Events in a buffer of their thread, behind a lock that only a gathering session contends for.

use crate::{Thread, wanted};
use oneflow_base::{DType, Device};
use oneflow_core::SpanKind;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Op,
    Backward,
    Actor,
    Instruction,
    User,
    Module,
    /// Memory allocated or freed: an instant, not an interval.
    Memory,
}

/// One event. Times are nanoseconds of a monotonic clock.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    pub name: Cow<'static, str>,
    pub start: u64,
    /// 0 while it lasts.
    pub end: u64,
    /// Position of the event of this thread that it is a part of; -1: of none.
    pub parent: i64,
    /// The tape node: the one that runs (backward), or the last one that the call recorded. 0: none.
    pub seq: u64,
    /// True if the call writes its first input.
    pub in_place: bool,
    /// Operations that the op declares, and whether they are sums of products.
    pub flops: f64,
    pub products: bool,
    /// Bytes allocated (positive) and freed (negative) while this was the innermost event; of a memory event: its own.
    pub bytes: i64,
    /// Of a memory event.
    pub address: usize,
    pub device: Device,
    pub operands: Option<Box<[Option<Operand>]>>,
    pub stack: Option<Arc<[Frame]>>,
}

/// An input of a call.
#[derive(Clone, Debug)]
pub struct Operand {
    pub dtype: DType,
    pub sizes: Box<[i64]>,
}

/// A source location in the user's program; the host language interprets the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    pub code: usize,
    pub line: i32,
}

/// Asks the host language where the program stands, innermost first.
type StackSource = fn() -> Option<Arc<[Frame]>>;
static STACK_SOURCE: OnceLock<StackSource> = OnceLock::new();

/// Installs the question; once, at start-up.
pub fn set_stack_source(source: StackSource) {
    let _ = STACK_SOURCE.set(source);
}

struct Buffer {
    /// No two buffers, and no buffer before and after it was emptied, have the same: a token is of no use elsewhere.
    generation: u32,
    events: Vec<Event>,
    open: Vec<u32>,
}

impl Default for Buffer {
    fn default() -> Buffer {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Buffer { generation: NEXT.fetch_add(1, Relaxed), events: Vec::new(), open: Vec::new() }
    }
}

struct Owned {
    thread: u64,
    buffer: Mutex<Buffer>,
}

static ALL: Mutex<Vec<Arc<Owned>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: OnceCell<Arc<Owned>> = const { OnceCell::new() };
}

static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the first question, never 0.
pub(crate) fn now() -> u64 {
    EPOCH.elapsed().as_nanos() as u64 + 1
}

/// The system's number of this thread.
pub(crate) fn thread_id() -> u64 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Works on this thread's buffer; not while the thread is being torn down.
fn own<R>(f: impl FnOnce(&mut Buffer) -> R) -> Option<R> {
    let work = |cell: &OnceCell<Arc<Owned>>| {
        let own = cell.get_or_init(|| {
            let new = Arc::new(Owned { thread: thread_id(), buffer: Mutex::default() });
            locked(&ALL).push(new.clone());
            new
        });
        f(&mut locked(&own.buffer))
    };
    OWN.try_with(work).ok()
}

const NO_TOKEN: u64 = u64::MAX;

/// An event begins on this thread.
pub fn begin(
    kind: EventKind,
    name: Cow<'static, str>,
    seq: u64,
    in_place: bool,
    operands: Option<Box<[Option<Operand>]>>,
) -> u64 {
    // Before the lock: asking may run the host language's code, which may drop tensors.
    let stack = match STACK_SOURCE.get() {
        Some(ask) if wanted().stacks => ask(),
        _ => None,
    };
    let mut event = Event {
        kind,
        name,
        start: 0,
        end: 0,
        parent: -1,
        seq,
        in_place,
        flops: 0.0,
        products: false,
        bytes: 0,
        address: 0,
        device: Device::CPU,
        operands,
        stack,
    };
    let push = |b: &mut Buffer| {
        event.parent = b.open.last().map_or(-1, |&p| p as i64);
        event.start = now();
        let at = b.events.len() as u32;
        b.open.push(at);
        b.events.push(event);
        (b.generation as u64) << 32 | at as u64
    };
    own(push).unwrap_or(NO_TOKEN)
}

pub(crate) fn begin_span(kind: SpanKind, name: Cow<'static, str>, seq: u64) -> u64 {
    let kind = match kind {
        SpanKind::Op => EventKind::Op,
        SpanKind::Backward => EventKind::Backward,
        SpanKind::Actor => EventKind::Actor,
        SpanKind::Instruction => EventKind::Instruction,
        SpanKind::User => EventKind::User,
        SpanKind::Module => EventKind::Module,
    };
    begin(kind, name, seq, false, None)
}

/// The event of a token, if it is still there.
fn of(b: &mut Buffer, token: u64) -> Option<(u32, &mut Event)> {
    let at = token as u32;
    if (token >> 32) as u32 != b.generation { None } else { b.events.get_mut(at as usize).map(|e| (at, e)) }
}

/// Ends the event of a token, on the thread on which it began.
pub fn end(token: u64) {
    let end = now();
    own(|b| {
        let Some((at, event)) = of(b, token) else { return };
        event.end = end;
        // Regions need not be closed in the order in which they were opened.
        if let Some(i) = b.open.iter().rposition(|&o| o == at) {
            b.open.remove(i);
        }
    });
}

pub(crate) fn set_cost(token: u64, flops: f64, products: bool) {
    own(|b| {
        if let Some((_, event)) = of(b, token) {
            (event.flops, event.products) = (flops, products);
        }
    });
}

/// The call under way has recorded a tape node.
pub(crate) fn link(seq: u64) {
    own(|b| {
        if let Some(&at) = b.open.last()
            && let Some(e) = b.events.get_mut(at as usize)
            && e.kind == EventKind::Op
        {
            // The accumulators of leaves come first, the call's own node last.
            e.seq = seq;
        }
    });
}

pub(crate) fn memory(device: Device, address: usize, bytes: i64) {
    if !wanted().memory {
        return;
    }
    own(|b| {
        let parent = b.open.last().copied();
        if let Some(e) = parent.and_then(|p| b.events.get_mut(p as usize)) {
            e.bytes += bytes;
        }
        let at = now();
        b.events.push(Event {
            kind: EventKind::Memory,
            name: Cow::Borrowed("[memory]"),
            start: at,
            end: at,
            parent: parent.map_or(-1, |p| p as i64),
            seq: 0,
            in_place: false,
            flops: 0.0,
            products: false,
            bytes,
            address,
            device,
            operands: None,
            stack: None,
        });
    });
}

/// Copies of events that began at `since` or later; those still open end now.
pub(crate) fn collect(since: u64) -> Vec<Thread> {
    let until = now();
    let mut threads = Vec::new();
    for owned in locked(&ALL).iter() {
        let b = locked(&owned.buffer);
        let first = b.events.partition_point(|e| e.start < since);
        let mut events: Vec<Event> = b.events[first..].to_vec();
        for e in &mut events {
            e.parent = (e.parent - first as i64).max(-1);
            if e.end == 0 {
                e.end = until;
            }
        }
        if !events.is_empty() {
            threads.push(Thread { id: owned.thread, events });
        }
    }
    threads
}

/// Empties the buffers and forgets those of threads that have ended.
pub(crate) fn clear() {
    locked(&ALL).retain(|owned| {
        let mut b = locked(&owned.buffer);
        *b = Buffer::default();
        drop(b);
        Arc::strong_count(owned) > 1
    });
}
