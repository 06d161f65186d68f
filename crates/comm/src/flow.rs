//! Reductions of long data between hosts, cut into pieces that follow each other on the wire without a pause.
//!
//! In lockstep both directions of a link stand still between two pieces for as long as either rank takes to wake up and reduce,
//! which is milliseconds where its cores compute. Here every rank sends the pieces of others one after the other, whatever it has
//! received, and the pieces that it has reduced `AHEAD` places later, by when their parts have come.
//! The order of messages is the same on both sides of a connection, and the order of the parts in a sum is that of `collective`.

use std::ops::Range;

use oneflow_base::{DType, Result};

use crate::reduce;
use crate::request::{ReduceOp, Span};
use crate::scratch::Scratch;
use crate::transport::{Flow, Piece, Transport, Turn};

/// Bytes of a piece. A whole number of elements of every dtype.
const PIECE: usize = 256 << 10;
/// How many pieces of others go before the first reduced one: with each follows one more, so at 1 Gbit/s a rank may be late by 16 ms.
const AHEAD: usize = 4;

/// Whether a reduction over blocks of this length goes this way; the same on all ranks.
pub(crate) fn takes<T: Transport>(turn: &Turn<'_, T>, blocks: &[Range<usize>]) -> bool {
    turn.size() > 1 && longest(blocks) > PIECE && turn.transport.flows() && !turn.transport.is_one_host()
}

/// Reduces each rank's block on that rank. `data` holds this rank's part of all blocks, `own` that of its block and then the
/// reduction. With `gathers`, `data` receives the reductions of all blocks; `own` lies in it.
///
/// # Safety
/// Both spans are valid and nobody else's for the call, and `data` is written only with `gathers`.
pub(crate) unsafe fn reduce<T: Transport>(
    turn: &Turn<'_, T>,
    own: Span,
    data: Span,
    blocks: &[Range<usize>],
    (dtype, op): (DType, ReduceOp),
    gathers: bool,
) -> Result<()> {
    let (n, rank) = (turn.size(), turn.rank());
    let n_steps = longest(blocks).div_ceil(PIECE);
    let cut = |r: usize, step: usize| {
        let (start, end) = (step * PIECE, (step + 1) * PIECE);
        place(&blocks[r], start)..place(&blocks[r], end)
    };
    let mine = |step: usize| {
        let part = cut(rank, step);
        own.part(part.start - blocks[rank].start..part.end - blocks[rank].start)
    };
    let slot = PIECE.min(own.len);
    let mut scratch = Scratch::take(slot * (n - 1));
    let scratch = Span::of_mut(&mut scratch.0[..slot * (n - 1)]);
    let theirs = |i: usize, step: usize| scratch.part(i * slot..i * slot + mine(step).len);

    let (mut sends, mut recvs, mut of_steps) = (Vec::new(), Vec::new(), Vec::new());
    for (slot_idx, peer) in turn.peers().enumerate() {
        let mut behind = vec![0; n_steps];
        let mut n_sends = 0;
        for step in 0..n_steps + if gathers { AHEAD } else { 0 } {
            if step < n_steps {
                sends.push(Piece { peer, span: data.part(cut(peer, step)), after: 0, behind: 0 });
                recvs.push(Piece { peer, span: theirs(slot_idx, step), after: step, behind: 0 });
                of_steps.push(true);
                n_sends += 1;
                behind[step] = n_sends;
            }
            if let Some(reduced) = step.checked_sub(AHEAD).filter(|_| gathers) {
                sends.push(Piece { peer, span: mine(reduced), after: reduced + 1, behind: 0 });
                // It takes the place of what this rank has sent.
                recvs.push(Piece { peer, span: data.part(cut(peer, reduced)), after: 0, behind: behind[reduced] });
                of_steps.push(false);
                n_sends += 1;
            }
        }
    }
    let (mut n_come, mut n_done) = (0, 0);
    let mut came = |i: usize| {
        n_come += usize::from(of_steps[i]);
        if n_come == n - 1 {
            n_come = 0;
            // SAFETY: the scratch memory holds the parts of all others, and no message of this step is under way.
            let own = unsafe { mine(n_done).bytes_mut() };
            let parts: Vec<&[u8]> = (0..n)
                .map(|r| match r == rank {
                    true => &[][..],
                    // SAFETY: as above.
                    false => unsafe { theirs(r - usize::from(r > rank), n_done).bytes() },
                })
                .collect();
            reduce::in_rank_order(own, rank, &parts, dtype, op);
            n_done += 1;
        }
        n_done
    };
    // SAFETY: the caller's promise, and the scratch memory is this call's. A piece is written when what is sent of it has left.
    unsafe { turn.flow(Flow { sends: &sends, recvs: &recvs, came: &mut came }) }
}

/// The length of the longest block.
pub(crate) fn longest(blocks: &[Range<usize>]) -> usize {
    blocks.iter().map(|b| b.len()).max().unwrap_or(0)
}

/// So many bytes into a block, or its end.
fn place(block: &Range<usize>, at: usize) -> usize {
    (block.start + at).min(block.end)
}
