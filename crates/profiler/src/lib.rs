//! Records what happens: calls of ops, nodes of a backward, actors of a plan, named regions, memory.
//!
//! Events lie in a buffer of their thread and are gathered when a session takes them. Nothing is summed, printed or written
//! to files here, and nobody records unless a session is open: without one `core` notifies nobody, at the cost of one
//! relaxed load a call.

mod buffer;
mod layer;

pub use buffer::{Event, EventKind, Frame, Operand, begin, end, set_stack_source};

use buffer::clear;
use oneflow_core::{Watcher, bit, register_layer, set_watcher, set_watching};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// What to record besides names and times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Dtypes and sizes of inputs.
    pub shapes: bool,
    /// The program's own lines.
    pub stacks: bool,
    /// Memory allocated and freed.
    pub memory: bool,
    /// The cost that each op declares.
    pub flops: bool,
}

impl Options {
    fn bits(self) -> u8 {
        self.shapes as u8 | (self.stacks as u8) << 1 | (self.memory as u8) << 2 | (self.flops as u8) << 3
    }

    fn from_bits(b: u8) -> Options {
        Options { shapes: b & 1 != 0, stacks: b & 2 != 0, memory: b & 4 != 0, flops: b & 8 != 0 }
    }
}

/// The union of what the open sessions record.
static WANTED: AtomicU8 = AtomicU8::new(0);

pub(crate) fn wanted() -> Options {
    Options::from_bits(WANTED.load(Relaxed))
}

struct Session {
    id: u64,
    options: Options,
    since: u64,
}

static SESSIONS: Mutex<(u64, Vec<Session>)> = Mutex::new((0, Vec::new()));

fn sessions() -> MutexGuard<'static, (u64, Vec<Session>)> {
    SESSIONS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Puts the layer into the stack and listens to `core`. Once, at start-up.
pub fn register() {
    register_layer(bit::WATCH, layer::watch);
    set_watcher(Watcher { begin: buffer::begin_span, end, memory: buffer::memory, link: buffer::link });
}

/// Opens a session: from now on everything is recorded, on all threads.
pub fn start(options: Options) -> u64 {
    let mut s = sessions();
    s.0 += 1;
    let id = s.0;
    s.1.push(Session { id, options, since: buffer::now() });
    settle(&s.1);
    id
}

/// The events of a session so far, thread by thread in the order of their beginnings. Empty for a closed one.
pub fn events(id: u64) -> Vec<Thread> {
    let s = sessions();
    s.1.iter().find(|x| x.id == id).map_or(Vec::new(), |x| buffer::collect(x.since))
}

/// Closes a session. With the last one the buffers are emptied.
pub fn stop(id: u64) {
    let mut s = sessions();
    s.1.retain(|x| x.id != id);
    settle(&s.1);
    if s.1.is_empty() {
        clear();
    }
}

/// Forgets all sessions: in a process that was forked from one with sessions.
pub fn forget() {
    let mut s = sessions();
    s.1.clear();
    settle(&s.1);
}

fn settle(open: &[Session]) {
    WANTED.store(open.iter().fold(0, |b, s| b | s.options.bits()), Relaxed);
    set_watching(!open.is_empty());
}

/// The events of one thread. `parent` of an event is a position in the same list.
pub struct Thread {
    /// The system's number of the thread.
    pub id: u64,
    pub events: Vec<Event>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use oneflow_core::{SpanKind, is_watching, watch_span};

    fn span(name: &'static str) -> oneflow_core::Span {
        watch_span(SpanKind::User, || name.into(), 0)
    }

    fn names(id: u64) -> Vec<(String, i64)> {
        let own = buffer::thread_id();
        let mine = events(id).into_iter().find(|t| t.id == own);
        mine.map_or(Vec::new(), |t| t.events.iter().map(|e| (e.name.to_string(), e.parent)).collect())
    }

    #[test]
    fn sessions_see_what_begins_while_they_are_open() {
        register();
        drop(span("before"));
        let first = start(Options::default());
        let outer = span("outer");
        drop(span("inner"));
        let second = start(Options::default());
        drop(span("later"));
        drop(outer);
        assert_eq!(names(first), [("outer".into(), -1), ("inner".into(), 0), ("later".into(), 0)]);
        assert_eq!(names(second), [("later".into(), -1)]);
        stop(first);
        assert_eq!(names(first), []);
        drop(span("last"));
        assert_eq!(names(second).len(), 2);
        let open = span("open");
        stop(second);
        assert!(!is_watching());
        let third = start(Options::default());
        drop(open);
        drop(span("new"));
        assert_eq!(names(third), [("new".into(), -1)]);
        let theirs = std::thread::spawn(|| drop(span("elsewhere")));
        theirs.join().unwrap();
        assert!(events(third).iter().any(|t| t.events.iter().any(|e| e.name == "elsewhere")));
        stop(third);
    }
}
