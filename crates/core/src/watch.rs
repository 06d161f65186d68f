//! What a profiler sees besides calls: spans of other work, memory, and the tape's numbers.
//!
//! Calls reach it as a layer (`bit::WATCH`). Nothing is recorded here, and with nobody watching each of these costs one relaxed
//! load.

use crate::bit;
use oneflow_base::Device;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Layer bits that are on for every call of every thread: the watching layer's, or none.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// The kind of work in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A call of an op.
    Op,
    /// A node of the tape in a backward.
    Backward,
    /// An actor of a running plan.
    Actor,
    /// An instruction inside an actor.
    Instruction,
    /// A region that the user named.
    User,
    /// A call of a module.
    Module,
}

/// The listener. Installed once, at start-up.
pub struct Watcher {
    /// A stretch begins on this thread: what it is, its name, and the number of its tape node (0: none).
    pub begin: fn(SpanKind, Cow<'static, str>, u64) -> u64,
    /// Ends the span of this token.
    pub end: fn(u64),
    /// Memory of a device was allocated (positive) or freed (negative).
    pub memory: fn(Device, usize, i64),
    /// The call under way has recorded a tape node of this number.
    pub link: fn(u64),
}

static WATCHER: OnceLock<Watcher> = OnceLock::new();

pub fn set_watcher(watcher: Watcher) {
    let _ = WATCHER.set(watcher);
}

/// Starts or ends watching, on all threads.
pub fn set_watching(on: bool) {
    WATCHED.store((on as u32) << bit::WATCH, Relaxed);
}

/// The bits that watching adds to every call.
#[inline]
pub(crate) fn watched() -> u32 {
    WATCHED.load(Relaxed)
}

/// Returns true if a listener is watching.
#[inline]
pub fn is_watching() -> bool {
    watched() != 0
}

/// A span of work, until the guard is dropped. The name is computed only for a listener.
#[inline]
pub fn watch_span(kind: SpanKind, name: impl FnOnce() -> Cow<'static, str>, seq: u64) -> Span {
    let token = if is_watching() { WATCHER.get().map(|w| (w.begin)(kind, name(), seq)) } else { None };
    Span { token, _not_send: PhantomData }
}

/// Ends its stretch when dropped.
#[must_use]
pub struct Span {
    token: Option<u64>,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token
            && let Some(w) = WATCHER.get()
        {
            (w.end)(token);
        }
    }
}

/// Notifies of memory allocated or freed.
#[inline]
pub(crate) fn watch_memory(device: Device, address: usize, bytes: i64) {
    if is_watching()
        && let Some(w) = WATCHER.get()
    {
        (w.memory)(device, address, bytes);
    }
}

/// Tells which tape node the call under way has recorded.
#[inline]
pub fn watch_link(seq: u64) {
    if is_watching()
        && let Some(w) = WATCHER.get()
    {
        (w.link)(seq);
    }
}
