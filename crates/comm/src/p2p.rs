//! Matching of point-to-point messages with receives, by sender and tag. Knows no transport.

use std::collections::VecDeque;

use crate::request::{ANY_RANK, Header};
use crate::transport::PointToPoint;

/// A completed or failed receive, for the caller to announce outside its locks.
pub(crate) type Outcome = (PointToPoint, Result<(), String>);

/// What one rank has asked for and what has come unasked.
pub(crate) struct Inbox {
    posted: Vec<VecDeque<PointToPoint>>,
    /// Receives that take a message of any rank.
    posted_any: VecDeque<PointToPoint>,
    early: Vec<VecDeque<Early>>,
    arrivals: u64,
}

struct Early {
    /// The number of messages that came before it.
    arrival: u64,
    header: Header,
    data: Vec<u8>,
}

impl Inbox {
    pub fn new(n: usize) -> Inbox {
        Inbox {
            posted: (0..n).map(|_| VecDeque::new()).collect(),
            posted_any: VecDeque::new(),
            early: (0..n).map(|_| VecDeque::new()).collect(),
            arrivals: 0,
        }
    }

    /// A receive is wanted: completes it when its message is here already.
    pub fn post(&mut self, mut recv: PointToPoint) -> Option<Outcome> {
        let Some((src, at)) = self.find(&recv) else {
            let queue = if recv.peer == ANY_RANK { &mut self.posted_any } else { &mut self.posted[recv.peer] };
            queue.push_back(recv);
            return None;
        };
        let Early { header, data, .. } = self.early[src].remove(at)?;
        recv.meet(src);
        let result = fits(&recv, &header);
        if result.is_ok() {
            // SAFETY: the issuer of the receive keeps the span valid until the work is complete.
            unsafe { recv.span.bytes_mut() }.copy_from_slice(&data);
        }
        Some((recv, result))
    }

    /// The message that is here for a receive: its sender and its place. The first that came, if several may be meant.
    fn find(&self, recv: &PointToPoint) -> Option<(usize, usize)> {
        let of = |src: usize| {
            let at = self.early[src].iter().position(|early| early.header.stamp.tag == recv.stamp.tag)?;
            Some((self.early[src][at].arrival, src, at))
        };
        let found = match recv.peer {
            ANY_RANK => (0..self.early.len()).filter_map(of).min(),
            src => of(src),
        };
        found.map(|(_, src, at)| (src, at))
    }

    /// The receive that waits for a message of `src` with this header, taken out: the one that was posted first.
    pub fn take(&mut self, src: usize, header: &Header) -> Option<PointToPoint> {
        let first = |queue: &VecDeque<PointToPoint>| {
            let at = queue.iter().position(|p| p.stamp.tag == header.stamp.tag)?;
            Some((queue[at].stamp.seq, at))
        };
        let mut recv = match (first(&self.posted[src]), first(&self.posted_any)) {
            (Some((seq, at)), any) if any.is_none_or(|(other, _)| seq < other) => self.posted[src].remove(at),
            (_, Some((_, at))) => self.posted_any.remove(at),
            _ => None,
        }?;
        recv.meet(src);
        Some(recv)
    }

    /// A whole message of `src` is here: completes the receive that waits for it, or keeps it.
    pub fn deliver(&mut self, src: usize, header: Header, data: Vec<u8>) -> Option<Outcome> {
        let recv = self.take(src, &header);
        self.early[src].push_back(Early { arrival: self.arrivals, header, data });
        self.arrivals += 1;
        self.post(recv?)
    }

    /// Bytes of `src` that are kept.
    pub fn early_bytes(&self, src: usize) -> usize {
        self.early[src].iter().map(|early| early.data.len()).sum()
    }

    /// Whether no message for this receive is here.
    pub fn lacks(&self, recv: &PointToPoint) -> bool {
        self.find(recv).is_none()
    }

    /// Whether a receive waits that a later message of `src` may be for.
    pub fn is_wanted(&self, src: usize) -> bool {
        !self.posted[src].is_empty() || !self.posted_any.is_empty()
    }

    /// All receives that wait.
    pub fn drain(&mut self) -> Vec<PointToPoint> {
        self.posted.iter_mut().chain([&mut self.posted_any]).flat_map(|p| p.drain(..)).collect()
    }

    /// All receives that wait for `src` alone.
    pub fn drain_from(&mut self, src: usize) -> Vec<PointToPoint> {
        self.posted[src].drain(..).collect()
    }

    /// All receives that wait for any rank.
    pub fn drain_any(&mut self) -> Vec<PointToPoint> {
        self.posted_any.drain(..).collect()
    }
}

/// Sender and receiver must mean the same elements.
pub(crate) fn fits(recv: &PointToPoint, header: &Header) -> Result<(), String> {
    let same = header.bytes == recv.span.len as u64 && header.stamp.dtype == recv.stamp.dtype;
    if same {
        return Ok(());
    }
    Err(format!(
        "ranks are out of step (desync): this rank is in {}, rank {} is in {}",
        recv.stamp, recv.peer, header.stamp
    ))
}

/// Words for a peer that is gone.
pub(crate) fn gone(peer: usize) -> String {
    match peer {
        ANY_RANK => "all other ranks have left the group".to_owned(),
        peer => format!("rank {peer} has left the group"),
    }
}
