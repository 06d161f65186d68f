//! The messages of a [`Flow`]: on each connection one after the other, each when it may begin.

use std::collections::VecDeque;

use super::lane::{In, Lane, Out};
use crate::request::Stamp;
use crate::transport::{Flow, Piece};

/// What is still to come on the connection with one rank.
struct Stream {
    peer: usize,
    sends: VecDeque<Piece>,
    /// With their numbers among all receives.
    recvs: VecDeque<(usize, Piece)>,
    sending: bool,
    /// The number of what is being received.
    receiving: Option<usize>,
    n_left: usize,
}

/// What is still to come of a flow.
pub(super) struct Streams<'f> {
    streams: Vec<Stream>,
    stamp: Stamp,
    came: &'f mut dyn FnMut(usize) -> usize,
    n_steps: usize,
}

impl<'f> Streams<'f> {
    /// # Safety
    /// As for `Transport::flow`, as long as this lives and messages that it has begun.
    pub unsafe fn of(peers: &[usize], flow: Flow<'f>, stamp: &Stamp) -> Self {
        let of = |peer: usize| Stream {
            peer,
            sends: flow.sends.iter().filter(|piece| piece.peer == peer).copied().collect(),
            recvs: flow.recvs.iter().copied().enumerate().filter(|(_, piece)| piece.peer == peer).collect(),
            sending: false,
            receiving: None,
            n_left: 0,
        };
        let streams = peers.iter().map(|&peer| of(peer)).collect();
        Streams { streams, stamp: *stamp, came: flow.came, n_steps: 0 }
    }

    /// Takes out messages that are through and begins others. Returns whether it began one.
    pub fn advance<'a>(
        &mut self,
        outs: &mut Vec<Out<'a>>,
        ins: &mut Vec<In<'a, '_>>,
        lane: &dyn Fn(usize) -> Result<&'a Lane, String>,
    ) -> Result<bool, String> {
        for stream in &mut self.streams {
            if stream.sending && outs.iter().any(|out| out.peer == stream.peer && out.done()) {
                stream.sending = false;
                stream.n_left += 1;
            }
            if stream.receiving.is_some()
                && ins.iter().any(|incoming| incoming.peer == stream.peer && incoming.done())
                && let Some(number) = stream.receiving.take()
            {
                self.n_steps = (self.came)(number);
            }
        }
        outs.retain(|out| !out.done());
        ins.retain(|incoming| !incoming.done());
        let mut begun = false;
        for stream in &mut self.streams {
            if !stream.sending
                && let Some(piece) = stream.sends.pop_front_if(|piece| piece.after <= self.n_steps)
            {
                // SAFETY: the promise of `of`; nothing writes to what is sent until it has left.
                let data = unsafe { piece.span.bytes() };
                outs.push(Out::new(stream.peer, lane(stream.peer)?, &self.stamp, data, true));
                (stream.sending, begun) = (true, true);
            }
            let (n_steps, n_left) = (self.n_steps, stream.n_left);
            if stream.receiving.is_none()
                && let Some((number, piece)) =
                    stream.recvs.pop_front_if(|(_, piece)| piece.after <= n_steps && piece.behind <= n_left)
            {
                // SAFETY: the promise of `of`; what was sent from here has left.
                let data = unsafe { piece.span.bytes_mut() };
                ins.push(In::new(stream.peer, lane(stream.peer)?, data));
                (stream.receiving, begun) = (Some(number), true);
            }
        }
        Ok(begun)
    }
}
