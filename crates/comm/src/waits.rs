//! Who waits for whom across the groups of this process: how a deadlock between groups is found before a deadline expires.
//!
//! A rank that has waited a second in a collective asks the ranks it waits for; each that is itself stuck in another
//! collective passes the question on to those it waits for. A question that comes back to the wait that asked it is a circle.
//! That is certain only where one thread issues all collectives, since another one could come to the rescue; with several
//! issuing threads nobody is asked, and only the warning for late ranks is left. Sends no bytes itself.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::auth::{NONCE, nonce};

/// A group, as its id and this rank's place in it.
pub(crate) type Key = (u64, usize);

/// How long a wait is before anybody is asked, and then between questions.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// Seconds after which a rank says for whom it waits; 0 never.
const LATE: &str = "ONEFLOW_LATE_WARNING";
const DEFAULT_LATE: f64 = 30.0;
/// A longer circle is left to the deadline.
const LONGEST: usize = 4 << 10;

/// How a group reaches its ranks.
pub(crate) trait Ask: Send + Sync {
    fn ask(&self, peer: usize, question: &Question);
    /// Ends the group.
    fn give_up(&self, cause: &str);
}

/// Travels from rank to rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The process and its wait.
    pub origin: (u64, u64),
    /// The operation of the group through which it comes that the sender waits for.
    pub seq: u64,
    /// The circle is closed: everybody in it shall fail with these words.
    pub found: bool,
    pub words: String,
}

impl Question {
    pub fn encode(&self) -> String {
        let ((process, wait), found) = (self.origin, u8::from(self.found));
        format!("{process:x} {wait:x} {:x} {found} {}", self.seq, self.words)
    }

    pub fn decode(text: &str) -> Option<Question> {
        let mut parts = text.splitn(5, ' ');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (origin, seq, found) = ((number()?, number()?), number()?, number()? == 1);
        Some(Question { origin, seq, found, words: parts.next()?.to_owned() })
    }
}

#[derive(Default)]
struct State {
    /// Groups in whose operations the issuing thread waits; more than one where callbacks wait.
    current: Vec<Key>,
    /// Counts waits.
    wait: u64,
    /// The number of collectives that were issued.
    issued: HashMap<Key, u64>,
    stuck: HashMap<Key, Stuck>,
}

#[derive(Clone)]
struct Stuck {
    seq: u64,
    words: String,
    peers: Vec<usize>,
    group: Arc<dyn Ask>,
}

static ISSUERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ISSUES: Issuer = const { Issuer(Cell::new(false)) };
}

/// Whether a thread issues collectives: as long as it runs.
struct Issuer(Cell<bool>);

impl Drop for Issuer {
    fn drop(&mut self) {
        if self.0.get() {
            ISSUERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number that tells this process from others.
fn process() -> u64 {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    *PROCESS.get_or_init(|| {
        // Without random numbers no rank could have joined a job.
        let nonce = nonce().unwrap_or([0; NONCE]);
        nonce[..8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
    })
}

/// How long a rank waits before it says for whom.
pub(crate) fn late() -> Option<Duration> {
    static FOUND: OnceLock<Option<Duration>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let seconds = match std::env::var(LATE) {
            Err(_) => DEFAULT_LATE,
            Ok(text) => text.trim().parse().unwrap_or_else(|_| {
                tracing::warn!("{LATE} is '{text}', expected a number of seconds; {DEFAULT_LATE} are used");
                DEFAULT_LATE
            }),
        };
        Duration::try_from_secs_f64(seconds).ok().filter(|late| !late.is_zero())
    })
}

/// This thread issues the collective of this number.
pub(crate) fn issued(key: Key, seq: u64) {
    // A thread that is ending counts no more.
    if ISSUES.try_with(|issuer| issuer.0.replace(true)) == Ok(false) {
        ISSUERS.fetch_add(1, Ordering::Relaxed);
    }
    state().issued.insert(key, seq + 1);
}

/// A group is gone.
pub(crate) fn forget(key: Key) {
    let mut state = state();
    state.issued.remove(&key);
    state.stuck.remove(&key);
}

/// The calling thread waits for an operation of the group until the result is dropped.
pub(crate) fn enter(key: Key) -> Entered {
    let mut state = state();
    state.current.push(key);
    state.wait += 1;
    Entered(key)
}

pub(crate) struct Entered(Key);

impl Drop for Entered {
    fn drop(&mut self) {
        let mut state = state();
        if let Some(at) = state.current.iter().rposition(|key| *key == self.0) {
            state.current.remove(at);
        }
    }
}

/// An operation of the group has made no progress for a while: `peers` are missing. Asks them.
pub(crate) fn stuck(key: Key, seq: u64, words: String, peers: Vec<usize>, group: Arc<dyn Ask>) {
    let mut state = state();
    let now = Stuck { seq, words, peers, group };
    state.stuck.insert(key, now.clone());
    let certain = ISSUERS.load(Ordering::Relaxed) == 1 && state.current.last() == Some(&key);
    let origin = (process(), state.wait);
    drop(state);
    if certain {
        now.ask(&Question { origin, seq, found: false, words: now.words.clone() });
    }
}

/// The operation goes on, or has ended.
pub(crate) fn unstuck(key: Key) {
    state().stuck.remove(&key);
}

impl Stuck {
    fn ask(&self, question: &Question) {
        self.peers.iter().for_each(|&peer| self.group.ask(peer, question));
    }
}

/// A question has come through this group. Must be called without the group's locks.
pub(crate) fn heard(key: Key, question: Question) {
    let state = state();
    // The sender waits for an operation that this rank has issued, or another thread may still issue it.
    let is_coming = state.issued.get(&key).is_some_and(|&n| n > question.seq);
    if is_coming || ISSUERS.load(Ordering::Relaxed) != 1 || question.words.len() > LONGEST {
        return;
    }
    let Some(own) = state.current.last().and_then(|current| state.stuck.get(current)).cloned() else { return };
    let is_mine = question.origin == (process(), state.wait);
    drop(state);
    let seq = own.seq;
    if question.found {
        if question.origin.0 != process() {
            own.ask(&Question { seq, ..question.clone() });
        }
        own.group.give_up(&question.words);
    } else if is_mine {
        let words = format!("deadlock, the ranks use groups in different orders: {}", question.words);
        own.ask(&Question { seq, found: true, words: words.clone(), ..question });
        own.group.give_up(&words);
    } else {
        let words = format!("{}; {}", question.words, own.words);
        own.ask(&Question { seq, words, ..question });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_survive_the_wire_and_garbage_does_not() {
        let question =
            Question { origin: (u64::MAX, 3), seq: 17, found: true, words: "rank 0 waits; rank 1 waits".into() };
        assert_eq!(Question::decode(&question.encode()), Some(question));
        for bad in ["", "1 2 3", "x 2 3 0 w", "1 2 3 0"] {
            assert_eq!(Question::decode(bad), None, "{bad}");
        }
    }
}
