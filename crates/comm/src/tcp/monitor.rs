//! One thread per group that listens while nobody else does: point-to-point messages, goodbyes, aborts, deaths, silence.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::connections::Connections;
use super::greeting::Door;
use super::lane::Lane;
use super::mail::{Mail, foul_play};
use super::pulse::Pulse;
use super::shm::Shm;
use super::spin::Spin;
use crate::flight;
use crate::p2p::Outcome;
use crate::request::ANY_RANK;
use crate::sockets::timespec;
use crate::stream::Stream;
use crate::transport::PointToPoint;
use crate::waits::{self, Ask, Key, Question};
use crate::work::{Drive, Work};

/// How long a lost connection waits for its reason, which comes on another one.
const REASON: Duration = Duration::from_secs(2);

/// Frames on the control connection: a byte, a length of two bytes, text.
const GOODBYE: u8 = 1;
const ABORT: u8 = 2;
const BEAT: u8 = 3;
/// Asks for a beat.
const ASK: u8 = 4;
/// A question about a deadlock.
const WAITS: u8 = 5;
const MAX_TEXT: usize = 8 << 10;

pub(super) struct Link {
    pub p2p: Lane,
    pub control: Stream,
}

pub(super) struct Monitor {
    rank: usize,
    key: Key,
    connections: Connections,
    state: Mutex<State>,
    changed: Condvar,
    /// How long threads look for messages in shared memory.
    spin: Spin,
    /// Set once, with `State::failure`; read on every exchange.
    failed: AtomicBool,
    /// Wakes the monitor's own thread.
    wake: OwnedFd,
    /// Becomes readable, for good, when the group has failed.
    lane_wake: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    failure: Option<String>,
    /// The rank that ended the group, and why, where that was heard of.
    heard: Option<(usize, String)>,
    closing: bool,
    mail: Mail,
    peers: Vec<Peer>,
}

struct Peer {
    control_input: Vec<u8>,
    /// When it last said anything at all; `None` before its thread has begun.
    heard: Option<Instant>,
    /// It said goodbye.
    left: bool,
    control_open: bool,
}

impl Monitor {
    /// With a `door` connections may still come.
    pub fn start(name: &str, key: Key, connections: Connections, door: Option<Door>) -> Result<Arc<Monitor>> {
        let fail = |e: std::io::Error| Error::runtime(format!("cannot start group '{name}': {e}"));
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(|e| fail(e.into()));
        let alone = connections.links().next().is_none() && door.is_none();
        let (rank, n) = (key.1, connections.size());
        let pulse = Pulse::of(rank, n)?;
        // Nothing is known against a rank that is not connected yet.
        let may_come = |peer: usize| peer != rank && (connections.is_on_demand() || connections.link(peer).is_some());
        let open =
            |peer: usize| Peer { control_input: Vec::new(), heard: None, left: false, control_open: may_come(peer) };
        let peers = (0..n).map(open).collect();
        let state = State { failure: None, heard: None, closing: false, mail: Mail::new(rank, n, may_come), peers };
        let monitor = Arc::new(Monitor {
            rank,
            key,
            connections,
            state: Mutex::new(state),
            changed: Condvar::new(),
            spin: Spin::default(),
            failed: AtomicBool::new(false),
            wake: event()?,
            lane_wake: event()?,
            thread: Mutex::new(None),
        });
        if !alone {
            let inside = monitor.clone();
            let thread =
                std::thread::Builder::new().name(format!("comm {name}")).spawn(move || inside.run(pulse, door));
            *monitor.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread.map_err(fail)?);
        }
        Ok(monitor)
    }

    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// A connection that was made just now is listened to. Its peer hears what the others have been told already.
    pub fn joined(&self, peer: usize) {
        let mut state = self.state();
        // It has greeted.
        state.peers[peer].heard.get_or_insert_with(Instant::now);
        let said = match (&state.failure, state.closing) {
            (Some(cause), _) => {
                let passed_on = state.heard.as_ref().map(|(origin, cause)| format!("{origin} {cause}"));
                Some(frame(ABORT, &passed_on.unwrap_or_else(|| format!("{} {cause}", self.rank))))
            }
            (None, true) => Some(frame(GOODBYE, "")),
            _ => None,
        };
        drop(state);
        if let (Some(said), Some(link)) = (said, self.connections.link(peer)) {
            link.control.tell(&said);
        }
        ring(&self.wake);
    }

    pub fn failure(&self) -> Option<String> {
        match self.failed.load(Ordering::Acquire) {
            true => self.state().failure.clone(),
            false => None,
        }
    }

    pub fn lane_wake(&self) -> BorrowedFd<'_> {
        self.lane_wake.as_fd()
    }

    /// Why the group ended, where that is known or about to come.
    pub fn reason(&self) -> Option<String> {
        let state = self.state();
        let state = self.changed.wait_timeout_while(state, REASON, |state| state.failure.is_none());
        state.unwrap_or_else(PoisonError::into_inner).0.failure.clone()
    }

    /// Words for a connection that broke. The reason may still be on its way.
    pub fn why_lost(&self, peer: usize) -> String {
        let deadline = Instant::now() + REASON;
        let mut state = self.state();
        loop {
            if let Some(cause) = &state.failure {
                return cause.clone();
            }
            if state.peers[peer].left {
                return format!("rank {peer} has left the group");
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return format!("the connection to rank {peer} was lost");
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the group for a reason found here, and tells the others.
    pub fn fail(&self, cause: &str) {
        let mut state = self.state();
        if state.failure.is_some() || state.closing {
            return;
        }
        self.tell_abort(&state, self.rank, cause);
        let done = self.set_failure(&mut state, cause.to_owned());
        drop(state);
        self.announce(done);
    }

    /// Says goodbye and stops the thread.
    pub fn close(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.closing, true) {
            return;
        }
        // Also after a failure: a rank that reports an error and ends is not one that died.
        self.tell(&state, GOODBYE, "");
        let cause = "the group was destroyed while the operation was pending".to_owned();
        let done = self.withdraw(&mut state, &cause);
        drop(state);
        self.announce(done);
        ring(&self.wake);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        for (_, link) in self.connections.links() {
            link.p2p.stream.shutdown_write();
            link.control.shutdown_write();
        }
    }

    /// Starts a point-to-point operation.
    ///
    /// # Safety
    /// The span stays valid until the work is complete.
    pub unsafe fn post(&self, p2p: PointToPoint) {
        let mut state = self.state();
        let mut done = Vec::new();
        let mut rest = false;
        if let Some(cause) = state.failure.clone() {
            done.push((p2p, Err(cause)));
        } else {
            // SAFETY: the same promise.
            let posted = unsafe { state.mail.post(p2p, &self.connections, &mut done) };
            rest = self.or_fail(&mut state, posted, &mut done);
        }
        drop(state);
        if rest {
            ring(&self.wake);
        }
        self.announce(done);
    }

    /// Sleeps in the memory shared with a rank until there may be something to do for `work`. False if there is something already.
    fn doze(&self, peer: usize, lane: &Lane, work: &Work, limit: Duration) -> bool {
        let Some(shm) = &lane.shm else { return false };
        let mut state = self.state();
        if state.failure.is_some() || state.closing {
            // The work is being completed.
            return false;
        }
        let Some(said) = state.mail.doze(peer, lane) else { return false };
        drop(state);
        if !work.is_complete() {
            shm.sleep(said, limit);
        }
        self.state().mail.rise(peer, lane);
        true
    }

    /// Completes works, with no lock held: their owners may be anything. Who sleeps in shared memory may wait for one.
    fn announce(&self, done: Vec<Outcome>) {
        if done.is_empty() {
            return;
        }
        for (p2p, result) in done {
            p2p.work.end(result);
        }
        self.connections.links().filter_map(|(_, link)| link.p2p.shm.as_ref()).for_each(Shm::rouse);
    }

    /// What a step of the messages has found, or the end of the group.
    fn or_fail(&self, state: &mut State, found: Result<bool, String>, done: &mut Vec<Outcome>) -> bool {
        found.unwrap_or_else(|cause| {
            self.tell_abort(state, self.rank, &cause);
            done.extend(self.set_failure(state, cause));
            false
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame to everybody. Control buffers are empty but for one such frame, so it fits; a peer that is gone is.
    fn tell(&self, state: &State, kind: u8, text: &str) {
        let frame = frame(kind, text);
        for (peer, link) in self.connections.links() {
            if state.peers[peer].control_open {
                link.control.tell(&frame);
            }
        }
    }

    /// Tells those who are connected why the group ends; each passes it on where not everybody is connected with everybody.
    fn tell_abort(&self, state: &State, origin: usize, cause: &str) {
        self.tell(state, ABORT, &format!("{origin} {cause}"));
    }

    /// The caller completes what is returned once the lock is free.
    fn set_failure(&self, state: &mut State, cause: String) -> Vec<Outcome> {
        if state.failure.is_some() {
            return Vec::new();
        }
        // Written before anybody hears of the failure, and perhaps ends the process.
        flight::failed(&cause);
        let done = self.withdraw(state, &cause);
        state.failure = Some(cause);
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
        ring(&self.lane_wake);
        self.connections.lanes().filter_map(|lane| lane.shm.as_ref()).for_each(Shm::rouse);
        ring(&self.wake);
        done
    }

    /// Takes back every pending point-to-point operation: after this no span of theirs is used.
    fn withdraw(&self, state: &mut State, cause: &str) -> Vec<Outcome> {
        let taken = state.mail.withdraw();
        taken.into_iter().map(|p2p| (p2p, Err(cause.to_owned()))).collect()
    }

    fn run(&self, mut pulse: Option<Pulse>, mut door: Option<Door>) {
        // Since when nothing has moved in shared memory, while this thread looks there.
        let mut quiet: Option<Instant> = None;
        if let Some(pulse) = &mut pulse {
            // At once: who was never heard is not missed.
            self.beat(&mut self.state(), pulse, &mut Vec::new());
        }
        loop {
            let state = self.state();
            if state.closing {
                return;
            }
            let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
            // A failed group has nothing to listen for but its end.
            let failed = state.failure.is_some();
            // Something has come that a poll does not tell of, or may in a moment.
            let looks = quiet.is_some_and(|since| since.elapsed() < self.spin.window());
            let mut unread = looks;
            let mut rings = Vec::new();
            for (place, link) in self.connections.links().filter(|_| !failed) {
                let peer = &state.peers[place];
                let (mut p2p, mut control) = (PollFlags::empty(), PollFlags::empty());
                let (hears, sends) = state.mail.listens(place, &link.p2p);
                p2p.set(PollFlags::IN, hears);
                p2p.set(PollFlags::OUT, sends);
                unread |= !looks && state.mail.arm(place, &link.p2p);
                if hears && link.p2p.shm.is_some() {
                    rings.push((fds.len(), &link.p2p));
                }
                control.set(PollFlags::IN, peer.control_open);
                control.set(PollFlags::OUT, peer.control_open && link.control.wants_write());
                for (stream, flags) in [(&link.p2p.stream, p2p), (&link.control, control)] {
                    if !flags.is_empty() {
                        unread |= flags.contains(PollFlags::IN) && stream.has_unread();
                        fds.push(PollFd::new(stream, flags));
                    }
                }
            }
            drop(state);
            let n_watched = fds.len();
            if let Some(door) = door.as_ref().filter(|_| !failed) {
                door.watch(&mut fds);
            }
            let patience = if unread { Some(Duration::ZERO) } else { pulse.as_ref().map(Pulse::every) };
            match poll(&mut fds, patience.map(timespec).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => self.fail(&format!("poll: {e}")),
            }
            let ready: Vec<bool> = fds[n_watched..].iter().map(|fd| !fd.revents().is_empty()).collect();
            let rung =
                rings.into_iter().filter(|(at, lane)| !fds[*at].revents().is_empty() || lane.stream.has_unread());
            let ended: Vec<&Lane> = rung.map(|(_, lane)| lane).filter(|lane| !lane.take_rings()).collect();
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            if let Some(door) = door.as_mut().filter(|_| !ready.is_empty()) {
                self.let_in(door, &ready);
            }
            let mut state = self.state();
            if state.closing {
                return;
            }
            if state.failure.is_none() {
                let (mut done, mut questions) = (Vec::new(), Vec::new());
                self.hear(&mut state, &mut done, &mut questions);
                if let Some(pulse) = &mut pulse {
                    self.beat(&mut state, pulse, &mut done);
                }
                if state.failure.is_none() {
                    // Whoever closed them for a reason has said it before, and it is heard by now.
                    ended.into_iter().for_each(Lane::close);
                }
                let mut moved = false;
                for (peer, link) in self.connections.links() {
                    let found = state.mail.progress(peer, &link.p2p, &mut done);
                    moved |= self.or_fail(&mut state, found, &mut done) && link.p2p.shm.is_some();
                    if state.failure.is_some() {
                        break;
                    }
                }
                quiet = match moved {
                    true => Some(Instant::now()),
                    false => quiet.filter(|since| since.elapsed() < self.spin.window()),
                };
                drop(state);
                self.announce(done);
                questions.into_iter().for_each(|question| waits::heard(self.key, question));
            }
        }
    }

    /// Takes in the connections that other ranks make.
    fn let_in(&self, door: &mut Door, ready: &[bool]) {
        for arrival in door.turn(ready, &|peer| self.connections.admit(peer)) {
            match self.connections.arrive(arrival) {
                Ok(Some(peer)) => self.joined(peer),
                Ok(None) => {}
                Err(cause) => self.fail(&cause),
            }
        }
    }

    /// Shows the neighbours that this process runs, and looks for those that do not.
    fn beat(&self, state: &mut State, pulse: &mut Pulse, done: &mut Vec<Outcome>) {
        let now = Instant::now();
        if pulse.was_away(now) {
            // This process itself was stopped: what the others said meanwhile is only being read.
            state.peers.iter_mut().filter_map(|peer| peer.heard.as_mut()).for_each(|heard| *heard = now);
        }
        let waits = |peer: &Peer| peer.control_open && !peer.left;
        if pulse.is_due(now) {
            pulse.neighbours().filter(|&p| waits(&state.peers[p])).for_each(|p| self.say(p, BEAT));
        }
        let heard = |p: usize| state.peers[p].heard.filter(|_| waits(&state.peers[p]));
        if pulse.shall_ask(now, heard) {
            (0..state.peers.len()).filter(|&p| waits(&state.peers[p])).for_each(|p| self.say(p, ASK));
        }
        let Some(asked) = pulse.is_answered(now) else { return };
        let silent: Vec<usize> =
            (0..state.peers.len()).filter(|&p| heard(p).is_some_and(|heard| heard < asked)).collect();
        if silent.is_empty() {
            return;
        }
        let ranks = match silent[..] {
            [p] => format!("rank {p} does"),
            _ => format!("ranks {silent:?} do"),
        };
        let cause = format!(
            "{ranks} not answer for {:.0} s: stopped, or its host or network is down",
            pulse.timeout().as_secs_f64()
        );
        self.tell_abort(state, self.rank, &cause);
        done.extend(self.set_failure(state, cause));
    }

    /// A frame without text to one peer. There is room for it unless the peer does not read, which is found out anyway.
    fn say(&self, peer: usize, kind: u8) {
        if let Some(link) = self.connections.link(peer) {
            link.control.tell(&[kind, 0, 0]);
        }
    }

    /// Reads the control connections. An abort says more than a death that it caused, so deaths come last.
    fn hear(&self, state: &mut State, done: &mut Vec<Outcome>, questions: &mut Vec<Question>) {
        let (mut dead, mut foul) = (Vec::new(), None);
        let mut aborted = None;
        for (p, link) in self.connections.links() {
            let peer = &mut state.peers[p];
            if !peer.control_open {
                continue;
            }
            link.control.flush();
            let mut buf = [0; 4096];
            loop {
                match link.control.read(&mut buf) {
                    Ok(n) if n > 0 => {
                        peer.heard = Some(Instant::now());
                        peer.control_input.extend_from_slice(&buf[..n]);
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    other => {
                        foul = other.err().and_then(|e| foul_play(p, &e)).or(foul);
                        peer.control_open = false;
                        break;
                    }
                }
                // No honest peer says more than one abort and one goodbye, and beats and questions for as long as this process
                // was stopped.
                if peer.control_input.len() > 16 * MAX_TEXT {
                    peer.control_open = false;
                    break;
                }
            }
            while let Some((kind, text)) = next_frame(&mut peer.control_input) {
                match kind {
                    GOODBYE => peer.left = true,
                    BEAT => {}
                    ASK => self.say(p, BEAT),
                    WAITS => questions.extend(Question::decode(&text)),
                    ABORT => aborted = aborted.or_else(|| Some(origin(&text, p))),
                    _ => peer.control_open = false,
                }
            }
            if peer.left {
                self.changed.notify_all();
            } else if !peer.control_open {
                dead.push(p);
            }
        }
        if let Some((origin, cause)) = aborted {
            if self.connections.is_on_demand() {
                self.tell_abort(state, origin, &cause);
            }
            state.heard = Some((origin, cause.clone()));
            done.extend(self.set_failure(state, format!("rank {origin} aborted: {cause}")));
        } else if !dead.is_empty() {
            let cause = match dead[..] {
                _ if foul.is_some() => foul.unwrap_or_default(),
                [p] => format!("rank {p} died: its connection closed without a goodbye"),
                _ => format!("ranks {dead:?} died: their connections closed without a goodbye"),
            };
            // The others see it too, but perhaps later than the end of this process, which they must not mistake for
            // the first death.
            self.tell_abort(state, self.rank, &cause);
            done.extend(self.set_failure(state, cause));
        }
    }
}

impl Drive for Monitor {
    /// Looks into the memory shared with a rank, or with all. When nothing has come for a while, it sleeps there if only one rank can
    /// send what is waited for, else the group's thread waits for all of them.
    fn drive(&self, peer: usize, work: &Work, limit: Instant) {
        let lanes = || {
            let links = self.connections.links().filter(|(from, _)| peer == ANY_RANK || peer == *from);
            links.filter(|(_, link)| link.p2p.shm.is_some()).map(|(from, link)| (from, &link.p2p))
        };
        if work.is_complete() || lanes().next().is_none() {
            return;
        }
        // Connections that are made from now on are the monitor's.
        let lanes: Vec<(usize, &Lane)> = lanes().collect();
        let only = (peer != ANY_RANK || self.connections.size() == 2).then(|| lanes[0]);
        let mut state = self.state();
        lanes.iter().for_each(|(peer, lane)| state.mail.watch(*peer, lane));
        drop(state);
        let mut quiet: Option<Instant> = None;
        while !work.is_complete() {
            let (mut moved, mut done) = (false, Vec::new());
            let mut state = self.state();
            for (peer, lane) in &lanes {
                if state.failure.is_none() && !state.closing {
                    let found = state.mail.progress(*peer, lane, &mut done);
                    moved |= self.or_fail(&mut state, found, &mut done);
                }
            }
            drop(state);
            self.announce(done);
            let now = Instant::now();
            if now >= limit {
                break;
            }
            if moved {
                if quiet.take().is_some() {
                    self.spin.paid_off();
                }
                continue;
            }
            let since = *quiet.get_or_insert(now);
            if now.duration_since(since) < self.spin.window() {
                std::hint::spin_loop();
                continue;
            }
            self.spin.was_in_vain();
            let Some((peer, lane)) = only else { break };
            if self.doze(peer, lane, work, limit.duration_since(now)) {
                self.spin.slept(since.elapsed());
                quiet = None;
            }
        }
        let mut state = self.state();
        let rest = lanes.iter().fold(false, |rest, (peer, lane)| state.mail.leave(*peer, lane) || rest);
        drop(state);
        if rest {
            ring(&self.wake);
        }
    }
}

impl Ask for Monitor {
    fn ask(&self, peer: usize, question: &Question) {
        if let Some(link) = self.connections.link(peer) {
            link.control.tell(&frame(WAITS, &question.encode()));
        }
    }

    fn give_up(&self, cause: &str) {
        self.fail(cause);
    }
}

fn ring(event: &OwnedFd) {
    // An eventfd takes a write unless its counter is full, which means that it is readable anyway.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

fn frame(kind: u8, text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(MAX_TEXT)];
    [&[kind][..], &(text.len() as u16).to_le_bytes(), text].concat()
}

/// Who ended the group, and why, in an abort that `from` sends.
fn origin(text: &str, from: usize) -> (usize, String) {
    let said = text.split_once(' ').and_then(|(rank, cause)| Some((rank.parse().ok()?, cause)));
    let (origin, cause) = said.unwrap_or((from, text));
    (origin, cause.to_owned())
}

fn next_frame(input: &mut Vec<u8>) -> Option<(u8, String)> {
    let &[kind, low, high, ..] = &input[..] else { return None };
    let end = 3 + usize::from(u16::from_le_bytes([low, high]));
    let text = String::from_utf8_lossy(input.get(3..end)?).into_owned();
    input.drain(..end);
    Some((kind, text))
}
