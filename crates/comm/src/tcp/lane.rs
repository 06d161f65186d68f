//! The way to one peer, of collectives or of messages, and what is sent and received on it so far. Waits for nothing.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// One message on its way out: header, then payload.
pub(super) struct Out<'a> {
    pub peer: usize,
    pub lane: &'a Lane,
    pub header: [u8; Header::LEN],
    pub data: &'a [u8],
    pub at: usize,
}

/// One message on its way in.
pub(super) struct In<'a, 'b> {
    pub peer: usize,
    pub lane: &'a Lane,
    pub header: [u8; Header::LEN],
    pub data: &'b mut [u8],
    pub at: usize,
}

impl Out<'_> {
    pub fn done(&self) -> bool {
        self.at == Header::LEN + self.data.len()
    }

    /// Sends what the socket takes now.
    pub fn progress(&mut self) -> std::io::Result<()> {
        while !self.done() {
            self.at += match self.lane.send(&self.header, self.data, self.at) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
        }
        Ok(())
    }
}

impl In<'_, '_> {
    pub fn done(&self) -> bool {
        self.at == Header::LEN + self.data.len()
    }

    /// Receives what has come. Never reads beyond this message: the next one belongs to another exchange.
    pub fn progress(&mut self, stamp: &Stamp, rank: usize) -> Result<(), Trouble> {
        while !self.done() {
            let target = match self.at < Header::LEN {
                true => &mut self.header[self.at..],
                false => &mut self.data[self.at - Header::LEN..],
            };
            match self.lane.receive(target) {
                Ok(0) => return Err(Trouble::Lost),
                Ok(n) => self.at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(Trouble::of(self.peer, &e)),
            }
            if self.at == Header::LEN {
                let header = Header::decode(&self.header)
                    .ok_or_else(|| Trouble::Known(format!("rank {} sends something that is no message", self.peer)))?;
                header.expect(stamp, self.data.len(), rank, self.peer).map_err(Trouble::Known)?;
            }
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
