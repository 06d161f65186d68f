//! The handle of an operation that runs while its caller does something else.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::flight::{self, Members, Ticket};
use crate::interrupt;
use crate::request::{ANY_RANK, Kind, Stamp};
use crate::waits::{self, Key};

/// A running or finished operation. Clones are the same operation.
///
/// The buffers of the operation belong to the group until the work is complete. A work that is dropped keeps running;
/// hand what owns the buffers to [`Work::keep_alive`] and nothing has to be remembered.
#[derive(Clone)]
pub struct Work(Arc<Inner>);

/// Ends the group that an operation runs on.
pub type Abort = Box<dyn Fn(&str) + Send + Sync>;

/// The interval at which a waiting thread asks for work of a device.
const DEVICE_PERIOD: Duration = Duration::from_micros(200);

/// The end of an operation that a device runs in the order of its queues.
pub trait OnDevice: Send + Sync {
    /// What the calling thread issues to its current queue from now on comes after the operation.
    fn order(&self) -> Result<()>;
    /// `None` while it runs.
    fn test(&self) -> Option<Result<()>>;
    /// Returns true if a wait for it is one of the host: of a barrier.
    fn is_waited_for(&self) -> bool;
    /// Returns true if a queue was made to wait for it.
    fn is_awaited(&self) -> bool;
}

/// What a thread that waits for a message can do for it.
pub(crate) trait Drive: Send + Sync {
    /// Moves messages to and from this rank of the group until the work is complete, or until `limit`. It may give up sooner,
    /// where another thread hears of what comes.
    fn drive(&self, peer: usize, work: &Work, limit: Instant);
}

/// Of a work that is a message: who moves it, and the other rank.
type Driver = (Weak<dyn Drive>, usize);

/// What an operation is called, which is put into words when somebody asks.
enum What {
    Words(String),
    /// The other rank, of a message.
    Operation(Stamp, Option<usize>, Arc<Members>),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stamp, peer, members) = match self {
            What::Words(words) => return f.write_str(words),
            What::Operation(stamp, peer, members) => (stamp, peer, members),
        };
        write!(f, "{stamp}")?;
        match peer {
            None => {}
            Some(peer) if stamp.kind == Kind::Send => write!(f, " to rank {peer}")?,
            Some(ANY_RANK) => f.write_str(" from any rank")?,
            Some(peer) => write!(f, " from rank {peer}")?,
        }
        write!(f, " on rank {} of group '{}'", members.rank, members.name)
    }
}

struct Inner {
    what: What,
    issued: Instant,
    /// The default limit of a wait.
    deadline: Instant,
    /// Its place in the flight record.
    ticket: Option<Ticket>,
    /// The rank whose message a receive has got, as a number plus one.
    source: AtomicUsize,
    /// The group whose operation this is, where a wait for it can be part of a deadlock.
    key: Option<Key>,
    late: AtomicBool,
    /// Where a device runs it.
    end: Option<Arc<dyn OnDevice>>,
    /// Where the thread that waits runs it.
    driver: Option<Driver>,
    state: Mutex<State>,
    changed: Condvar,
    /// Aborts the group that the operation runs on; the text gives the reason.
    abort: Abort,
}

#[derive(Default)]
struct State {
    result: Option<Result<()>>,
    kept: Vec<Box<dyn Any + Send>>,
    then: Vec<Box<dyn FnOnce() + Send>>,
}

impl Work {
    #[cfg(test)]
    pub(crate) fn new(what: String, deadline: Instant, abort: Abort) -> Work {
        Work::of(what, deadline, abort)
    }

    /// An operation that is recorded nowhere and of which nobody hears.
    pub(crate) fn of(what: String, deadline: Instant, abort: Abort) -> Work {
        Work::made(What::Words(what), deadline, abort, None, None, None, None)
    }

    /// An operation of all ranks. `key` is that of the group, whose operations wait for other ranks as one.
    pub(crate) fn of_group(
        (stamp, members): (Stamp, Arc<Members>),
        deadline: Instant,
        abort: Abort,
        ticket: Ticket,
        key: Key,
    ) -> Work {
        Work::made(What::Operation(stamp, None, members), deadline, abort, Some(ticket), Some(key), None, None)
    }

    /// A message to `peer` or from it.
    pub(crate) fn of_message(
        (stamp, peer, members): (Stamp, usize, Arc<Members>),
        deadline: Instant,
        abort: Abort,
        ticket: Ticket,
        drive: Option<Weak<dyn Drive>>,
    ) -> Work {
        let driver = drive.map(|drive| (drive, peer));
        Work::made(What::Operation(stamp, Some(peer), members), deadline, abort, Some(ticket), None, None, driver)
    }

    /// An operation that a device runs.
    pub(crate) fn on_device(
        what: String,
        deadline: Instant,
        abort: Abort,
        ticket: Option<Ticket>,
        end: Arc<dyn OnDevice>,
    ) -> Work {
        Work::made(What::Words(what), deadline, abort, ticket, None, Some(end), None)
    }

    fn made(
        what: What,
        deadline: Instant,
        abort: Abort,
        ticket: Option<Ticket>,
        key: Option<Key>,
        end: Option<Arc<dyn OnDevice>>,
        driver: Option<Driver>,
    ) -> Work {
        Work(Arc::new(Inner {
            what,
            issued: Instant::now(),
            deadline,
            ticket,
            source: AtomicUsize::new(0),
            key,
            late: AtomicBool::new(false),
            end,
            driver,
            state: Mutex::default(),
            changed: Condvar::new(),
            abort,
        }))
    }

    /// The rank of the group whose message a receive has got.
    pub fn source(&self) -> Option<usize> {
        self.0.source.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn set_source(&self, rank: usize) {
        self.0.source.store(rank + 1, Ordering::Relaxed);
    }

    /// Calls `f` once the operation is complete, on the thread that completes it, or at once. It must not wait for
    /// operations of the group.
    pub fn then(&self, f: Box<dyn FnOnce() + Send>) {
        let mut state = self.state();
        if state.result.is_none() {
            return state.then.push(f);
        }
        drop(state);
        f();
    }

    /// Waits until the operation is complete, at most for `timeout` or else for the group's. Then the whole group is
    /// aborted, because an operation that one rank gave up cannot be completed by the others.
    ///
    /// An operation of a device is waited for by the caller's current queue and not by the host, unless there is a `timeout`.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let Some(end) = &self.0.end else { return self.wait_here(timeout) };
        if timeout.is_some() || end.is_waited_for() {
            self.wait_here(timeout)?;
        } else if let Some(Err(error)) = self.test() {
            return Err(error);
        }
        end.order()?;
        // Whatever owns the buffers may go: this thread gives memory back in the order of its current queue.
        drop(self.take_kept());
        Ok(())
    }

    /// Waits on the host, also for an operation of a device.
    pub fn wait_here(&self, timeout: Option<Duration>) -> Result<()> {
        let left = timeout.unwrap_or_else(|| self.0.deadline.saturating_duration_since(Instant::now()));
        let deadline = Instant::now().checked_add(left);
        let _waits = self.0.key.map(waits::enter);
        let text = loop {
            // Nobody wakes this thread when a device has done its work: it asks.
            let nap = if self.test().is_none() && self.is_on_device() { DEVICE_PERIOD } else { interrupt::PERIOD };
            let until = Instant::now() + nap;
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            if let Some((driver, peer)) = &self.0.driver
                && let Some(driver) = driver.upgrade()
            {
                driver.drive(*peer, self, until);
            }
            self.say_if_late();
            if let Some(result) = self.wait_for(until.saturating_duration_since(Instant::now())) {
                return result;
            }
            let left = deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            if interrupt::interrupted() {
                break format!("{} was {}", self.0.what, interrupt::CAUSE);
            }
            if left.is_zero() {
                break match timeout {
                    Some(timeout) => format!("{} was not complete after {timeout:?}", self.0.what),
                    None => format!("{} timed out", self.0.what),
                };
            }
        };
        self.abort(&text);
        // The abort completes it; until then its buffers are in use.
        self.wait_for(Duration::MAX);
        Err(Error::runtime(text))
    }

    /// Whoever waits long for one message hears once for which. Operations of the whole group say that themselves.
    fn say_if_late(&self) {
        if self.0.key.is_some() || waits::late().is_none_or(|late| self.0.issued.elapsed() < late) {
            return;
        }
        if !self.0.late.swap(true, Ordering::Relaxed) {
            let seconds = self.0.issued.elapsed().as_secs();
            tracing::warn!("oneflow.distributed: {} has waited for {seconds} s", self.0.what);
        }
    }

    /// Waits a while and aborts nothing: `None` when the operation is not complete yet.
    pub fn wait_for(&self, timeout: Duration) -> Option<Result<()>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state();
        loop {
            if let Some(result) = &state.result {
                return Some(result.clone());
            }
            state = match deadline {
                None => self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// `None` while the operation runs, then its result.
    pub fn test(&self) -> Option<Result<()>> {
        if let Some(end) = &self.0.end
            && self.state().result.is_none()
            && let Some(result) = end.test()
        {
            self.complete(result);
        }
        self.state().result.clone()
    }

    /// Returns true if a queue waits for the operation, of whose failure nobody would hear.
    pub fn is_awaited_by_device(&self) -> bool {
        self.0.end.as_ref().is_some_and(|end| end.is_awaited())
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state().result.is_some()
    }

    /// Returns true if somebody wants to hear of its end.
    pub fn has_listeners(&self) -> bool {
        !self.state().then.is_empty()
    }

    /// Returns true if a device runs the operation.
    pub fn is_on_device(&self) -> bool {
        self.0.end.is_some()
    }

    /// Aborts the group of this operation: every pending operation of it fails, here and on all other ranks.
    pub fn abort(&self, reason: &str) {
        (self.0.abort)(reason);
    }

    /// Keeps `owner` until the operation is complete, for example the tensors whose memory it uses.
    pub fn keep_alive(&self, owner: Box<dyn Any + Send>) {
        let mut state = self.state();
        if state.result.is_none() {
            state.kept.push(owner);
        }
    }

    fn take_kept(&self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.state().kept)
    }

    /// For whoever runs the operation: its result. The first one counts.
    pub fn complete(&self, result: Result<()>) {
        if let Some(ticket) = self.0.ticket {
            flight::ended(ticket, result.is_ok());
        }
        let mut state = self.state();
        if state.result.is_none() {
            state.result = Some(result);
        }
        let (kept, then) = (std::mem::take(&mut state.kept), std::mem::take(&mut state.then));
        drop(state);
        self.0.changed.notify_all();
        // Outside the lock: dropping an owner may run anything.
        drop(kept);
        then.into_iter().for_each(|f| f());
    }

    /// For whoever moves a message: its result, whose cause of a failure gets the words about the operation.
    pub(crate) fn end(&self, result: Result<(), String>) {
        self.complete(result.map_err(|cause| Error::runtime(format!("{}: {cause}", self.0.what))));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_expires_aborts_and_names_the_operation() {
        let slot: Arc<Mutex<Option<Work>>> = Arc::default();
        let inside = slot.clone();
        let abort = move |reason: &str| {
            let work = inside.lock().unwrap().clone().unwrap();
            work.complete(Err(Error::runtime(reason)));
        };
        let work = Work::new("#3 barrier()".into(), Instant::now(), Box::new(abort));
        *slot.lock().unwrap() = Some(work.clone());
        assert!(work.test().is_none() && work.wait_for(Duration::ZERO).is_none());
        let error = work.wait(Some(Duration::from_millis(5))).unwrap_err();
        assert!(error.text().contains("#3 barrier() was not complete"), "{error}");
        assert!(work.test().unwrap().is_err());
    }

    #[test]
    fn owners_live_until_completion() {
        let owner = Arc::new(());
        let work = Work::new("x".into(), Instant::now(), Box::new(|_| {}));
        work.keep_alive(Box::new(owner.clone()));
        assert_eq!(Arc::strong_count(&owner), 2);
        work.complete(Ok(()));
        assert_eq!(Arc::strong_count(&owner), 1);
        work.keep_alive(Box::new(owner.clone()));
        assert_eq!(Arc::strong_count(&owner), 1);
        work.wait(None).unwrap();
        // So do those who want to hear of it.
        let called = Arc::new(AtomicUsize::new(0));
        let call = || {
            let called = called.clone();
            Box::new(move || {
                called.fetch_add(1, Ordering::Relaxed);
            })
        };
        work.then(call());
        assert_eq!(called.load(Ordering::Relaxed), 1);
        let work = Work::new("x".into(), Instant::now(), Box::new(|_| {}));
        work.then(call());
        assert_eq!(called.load(Ordering::Relaxed), 1);
        work.complete(Ok(()));
        work.complete(Ok(()));
        assert_eq!(called.load(Ordering::Relaxed), 2);
    }
}
