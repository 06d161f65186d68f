//! What moves messages between the ranks of a group, and the turn that a collective has on it. Order and bookkeeping are the
//! engine's, bytes are the transport's.

use std::sync::Weak;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use crate::group::Counters;
use crate::request::{Span, Stamp};
use crate::work::{Drive, Work};

/// Moves messages between the ranks of one group.
pub(crate) trait Transport: Send + Sync + Sized + 'static {
    const NAME: &'static str;

    /// Sends and receives at most one message per peer, all at the same time. `Err` says why it cannot be done; words
    /// about the operation are added by the caller.
    fn exchange(
        &self,
        stamp: &Stamp,
        sends: &[(usize, &[u8])],
        recvs: &mut [(usize, &mut [u8])],
        deadline: Instant,
    ) -> Result<(), String>;

    /// Whether it has [`Transport::flow`].
    fn flows(&self) -> bool {
        false
    }

    /// Sends and receives messages, those of two ranks one after the other, each as soon as it may begin.
    ///
    /// # Safety
    /// The spans are valid for the call and used by nobody else. A span that is received into may be one that is sent, if the
    /// message is `behind` that one.
    unsafe fn flow(&self, _: &Stamp, _: Flow<'_>, _: Instant) -> Result<(), String> {
        Err(format!("{} has no flow of messages", Self::NAME))
    }

    /// Whether all ranks of the group are on one host; the same on all ranks.
    fn is_one_host(&self) -> bool {
        false
    }

    /// How many ranks each host has, where there are several hosts with equally many consecutive ranks; the same on all ranks.
    fn ranks_per_host(&self) -> Option<usize> {
        None
    }

    /// Starts a send or a receive that completes `work`.
    ///
    /// # Safety
    /// The promise of `ProcessGroup::issue` holds for the span.
    unsafe fn post(&self, p2p: PointToPoint);

    /// What a thread that waits for a message can do for it.
    fn drive(&self) -> Option<Weak<dyn Drive>> {
        None
    }

    /// Ends everything, here and on the other ranks. Only the first cause counts.
    fn fail(&self, cause: &str);
    /// As `fail`, in every group that this rank is part of, now or later, where the transport knows them all. Between processes
    /// the end of the process says the same.
    fn give_up(&self, cause: &str) {
        self.fail(cause);
    }
    fn failure(&self) -> Option<String>;
    /// This rank leaves in peace.
    fn close(&self);

    /// The transport of a new group of `ranks` (ranks of this group), which this rank is a member of.
    fn form(&self, name: &str, ranks: &[usize], timeout: Duration) -> Result<Self>;
}

/// Messages of one operation, those of two ranks in the same order on both.
pub(crate) struct Flow<'a> {
    pub sends: &'a [Piece],
    pub recvs: &'a [Piece],
    /// The receive of this number is complete. Returns how many steps are done.
    pub came: &'a mut dyn FnMut(usize) -> usize,
}

#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub peer: usize,
    pub span: Span,
    /// So many steps must be done before it begins.
    pub after: usize,
    /// So many messages must have left for its rank before it is received.
    pub behind: usize,
}

pub(crate) struct PointToPoint {
    /// A send or a receive.
    pub stamp: Stamp,
    pub peer: usize,
    pub span: Span,
    pub work: Work,
    /// The caller waits at once, and drives it.
    pub driven: bool,
}

impl PointToPoint {
    /// A receive has met its message: it is of this rank.
    pub fn meet(&mut self, src: usize) {
        self.peer = src;
        self.work.set_source(src);
    }
}

/// This process's place in a group.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    pub group: &'a str,
    pub rank: usize,
    pub size: usize,
}

impl Member<'_> {
    pub fn error(&self, stamp: &Stamp, cause: &str) -> Error {
        Error::runtime(format!("{stamp} on rank {} of group '{}': {cause}", self.rank, self.group))
    }
}

/// The right to use the collective lane for one operation.
pub(crate) struct Turn<'a, T> {
    pub transport: &'a T,
    pub counters: &'a Counters,
    pub member: Member<'a>,
    pub stamp: &'a Stamp,
    pub deadline: Instant,
}

impl<T: Transport> Turn<'_, T> {
    pub fn rank(&self) -> usize {
        self.member.rank
    }

    pub fn size(&self) -> usize {
        self.member.size
    }

    /// Every rank but this one, in order.
    pub fn peers(&self) -> impl Iterator<Item = usize> + use<T> {
        let rank = self.rank();
        (0..self.size()).filter(move |&p| p != rank)
    }

    pub fn exchange(&self, sends: &[(usize, &[u8])], recvs: &mut [(usize, &mut [u8])]) -> Result<()> {
        let bytes = sends.iter().map(|(_, data)| data.len()).sum();
        self.counters.add_bytes(self.stamp.kind, bytes);
        self.ended(self.transport.exchange(self.stamp, sends, recvs, self.deadline))
    }

    /// # Safety
    /// As for [`Transport::flow`].
    pub unsafe fn flow(&self, flow: Flow<'_>) -> Result<()> {
        let bytes = flow.sends.iter().map(|piece| piece.span.len).sum();
        self.counters.add_bytes(self.stamp.kind, bytes);
        // SAFETY: the caller's promise.
        self.ended(unsafe { self.transport.flow(self.stamp, flow, self.deadline) })
    }

    fn ended(&self, result: Result<(), String>) -> Result<()> {
        result.map_err(|cause| {
            // A cause that another rank reported is already known to all.
            self.transport.fail(&format!("{}: {cause}", self.stamp));
            self.member.error(self.stamp, &cause)
        })
    }
}
