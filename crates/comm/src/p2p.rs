//! Matching of point-to-point messages with receives, by sender and tag. Knows no transport.

use std::collections::VecDeque;

use crate::request::Header;
use crate::transport::PointToPoint;

/// A completed or failed receive, for the caller to announce outside its locks.
pub(crate) type Outcome = (PointToPoint, Result<(), String>);

/// What one rank has asked for and what has come unasked.
pub(crate) struct Inbox {
    posted: Vec<VecDeque<PointToPoint>>,
    early: Vec<VecDeque<(Header, Vec<u8>)>>,
}

impl Inbox {
    pub fn new(n: usize) -> Inbox {
        Inbox { posted: (0..n).map(|_| VecDeque::new()).collect(), early: (0..n).map(|_| VecDeque::new()).collect() }
    }

    /// A receive is wanted: completes it when its message is here already.
    pub fn post(&mut self, recv: PointToPoint) -> Option<Outcome> {
        let early = &mut self.early[recv.peer];
        let Some((header, data)) =
            early.iter().position(|(h, _)| h.stamp.tag == recv.stamp.tag).and_then(|i| early.remove(i))
        else {
            self.posted[recv.peer].push_back(recv);
            return None;
        };
        let result = fits(&recv, &header);
        if result.is_ok() {
            // SAFETY: the issuer of the receive keeps the span valid until the work is complete.
            unsafe { recv.span.bytes_mut() }.copy_from_slice(&data);
        }
        Some((recv, result))
    }

    /// The receive that waits for a message of `src` with this header, taken out.
    pub fn take(&mut self, src: usize, header: &Header) -> Option<PointToPoint> {
        let posted = &mut self.posted[src];
        posted.iter().position(|p| p.stamp.tag == header.stamp.tag).and_then(|i| posted.remove(i))
    }

    /// A whole message of `src` is here: completes the receive that waits for it, or keeps it.
    pub fn deliver(&mut self, src: usize, header: Header, data: Vec<u8>) -> Option<Outcome> {
        self.early[src].push_back((header, data));
        let recv = self.take(src, &header)?;
        self.post(recv)
    }

    /// Bytes of `src` that are kept.
    pub fn early_bytes(&self, src: usize) -> usize {
        self.early[src].iter().map(|(_, data)| data.len()).sum()
    }

    /// Whether no message for this receive is here.
    pub fn lacks(&self, recv: &PointToPoint) -> bool {
        !self.early[recv.peer].iter().any(|(h, _)| h.stamp.tag == recv.stamp.tag)
    }

    /// All receives that wait.
    pub fn drain(&mut self) -> Vec<PointToPoint> {
        self.posted.iter_mut().flat_map(|p| p.drain(..)).collect()
    }

    /// All receives that wait for `src`.
    pub fn drain_from(&mut self, src: usize) -> Vec<PointToPoint> {
        self.posted[src].drain(..).collect()
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
