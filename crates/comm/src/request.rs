//! What can be asked of a process group, and the stamp every message of a request carries.
//!
//! Nothing here moves a byte: a [`Request`] is plain data that a backend runs.

use std::fmt;

use oneflow_base::{DType, Error, Result};

use crate::purpose;

/// How elements of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReduceOp {
    Sum = 0,
    /// The sum divided by the number of ranks; integers truncate.
    Avg,
    Product,
    Min,
    Max,
    BitAnd,
    BitOr,
    BitXor,
}

impl ReduceOp {
    pub const ALL: [ReduceOp; 8] = {
        use ReduceOp::*;
        [Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor]
    };

    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 8] = ["sum", "avg", "product", "min", "max", "band", "bor", "bxor"];
        NAMES[self as usize]
    }

    pub fn from_name(name: &str) -> Option<ReduceOp> {
        Self::ALL.into_iter().find(|op| op.name().eq_ignore_ascii_case(name))
    }

    /// Whether it means something for a dtype.
    pub(crate) fn check(self, kind: Kind, dtype: DType) -> Result<()> {
        use ReduceOp::*;
        let supported = match self {
            // Nobody adds numbers of these; they are broadcast and gathered as bytes.
            _ if dtype.is_limited() => false,
            Sum => true,
            Avg => dtype != DType::Bool,
            Product | Min | Max => !dtype.is_complex(),
            BitAnd | BitOr | BitXor => dtype.is_int() || dtype == DType::Bool,
        };
        if supported {
            return Ok(());
        }
        Err(Error::not_implemented(format!("{kind}: reduce op {self} is not defined for {dtype}")))
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The operations, as counted and as named in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    AllReduce = 0,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter,
    Barrier,
    Send,
    Recv,
}

impl Kind {
    pub const ALL: [Kind; 11] = {
        use Kind::*;
        [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, Gather, Scatter, Barrier, Send, Recv]
    };

    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 11] = [
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "broadcast",
            "reduce",
            "gather",
            "scatter",
            "barrier",
            "send",
            "recv",
        ];
        NAMES[self as usize]
    }

    pub fn from_name(name: &str) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes that somebody else keeps alive and unaliased until the request is complete.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub ptr: *mut u8,
    pub len: usize,
}

// SAFETY: a span is an address and a length; whoever hands it over promises (see `ProcessGroup::issue`) that the memory
// stays valid and is not touched elsewhere until the request is complete, from whichever thread it is used.
unsafe impl Send for Span {}
// SAFETY: as above; a shared span gives no access by itself.
unsafe impl Sync for Span {}

impl Span {
    pub const EMPTY: Span = Span { ptr: std::ptr::NonNull::dangling().as_ptr(), len: 0 };

    /// For a request that only reads the bytes.
    pub fn of(bytes: &[u8]) -> Span {
        Span { ptr: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }

    pub fn of_mut(bytes: &mut [u8]) -> Span {
        Span { ptr: bytes.as_mut_ptr(), len: bytes.len() }
    }

    /// These bytes of it.
    ///
    /// # Panics
    /// If it has fewer.
    pub(crate) fn part(self, range: std::ops::Range<usize>) -> Span {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} bytes", self.len);
        Span { ptr: self.ptr.wrapping_add(range.start), len: range.len() }
    }

    /// # Safety
    /// The promise of `ProcessGroup::issue` holds and nobody writes to the bytes while the slice lives.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller's promise; the length is not zero, so the pointer is a real one.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// # Safety
    /// The promise of `ProcessGroup::issue` holds and nobody else uses the bytes while the slice lives.
    pub(crate) unsafe fn bytes_mut<'a>(self) -> &'a mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the caller's promise; the length is not zero, so the pointer is a real one.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

/// The source of a receive that takes the next message of whichever rank.
pub const ANY_RANK: usize = usize::MAX;

/// One operation on a group. Counts are elements, one per rank of the group.
#[derive(Clone, Debug)]
pub enum Request {
    /// Reduce `data` over all ranks, in place.
    AllReduce {
        data: Span,
        dtype: DType,
        op: ReduceOp,
    },
    /// `output` = the ranks' inputs one after the other; rank `i` brings `counts[i]` elements.
    AllGather {
        output: Span,
        input: Span,
        counts: Vec<usize>,
        dtype: DType,
    },
    /// Reduce `input` over all ranks; rank `i` keeps the `i`-th piece of `counts[i]` elements in `output`.
    ReduceScatter {
        output: Span,
        input: Span,
        counts: Vec<usize>,
        dtype: DType,
        op: ReduceOp,
    },
    /// Piece `i` of `input` goes to rank `i`; piece `i` of `output` comes from rank `i`.
    AllToAll {
        output: Span,
        recv_counts: Vec<usize>,
        input: Span,
        send_counts: Vec<usize>,
        dtype: DType,
    },
    /// `data` of `root` to everybody.
    Broadcast {
        data: Span,
        dtype: DType,
        root: usize,
    },
    /// Reduce into `data` of `root`; the other ranks' data are left as they were.
    Reduce {
        data: Span,
        dtype: DType,
        op: ReduceOp,
        root: usize,
    },
    /// `output` of `root` = the inputs of all ranks; elsewhere `output` is empty.
    Gather {
        output: Span,
        input: Span,
        dtype: DType,
        root: usize,
    },
    /// Piece `i` of `input` of `root` to `output` of rank `i`; elsewhere `input` is empty.
    Scatter {
        output: Span,
        input: Span,
        dtype: DType,
        root: usize,
    },
    /// Nobody leaves before everybody has come.
    Barrier,
    Send {
        data: Span,
        dtype: DType,
        dst: usize,
        tag: u32,
    },
    /// `src` may be [`ANY_RANK`].
    Recv {
        data: Span,
        dtype: DType,
        src: usize,
        tag: u32,
    },
}

impl Request {
    pub fn kind(&self) -> Kind {
        match self {
            Request::AllReduce { .. } => Kind::AllReduce,
            Request::AllGather { .. } => Kind::AllGather,
            Request::ReduceScatter { .. } => Kind::ReduceScatter,
            Request::AllToAll { .. } => Kind::AllToAll,
            Request::Broadcast { .. } => Kind::Broadcast,
            Request::Reduce { .. } => Kind::Reduce,
            Request::Gather { .. } => Kind::Gather,
            Request::Scatter { .. } => Kind::Scatter,
            Request::Barrier => Kind::Barrier,
            Request::Send { .. } => Kind::Send,
            Request::Recv { .. } => Kind::Recv,
        }
    }

    /// Checks what this rank alone can check, before any peer is involved.
    pub(crate) fn check(&self, rank: usize, size: usize) -> Result<()> {
        let kind = self.kind();
        match self {
            Request::AllReduce { data, dtype, op } => {
                op.check(kind, *dtype)?;
                whole(kind, "data", *data, *dtype)
            }
            Request::AllGather { output, input, counts, dtype } => {
                let total = total(kind, "counts", counts, size)?;
                sized(kind, "output", *output, total, *dtype)?;
                sized(kind, "input", *input, counts[rank], *dtype)
            }
            Request::ReduceScatter { output, input, counts, dtype, op } => {
                op.check(kind, *dtype)?;
                let total = total(kind, "counts", counts, size)?;
                sized(kind, "input", *input, total, *dtype)?;
                sized(kind, "output", *output, counts[rank], *dtype)
            }
            Request::AllToAll { output, recv_counts, input, send_counts, dtype } => {
                let sent = total(kind, "send_counts", send_counts, size)?;
                let received = total(kind, "recv_counts", recv_counts, size)?;
                sized(kind, "input", *input, sent, *dtype)?;
                sized(kind, "output", *output, received, *dtype)?;
                if send_counts[rank] != recv_counts[rank] {
                    return Err(Error::value(format!(
                        "{kind}: rank {rank} sends itself {} elements but expects {} from itself",
                        send_counts[rank], recv_counts[rank]
                    )));
                }
                Ok(())
            }
            Request::Broadcast { data, dtype, root } => {
                member(kind, "root", *root, size)?;
                whole(kind, "data", *data, *dtype)
            }
            Request::Reduce { data, dtype, op, root } => {
                op.check(kind, *dtype)?;
                member(kind, "root", *root, size)?;
                whole(kind, "data", *data, *dtype)
            }
            Request::Gather { output, input, dtype, root } => {
                member(kind, "root", *root, size)?;
                let count = if rank == *root { input.len / dtype.size() * size } else { 0 };
                whole(kind, "input", *input, *dtype)?;
                sized(kind, "output", *output, count, *dtype)
            }
            Request::Scatter { output, input, dtype, root } => {
                member(kind, "root", *root, size)?;
                let count = if rank == *root { output.len / dtype.size() * size } else { 0 };
                whole(kind, "output", *output, *dtype)?;
                sized(kind, "input", *input, count, *dtype)
            }
            Request::Barrier => Ok(()),
            Request::Recv { data, dtype, src: ANY_RANK, .. } => {
                if size == 1 {
                    return Err(Error::value(format!("{kind}: there is no other rank in the group to receive from")));
                }
                whole(kind, "data", *data, *dtype)
            }
            Request::Send { data, dtype, dst: peer, .. } | Request::Recv { data, dtype, src: peer, .. } => {
                member(kind, if kind == Kind::Send { "dst" } else { "src" }, *peer, size)?;
                if *peer == rank {
                    return Err(Error::value(format!("{kind}: rank {rank} cannot be its own peer")));
                }
                whole(kind, "data", *data, *dtype)
            }
        }
    }

    /// What the other ranks must agree with. `seq` and `comm` are filled in by the group.
    pub(crate) fn stamp(&self) -> Stamp {
        let (dtype, op, elements, root, tag) = match self {
            Request::AllReduce { data, dtype, op } => (Some(*dtype), Some(*op), data.len / dtype.size(), 0, 0),
            Request::AllGather { output, dtype, .. } => (Some(*dtype), None, output.len / dtype.size(), 0, 0),
            Request::ReduceScatter { input, dtype, op, .. } => {
                (Some(*dtype), Some(*op), input.len / dtype.size(), 0, 0)
            }
            // Each rank sends and receives another number of elements: only the pairs can be compared, by length.
            Request::AllToAll { dtype, .. } => (Some(*dtype), None, 0, 0, 0),
            Request::Broadcast { data, dtype, root } => (Some(*dtype), None, data.len / dtype.size(), *root, 0),
            Request::Reduce { data, dtype, op, root } => (Some(*dtype), Some(*op), data.len / dtype.size(), *root, 0),
            Request::Gather { input, dtype, root, .. } => (Some(*dtype), None, input.len / dtype.size(), *root, 0),
            Request::Scatter { output, dtype, root, .. } => (Some(*dtype), None, output.len / dtype.size(), *root, 0),
            Request::Barrier => (None, None, 0, 0, 0),
            Request::Send { data, dtype, tag, .. } | Request::Recv { data, dtype, tag, .. } => {
                (Some(*dtype), None, data.len / dtype.size(), 0, *tag)
            }
        };
        let kind = self.kind();
        let tag = if matches!(kind, Kind::Send | Kind::Recv) { tag } else { purpose::current() };
        Stamp { comm: 0, seq: 0, kind, op, dtype, root: root as u32, tag, elements: elements as u64 }
    }
}

/// What identifies a request on the wire: two ranks that meet with different stamps are out of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub comm: u64,
    pub seq: u64,
    pub kind: Kind,
    pub op: Option<ReduceOp>,
    pub dtype: Option<DType>,
    pub root: u32,
    /// Of a message; of a collective the number of its purpose.
    pub tag: u32,
    pub elements: u64,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}(", self.seq, self.kind)?;
        if let Some(dtype) = self.dtype {
            write!(f, "{dtype}")?;
            if self.kind != Kind::AllToAll {
                write!(f, ", {} elements", self.elements)?;
            }
        }
        if let Some(op) = self.op {
            write!(f, ", {op}")?;
        }
        match self.kind {
            Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter => write!(f, ", root {}", self.root)?,
            Kind::Send | Kind::Recv => write!(f, ", tag {}", self.tag)?,
            _ => {}
        }
        f.write_str(")")?;
        if self.tag != 0 && !matches!(self.kind, Kind::Send | Kind::Recv) {
            write!(f, " for {}", purpose::words(self.tag))?;
        }
        Ok(())
    }
}

const MAGIC: u32 = 0x314d_4f43;
const NONE: u8 = 0xff;

/// The header before every payload: the sender's stamp and the number of bytes that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub stamp: Stamp,
    pub bytes: u64,
}

impl Header {
    pub const LEN: usize = 48;

    pub fn encode(&self) -> [u8; Self::LEN] {
        let s = &self.stamp;
        let mut out = [0; Self::LEN];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4] = s.kind as u8;
        out[5] = s.op.map_or(NONE, |op| op as u8);
        out[6] = s.dtype.map_or(NONE, |dtype| dtype as u8);
        out[8..12].copy_from_slice(&s.root.to_le_bytes());
        out[12..16].copy_from_slice(&s.tag.to_le_bytes());
        out[16..24].copy_from_slice(&s.comm.to_le_bytes());
        out[24..32].copy_from_slice(&s.seq.to_le_bytes());
        out[32..40].copy_from_slice(&s.elements.to_le_bytes());
        out[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        out
    }

    /// `None` when the bytes cannot have come from a peer of this protocol.
    pub fn decode(raw: &[u8; Self::LEN]) -> Option<Header> {
        let u32_at = |at: usize| raw[at..at + 4].iter().rev().fold(0u32, |v, &b| v << 8 | u32::from(b));
        let u64_at = |at: usize| raw[at..at + 8].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        if u32_at(0) != MAGIC || raw[7] != 0 {
            return None;
        }
        let kind = *Kind::ALL.get(raw[4] as usize)?;
        let op = if raw[5] == NONE { None } else { Some(*ReduceOp::ALL.get(raw[5] as usize)?) };
        let dtype = if raw[6] == NONE { None } else { Some(DType::from_u8(raw[6])?) };
        Some(Header {
            stamp: Stamp {
                comm: u64_at(16),
                seq: u64_at(24),
                kind,
                op,
                dtype,
                root: u32_at(8),
                tag: u32_at(12),
                elements: u64_at(32),
            },
            bytes: u64_at(40),
        })
    }

    /// `Err` with the words for a desync error when `self`, received from `peer`, is not what `rank` is doing.
    pub fn expect(&self, mine: &Stamp, bytes: usize, rank: usize, peer: usize) -> Result<(), String> {
        if self.stamp != *mine {
            return Err(format!(
                "ranks are out of step (desync): rank {rank} is in {mine}, rank {peer} is in {}",
                self.stamp
            ));
        }
        if self.bytes != bytes as u64 {
            return Err(format!(
                "ranks are out of step (desync): in {mine} rank {rank} expects {bytes} bytes from rank {peer}, which \
                 sends {}",
                self.bytes
            ));
        }
        Ok(())
    }
}

fn member(kind: Kind, arg: &str, peer: usize, size: usize) -> Result<()> {
    if peer < size {
        return Ok(());
    }
    Err(Error::value(format!("{kind}: {arg} is rank {peer}, but the group has {size} ranks")))
}

fn whole(kind: Kind, arg: &str, span: Span, dtype: DType) -> Result<()> {
    if span.len.is_multiple_of(dtype.size()) {
        return Ok(());
    }
    Err(Error::value(format!("{kind}: {arg} has {} bytes, not a whole number of {dtype} elements", span.len)))
}

fn sized(kind: Kind, arg: &str, span: Span, elements: usize, dtype: DType) -> Result<()> {
    if elements.checked_mul(dtype.size()) == Some(span.len) {
        return Ok(());
    }
    Err(Error::value(format!("{kind}: {arg} has {} bytes, expected {elements} elements of {dtype}", span.len)))
}

fn total(kind: Kind, arg: &str, counts: &[usize], size: usize) -> Result<usize> {
    if counts.len() != size {
        return Err(Error::value(format!(
            "{kind}: {arg} has {} entries, but the group has {size} ranks",
            counts.len()
        )));
    }
    counts
        .iter()
        .try_fold(0usize, |sum, &n| sum.checked_add(n))
        .ok_or_else(|| Error::value(format!("{kind}: the sum of {arg} overflows")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire_and_garbage_does_not() {
        let request = Request::Broadcast { data: Span { len: 12, ..Span::EMPTY }, dtype: DType::F32, root: 3 };
        let header = Header { stamp: Stamp { comm: 7, seq: 9, ..request.stamp() }, bytes: 12 };
        let raw = header.encode();
        assert_eq!(Header::decode(&raw), Some(header));
        for at in [0, 4, 5, 6, 7] {
            let mut bad = raw;
            bad[at] = 0x77;
            assert_eq!(Header::decode(&bad), None, "byte {at}");
        }
        let other = Stamp { seq: 10, ..header.stamp };
        let text = header.expect(&other, 12, 0, 1).unwrap_err();
        assert!(text.contains("#10 broadcast(float32, 3 elements, root 3)") && text.contains("rank 1 is in #9"));
        assert!(header.expect(&header.stamp, 8, 0, 1).unwrap_err().contains("expects 8 bytes"));
    }

    #[test]
    fn counts_that_overflow_are_an_error() {
        let request = Request::AllGather {
            output: Span::EMPTY,
            input: Span::EMPTY,
            counts: vec![usize::MAX, 2],
            dtype: DType::F32,
        };
        assert!(request.check(0, 2).unwrap_err().text().contains("overflows"));
        let request = Request::AllGather {
            output: Span::EMPTY,
            input: Span::EMPTY,
            counts: vec![usize::MAX / 2, 0],
            dtype: DType::F32,
        };
        assert!(request.check(0, 2).unwrap_err().text().contains("expected"));
    }
}
