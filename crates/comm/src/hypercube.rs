//! Algorithms of groups with many ranks, in which a rank talks to log2(n) others and to its two neighbours in the ring.
//!
//! The first `p` ranks, the largest power of two, are the corners of a hypercube: partners differ in one bit. Each further
//! rank stands behind the corner `rank - p`, which speaks for it. Reductions are trees over the bits, the lower rank's part
//! first, so all ranks and all transports get the same bits; half types are rounded once for each of the log2(n) steps.
//! Pieces are kept in the order of corners, each followed by that of the rank behind it, so that what a sub-cube owns is
//! one range. An all-reduce begins between neighbours: where 2^k consecutive ranks share a host, each host sends and
//! receives the data once, whatever the number of its ranks. Data that each rank has for each other one do not go this way.

use std::ops::Range;

use oneflow_base::{DType, Result};

use crate::reduce;
use crate::request::{ReduceOp, Span};
use crate::transport::{Transport, Turn};

/// Up to this many bytes each step of a reduction takes all of them: half the steps, log2(n) times the bytes.
pub(crate) const SHORT: usize = 32 << 10;
/// Bytes of scratch memory, about, and the most that a gathering by the tree moves.
const SEGMENT: usize = 16 << 20;
/// A whole number of elements of every dtype.
const ALIGN: usize = 16;

/// A rank's place in the cube.
struct Cube<'a, 't, T> {
    turn: &'a Turn<'t, T>,
    rank: usize,
    n: usize,
    /// Corners.
    p: usize,
    /// Halving begins between neighbours, who are on one host, so that later steps, which leave it, move less.
    near_first: bool,
}

impl<'a, 't, T: Transport> Cube<'a, 't, T> {
    fn of(turn: &'a Turn<'t, T>) -> Self {
        let n = turn.size();
        Cube { turn, rank: turn.rank(), n, p: 1 << n.ilog2(), near_first: false }
    }

    /// The bits of a corner's number in the opposite order.
    fn turned(&self, corner: usize) -> usize {
        corner.reverse_bits().checked_shr(usize::BITS - self.p.ilog2()).unwrap_or(0)
    }

    /// Where this corner's pieces stand among those of all.
    fn place(&self) -> usize {
        if self.near_first { self.turned(self.rank) } else { self.rank }
    }

    /// The corner whose pieces stand at another place.
    fn at_place(&self, place: usize) -> usize {
        if self.near_first { self.turned(place) } else { place }
    }

    /// The corner that speaks for this rank, which is none.
    fn corner(&self) -> Option<usize> {
        self.rank.checked_sub(self.p)
    }

    /// The rank that this corner speaks for.
    fn behind(&self) -> Option<usize> {
        Some(self.rank + self.p).filter(|&rank| rank < self.n && self.rank < self.p)
    }

    /// The steps between corners, near ones first.
    fn distances(&self) -> impl DoubleEndedIterator<Item = usize> + use<T> {
        (0..self.p.ilog2()).map(|bit| 1 << bit)
    }

    fn send(&self, to: usize, data: &[u8]) -> Result<()> {
        self.turn.exchange(&[(to, data)], &mut [])
    }

    fn recv(&self, from: usize, data: &mut [u8]) -> Result<()> {
        self.turn.exchange(&[], &mut [(from, data)])
    }

    fn swap(&self, with: usize, data: &[u8], into: &mut [u8]) -> Result<()> {
        self.turn.exchange(&[(with, data)], &mut [(with, into)])
    }

    /// Where the pieces of each corner begin, by the lengths of the ranks' pieces; one more for the end.
    fn starts(&self, len: impl Fn(usize) -> usize) -> Vec<usize> {
        let mut starts = vec![0];
        let mut at = 0;
        for corner in 0..self.p {
            at += len(corner) + if corner + self.p < self.n { len(corner + self.p) } else { 0 };
            starts.push(at);
        }
        starts
    }

    /// The ranks in the order in which their pieces are kept.
    fn order(&self) -> impl Iterator<Item = usize> + use<T> {
        let (n, p) = (self.n, self.p);
        (0..p).flat_map(move |corner| [corner, corner + p]).filter(move |&rank| rank < n)
    }

    /// Takes in what the rank behind this corner has for a reduction.
    fn fold_in(&self, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
        let Some(behind) = self.behind() else { return Ok(()) };
        let mut theirs = vec![0; data.len()];
        self.recv(behind, &mut theirs)?;
        combine(data, &theirs, true, dtype, op);
        Ok(())
    }

    /// Recursive halving: afterwards the pieces of this corner are reduced over all.
    fn halve(&self, data: &mut [u8], starts: &[usize], dtype: DType, op: ReduceOp) -> Result<()> {
        let (mut low, mut high) = (0, self.p);
        let mut scratch = Vec::new();
        for distance in self.distances().rev() {
            let middle = low + distance;
            let lower = self.place() & distance == 0;
            let (mine, theirs) = if lower { (low..middle, middle..high) } else { (middle..high, low..middle) };
            let (keep, give) = (bytes(starts, &mine), bytes(starts, &theirs));
            if scratch.len() < keep.len() {
                scratch.resize(keep.len(), 0);
            }
            let got = &mut scratch[..keep.len()];
            self.swap(self.at_place(self.place() ^ distance), &data[give], got)?;
            combine(&mut data[keep], got, lower, dtype, op);
            (low, high) = (mine.start, mine.end);
        }
        Ok(())
    }

    /// Recursive doubling: afterwards the pieces of all corners are there.
    fn double(&self, data: &mut [u8], starts: &[usize]) -> Result<()> {
        for distance in self.distances() {
            let low = self.place() & !(distance - 1);
            let other = low ^ distance;
            let (mine, theirs) = (bytes(starts, &(low..low + distance)), bytes(starts, &(other..other + distance)));
            let (head, tail) = data.split_at_mut(starts[low.max(other)]);
            let (mine, theirs) = match low < other {
                true => (&head[mine], &mut tail[..theirs.len()]),
                false => (&tail[..mine.len()], &mut head[theirs]),
            };
            self.swap(self.at_place(self.place() ^ distance), mine, theirs)?;
        }
        Ok(())
    }
}

fn bytes(starts: &[usize], corners: &Range<usize>) -> Range<usize> {
    starts[corners.start]..starts[corners.end]
}

/// `own` = the reduction of both parts, the lower ranks' first. An average is a sum until the end.
fn combine(own: &mut [u8], other: &[u8], own_first: bool, dtype: DType, op: ReduceOp) {
    let op = if op == ReduceOp::Avg { ReduceOp::Sum } else { op };
    reduce::in_rank_order(own, usize::from(!own_first), &[other, other], dtype, op);
}

fn finish(data: &mut [u8], n: usize, dtype: DType, op: ReduceOp) {
    if op == ReduceOp::Avg {
        reduce::divide(data, n, dtype);
    }
}

pub(crate) fn all_reduce<T: Transport>(turn: &Turn<'_, T>, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
    let cube = Cube { near_first: true, ..Cube::of(turn) };
    // Nothing to reduce is still an operation in which ranks meet.
    for start in (0..data.len().max(1)).step_by(SEGMENT) {
        let end = data.len().min(start + SEGMENT);
        all_reduce_segment(&cube, &mut data[start..end], dtype, op)?;
    }
    Ok(())
}

fn all_reduce_segment<T: Transport>(cube: &Cube<'_, '_, T>, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
    if let Some(corner) = cube.corner() {
        cube.send(corner, data)?;
        return cube.recv(corner, data);
    }
    cube.fold_in(data, dtype, op)?;
    if data.len() <= SHORT {
        let mut theirs = vec![0; data.len()];
        for distance in cube.distances() {
            cube.swap(cube.rank ^ distance, data, &mut theirs)?;
            combine(data, &theirs, cube.rank & distance == 0, dtype, op);
        }
        finish(data, cube.n, dtype, op);
    } else {
        let count = data.len() / dtype.size();
        let piece = |corner: usize| (count / cube.p + usize::from(corner < count % cube.p)) * dtype.size();
        let mut starts = vec![0];
        (0..cube.p).for_each(|corner| starts.push(starts[corner] + piece(corner)));
        cube.halve(data, &starts, dtype, op)?;
        finish(&mut data[starts[cube.place()]..starts[cube.place() + 1]], cube.n, dtype, op);
        cube.double(data, &starts)?;
    }
    cube.behind().map_or(Ok(()), |behind| cube.send(behind, data))
}

/// `own` holds this rank's contribution to its own block and receives the reduction; `piece` reads the contributions to
/// the blocks of others.
pub(crate) fn reduce_scatter<'a, T: Transport>(
    turn: &Turn<'_, T>,
    own: &mut [u8],
    piece: impl Fn(Range<usize>) -> &'a [u8],
    blocks: &[Range<usize>],
    dtype: DType,
    op: ReduceOp,
) -> Result<()> {
    let cube = Cube::of(turn);
    let longest = blocks.iter().map(|b| b.len()).max().unwrap_or(0).max(1);
    let chunk = (SEGMENT / cube.n).max(4 << 10) / ALIGN * ALIGN;
    for start in (0..longest).step_by(chunk) {
        let cut = |r: usize| {
            let block = &blocks[r];
            (block.start + start).min(block.end)..(block.start + start + chunk).min(block.end)
        };
        let part = own.len().min(start)..own.len().min(start + chunk);
        let mut work = Vec::with_capacity(chunk.min(longest) * cube.n);
        for rank in cube.order() {
            work.extend_from_slice(if rank == cube.rank { &own[part.clone()] } else { piece(cut(rank)) });
        }
        if let Some(corner) = cube.corner() {
            cube.send(corner, &work)?;
            cube.recv(corner, &mut own[part])?;
            continue;
        }
        cube.fold_in(&mut work, dtype, op)?;
        let starts = cube.starts(|rank| cut(rank).len());
        cube.halve(&mut work, &starts, dtype, op)?;
        let mine = &mut work[starts[cube.rank]..starts[cube.rank + 1]];
        finish(mine, cube.n, dtype, op);
        let (mine, behinds) = mine.split_at(part.len());
        own[part].copy_from_slice(mine);
        if let Some(behind) = cube.behind() {
            cube.send(behind, behinds)?;
        }
    }
    Ok(())
}

/// The own block stands in `data` already.
pub(crate) fn all_gather<T: Transport>(turn: &Turn<'_, T>, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
    let cube = Cube::of(turn);
    if data.len() > SEGMENT {
        return ring(&cube, data, blocks);
    }
    let starts = cube.starts(|rank| blocks[rank].len());
    let mut work = vec![0; data.len()];
    let own = blocks[cube.rank].clone();
    if let Some(corner) = cube.corner() {
        cube.send(corner, &data[own])?;
        cube.recv(corner, &mut work)?;
    } else {
        let at = starts[cube.rank];
        work[at..at + own.len()].copy_from_slice(&data[own.clone()]);
        if let Some(behind) = cube.behind() {
            cube.recv(behind, &mut work[at + own.len()..starts[cube.rank + 1]])?;
        }
        cube.double(&mut work, &starts)?;
        if let Some(behind) = cube.behind() {
            cube.send(behind, &work)?;
        }
    }
    let mut at = 0;
    for rank in cube.order() {
        let block = blocks[rank].clone();
        let next = at + block.len();
        data[block].copy_from_slice(&work[at..next]);
        at = next;
    }
    Ok(())
}

/// Each block goes once around.
fn ring<T: Transport>(cube: &Cube<'_, '_, T>, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
    let (n, rank) = (cube.n, cube.rank);
    let (next, previous) = ((rank + 1) % n, (rank + n - 1) % n);
    for step in 0..n - 1 {
        let (from, to) = ((rank + n - step) % n, (rank + n - step - 1) % n);
        let (out, into) = (blocks[from].clone(), blocks[to].clone());
        let (head, tail) = data.split_at_mut(blocks[from.max(to)].start);
        let (out, into) = match from < to {
            true => (&head[out], &mut tail[..into.len()]),
            false => (&tail[..out.len()], &mut head[into]),
        };
        cube.turn.exchange(&[(next, out)], &mut [(previous, into)])?;
    }
    Ok(())
}

/// The corner that has, or speaks for, the root's data; other corners are counted from it.
fn at_root<T>(cube: &Cube<'_, '_, T>, root: usize) -> usize {
    root % cube.p
}

/// A tree from the root.
pub(crate) fn broadcast<T: Transport>(turn: &Turn<'_, T>, data: &mut [u8], root: usize) -> Result<()> {
    let cube = Cube::of(turn);
    let top = at_root(&cube, root);
    if let Some(corner) = cube.corner() {
        return if cube.rank == root { cube.send(corner, data) } else { cube.recv(corner, data) };
    }
    if cube.rank == top && root != top {
        cube.recv(root, data)?;
    }
    let place = cube.rank ^ top;
    for distance in cube.distances().rev() {
        match place % (2 * distance) {
            0 => cube.send(cube.rank ^ distance, data)?,
            rest if rest == distance => cube.recv(cube.rank ^ distance, data)?,
            _ => {}
        }
    }
    match cube.behind() {
        Some(behind) if behind != root => cube.send(behind, data),
        _ => Ok(()),
    }
}

/// # Safety
/// `data` is valid for the call, and written on the root alone.
pub(crate) unsafe fn reduce<T: Transport>(
    turn: &Turn<'_, T>,
    data: Span,
    dtype: DType,
    op: ReduceOp,
    root: usize,
) -> Result<()> {
    let cube = Cube::of(turn);
    let top = at_root(&cube, root);
    for start in (0..data.len.max(1)).step_by(SEGMENT) {
        let part = start..data.len.min(start + SEGMENT);
        // SAFETY: the caller's promise; the mutable slices below are made when this one is not used any more.
        let mine = unsafe { &data.bytes()[part.clone()] };
        if let Some(corner) = cube.corner() {
            cube.send(corner, mine)?;
            if cube.rank == root {
                // SAFETY: the caller's promise.
                cube.recv(corner, unsafe { &mut data.bytes_mut()[part] })?;
            }
            continue;
        }
        let mut work = mine.to_vec();
        cube.fold_in(&mut work, dtype, op)?;
        let mut theirs = vec![0; work.len()];
        let place = cube.rank ^ top;
        for distance in cube.distances() {
            let partner = cube.rank ^ distance;
            if place % (2 * distance) == distance {
                cube.send(partner, &work)?;
                break;
            }
            cube.recv(partner, &mut theirs)?;
            combine(&mut work, &theirs, cube.rank < partner, dtype, op);
        }
        if place == 0 {
            finish(&mut work, cube.n, dtype, op);
            if root == cube.rank {
                // SAFETY: the caller's promise.
                unsafe { data.bytes_mut()[part].copy_from_slice(&work) };
            } else {
                cube.send(root, &work)?;
            }
        }
    }
    Ok(())
}

/// Whether a gathering or scattering of pieces of this length goes along the tree.
pub(crate) fn takes(n: usize, piece: usize) -> bool {
    piece.saturating_mul(n) <= SEGMENT
}

/// The corners below this one in the tree from `top`, as one range.
fn below<T: Transport>(cube: &Cube<'_, '_, T>, top: usize) -> Range<usize> {
    let place = cube.rank ^ top;
    let size = if place == 0 { cube.p } else { 1 << place.trailing_zeros() };
    let low = cube.rank & !(size - 1);
    low..low + size
}

/// `output` is the root's.
pub(crate) fn gather<T: Transport>(turn: &Turn<'_, T>, output: &mut [u8], input: &[u8], root: usize) -> Result<()> {
    let cube = Cube::of(turn);
    let (top, len) = (at_root(&cube, root), input.len());
    let mut work = Vec::new();
    if let Some(corner) = cube.corner() {
        cube.send(corner, input)?;
        if cube.rank == root {
            work.resize(len * cube.n, 0);
            cube.recv(corner, &mut work)?;
        }
    } else {
        let starts = cube.starts(|_| len);
        let mine = below(&cube, top);
        let base = starts[mine.start];
        work.resize(starts[mine.end] - base, 0);
        let at = starts[cube.rank] - base;
        work[at..at + len].copy_from_slice(input);
        if let Some(behind) = cube.behind() {
            cube.recv(behind, &mut work[at + len..at + 2 * len])?;
        }
        for distance in cube.distances().take_while(|&distance| distance < mine.len()) {
            let other = (cube.rank ^ distance) & !(distance - 1);
            let range = bytes(&starts, &(other..other + distance));
            cube.recv(cube.rank ^ distance, &mut work[range.start - base..range.end - base])?;
        }
        if cube.rank != top {
            cube.send(cube.rank ^ mine.len(), &work)?;
        } else if root != top {
            cube.send(root, &work)?;
        }
    }
    if cube.rank == root {
        for (at, rank) in cube.order().enumerate() {
            output[rank * len..(rank + 1) * len].copy_from_slice(&work[at * len..(at + 1) * len]);
        }
    }
    Ok(())
}

/// `input` is the root's.
pub(crate) fn scatter<T: Transport>(turn: &Turn<'_, T>, output: &mut [u8], input: &[u8], root: usize) -> Result<()> {
    let cube = Cube::of(turn);
    let (top, len) = (at_root(&cube, root), output.len());
    let mut work = Vec::new();
    if cube.rank == root {
        cube.order().for_each(|rank| work.extend_from_slice(&input[rank * len..(rank + 1) * len]));
    }
    if let Some(corner) = cube.corner() {
        if cube.rank == root {
            cube.send(corner, &work)?;
        }
        return cube.recv(corner, output);
    }
    let starts = cube.starts(|_| len);
    let mine = below(&cube, top);
    let base = starts[mine.start];
    work.resize(starts[mine.end] - base, 0);
    if cube.rank != top {
        cube.recv(cube.rank ^ mine.len(), &mut work)?;
    } else if root != top {
        cube.recv(root, &mut work)?;
    }
    for distance in cube.distances().rev().filter(|&distance| distance < mine.len()) {
        let other = (cube.rank ^ distance) & !(distance - 1);
        let range = bytes(&starts, &(other..other + distance));
        cube.send(cube.rank ^ distance, &work[range.start - base..range.end - base])?;
    }
    let at = starts[cube.rank] - base;
    output.copy_from_slice(&work[at..at + len]);
    cube.behind().map_or(Ok(()), |behind| cube.send(behind, &work[at + len..at + 2 * len]))
}

/// Returns when all have come.
pub(crate) fn barrier<T: Transport>(turn: &Turn<'_, T>) -> Result<()> {
    let cube = Cube::of(turn);
    if let Some(corner) = cube.corner() {
        cube.send(corner, &[])?;
        return cube.recv(corner, &mut []);
    }
    cube.behind().map_or(Ok(()), |behind| cube.recv(behind, &mut []))?;
    for distance in cube.distances() {
        cube.swap(cube.rank ^ distance, &[], &mut [])?;
    }
    cube.behind().map_or(Ok(()), |behind| cube.send(behind, &[]))
}
