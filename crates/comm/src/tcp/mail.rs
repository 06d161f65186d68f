//! The messages between this rank and each other rank of its group: what waits to leave, what is being received, what has come.
//!
//! Used under its owner's lock by whichever thread there is something to do for: the one that starts an operation, one that waits
//! for a message, the monitor. Waits for nothing. An error ends the group.
//!
//! In shared memory a message stays in the sender's ring until it is wanted; one that is not goes to this process's memory only
//! where the ring is full, so that others can pass it. Who has nothing to look for says to the other side what it is to be woken
//! for (`arm`): bytes for a receive that waits, room for a message that is on its way, or a ring that is full.

use std::collections::VecDeque;
use std::io::ErrorKind;

use super::connections::Connections;
use super::lane::Lane;
use super::shm::{DATA, FUTEX, PRESSURE, ROOM, Shm};
use crate::p2p::{Inbox, Outcome, fits, gone};
use crate::request::{ANY_RANK, Header, Kind};
use crate::tls::Fault;
use crate::transport::PointToPoint;

/// Unasked messages of one peer are kept up to this size together; a longer one waits on the sender's side.
const MAX_EARLY: usize = 64 << 20;
/// Bytes that go through memory in one direction before the lock is free for a moment and the other direction has its turn.
const PASS: usize = 256 << 10;

pub(super) struct Mail {
    rank: usize,
    inbox: Inbox,
    peers: Vec<Peer>,
    /// The rank that a receive from any rank looks at first, so that each has its turn.
    turn: usize,
}

struct Peer {
    /// Messages may come.
    open: bool,
    /// Its socket has ended. What the peer has said on its way out is heard before that counts.
    ending: bool,
    outgoing: VecDeque<Outgoing>,
    incoming: Incoming,
    /// Threads that look into the shared memory, or sleep in it.
    watchers: usize,
    /// Those that sleep.
    sleepers: usize,
}

struct Outgoing {
    header: [u8; Header::LEN],
    at: usize,
    p2p: PointToPoint,
}

/// The message that is being received.
struct Incoming {
    header: [u8; Header::LEN],
    at: usize,
    sink: Sink,
}

#[derive(Default)]
enum Sink {
    /// The header is not complete.
    #[default]
    Header,
    Posted(PointToPoint),
    Early(Header, Vec<u8>),
    /// Too long to be kept: its receive must come first.
    Held(Header),
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming { header: [0; Header::LEN], at: 0, sink: Sink::Header }
    }
}

impl Mail {
    pub fn new(rank: usize, n: usize, may_come: impl Fn(usize) -> bool) -> Mail {
        let peer = |peer: usize| Peer {
            open: may_come(peer),
            ending: false,
            outgoing: VecDeque::new(),
            incoming: Incoming::default(),
            watchers: 0,
            sleepers: 0,
        };
        Mail { rank, inbox: Inbox::new(n), peers: (0..n).map(peer).collect(), turn: 0 }
    }

    /// Whether messages of this rank, or of any, may still come.
    fn is_open(&self, peer: usize) -> bool {
        match peer {
            ANY_RANK => self.peers.iter().any(|peer| peer.open),
            peer => self.peers[peer].open,
        }
    }

    /// What to listen for on the socket: bytes, and room for more.
    pub fn listens(&self, peer: usize, lane: &Lane) -> (bool, bool) {
        let Peer { open, outgoing, incoming, .. } = &self.peers[peer];
        match lane.shm {
            Some(_) => (*open && !lane.is_closed(), false),
            None => (*open && !matches!(incoming.sink, Sink::Held(_)), !outgoing.is_empty()),
        }
    }

    /// Starts an operation, and does what can be done at once. True where the monitor must see to the rest.
    ///
    /// # Safety
    /// The span stays valid until the work is complete.
    pub unsafe fn post(
        &mut self,
        p2p: PointToPoint,
        connections: &Connections,
        done: &mut Vec<Outcome>,
    ) -> Result<bool, String> {
        let (peer, driven) = (p2p.peer, p2p.driven);
        if p2p.stamp.kind == Kind::Send {
            let header = Header { stamp: p2p.stamp, bytes: p2p.span.len as u64 }.encode();
            self.peers[peer].outgoing.push_back(Outgoing { header, at: 0, p2p });
            let Some(link) = connections.link(peer) else { return Ok(true) };
            // As much as fits the socket or the ring leaves from here.
            let most = link.p2p.shm.as_ref().map_or(usize::MAX, Shm::capacity);
            self.send(peer, &link.p2p, most, done);
            return Ok(match link.p2p.shm {
                None => !self.peers[peer].outgoing.is_empty(),
                Some(_) => !driven && self.arm(peer, &link.p2p),
            });
        }
        if !self.is_open(peer) && self.inbox.lacks(&p2p) {
            done.push((p2p, Err(gone(peer))));
            return Ok(false);
        }
        if let Some(outcome) = self.inbox.post(p2p) {
            return self.received(outcome, done).map(|()| false);
        }
        let (mut rest, turn) = (false, self.turn);
        let later = connections.links().filter(|(from, _)| *from >= turn);
        let in_turn = later.chain(connections.links().filter(|(from, _)| *from < turn));
        for (from, link) in in_turn.filter(|(from, _)| peer == ANY_RANK || peer == *from) {
            if link.p2p.shm.is_none() {
                rest = true;
                continue;
            }
            self.receive(from, &link.p2p, PASS, done)?;
            if peer == ANY_RANK && !done.is_empty() {
                self.turn = from + 1;
            }
            rest |= !driven && self.arm(from, &link.p2p);
        }
        // A peer that is not connected yet makes the connection, which the monitor hears of.
        Ok(rest)
    }

    /// A thread begins to look into the memory, and nobody needs to be woken.
    pub fn watch(&mut self, peer: usize, lane: &Lane) {
        self.peers[peer].watchers += 1;
        self.look(peer, lane);
    }

    /// Some thread is awake that looks into the memory. Those that sleep in it still hear of what this process does.
    fn look(&self, peer: usize, lane: &Lane) {
        let here = if self.peers[peer].sleepers > 0 { FUTEX } else { 0 };
        lane.shm.iter().for_each(|shm| shm.fall_asleep(here));
    }

    /// A thread that looks into the memory is about to sleep in it: what it is to say there, or `None` if there is something to do.
    pub fn doze(&mut self, peer: usize, lane: &Lane) -> Option<u32> {
        self.peers[peer].sleepers += 1;
        if self.peers[peer].sleepers < self.peers[peer].watchers {
            self.look(peer, lane);
            return Some(FUTEX);
        }
        let said = self.events(peer) | FUTEX;
        lane.shm.as_ref()?.fall_asleep(said);
        if !self.finds(peer, lane) {
            return Some(said);
        }
        self.rise(peer, lane);
        None
    }

    /// After a sleep: the thread looks into the memory again.
    pub fn rise(&mut self, peer: usize, lane: &Lane) {
        self.peers[peer].sleepers -= 1;
        self.look(peer, lane);
    }

    /// A thread looks no more. True where the monitor must see to the rest.
    pub fn leave(&mut self, peer: usize, lane: &Lane) -> bool {
        self.peers[peer].watchers -= 1;
        self.arm(peer, lane)
    }

    /// Has the other side wake this one for what is to be done; true if there is something to be done now.
    pub fn arm(&self, peer: usize, lane: &Lane) -> bool {
        let (Some(shm), here) = (&lane.shm, &self.peers[peer]) else { return false };
        if here.watchers > here.sleepers {
            return false;
        }
        shm.fall_asleep(self.events(peer) | if here.sleepers > 0 { FUTEX } else { 0 });
        let found = self.finds(peer, lane);
        if found && here.sleepers > 0 {
            shm.rouse();
            return false;
        }
        found
    }

    /// What the other side is to wake this one for.
    fn events(&self, peer: usize) -> u32 {
        let here = &self.peers[peer];
        let held = matches!(here.incoming.sink, Sink::Held(_));
        let when = |is_so: bool, event: u32| if is_so { event } else { 0 };
        when(!held, PRESSURE) | when(self.wants(peer), DATA) | when(!here.outgoing.is_empty(), ROOM)
    }

    /// Whether there is something to be done.
    fn finds(&self, peer: usize, lane: &Lane) -> bool {
        let (Some(shm), here, events) = (&lane.shm, &self.peers[peer], self.events(peer)) else { return false };
        let unread = shm.unread();
        let full = unread >= shm.capacity() && events & PRESSURE != 0;
        (here.open && unread > 0 && (events & DATA != 0 || full)) || (events & ROOM != 0 && shm.room() > 0)
    }

    /// Whether bytes of this peer are waited for.
    fn wants(&self, peer: usize) -> bool {
        let incoming = &self.peers[peer].incoming;
        match incoming.sink {
            Sink::Header if incoming.at == 0 => self.inbox.is_wanted(peer),
            Sink::Held(_) => self.inbox.is_wanted(peer),
            _ => true,
        }
    }

    /// Moves what can be moved; true if anything was.
    pub fn progress(&mut self, peer: usize, lane: &Lane, done: &mut Vec<Outcome>) -> Result<bool, String> {
        let most = if lane.shm.is_some() { PASS } else { usize::MAX };
        let sent = self.send(peer, lane, most, done);
        Ok(self.receive(peer, lane, most, done)? || sent)
    }

    /// Takes back every pending operation: after this no span of theirs is used.
    pub fn withdraw(&mut self) -> Vec<PointToPoint> {
        let mut taken = self.inbox.drain();
        for peer in &mut self.peers {
            taken.extend(peer.outgoing.drain(..).map(|out| out.p2p));
            if let Sink::Posted(p2p) = std::mem::take(&mut peer.incoming).sink {
                taken.push(p2p);
            }
        }
        taken
    }

    fn send(&mut self, peer: usize, lane: &Lane, most: usize, done: &mut Vec<Outcome>) -> bool {
        let (queue, mut sent) = (&mut self.peers[peer].outgoing, 0);
        while sent < most
            && let Some(out) = queue.front_mut()
        {
            // SAFETY: the span is valid until the work is complete, and it is not while it stands in this queue.
            let data = unsafe { out.p2p.span.bytes() };
            match lane.send(&out.header, data, out.at) {
                Ok(n) => (out.at, sent) = (out.at + n, sent + n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    lane.ring(PRESSURE);
                    break;
                }
                Err(_) => {
                    // If the peer died, the control connection tells it to the whole group.
                    let gone = format!("the connection to rank {peer} is closed");
                    done.extend(queue.drain(..).map(|out| (out.p2p, Err(gone.clone()))));
                    break;
                }
            }
            if out.at == Header::LEN + data.len() {
                done.extend(queue.pop_front().map(|out| (out.p2p, Ok(()))));
            }
        }
        sent > 0
    }

    fn receive(&mut self, peer: usize, lane: &Lane, most: usize, done: &mut Vec<Outcome>) -> Result<bool, String> {
        let mut received = 0;
        let result = loop {
            if received >= most {
                break Ok(());
            }
            match self.step(peer, lane, done) {
                Ok(Some(n)) => received += n,
                Ok(None) => break Ok(()),
                Err(cause) => break Err(cause),
            }
        };
        if received > 0 {
            lane.ring(ROOM);
        }
        result.map(|()| received > 0)
    }

    /// One read of a peer's messages: how many bytes it gave, or `None` where nothing more is to be had or wanted now.
    fn step(&mut self, peer: usize, lane: &Lane, done: &mut Vec<Outcome>) -> Result<Option<usize>, String> {
        if !self.peers[peer].open {
            return Ok(None);
        }
        if let Sink::Held(header) = self.peers[peer].incoming.sink {
            match self.inbox.take(peer, &header) {
                Some(recv) => self.begin(peer, header, recv, done)?,
                // What is wanted may lie behind it.
                None if self.inbox.is_wanted(peer) => self.keep(peer, header)?,
                None => return Ok(None),
            }
        }
        if let Some(shm) = &lane.shm
            && !self.wants(peer)
            && shm.unread() < shm.capacity()
            && !(lane.is_closed() && shm.unread() == 0)
        {
            return Ok(None);
        }
        let incoming = &mut self.peers[peer].incoming;
        let target = match &mut incoming.sink {
            Sink::Header => &mut incoming.header[incoming.at..],
            // SAFETY: the span is valid until the work is complete, and it is not while it stands here.
            Sink::Posted(p2p) => unsafe { &mut p2p.span.bytes_mut()[incoming.at..] },
            Sink::Early(_, data) => &mut data[incoming.at..],
            Sink::Held(_) => return Ok(None),
        };
        let wanted = target.len();
        let n = match wanted {
            0 => 0,
            _ => match lane.read(target) {
                Ok(n) if n > 0 => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(Some(0)),
                other => return self.ended(peer, lane, other.err(), done).map(|()| None),
            },
        };
        incoming.at += n;
        if n == wanted {
            match std::mem::take(incoming) {
                Incoming { sink: Sink::Posted(recv), .. } => done.push((recv, Ok(()))),
                Incoming { sink: Sink::Early(header, data), .. } => {
                    if let Some(outcome) = self.inbox.deliver(peer, header, data) {
                        self.received(outcome, done)?;
                    }
                }
                Incoming { header, .. } => self.classify(peer, &header, done)?,
            }
        }
        Ok(Some(n))
    }

    /// Nothing more comes of a peer. Of a socket that counts when it is found again: what the peer has said before on another one
    /// has been heard by then.
    fn ended(
        &mut self,
        peer: usize,
        lane: &Lane,
        error: Option<std::io::Error>,
        done: &mut Vec<Outcome>,
    ) -> Result<(), String> {
        if let Some(cause) = error.and_then(|e| foul_play(peer, &e)) {
            self.peers[peer].open = false;
            return Err(cause);
        }
        if lane.shm.is_none() && !std::mem::replace(&mut self.peers[peer].ending, true) {
            return Ok(());
        }
        self.peers[peer].open = false;
        if let Sink::Posted(recv) = std::mem::take(&mut self.peers[peer].incoming).sink {
            done.push((recv, Err(gone(peer))));
        }
        done.extend(self.inbox.drain_from(peer).into_iter().map(|recv| (recv, Err(gone(peer)))));
        if !self.is_open(ANY_RANK) {
            done.extend(self.inbox.drain_any().into_iter().map(|recv| (recv, Err(gone(ANY_RANK)))));
        }
        Ok(())
    }

    /// Decides where the message goes whose header has just come.
    fn classify(&mut self, peer: usize, raw: &[u8; Header::LEN], done: &mut Vec<Outcome>) -> Result<(), String> {
        let header = Header::decode(raw).filter(|header| header.stamp.kind == Kind::Send);
        let header = header.ok_or_else(|| format!("rank {peer} sends something that is no message"))?;
        if let Some(recv) = self.inbox.take(peer, &header) {
            return self.begin(peer, header, recv, done);
        }
        let bytes = usize::try_from(header.bytes).unwrap_or(usize::MAX);
        let fits = bytes <= MAX_EARLY.saturating_sub(self.inbox.early_bytes(peer));
        let sink = if fits { Sink::Early(header, vec![0; bytes]) } else { Sink::Held(header) };
        self.peers[peer].incoming = Incoming { sink, ..Incoming::default() };
        Ok(())
    }

    /// Keeps a long message that nobody has asked for yet, as far as there is memory.
    fn keep(&mut self, peer: usize, header: Header) -> Result<(), String> {
        let mut data = Vec::new();
        let bytes = usize::try_from(header.bytes).unwrap_or(usize::MAX);
        if data.try_reserve_exact(bytes).is_err() {
            return Err(format!("on rank {}: no memory for {bytes} bytes of rank {peer}: {}", self.rank, header.stamp));
        }
        data.resize(bytes, 0);
        self.peers[peer].incoming = Incoming { sink: Sink::Early(header, data), ..Incoming::default() };
        Ok(())
    }

    /// The payload goes straight to where it is wanted.
    fn begin(
        &mut self,
        peer: usize,
        header: Header,
        recv: PointToPoint,
        done: &mut Vec<Outcome>,
    ) -> Result<(), String> {
        match fits(&recv, &header) {
            Ok(()) => {
                self.peers[peer].incoming = Incoming { sink: Sink::Posted(recv), ..Incoming::default() };
                Ok(())
            }
            Err(cause) => self.received((recv, Err(cause)), done),
        }
    }

    /// A receive has met its message, or one that is not its own, which ends the group.
    fn received(&self, (recv, result): Outcome, done: &mut Vec<Outcome>) -> Result<(), String> {
        let result = result.map_err(|cause| format!("on rank {}: {cause}", self.rank));
        done.push((recv, result.clone()));
        result
    }
}

/// What is wrong with the bytes that a rank sends, where TLS has found that.
pub(super) fn foul_play(peer: usize, e: &std::io::Error) -> Option<String> {
    Fault::of(e).map(|fault| format!("rank {peer} {fault}"))
}
