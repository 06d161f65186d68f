//! What the caching allocator counts, under the names and with the meanings that PyTorch gives them.
//!
//! A block is allocated from `alloc` to `free`; it stays active until every stream is done with it. A free part of a segment whose
//! rest is in use is an inactive split: it can be handed out, but not given back to the driver.

/// One count: now, the most since the last reset, and the sums of what came and went.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stat {
    pub current: u64,
    pub peak: u64,
    pub allocated: u64,
    pub freed: u64,
}

impl Stat {
    fn add(&mut self, n: u64) {
        self.current += n;
        self.peak = self.peak.max(self.current);
        self.allocated += n;
    }
    fn sub(&mut self, n: u64) {
        self.current = self.current.saturating_sub(n);
        self.freed += n;
    }
}

/// What is counted, each of all, small and large blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Allocation,
    Segment,
    Active,
    InactiveSplit,
    AllocatedBytes,
    ReservedBytes,
    ActiveBytes,
    InactiveSplitBytes,
    /// As asked for, before rounding.
    RequestedBytes,
}

/// Names of the kinds, in their order.
pub const KINDS: [&str; 9] = [
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
];
/// Names of the columns of a kind, in their order.
pub const SIZES: [&str; 3] = ["all", "small_pool", "large_pool"];

/// The counts of one device's allocator.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stats {
    of: [[Stat; SIZES.len()]; KINDS.len()],
    /// Allocations that gave cached memory back to the driver and tried again.
    pub n_retries: u64,
    pub n_out_of_memory: u64,
    /// Segments obtained from the driver and given back to it.
    pub n_obtained: u64,
    pub n_returned: u64,
}

impl Stats {
    /// (all, small, large).
    pub fn of(&self, kind: Kind) -> [Stat; 3] {
        self.of[kind as usize]
    }
    pub fn all(&self, kind: Kind) -> Stat {
        self.of[kind as usize][0]
    }
    pub fn table(&self) -> impl Iterator<Item = (&'static str, [Stat; 3])> {
        KINDS.into_iter().zip(self.of)
    }

    pub(super) fn add(&mut self, kind: Kind, small: bool, n: usize) {
        let of = &mut self.of[kind as usize];
        of[0].add(n as u64);
        of[if small { 1 } else { 2 }].add(n as u64);
    }
    pub(super) fn sub(&mut self, kind: Kind, small: bool, n: usize) {
        let of = &mut self.of[kind as usize];
        of[0].sub(n as u64);
        of[if small { 1 } else { 2 }].sub(n as u64);
    }
    /// Makes `n` the present count.
    pub(super) fn set(&mut self, kind: Kind, small: bool, n: usize) {
        let now = self.of[kind as usize][if small { 1 } else { 2 }].current as usize;
        if n > now {
            self.add(kind, small, n - now);
        } else if n < now {
            self.sub(kind, small, now - n);
        }
    }

    pub(super) fn reset_peak(&mut self) {
        self.of.iter_mut().flatten().for_each(|s| s.peak = s.current);
    }
    pub(super) fn reset_accumulated(&mut self) {
        self.of.iter_mut().flatten().for_each(|s| (s.allocated, s.freed) = (0, 0));
        (self.n_retries, self.n_out_of_memory, self.n_obtained, self.n_returned) = (0, 0, 0, 0);
    }
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    pub address: usize,
    pub bytes: usize,
    pub requested: usize,
    pub state: BlockState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    Allocated,
    /// Freed, but some stream may still be using it.
    PendingFree,
    Free,
}

/// Memory obtained from the driver in one piece.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    pub address: usize,
    pub stream: usize,
    pub is_small: bool,
    /// The private pool of captured graphs it belongs to; zero: none.
    pub private_pool: u32,
    /// Whether it grows at its end.
    pub is_expandable: bool,
    pub blocks: Vec<BlockInfo>,
}
