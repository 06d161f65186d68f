"""Ring attention on one rank: which pieces see each other, how blocks travel, forward and backward.

Each piece is one call of the fused attention, which also gives the log-sum-exp of a row's scores. A piece's gradient
needs only the result and the log-sum-exp of the whole, so backward works piece by piece too (Liu et al., 2023).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow, distributed, sbp
from oneflow.autograd.function import Function, once_differentiable
from oneflow.distributed.tensor import _layouts

__all__ = ["Ring", "RingAttention", "TracedRing"]

_C = _oneflow._C
# Messages of a block and of gradients, apart from what a user's program sends.
_BLOCK, _GRADIENT = 91_001, 91_002


@dataclass(frozen=True)
class _Piece:
    """Own queries ``q0:q1`` see the block's keys ``k0:k1``; ``causal`` along the diagonal."""

    q0: int
    q1: int
    k0: int
    k1: int
    causal: bool


@dataclass
class Ring:
    """Who holds what in a group.

    Args:
        spans: for each rank the runs of positions of its keys.
        is_causal: no position sees a later one; queries then lie as the keys do.
        n_queries: that this rank holds.
        gather: fetch all blocks at once.
        group: the process group.
    """

    spans: list[list[tuple[int, int]]]
    is_causal: bool
    n_queries: int
    gather: bool
    group: Any

    def __post_init__(self) -> None:
        self.rank = distributed.get_rank(self.group)
        self.size = distributed.get_world_size(self.group)
        self.lengths = [sum(end - start for start, end in runs) for runs in self.spans]

    def pieces(self, asking: int, holding: int) -> list[_Piece]:
        """What the queries of one rank see of another's keys."""
        if not self.is_causal:
            return [_Piece(0, self.n_queries, 0, self.lengths[holding], False)]
        pieces = []
        for (first, end), (q0, q1) in _placed(self.spans[asking]):
            seen: list[_Piece] = []
            for (start, stop), (k0, k1) in _placed(self.spans[holding]):
                if start == first and stop == end:
                    seen.append(_Piece(q0, q1, k0, k1, True))
                elif stop <= first and seen and not seen[-1].causal and seen[-1].k1 == k0:
                    seen[-1] = _Piece(q0, q1, seen[-1].k0, k1, False)
                elif stop <= first:
                    seen.append(_Piece(q0, q1, k0, k1, False))
                elif start < end:
                    raise ValueError(f"ring_attention: the runs {(first, end)} and {(start, stop)} overlap")
            pieces += seen
        # All queries that see the same keys in one call.
        if len(pieces) == 2 and not any(p.causal for p in pieces):
            one, two = pieces
            if (one.k0, one.k1, one.q1) == (two.k0, two.k1, two.q0):
                return [_Piece(one.q0, two.q1, one.k0, one.k1, False)]
        return pieces

    def blocks(self, key: Tensor, value: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Each rank's keys and values, this rank's first, then those of the ranks before it."""
        if self.gather:
            yield from self._gathered(key, value)
            return
        packed = _packed(key, value)
        for step in range(self.size):
            holder = (self.rank - step) % self.size
            works, coming = [], None
            if step + 1 < self.size:
                coming = packed.new_empty(_row(key, value) * self.lengths[holder - 1])
                works = self._exchange(packed, self.rank + 1, coming, self.rank - 1, _BLOCK + 2 * step)
            yield holder, *_unpacked(packed, key, value, self.lengths[holder])
            for work in works:
                work.wait()
            packed = packed if coming is None else coming

    def _gathered(self, key: Tensor, value: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        own = _packed(key, value)
        places = [own.new_empty(_row(key, value) * length) for length in self.lengths]
        distributed.all_gather(places, own, self.group)
        for step in range(self.size):
            holder = (self.rank - step) % self.size
            yield holder, *_unpacked(places[holder], key, value, self.lengths[holder])

    def give_back(self, step: int, grads: tuple[Tensor, Tensor] | None, key: Tensor, value: Tensor) -> Any:
        """Send gradients of the block of a step to its holder, and receive those of this rank's own block."""
        holder, asking = (self.rank - step) % self.size, (self.rank + step) % self.size
        coming = None
        if self._sees(asking, self.rank):
            coming = oneflow.empty(key.numel() + value.numel(), dtype=key.dtype, device=key.device)
        sent = None if grads is None else _packed(*grads)
        works = self._exchange(sent, holder, coming, asking, _GRADIENT + 2 * step)
        for work in works:
            work.wait()
        return None if coming is None else _unpacked(coming, key, value, self.lengths[self.rank])

    def _sees(self, asking: int, holding: int) -> bool:
        return not self.is_causal or bool(self.pieces(asking, holding))

    def _exchange(self, sent: Tensor | None, to: int, coming: Tensor | None, frm: int, tag: int) -> list[Any]:
        works = []
        if coming is not None:
            works.append(distributed.irecv(coming, group=self.group, tag=tag, group_src=frm % self.size))
        if sent is not None:
            works.append(distributed.isend(sent, group=self.group, tag=tag, group_dst=to % self.size))
        return works


class TracedRing(Ring):
    """The same inside ``nn.Graph``, whose trace knows moves of global tensors and no messages.

    Blocks are the parts of one tensor that is split along the sequence. A hop is its move to a placement of the same
    ranks in which each stands one further, so that the part of a rank goes to the next.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        each, more = divmod(sum(self.lengths), self.size)
        if self.lengths != [each + (rank < more) for rank in range(self.size)]:
            raise NotImplementedError(
                "ring_attention: inside nn.Graph ranks hold positions as even_spans and balanced_spans share them out, "
                f"got {self.lengths}"
            )
        self._ranks = list(range(self.size)) if self.group is None else distributed.get_process_group_ranks(self.group)

    def blocks(self, key: Tensor, value: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Each rank's keys and values, this rank's first, then those of the ranks before it."""
        row, lengths = _row(key, value), self.lengths
        block = self._global(_rows(key, value), 0, row)
        if self.gather:
            whole = _layouts.local_part(block.to_global(sbp=[sbp.broadcast])).split(lengths)
        for step in range(self.size):
            holder = (self.rank - step) % self.size
            own = whole[holder] if self.gather else _layouts.local_part(block)
            if step + 1 < self.size and not self.gather:
                block = block.to_global(placement=self._hops(step + 1), sbp=[sbp.split(0)])
            yield holder, *_of_rows(own, key, value)

    def give_back(self, step: int, grads: tuple[Tensor, Tensor] | None, key: Tensor, value: Tensor) -> Any:
        """Send gradients of the block of a step to its holder, and receive those of this rank's own block."""
        row, holder = _row(key, value), (self.rank - step) % self.size
        sent = key.new_zeros((self.lengths[holder], row)) if grads is None else _rows(*grads)
        came = self._global(sent, step, row).to_global(placement=self._hops(0), sbp=[sbp.split(0)])
        return _of_rows(_layouts.local_part(came), key, value)

    def _hops(self, step: int) -> Any:
        """The ranks by the parts that they hold after so many hops."""
        return oneflow.placement("cpu", [self._ranks[(part + step) % self.size] for part in range(self.size)])

    def _global(self, rows: Tensor, step: int, row: int) -> Tensor:
        return _layouts.assemble(rows, self._hops(step), [sbp.split(0)], [sum(self.lengths), row])


def _rows(key: Tensor, value: Tensor) -> Tensor:
    """(positions, elements of one in keys and values)."""
    return oneflow.cat([x.permute(2, 0, 1, 3).flatten(1) for x in (key, value)], 1)


def _of_rows(rows: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    parts = rows.split([x.shape[0] * x.shape[1] * x.shape[3] for x in (key, value)], 1)
    shapes = [(rows.shape[0], x.shape[0], x.shape[1], x.shape[3]) for x in (key, value)]
    first, second = (p.reshape(shape).permute(1, 2, 0, 3) for p, shape in zip(parts, shapes, strict=True))
    return first.contiguous(), second.contiguous()


def _placed(runs: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Each run that is not empty, and where it lies among the rank's own positions."""
    at = 0
    for start, end in runs:
        if end > start:
            yield (start, end), (at, at + end - start)
        at += end - start


def _row(key: Tensor, value: Tensor) -> int:
    """Elements that a position takes in a message."""
    return sum(x.shape[0] * x.shape[1] * x.shape[3] for x in (key, value))


def _packed(key: Tensor, value: Tensor) -> Tensor:
    return oneflow.cat([key.reshape(-1), value.reshape(-1)])


def _unpacked(packed: Tensor, key: Tensor, value: Tensor, length: int) -> tuple[Tensor, Tensor]:
    shapes = [(*x.shape[:2], length, x.shape[3]) for x in (key, value)]
    sizes = [shape[0] * shape[1] * shape[2] * shape[3] for shape in shapes]
    first, second = packed.split(sizes)
    return first.view(shapes[0]), second.view(shapes[1])


class _Result:
    """Attention over the blocks so far, with the log-sum-exp of each row."""

    def __init__(self, query: Tensor, width: int) -> None:
        dtype = oneflow.float32 if query.dtype in (oneflow.float16, oneflow.bfloat16) else query.dtype
        self.out = oneflow.zeros(*query.shape[:3], width, dtype=dtype, device=query.device)
        self.lse = oneflow.full(query.shape[:3], float("-inf"), dtype=dtype, device=query.device)

    def add(self, piece: _Piece, out: Tensor, lse: Tensor) -> None:
        # A row that sees nothing has infinity there, by which its weights become zeros.
        lse = lse.masked_fill(lse == float("inf"), float("-inf"))
        own, old = self.out[:, :, piece.q0 : piece.q1], self.lse[:, :, piece.q0 : piece.q1]
        new = oneflow.logaddexp(old, lse)
        base = new.masked_fill(new == float("-inf"), 0.0)
        own.mul_((old - base).exp().unsqueeze(-1)).add_(out * (lse - base).exp().unsqueeze(-1))
        old.copy_(new)


def _part(mask: Tensor | None, piece: _Piece, offset: int) -> Tensor | None:
    if mask is None:
        return None
    rows = mask if mask.shape[2] == 1 else mask[:, :, piece.q0 : piece.q1]
    return rows[..., offset + piece.k0 : offset + piece.k1]


class RingAttention(Function):
    """(query, key, value, mask or None, scale, ring) to the rows of this rank."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, ring: Ring) -> Tensor:
        result = _Result(q, v.shape[-1])
        for holder, key, value in ring.blocks(k, v):
            for p in ring.pieces(ring.rank, holder):
                if p.q1 == p.q0 or p.k1 == p.k0:
                    continue
                part = _part(mask, p, sum(ring.lengths[:holder]))
                slices = (q[:, :, p.q0 : p.q1], key[:, :, p.k0 : p.k1], value[:, :, p.k0 : p.k1])
                result.add(p, *_C.native_attention(*slices, part, 0.0, p.causal, scale))
        out = result.out.to(q.dtype)
        # What the backward of a row that sees nothing expects.
        lse = result.lse.masked_fill(result.lse == float("-inf"), float("inf"))
        ctx.save_for_backward(q, k, v, mask, out, lse)
        ctx.scale, ctx.ring = scale, ring
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        q, k, v, mask, out, lse = ctx.saved_tensors
        ring, grad = ctx.ring, grad.contiguous()
        wide = lse.dtype
        grad_q = q.new_zeros(q.shape, dtype=wide)
        own = [x.new_zeros(x.shape, dtype=wide) for x in (k, v)]
        needs_mask = ctx.needs_input_grad[3]
        grad_mask = mask.new_zeros(mask.shape, dtype=wide) if needs_mask else None
        for step, (holder, key, value) in enumerate(ring.blocks(k, v)):
            found = [x.new_zeros(x.shape, dtype=wide) for x in (key, value)]
            pieces = ring.pieces(ring.rank, holder)
            for p in pieces:
                if p.q1 == p.q0 or p.k1 == p.k0:
                    continue
                rows, columns = slice(p.q0, p.q1), slice(p.k0, p.k1)
                offset = sum(ring.lengths[:holder])
                grads = _C.native_attention_backward(
                    grad[:, :, rows],
                    q[:, :, rows],
                    key[:, :, columns],
                    value[:, :, columns],
                    _part(mask, p, offset),
                    out[:, :, rows],
                    lse[:, :, rows],
                    0.0,
                    p.causal,
                    ctx.scale,
                    needs_mask,
                )
                grad_q[:, :, rows] += grads[0]
                found[0][:, :, columns] += grads[1]
                found[1][:, :, columns] += grads[2]
                if grad_mask is not None:
                    place = _part(grad_mask, p, offset)
                    assert place is not None
                    place += grads[3].sum_to_size(place.shape)
            if step == 0:
                received: Any = found
            else:
                sent = (found[0].to(k.dtype), found[1].to(v.dtype)) if pieces else None
                received = ring.give_back(step, sent, k, v)
            if received is not None:
                own[0] += received[0]
                own[1] += received[1]
        if grad_mask is not None:
            grad_mask = grad_mask.to(mask.dtype)
        return grad_q.to(q.dtype), own[0].to(k.dtype), own[1].to(v.dtype), grad_mask, None, None
