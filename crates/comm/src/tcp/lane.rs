//! The way to one peer, of collectives or of messages, and what is sent and received on it so far. Waits for nothing.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::direct;
use super::shm::{DATA, ROOM, Shm};
use crate::request::{Header, Stamp};
use crate::stream::Stream;
use crate::tls::Fault;

/// The way to one peer.
pub(super) struct Lane {
    /// Carries the bytes; beside shared memory it only wakes sleepers and tells of deaths.
    pub stream: Stream,
    /// Never encrypted: the memory of one host.
    pub shm: Option<Shm>,
    /// The peer of a shared lane has closed its end of the socket.
    pub closed: AtomicBool,
}

impl Lane {
    pub fn new(stream: Stream, shm: Option<Shm>) -> Lane {
        Lane { stream, shm, closed: AtomicBool::new(false) }
    }

    /// Sends what fits now of header and payload from position `at` on.
    pub fn send(&self, header: &[u8; Header::LEN], data: &[u8], at: usize) -> std::io::Result<usize> {
        let Some(shm) = &self.shm else { return self.stream.send_message(header, data, at) };
        let n = shm.write([&header[at.min(Header::LEN)..], &data[at.saturating_sub(Header::LEN)..]])?;
        self.ring(DATA);
        Ok(n)
    }

    fn receive(&self, target: &mut [u8]) -> std::io::Result<usize> {
        let Some(shm) = &self.shm else { return self.stream.read(target) };
        let n = shm.read(target)?;
        self.ring(ROOM);
        Ok(n)
    }

    /// Receives what has come, and nothing more after a peer that has closed its end; the caller rings for room.
    pub fn read(&self, target: &mut [u8]) -> std::io::Result<usize> {
        let Some(shm) = &self.shm else { return self.stream.read(target) };
        // What was written before the end is there once the end is known.
        let closed = self.closed.load(Ordering::Acquire);
        match shm.read(target) {
            Err(e) if closed && e.kind() == ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// The peer has closed its end.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Wakes the other side if it sleeps and waits for one of these events.
    pub fn ring(&self, events: u32) {
        if self.shm.as_ref().is_some_and(|shm| shm.must_ring(events)) {
            // A full socket wakes its reader anyway, and a closed one is found by whoever sleeps on it.
            self.stream.tell(&[0]);
        }
    }

    /// After a sleep.
    pub fn wake_up(&self) {
        if let Some(shm) = &self.shm {
            shm.wake_up();
            if !self.take_rings() {
                self.close();
            }
        }
    }

    /// Takes the rings off the socket; false if the peer has closed its end.
    pub fn take_rings(&self) -> bool {
        let mut rings = [0; 64];
        loop {
            match self.stream.read(&mut rings) {
                Ok(n) if n == rings.len() || (n > 0 && self.stream.has_unread()) => {}
                Ok(n) if n > 0 => return true,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                _ => return false,
            }
        }
    }

    /// The peer will write no more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// The header, and where the payload is that does not follow it.
const FAR: usize = Header::LEN + 8;
/// The byte of a header that says so.
const FAR_AT: usize = 7;

/// One message on its way out: header, then payload.
pub(super) struct Out<'a> {
    pub peer: usize,
    pub lane: &'a Lane,
    header: [u8; Header::LEN],
    /// Where the payload is, if it does not follow.
    address: [u8; 8],
    data: &'a [u8],
    pub at: usize,
    /// The number of a message that the other side reads in this one's memory.
    number: Option<u64>,
}

/// One message on its way in.
pub(super) struct In<'a, 'b> {
    pub peer: usize,
    pub lane: &'a Lane,
    header: [u8; Header::LEN],
    address: [u8; 8],
    data: &'b mut [u8],
    pub at: usize,
    /// The payload is read in the sender's memory.
    far: bool,
    /// The bytes of the fastest piece of it, and their time.
    fastest: (usize, Duration),
}

impl<'a> Out<'a> {
    /// With `may_be_read` the other side may read a long payload in this one's memory.
    pub fn new(peer: usize, lane: &'a Lane, stamp: &Stamp, data: &'a [u8], may_be_read: bool) -> Self {
        let mut header = Header { stamp: *stamp, bytes: data.len() as u64 }.encode();
        let reader = lane
            .shm
            .as_ref()
            .map(Shm::other)
            .filter(|reader| may_be_read && data.len() >= direct::LEAST && reader.reads());
        header[FAR_AT] = u8::from(reader.is_some());
        let (address, number) = ((data.as_ptr() as u64).to_le_bytes(), reader.map(|reader| reader.taken() + 1));
        Out { peer, lane, header, address, data, at: 0, number }
    }

    fn len(&self) -> usize {
        self.data.len() + if self.number.is_some() { FAR } else { Header::LEN }
    }

    pub fn done(&self) -> bool {
        self.at == self.len()
    }

    /// Sends what the socket or the ring takes now.
    pub fn progress(&mut self) -> std::io::Result<()> {
        while !self.done() {
            let sent = match (&self.lane.shm, self.number) {
                (Some(shm), Some(number)) if self.at >= FAR => match shm.other().taken() >= number {
                    true => Ok(self.data.len()),
                    false => return Ok(()),
                },
                (Some(_), Some(_)) => self.lane.send(&self.header, &self.address, self.at),
                _ => self.lane.send(&self.header, self.data, self.at),
            };
            self.at += match sent {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
        }
        Ok(())
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        if let (Some(shm), Some(number), false) = (&self.lane.shm, self.number, self.done()) {
            shm.own().withdraw(number);
        }
    }
}

impl<'a, 'b> In<'a, 'b> {
    pub fn new(peer: usize, lane: &'a Lane, data: &'b mut [u8]) -> Self {
        let fastest = (0, Duration::MAX);
        In { peer, lane, header: [0; Header::LEN], address: [0; 8], data, at: 0, far: false, fastest }
    }

    fn header_len(&self) -> usize {
        if self.far { FAR } else { Header::LEN }
    }

    pub fn done(&self) -> bool {
        self.at == self.header_len() + self.data.len()
    }

    /// Receives what has come. Never reads beyond this message: the next one belongs to another exchange.
    pub fn progress(&mut self, stamp: &Stamp, rank: usize) -> Result<(), Trouble> {
        while !self.done() {
            let target = match self.at.checked_sub(Header::LEN) {
                None => &mut self.header[self.at..],
                Some(at) if self.far && at < self.address.len() => &mut self.address[at..],
                Some(_) if self.far => return self.read_far(),
                Some(at) => &mut self.data[at..],
            };
            match self.lane.receive(target) {
                Ok(0) => return Err(Trouble::Lost),
                Ok(n) => self.at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(Trouble::of(self.peer, &e)),
            }
            if self.at == Header::LEN && !self.far {
                self.far = self.lane.shm.is_some() && std::mem::take(&mut self.header[FAR_AT]) == 1;
                let header = Header::decode(&self.header)
                    .ok_or_else(|| Trouble::Known(format!("rank {} sends something that is no message", self.peer)))?;
                header.expect(stamp, self.data.len(), rank, self.peer).map_err(Trouble::Known)?;
            }
        }
        Ok(())
    }

    /// Reads the next piece in the sender's memory.
    fn read_far(&mut self) -> Result<(), Trouble> {
        let Some(shm) = &self.lane.shm else { return Err(Trouble::Lost) };
        let (address, at) = (u64::from_le_bytes(self.address), self.at - FAR);
        let whole = self.data.len();
        let read = shm.other().copy(address.wrapping_add(at as u64), &mut self.data[at..], whole);
        // Whoever gives up, ends or dies meanwhile has said so, or its connection does.
        let (n, time) = read.map_err(|_| Trouble::Lost)?;
        self.at += n;
        if n >= self.fastest.0 && time < self.fastest.1 {
            self.fastest = (n, time);
        }
        if self.done() {
            shm.own().came(self.fastest.0, self.fastest.1);
            if !shm.own().take(shm.other()) {
                return Err(Trouble::Lost);
            }
            self.lane.ring(ROOM);
        }
        Ok(())
    }
}

pub(super) enum Trouble {
    /// Why, the monitor knows.
    Lost,
    /// The ranks are in different operations, or TLS has found something wrong with what the peer sends.
    Known(String),
}

impl Trouble {
    pub fn of(peer: usize, e: &std::io::Error) -> Trouble {
        match Fault::of(e) {
            Some(fault) => Trouble::Known(format!("rank {peer} {fault}")),
            None => Trouble::Lost,
        }
    }
}
