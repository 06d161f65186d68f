//! Messages of one group over MPI: each in pieces that are copied on both sides, so that nothing of the caller's memory is in
//! MPI's hands when an operation fails. Pieces of one sender and tag come in order, which MPI promises.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use super::library::{self, Message, Mpi};
use crate::engine::comm_id;
use crate::interrupt;
use crate::p2p::{Inbox, Outcome, gone};
use crate::request::{Header, Kind, Stamp};
use crate::transport::{PointToPoint, Transport};

/// Bytes of a piece.
const PIECE: usize = 1 << 20;
/// Pieces of a message that are on their way at once.
const DEPTH: usize = 4;
/// Uses of a tag: a group takes so many.
const N_USES: c_int = 3;
const COLLECTIVE: c_int = 0;
const POINT_TO_POINT: c_int = 1;
const CONTROL: c_int = 2;
/// Words on the control tag.
const GOODBYE: u8 = 1;
const ABORT: u8 = 2;
const MAX_TEXT: usize = 8 << 10;
/// How long a wait looks without pause, and then the pauses.
const SPIN: Duration = Duration::from_micros(500);
const PAUSE: Duration = Duration::from_micros(50);
const IDLE: Duration = Duration::from_millis(1);
/// How long what was sent before a goodbye may take after it, and how long a goodbye may take.
const GRACE: Duration = Duration::from_millis(500);

pub(super) struct Wire {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    mpi: &'static Mpi,
    rank: usize,
    /// As ranks of the job.
    ranks: Vec<usize>,
    is_world: bool,
    epoch: u64,
    tag: c_int,
    failed: AtomicBool,
    state: Mutex<State>,
}

struct State {
    failure: Option<String>,
    closing: bool,
    inbox: Inbox,
    /// Since when a rank is gone.
    left: Vec<Option<Instant>>,
    outgoing: VecDeque<(PointToPoint, Outgoing)>,
    incoming: Vec<Incoming>,
    control: Vec<Message>,
}

/// What is sent of a message.
struct Outgoing {
    header: [u8; Header::LEN],
    at: usize,
    pieces: VecDeque<Message>,
}

impl Outgoing {
    fn of(stamp: &Stamp, bytes: usize) -> Outgoing {
        Outgoing { header: Header { stamp: *stamp, bytes: bytes as u64 }.encode(), at: 0, pieces: VecDeque::new() }
    }

    /// Sends what can be sent now; true when all has left.
    fn progress(&mut self, mpi: &'static Mpi, to: usize, tag: c_int, data: &[u8]) -> Result<bool, String> {
        while let Some(first) = self.pieces.front_mut() {
            if first.test()?.is_none() {
                break;
            }
            self.pieces.pop_front();
        }
        let whole = Header::LEN + data.len();
        while self.at < whole && self.pieces.len() < DEPTH {
            let end = whole.min(self.at + PIECE);
            let mut piece = Vec::with_capacity(end - self.at);
            piece.extend_from_slice(&self.header[self.at.min(Header::LEN)..end.min(Header::LEN)]);
            piece.extend_from_slice(&data[self.at.max(Header::LEN) - Header::LEN..end.max(Header::LEN) - Header::LEN]);
            self.pieces.push_back(mpi.send(to, tag, piece)?);
            self.at = end;
        }
        Ok(self.at == whole && self.pieces.is_empty())
    }
}

/// A message of a collective on its way in.
struct Expected<'a, 'b> {
    peer: usize,
    data: &'a mut &'b mut [u8],
    /// Bytes with the header that have come, and that were asked for.
    at: usize,
    asked: usize,
    pieces: VecDeque<(Message, usize)>,
}

impl Expected<'_, '_> {
    fn progress(&mut self, wire: &Shared, stamp: &Stamp) -> Result<bool, String> {
        let whole = Header::LEN + self.data.len();
        loop {
            // The first piece says whether the others come.
            let depth = if self.at == 0 { 1 } else { DEPTH };
            while self.asked < whole && self.pieces.len() < depth {
                let n = PIECE.min(whole - self.asked);
                let room = if self.asked == 0 { PIECE } else { n };
                let message = wire.mpi.receive(Some(wire.ranks[self.peer]), wire.tag + COLLECTIVE, room)?;
                self.pieces.push_back((message, n));
                self.asked += n;
            }
            let Some((message, n)) = self.pieces.front_mut() else { return Ok(true) };
            if message.test()?.is_none() {
                return Ok(false);
            }
            let bytes = &message.bytes()[..*n];
            let payload = match self.at {
                0 => {
                    let (header, payload) = bytes.split_first_chunk().ok_or("a message without a header")?;
                    let header = Header::decode(header)
                        .ok_or_else(|| format!("rank {} sends something that is no message", self.peer))?;
                    header.expect(stamp, self.data.len(), wire.rank, self.peer)?;
                    payload
                }
                _ => bytes,
            };
            let start = self.at.max(Header::LEN) - Header::LEN;
            self.data[start..start + payload.len()].copy_from_slice(payload);
            self.at += *n;
            self.pieces.pop_front();
        }
    }
}

/// A point-to-point message that comes from one rank.
#[derive(Default)]
struct Incoming {
    header: Option<Header>,
    data: Vec<u8>,
}

impl Wire {
    pub fn start(mpi: &'static Mpi, name: &str, rank: usize, ranks: Vec<usize>, epoch: u64) -> Result<Wire> {
        let n = ranks.len();
        let places = u64::from(mpi.largest_tag.unsigned_abs()) / N_USES as u64 - 1;
        let tag = (comm_id(name).wrapping_add(epoch.wrapping_mul(0x9e37_79b9)) % places) as c_int * N_USES;
        let state = State {
            failure: None,
            closing: false,
            inbox: Inbox::new(n),
            left: vec![None; n],
            outgoing: VecDeque::new(),
            incoming: (0..n).map(|_| Incoming::default()).collect(),
            control: Vec::new(),
        };
        let failed = AtomicBool::new(false);
        let shared = Arc::new(Shared {
            mpi,
            rank,
            ranks,
            is_world: name == "world",
            epoch,
            tag,
            failed,
            state: Mutex::new(state),
        });
        let inside = shared.clone();
        let thread =
            (n > 1).then(|| std::thread::Builder::new().name(format!("comm {name}")).spawn(move || inside.run()));
        let thread = thread.transpose().map_err(|e| Error::runtime(format!("cannot start group '{name}': {e}")))?;
        Ok(Wire { shared, thread: Mutex::new(thread) })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self) -> Option<String> {
        if self.failed.load(Ordering::Acquire) { self.state().failure.clone() } else { None }
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.ranks.len()).filter(move |&peer| peer != rank)
    }

    /// A word to everybody.
    fn tell(&self, state: &mut State, kind: u8, text: &str) {
        let mut text = text.as_bytes()[..text.len().min(MAX_TEXT)].to_vec();
        let length = (text.len() as u32).to_le_bytes();
        text.splice(..0, [kind].into_iter().chain(length));
        for peer in self.others() {
            state.control.extend(self.mpi.send(self.ranks[peer], self.tag + CONTROL, text.clone()));
        }
    }

    fn set_failure(&self, state: &mut State, cause: &str) -> Vec<Outcome> {
        if state.failure.is_some() {
            return Vec::new();
        }
        crate::flight::failed(cause);
        library::failed();
        state.failure = Some(cause.to_owned());
        self.failed.store(true, Ordering::Release);
        self.withdraw(state, cause)
    }

    fn withdraw(&self, state: &mut State, cause: &str) -> Vec<Outcome> {
        let mut taken = state.inbox.drain();
        taken.extend(state.outgoing.drain(..).map(|(p2p, _)| p2p));
        taken.into_iter().map(|p2p| (p2p, Err(cause.to_owned()))).collect()
    }

    fn fail(&self, cause: &str) {
        let mut state = self.state();
        if state.failure.is_some() || state.closing {
            return;
        }
        self.tell(&mut state, ABORT, cause);
        let done = self.set_failure(&mut state, cause);
        drop(state);
        announce(done);
    }

    /// The group's thread: point-to-point messages and words.
    fn run(&self) {
        let listen = |used: c_int, room: usize| self.mpi.receive(None, self.tag + used, room);
        let (mut message, mut word) = match (listen(POINT_TO_POINT, PIECE), listen(CONTROL, MAX_TEXT + 5)) {
            (Ok(message), Ok(word)) => (message, word),
            (Err(cause), _) | (_, Err(cause)) => return self.fail(&cause),
        };
        let (mut quiet_since, mut since_closing) = (Instant::now(), Instant::now());
        loop {
            match self.turn(&mut message, &mut word, &mut since_closing) {
                Ok(Some(moved)) => {
                    if moved {
                        quiet_since = Instant::now();
                    }
                }
                Ok(None) => return,
                Err(cause) => return self.fail(&cause),
            }
            pause(quiet_since.elapsed(), IDLE);
        }
    }

    /// One look at everything; whether anything has moved. `None`: the group is closed.
    fn turn(
        &self,
        message: &mut Message,
        word: &mut Message,
        since_closing: &mut Instant,
    ) -> Result<Option<bool>, String> {
        let (mut moved, mut done) = (false, Vec::new());
        let place = |source: usize| self.ranks.iter().position(|&rank| rank == source);
        let mut state = self.state();
        state.control.retain_mut(|message| !matches!(message.test(), Ok(Some(_)) | Err(_)));
        if state.closing {
            // The world's goodbyes are taken in, since MPI complains of words that nobody has heard.
            let is_left = |peer: usize| state.left[peer].is_some();
            let is_over = !self.is_world || self.others().all(is_left) && state.control.is_empty();
            if is_over || state.failure.is_some() || since_closing.elapsed() > GRACE {
                return Ok(None);
            }
        } else {
            *since_closing = Instant::now();
        }
        if let Some(source) = word.test()? {
            moved = true;
            if let Some(peer) = place(source) {
                self.hear(&mut state, peer, word.bytes(), &mut done);
            }
            *word = self.mpi.receive(None, self.tag + CONTROL, MAX_TEXT + 5)?;
        }
        if let Some(source) = message.test()? {
            moved = true;
            if let Some(peer) = place(source) {
                self.take(&mut state, peer, message.bytes(), &mut done)?;
            }
            *message = self.mpi.receive(None, self.tag + POINT_TO_POINT, PIECE)?;
        }
        let mut at = 0;
        while at < state.outgoing.len() {
            let (p2p, outgoing) = &mut state.outgoing[at];
            // Messages to one rank keep their order.
            let peer = p2p.peer;
            // SAFETY: the span is valid until the work is complete, and it is not while it stands in this queue.
            let data = unsafe { p2p.span.bytes() };
            if outgoing.progress(self.mpi, self.ranks[peer], self.tag + POINT_TO_POINT, data)? {
                moved = true;
                done.extend(state.outgoing.remove(at).map(|(p2p, _)| (p2p, Ok(()))));
            } else if outgoing.at < Header::LEN + data.len() {
                break;
            } else {
                at += 1;
            }
        }
        drop(state);
        announce(done);
        Ok(Some(moved))
    }

    fn hear(&self, state: &mut State, peer: usize, said: &[u8], done: &mut Vec<Outcome>) {
        let Some((&kind, rest)) = said.split_first() else { return };
        let Some((length, text)) = rest.split_first_chunk() else { return };
        let text = &text[..text.len().min(u32::from_le_bytes(*length) as usize)];
        match kind {
            ABORT => {
                let cause = format!("rank {peer} aborted: {}", String::from_utf8_lossy(text));
                done.extend(self.set_failure(state, &cause));
            }
            _ => {
                state.left[peer] = Some(Instant::now());
                done.extend(state.inbox.drain_from(peer).into_iter().map(|recv| (recv, Err(gone(peer)))));
            }
        }
    }

    /// A piece of a message has come; how long it is follows from what came before it.
    fn take(&self, state: &mut State, peer: usize, piece: &[u8], done: &mut Vec<Outcome>) -> Result<(), String> {
        let incoming = &mut state.incoming[peer];
        let (header, payload) = match incoming.header {
            Some(header) => (header, piece),
            None => {
                let (raw, payload) = piece.split_first_chunk().ok_or("a message without a header")?;
                let header = Header::decode(raw).filter(|header| header.stamp.kind == Kind::Send);
                let header = header.ok_or_else(|| format!("rank {peer} sends something that is no message"))?;
                incoming.data.clear();
                let room = usize::try_from(header.bytes).unwrap_or(usize::MAX);
                if incoming.data.try_reserve_exact(room).is_err() {
                    return Err(format!("no memory for {} bytes of rank {peer}: {}", header.bytes, header.stamp));
                }
                incoming.header = Some(header);
                (header, payload)
            }
        };
        let missing = header.bytes as usize - incoming.data.len();
        incoming.data.extend_from_slice(&payload[..payload.len().min(missing)]);
        if incoming.data.len() == header.bytes as usize {
            let data = std::mem::take(incoming).data;
            if let Some((recv, result)) = state.inbox.deliver(peer, header, data) {
                if let Err(cause) = &result {
                    let cause = format!("on rank {}: {cause}", self.rank);
                    self.tell(state, ABORT, &cause);
                    done.extend(self.set_failure(state, &cause));
                }
                done.push((recv, result));
            }
        }
        Ok(())
    }
}

/// Completes works, with no lock held: their owners may be anything.
fn announce(done: Vec<Outcome>) {
    for (p2p, result) in done {
        p2p.work.end(result);
    }
}

fn pause(quiet: Duration, longest: Duration) {
    if quiet < SPIN {
        std::thread::yield_now();
    } else {
        std::thread::sleep((quiet / 16).clamp(PAUSE, longest));
    }
}

impl Transport for Wire {
    const NAME: &'static str = "mpi";

    fn exchange(
        &self,
        stamp: &Stamp,
        sends: &[(usize, &[u8])],
        recvs: &mut [(usize, &mut [u8])],
        deadline: Instant,
    ) -> Result<(), String> {
        let wire = &*self.shared;
        let mut outs: Vec<_> =
            sends.iter().map(|(peer, data)| (*peer, *data, Outgoing::of(stamp, data.len()), false)).collect();
        let mut ins = Vec::with_capacity(recvs.len());
        for (peer, data) in recvs.iter_mut() {
            ins.push((Expected { peer: *peer, data, at: 0, asked: 0, pieces: VecDeque::new() }, false));
        }
        let began = Instant::now();
        loop {
            for (expected, is_done) in ins.iter_mut().filter(|(_, is_done)| !is_done) {
                *is_done = expected.progress(wire, stamp)?;
            }
            for (peer, data, out, is_done) in outs.iter_mut().filter(|(.., is_done)| !is_done) {
                *is_done = out.progress(wire.mpi, wire.ranks[*peer], wire.tag + COLLECTIVE, data)?;
            }
            let missing: Vec<usize> = ins.iter().filter(|(_, is_done)| !is_done).map(|(e, _)| e.peer).collect();
            let unsent: Vec<usize> = outs.iter().filter(|(.., is_done)| !is_done).map(|(peer, ..)| *peer).collect();
            if missing.is_empty() && unsent.is_empty() {
                return Ok(());
            }
            if let Some(cause) = wire.failure() {
                return Err(cause);
            }
            let elapsed = began.elapsed();
            if elapsed > GRACE {
                let state = wire.state();
                let is_gone = |peer: &usize| state.left[*peer].is_some_and(|since| since.elapsed() > GRACE);
                if let Some(peer) = missing.iter().chain(&unsent).find(|peer| is_gone(peer)) {
                    return Err(gone(*peer));
                }
            }
            if Instant::now() >= deadline {
                let mut missing = [missing, unsent].concat();
                missing.sort_unstable();
                missing.dedup();
                return Err(format!("timed out waiting for rank(s) {missing:?}"));
            }
            if interrupt::interrupted() {
                return Err(interrupt::CAUSE.to_owned());
            }
            pause(elapsed, IDLE);
        }
    }

    unsafe fn post(&self, p2p: PointToPoint) {
        let mut state = self.shared.state();
        let mut done = Vec::new();
        let peer = p2p.peer;
        let is_gone = state.left.get(peer).is_some_and(Option::is_some);
        if let Some(cause) = state.failure.clone() {
            done.push((p2p, Err(cause)));
        } else if p2p.stamp.kind == Kind::Send {
            let outgoing = Outgoing::of(&p2p.stamp, p2p.span.len);
            state.outgoing.push_back((p2p, outgoing));
        } else if is_gone && state.inbox.lacks(&p2p) {
            done.push((p2p, Err(gone(peer))));
        } else {
            done.extend(state.inbox.post(p2p));
        }
        drop(state);
        announce(done);
    }

    fn fail(&self, cause: &str) {
        self.shared.fail(cause);
    }

    fn failure(&self) -> Option<String> {
        self.shared.failure()
    }

    fn close(&self) {
        let mut state = self.shared.state();
        if std::mem::replace(&mut state.closing, true) {
            return;
        }
        self.shared.tell(&mut state, GOODBYE, "");
        let done = self.shared.withdraw(&mut state, "the group was destroyed while the operation was pending");
        drop(state);
        announce(done);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        // Words that have not left keep their bytes, and the others find out otherwise.
        let until = Instant::now() + GRACE;
        let mut state = self.shared.state();
        while !state.control.is_empty() && Instant::now() < until {
            state.control.retain_mut(|message| !matches!(message.test(), Ok(Some(_)) | Err(_)));
            std::thread::sleep(PAUSE);
        }
    }

    fn form(&self, name: &str, ranks: &[usize], _timeout: Duration) -> Result<Self> {
        let wire = &self.shared;
        let rank = ranks.iter().position(|&r| r == wire.rank);
        let rank = rank.ok_or_else(|| Error::runtime(format!("rank {} is no member of {name}", wire.rank)))?;
        let world = ranks.iter().map(|&rank| wire.ranks[rank]).collect();
        Wire::start(wire.mpi, name, rank, world, wire.epoch)
    }
}
