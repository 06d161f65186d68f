//! The algorithms, written once over [`Transport::exchange`]: every backend gives the same bits and sends the same bytes.
//!
//! Up to 16 ranks data go straight from the rank that has them to the rank that needs them. A reduction is then
//! always "everybody sends me the pieces I own, I fold them in rank order": as many bytes per rank as a ring, without the
//! ring's dependence of the order on the position, and with one rounding for half types. Short messages go to all peers
//! at once, long ones in rounds of one partner each, which is a ring's traffic pattern. Where all are on one host, long
//! all-reduces go in pieces that stay in cache; between hosts the pieces of long reductions follow each other without a pause
//! (`flow`). Larger groups take the ways of `hypercube`, all-to-all apart, and so do long all-reduces of several hosts with equally
//! many ranks.

use std::ops::Range;

use oneflow_base::{DType, Result};

use crate::copy::copy;
use crate::flow::{self, longest};
use crate::hypercube;
use crate::reduce;
use crate::request::{Kind, ReduceOp, Request, Span};
use crate::scratch::Scratch;
use crate::transport::{Transport, Turn};

/// Up to this many ranks data go straight from each to each, and every pair is connected from the start; more talk to few
/// (`hypercube`).
pub(crate) const DIRECT: usize = 16;
/// Up to this many bytes per peer, all peers are served in one exchange.
const SHORT: usize = 256 << 10;
/// Up to this many bytes two ranks reduce redundantly instead of in halves: one step instead of two, same bytes.
const TINY: usize = 32 << 10;
/// Bytes per peer of one reduction step: bounds the scratch memory and stays in cache. A whole number of elements of every dtype.
const REDUCE_CHUNK: usize = 512 << 10;
/// Bytes of one link of a pipelined broadcast chain.
const CHAIN_CHUNK: usize = 512 << 10;

/// # Safety
/// The promise of `ProcessGroup::issue` holds for the spans; `Request::check` has passed.
pub(crate) unsafe fn run<T: Transport>(turn: &Turn<'_, T>, request: &Request) -> Result<()> {
    let n = turn.size();
    if n > 1 && matches!(request.kind(), Kind::Broadcast | Kind::Reduce | Kind::Gather | Kind::Scatter) {
        same_root(turn)?;
    }
    // SAFETY: in every arm the spans are valid, disjoint and ours for the call, by the promise of the caller.
    unsafe {
        match request {
            Request::AllReduce { data, dtype, op } => all_reduce(turn, data.bytes_mut(), *dtype, *op),
            Request::AllGather { output, input, counts, dtype } => {
                let (output, blocks) = (output.bytes_mut(), blocks(counts, *dtype));
                copy(input.bytes(), &mut output[blocks[turn.rank()].clone()]);
                all_gather(turn, output, &blocks)
            }
            Request::ReduceScatter { output, input, counts, dtype, op } => {
                let blocks = blocks(counts, *dtype);
                copy(&input.bytes()[blocks[turn.rank()].clone()], output.bytes_mut());
                if n <= DIRECT && flow::takes(turn, &blocks) {
                    return flow::reduce(turn, *output, *input, &blocks, (*dtype, *op), false);
                }
                let (output, input) = (output.bytes_mut(), input.bytes());
                reduce_scatter(turn, output, |range| &input[range], &blocks, *dtype, *op)
            }
            Request::AllToAll { output, recv_counts, input, send_counts, dtype } => {
                let (to, from) = (blocks(send_counts, *dtype), blocks(recv_counts, *dtype));
                all_to_all(turn, output.bytes_mut(), &from, input.bytes(), &to)
            }
            Request::Broadcast { data, root, .. } => broadcast(turn, data.bytes_mut(), *root),
            Request::Reduce { data, dtype, op, root } if n > DIRECT => {
                hypercube::reduce(turn, *data, *dtype, *op, *root)
            }
            Request::Gather { output, input, root, .. } if n > DIRECT && hypercube::takes(n, input.len) => {
                hypercube::gather(turn, output.bytes_mut(), input.bytes(), *root)
            }
            Request::Scatter { output, input, root, .. } if n > DIRECT && hypercube::takes(n, output.len) => {
                hypercube::scatter(turn, output.bytes_mut(), input.bytes(), *root)
            }
            Request::Reduce { data, dtype, op, root } => {
                let blocks = blocks(&even(data.len / dtype.size(), n), *dtype);
                reduce_to(turn, *data, &blocks, *dtype, *op, *root)
            }
            Request::Gather { output, input, dtype, root } => {
                let input = input.bytes();
                if turn.rank() != *root {
                    return turn.exchange(&[(*root, input)], &mut []);
                }
                let (output, blocks) = (output.bytes_mut(), blocks(&vec![input.len() / dtype.size(); n], *dtype));
                copy(input, &mut output[blocks[*root].clone()]);
                turn.exchange(&[], &mut others(turn, output, &blocks))
            }
            Request::Scatter { output, input, dtype, root } => {
                let output = output.bytes_mut();
                if turn.rank() != *root {
                    return turn.exchange(&[], &mut [(*root, output)]);
                }
                let (input, blocks) = (input.bytes(), blocks(&vec![output.len() / dtype.size(); n], *dtype));
                copy(&input[blocks[*root].clone()], output);
                let sends: Vec<_> = turn.peers().map(|p| (p, &input[blocks[p].clone()])).collect();
                turn.exchange(&sends, &mut [])
            }
            Request::Barrier => barrier(turn),
            // Point-to-point requests never reach the collective lane.
            Request::Send { .. } | Request::Recv { .. } => Ok(()),
        }
    }
}

/// Ranks that name different roots would send past each other: each compares stamps with its neighbours first. If all
/// neighbours agree, all ranks do.
fn same_root<T: Transport>(turn: &Turn<'_, T>) -> Result<()> {
    let (next, previous) = partners(turn, 1);
    turn.exchange(&[(next, &[])], &mut [(previous, &mut [])])
}

/// `count` elements in `n` pieces, the first ones longer by one where it does not divide.
pub(crate) fn even(count: usize, n: usize) -> Vec<usize> {
    (0..n).map(|i| count / n + usize::from(i < count % n)).collect()
}

fn blocks(counts: &[usize], dtype: DType) -> Vec<Range<usize>> {
    let mut at = 0;
    counts
        .iter()
        .map(|n| {
            let start = at;
            at += n * dtype.size();
            start..at
        })
        .collect()
}

/// Every block but this rank's own, as receive targets.
fn others<'a, T: Transport>(
    turn: &Turn<'_, T>,
    mut data: &'a mut [u8],
    blocks: &[Range<usize>],
) -> Vec<(usize, &'a mut [u8])> {
    let mut targets = Vec::with_capacity(blocks.len());
    for (peer, block) in blocks.iter().enumerate() {
        let (head, tail) = data.split_at_mut(block.len());
        if peer != turn.rank() {
            targets.push((peer, head));
        }
        data = tail;
    }
    targets
}

/// The partners of round `k` of a pairwise schedule: whom to send to, whom to receive from.
fn partners<T: Transport>(turn: &Turn<'_, T>, round: usize) -> (usize, usize) {
    let n = turn.size();
    ((turn.rank() + round) % n, (turn.rank() + n - round) % n)
}

fn all_reduce<T: Transport>(turn: &Turn<'_, T>, data: &mut [u8], dtype: DType, op: ReduceOp) -> Result<()> {
    let n = turn.size();
    // Across hosts each host's data cross the network once.
    let hosts = || n.is_power_of_two() && turn.transport.ranks_per_host().is_some_and(|m| m > 1 && m.is_power_of_two());
    if n > DIRECT || (data.len() > hypercube::SHORT && hosts()) {
        return hypercube::all_reduce(turn, data, dtype, op);
    }
    if n == 2 && data.len() <= TINY {
        let peer = 1 - turn.rank();
        let mut theirs = vec![0; data.len()];
        turn.exchange(&[(peer, data)], &mut [(peer, &mut theirs)])?;
        // The own slot is not read.
        let parts = [&theirs[..], &theirs[..]];
        reduce::in_rank_order(data, turn.rank(), &parts, dtype, op);
        return Ok(());
    }
    let piece = n * REDUCE_CHUNK;
    if data.len() > piece && turn.transport.is_one_host() {
        // What was sent and what takes its place are in cache one after the other, and ranks of one host wait for nothing long.
        return data.chunks_mut(piece).try_for_each(|piece| all_reduce(turn, piece, dtype, op));
    }
    let blocks = blocks(&even(data.len() / dtype.size(), n), dtype);
    let mine = blocks[turn.rank()].clone();
    if flow::takes(turn, &blocks) {
        let data = Span::of_mut(data);
        // SAFETY: a mutable slice that nothing else uses during the call.
        return unsafe { flow::reduce(turn, data.part(mine), data, &blocks, (dtype, op), true) };
    }
    let (before, rest) = data.split_at_mut(mine.start);
    let (own, after) = rest.split_at_mut(mine.len());
    let piece = |range: Range<usize>| match range.end <= mine.start {
        true => &before[range],
        false => &after[range.start - mine.end..range.end - mine.end],
    };
    reduce_scatter(turn, own, piece, &blocks, dtype, op)?;
    all_gather(turn, data, &blocks)
}

/// `own` holds this rank's contribution to its own block and receives the reduction; `piece` reads the contributions to
/// the blocks of others.
fn reduce_scatter<'a, T: Transport>(
    turn: &Turn<'_, T>,
    own: &mut [u8],
    piece: impl Fn(Range<usize>) -> &'a [u8],
    blocks: &[Range<usize>],
    dtype: DType,
    op: ReduceOp,
) -> Result<()> {
    let (n, rank) = (turn.size(), turn.rank());
    if n == 1 {
        reduce::in_rank_order(own, 0, &[&[]], dtype, op);
        return Ok(());
    }
    if n > DIRECT {
        return hypercube::reduce_scatter(turn, own, piece, blocks, dtype, op);
    }
    // A whole number of elements of every dtype.
    let chunk = REDUCE_CHUNK.min(longest(blocks)).max(1);
    let mut scratch = Scratch::take(chunk.min(own.len()) * (n - 1));
    let scratch = &mut scratch.0[..];
    for start in (0..longest(blocks)).step_by(chunk) {
        let cut = |r: usize| {
            let block = &blocks[r];
            (block.start + start).min(block.end)..(block.start + start + chunk).min(block.end)
        };
        let part = own.len().min(start)..own.len().min(start + chunk);
        let mut rest = &mut *scratch;
        let mut recvs = Vec::with_capacity(n - 1);
        for peer in turn.peers() {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(part.len());
            recvs.push((peer, head));
            rest = tail;
        }
        if chunk <= SHORT {
            let sends: Vec<_> = turn.peers().map(|p| (p, piece(cut(p)))).collect();
            turn.exchange(&sends, &mut recvs)?;
        } else {
            for round in 1..n {
                let (to, from) = partners(turn, round);
                let slot = from - usize::from(from > rank);
                turn.exchange(&[(to, piece(cut(to)))], &mut recvs[slot..slot + 1])?;
            }
        }
        let parts: Vec<&[u8]> =
            (0..n)
                .map(|r| {
                    if r == rank { &[][..] } else { &scratch[(r - usize::from(r > rank)) * part.len()..][..part.len()] }
                })
                .collect();
        reduce::in_rank_order(&mut own[part], rank, &parts, dtype, op);
    }
    Ok(())
}

/// The own block stands in `data` already.
fn all_gather<T: Transport>(turn: &Turn<'_, T>, data: &mut [u8], blocks: &[Range<usize>]) -> Result<()> {
    if turn.size() == 1 {
        return Ok(());
    }
    if turn.size() > DIRECT {
        return hypercube::all_gather(turn, data, blocks);
    }
    let mine = blocks[turn.rank()].clone();
    let (before, rest) = data.split_at_mut(mine.start);
    let (own, after) = rest.split_at_mut(mine.len());
    let mut recvs = Vec::with_capacity(blocks.len());
    let (mut before, mut after) = (before, after);
    for peer in turn.peers() {
        let side = if peer < turn.rank() { &mut before } else { &mut after };
        let (head, tail) = std::mem::take(side).split_at_mut(blocks[peer].len());
        recvs.push((peer, head));
        *side = tail;
    }
    if longest(blocks) <= SHORT {
        let sends: Vec<_> = turn.peers().map(|p| (p, &*own)).collect();
        return turn.exchange(&sends, &mut recvs);
    }
    for round in 1..turn.size() {
        let (to, from) = partners(turn, round);
        let slot = from - usize::from(from > turn.rank());
        turn.exchange(&[(to, &*own)], &mut recvs[slot..slot + 1])?;
    }
    Ok(())
}

fn all_to_all<T: Transport>(
    turn: &Turn<'_, T>,
    output: &mut [u8],
    from: &[Range<usize>],
    input: &[u8],
    to: &[Range<usize>],
) -> Result<()> {
    let rank = turn.rank();
    copy(&input[to[rank].clone()], &mut output[from[rank].clone()]);
    let mut recvs = others(turn, output, from);
    // The pieces differ between ranks, so their lengths cannot choose the schedule: it must be the same on all.
    for round in 1..turn.size() {
        let (dst, src) = partners(turn, round);
        let slot = src - usize::from(src > rank);
        turn.exchange(&[(dst, &input[to[dst].clone()])], &mut recvs[slot..slot + 1])?;
    }
    Ok(())
}

fn broadcast<T: Transport>(turn: &Turn<'_, T>, data: &mut [u8], root: usize) -> Result<()> {
    let n = turn.size();
    let place = (turn.rank() + n - root) % n;
    let rank_of = |place: usize| (place + root) % n;
    if data.len() <= SHORT && n > DIRECT {
        return hypercube::broadcast(turn, data, root);
    }
    if data.len() <= SHORT || n == 2 {
        // Binomial tree: in the round of distance d, the first d places feed the next d.
        let mut distance = 1;
        while distance < n {
            if place < distance && place + distance < n {
                turn.exchange(&[(rank_of(place + distance), data)], &mut [])?;
            } else if (distance..2 * distance).contains(&place) {
                turn.exchange(&[], &mut [(rank_of(place - distance), data)])?;
            }
            distance *= 2;
        }
        return Ok(());
    }
    // Chain: receive chunk i from the left while chunk i - 1 goes to the right.
    let n_chunks = data.len().div_ceil(CHAIN_CHUNK);
    for step in 0..=n_chunks {
        let at = (step * CHAIN_CHUNK).min(data.len());
        let (done, todo) = data.split_at_mut(at);
        let sends = match step > 0 && place + 1 < n {
            true => vec![(rank_of(place + 1), &done[(step - 1) * CHAIN_CHUNK..])],
            false => vec![],
        };
        let mut recvs = match step < n_chunks && place > 0 {
            true => {
                let len = todo.len().min(CHAIN_CHUNK);
                vec![(rank_of(place - 1), &mut todo[..len])]
            }
            false => vec![],
        };
        turn.exchange(&sends, &mut recvs)?;
    }
    Ok(())
}

/// # Safety
/// As for `run`.
unsafe fn reduce_to<T: Transport>(
    turn: &Turn<'_, T>,
    data: Span,
    blocks: &[Range<usize>],
    dtype: DType,
    op: ReduceOp,
    root: usize,
) -> Result<()> {
    // SAFETY: the caller's promise; the mutable slice below is made after the last use of this one.
    let input = unsafe { data.bytes() };
    // Only the root's data may change, so the own block is reduced in a copy.
    let mut own = input[blocks[turn.rank()].clone()].to_vec();
    reduce_scatter(turn, &mut own, |range| &input[range], blocks, dtype, op)?;
    if turn.rank() != root {
        return turn.exchange(&[(root, &own)], &mut []);
    }
    // SAFETY: the caller's promise; `input` is not used any more.
    let output = unsafe { data.bytes_mut() };
    output[blocks[root].clone()].copy_from_slice(&own);
    turn.exchange(&[], &mut others(turn, output, blocks))
}

/// Dissemination: after the round of distance d everybody knows of 2d ranks.
fn barrier<T: Transport>(turn: &Turn<'_, T>) -> Result<()> {
    if turn.size() > DIRECT {
        return hypercube::barrier(turn);
    }
    let mut distance = 1;
    while distance < turn.size() {
        let (to, from) = partners(turn, distance);
        turn.exchange(&[(to, &[])], &mut [(from, &mut [])])?;
        distance *= 2;
    }
    Ok(())
}
