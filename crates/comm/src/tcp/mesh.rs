//! The collective lane: one exchange of messages at a time, all its sends and receives progressing together.

use std::io::{ErrorKind, IoSlice, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::form::{self, Site};
use super::monitor::{Link, Monitor};
use crate::engine::{PointToPoint, Transport};
use crate::request::{Header, Stamp};

/// The connections of this rank with the others of one group.
pub(crate) struct Mesh {
    rank: usize,
    data: Vec<Option<TcpStream>>,
    monitor: Arc<Monitor>,
    /// `None` in a world of one, where no sub-group needs a peer either.
    site: Option<Arc<Site>>,
}

impl Mesh {
    pub(super) fn form(
        site: Option<Arc<Site>>,
        name: &str,
        rank: usize,
        size: usize,
        timeout: Duration,
    ) -> Result<Mesh> {
        let lanes = match &site {
            Some(site) if size > 1 => form::connect(site, name, rank, size, timeout)?,
            _ => (0..size).map(|_| None).collect(),
        };
        let mut data = Vec::with_capacity(size);
        let mut links = Vec::with_capacity(size);
        for lanes in lanes {
            let (stream, link) = match lanes {
                Some(lanes) => (Some(lanes.data), Some(Link { p2p: lanes.p2p, control: lanes.control })),
                None => (None, None),
            };
            data.push(stream);
            links.push(link);
        }
        let monitor = Monitor::start(name, rank, links)?;
        Ok(Mesh { rank, data, monitor, site })
    }

    fn stream(&self, peer: usize) -> Result<&TcpStream, String> {
        self.data[peer].as_ref().ok_or_else(|| format!("no connection to rank {peer}"))
    }
}

/// One message on its way out: header, then payload.
struct Out<'a> {
    peer: usize,
    stream: &'a TcpStream,
    header: [u8; Header::LEN],
    data: &'a [u8],
    at: usize,
}

/// One message on its way in.
struct In<'a, 'b> {
    peer: usize,
    stream: &'a TcpStream,
    header: [u8; Header::LEN],
    data: &'b mut [u8],
    at: usize,
}

impl Out<'_> {
    fn done(&self) -> bool {
        self.at == Header::LEN + self.data.len()
    }

    /// Sends what the socket takes now.
    fn progress(&mut self) -> std::io::Result<()> {
        while !self.done() {
            self.at += match send_some(self.stream, &self.header, self.data, self.at) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
        }
        Ok(())
    }
}

impl In<'_, '_> {
    fn done(&self) -> bool {
        self.at == Header::LEN + self.data.len()
    }

    /// Receives what has come. Never reads beyond this message: the next one belongs to another exchange.
    fn progress(&mut self, stamp: &Stamp, rank: usize) -> Result<(), Trouble> {
        while !self.done() {
            let target = match self.at < Header::LEN {
                true => &mut self.header[self.at..],
                false => &mut self.data[self.at - Header::LEN..],
            };
            match (&mut &*self.stream).read(target) {
                Ok(0) => return Err(Trouble::Lost),
                Ok(n) => self.at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Trouble::Lost),
            }
            if self.at == Header::LEN {
                let header = Header::decode(&self.header)
                    .ok_or_else(|| Trouble::Desync(format!("rank {} sends something that is no message", self.peer)))?;
                header.expect(stamp, self.data.len(), rank, self.peer).map_err(Trouble::Desync)?;
            }
        }
        Ok(())
    }
}

enum Trouble {
    Lost,
    Desync(String),
}

impl Transport for Mesh {
    const NAME: &'static str = "tcp";

    fn exchange(
        &self,
        stamp: &Stamp,
        sends: &[(usize, &[u8])],
        recvs: &mut [(usize, &mut [u8])],
        deadline: Instant,
    ) -> Result<(), String> {
        let mut outs = Vec::with_capacity(sends.len());
        for &(peer, data) in sends {
            let header = Header { stamp: *stamp, bytes: data.len() as u64 }.encode();
            outs.push(Out { peer, stream: self.stream(peer)?, header, data, at: 0 });
        }
        let mut ins = Vec::with_capacity(recvs.len());
        for (peer, data) in recvs {
            ins.push(In { peer: *peer, stream: self.stream(*peer)?, header: [0; Header::LEN], data, at: 0 });
        }
        loop {
            for out in outs.iter_mut().filter(|out| !out.done()) {
                out.progress().map_err(|_| self.monitor.why_lost(out.peer))?;
            }
            for incoming in ins.iter_mut().filter(|incoming| !incoming.done()) {
                incoming.progress(stamp, self.rank).map_err(|trouble| match trouble {
                    Trouble::Lost => self.monitor.why_lost(incoming.peer),
                    Trouble::Desync(text) => text,
                })?;
            }
            let wake = self.monitor.lane_wake();
            let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
            fds.extend(outs.iter().filter(|o| !o.done()).map(|o| PollFd::new(o.stream, PollFlags::OUT)));
            fds.extend(ins.iter().filter(|i| !i.done()).map(|i| PollFd::new(i.stream, PollFlags::IN)));
            if fds.len() == 1 {
                return Ok(());
            }
            // After the attempt: what a peer sent before it failed still counts.
            if let Some(cause) = self.monitor.failure() {
                return Err(cause);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let unsent = outs.iter().filter(|o| !o.done()).map(|o| o.peer);
                let mut missing: Vec<usize> = ins.iter().filter(|i| !i.done()).map(|i| i.peer).chain(unsent).collect();
                missing.sort_unstable();
                missing.dedup();
                return Err(format!("timed out waiting for rank(s) {missing:?}"));
            }
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(format!("poll: {e}")),
            }
        }
    }

    unsafe fn post(&self, p2p: PointToPoint) {
        // SAFETY: the same promise.
        unsafe { self.monitor.post(p2p) }
    }

    fn fail(&self, cause: &str) {
        self.monitor.fail(cause);
    }

    fn failure(&self) -> Option<String> {
        self.monitor.failure()
    }

    fn close(&self) {
        self.monitor.close();
        // Peers that still wait for this rank see the end at once, even while handles of the group live on.
        self.data.iter().flatten().for_each(|stream| drop(stream.shutdown(Shutdown::Write)));
    }

    fn form(&self, name: &str, ranks: &[usize], timeout: Duration) -> Result<Self> {
        let rank = ranks.iter().position(|&r| r == self.rank);
        let rank = rank.ok_or_else(|| Error::runtime(format!("rank {} is no member of {name}", self.rank)))?;
        let timeout = self.site.as_ref().map_or(timeout, |site| super::store_timeout(site, timeout));
        Mesh::form(self.site.clone(), name, rank, ranks.len(), timeout)
    }
}

/// Sends what the socket takes of header and payload from position `at` on. A closed peer is an error, not a signal.
pub(super) fn send_some(
    stream: &TcpStream,
    header: &[u8; Header::LEN],
    data: &[u8],
    at: usize,
) -> std::io::Result<usize> {
    let head = IoSlice::new(&header[at.min(Header::LEN)..]);
    let rest = IoSlice::new(&data[at.saturating_sub(Header::LEN)..]);
    let slices = if at < Header::LEN { &[head, rest][..] } else { &[rest][..] };
    loop {
        match sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

pub(super) fn timespec(duration: Duration) -> Timespec {
    let tv_sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(duration.subsec_nanos()) }
}
