//! The thread of a group that sees its operations end: their works are complete then, and what they kept is let go. It finds
//! operations that take longer than they may, errors that a communicator met, and failures of the group that stands behind.

use oneflow_base::{Error, Result};
use oneflow_comm::Work;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks: short after something was issued, then longer.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// A group whose operations are watched.
pub trait Guarded: Send + Sync + 'static {
    fn name(&self) -> &str;
    fn pending(&self) -> &Pending;
    /// What has gone wrong on another rank, or with the connections.
    fn trouble(&self) -> Option<String>;
    /// The error that a communicator has met.
    fn check(&self) -> Result<()>;
    /// Ends what is under way, here. The first cause counts.
    fn fail(&self, cause: &str);
    /// As `fail`, and the other ranks hear of it.
    fn fail_everywhere(&self, cause: &str);
}

/// An operation under way.
pub struct Watched {
    pub work: Work,
    pub what: String,
    pub issued: Instant,
    pub deadline: Instant,
}

/// The operations of a group that are under way.
#[derive(Default)]
pub struct Pending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    works: Vec<Watched>,
    is_running: bool,
    is_closed: bool,
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation; starts the thread where there is none yet.
    pub fn watch(&self, group: &Arc<impl Guarded>, watched: Watched) -> Result<()> {
        let mut state = self.state();
        state.works.push(watched);
        if !state.is_running {
            let thread = std::thread::Builder::new().name(format!("nccl {}", group.name()));
            let group = group.clone();
            thread
                .spawn(move || group.pending().run(&*group))
                .map_err(|e| Error::runtime(format!("cannot start a thread that watches NCCL: {e}")))?;
            state.is_running = true;
        }
        self.changed.notify_all();
        Ok(())
    }

    pub fn take(&self) -> Vec<Watched> {
        std::mem::take(&mut self.state().works)
    }

    /// Lets operations end, for at most `patience`. Returns true if all have.
    pub fn drain(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            self.finish();
            if self.state().works.is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(SHORTEST);
        }
    }

    pub fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Forgets the operations that are over.
    fn finish(&self) {
        let works: Vec<Work> = self.state().works.iter().map(|watched| watched.work.clone()).collect();
        // Not under the lock: the end of a work may run anything.
        let is_over: Vec<bool> = works.iter().map(|work| work.test().is_some()).collect();
        let mut over = is_over.into_iter();
        // Others may have been added behind these.
        let mut gone = Vec::new();
        let mut state = self.state();
        let mut index = 0;
        while index < state.works.len() {
            match over.next() {
                Some(true) => gone.push(state.works.remove(index)),
                Some(false) => index += 1,
                None => break,
            }
        }
        drop(state);
        drop(gone);
    }

    fn run(&self, group: &impl Guarded) {
        let mut nap = SHORTEST;
        let mut known = 0;
        loop {
            let mut state = self.state();
            while state.works.is_empty() && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.works.is_empty() {
                return;
            }
            let is_urgent = state.works.len() > known || state.works.iter().any(|watched| watched.work.has_listeners());
            nap = if is_urgent { SHORTEST } else { (nap * 2).min(LONGEST) };
            let (next, _) = self.changed.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner);
            known = next.works.len();
            drop(next);
            self.finish();
            if let Some(cause) = self.late() {
                group.fail_everywhere(&cause);
            } else if let Some(cause) = group.trouble() {
                group.fail(&cause);
            } else if let Err(e) = group.check() {
                group.fail_everywhere(&format!("{}: {}", self.oldest(), e.text()));
            }
        }
    }

    /// The first operation that takes too long.
    fn late(&self) -> Option<String> {
        let now = Instant::now();
        let state = self.state();
        let late = state.works.iter().find(|watched| now >= watched.deadline)?;
        let behind = match state.works.len() {
            1 => String::new(),
            n => format!(" ({} more behind it)", n - 1),
        };
        Some(format!("{} timed out after {:.1?}{behind}", late.what, now - late.issued))
    }

    fn oldest(&self) -> String {
        self.state().works.first().map_or_else(|| "no operation".to_owned(), |watched| watched.what.clone())
    }
}
