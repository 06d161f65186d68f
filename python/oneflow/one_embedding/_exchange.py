"""Rows between ranks: each key has one owner, found by its hash; only different keys leave a rank.

A lookup sends keys to their owners and brings rows back; its gradients go the same way as the keys. Knows batches and
tensors, no store: the modules pass in what looks up.
"""

from __future__ import annotations

from collections.abc import Callable

import oneflow
from oneflow import Tensor, distributed
from oneflow._oneflow import _EmbeddingBatch

PAYLOADS = ("float32", "bfloat16", "float16", "int8")


def _all_to_all(rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
    out = oneflow.empty(sum(received), *rows.shape[1:], dtype=rows.dtype)
    distributed.all_to_all_single(out, rows.contiguous(), received, sent)
    return out


def _all_to_all_rows(rows: Tensor, sent: list[int], received: list[int], payload: str) -> Tensor:
    """float32 rows in, float32 rows out; on the way as ``payload`` says."""
    if payload == "float32":
        return _all_to_all(rows, sent, received)
    if payload in ("float16", "bfloat16"):
        words = rows.to(getattr(oneflow, payload)).view(oneflow.int16)
        return _all_to_all(words, sent, received).view(getattr(oneflow, payload)).to(oneflow.float32)
    # The largest number of a row becomes 127. A row of zeros, or one that holds no finite numbers, keeps its scale.
    scales = rows.abs().amax(1, keepdim=True) / 127.0 if rows.shape[1] else rows.new_zeros(len(rows), 1)
    numbers = oneflow.where(scales > 0, rows / scales, oneflow.zeros_like(rows)).round().clamp(-127, 127)
    # NaN has no whole number: the scale carries it.
    numbers = oneflow.nan_to_num(numbers, nan=127.0, posinf=127.0, neginf=-127.0).to(oneflow.int8)
    return _all_to_all(numbers, sent, received).to(oneflow.float32) * _all_to_all(scales, sent, received)


class Exchange:
    """One lookup's keys by owner, and what this rank was asked for.

    Args:
        batch: this rank's keys.
        n_ranks: owners.
        n_tables: tables of the store.
        payload: dtype of rows and gradients on the way: one of ``PAYLOADS``.
    """

    def __init__(self, batch: _EmbeddingBatch, n_ranks: int, n_tables: int, payload: str) -> None:
        self.batch, self.payload = batch, payload
        self.order, self.sent = batch.by_owner(n_ranks)
        counts = oneflow.tensor(self.sent, dtype=oneflow.int64)
        answer = oneflow.empty_like(counts)
        distributed.all_to_all_single(answer, counts)
        self.received = answer.tolist()
        keys = oneflow.stack(batch.keys(), dim=1)[self.order]
        tables, ids = _all_to_all(keys, self.sent, self.received).unbind(1)
        # The keys that other ranks ask for, those of the first rank first: sums over them have one order.
        self.asked = _EmbeddingBatch(ids.contiguous(), tables.contiguous(), n_tables, None)

    def lookup(self, rows_of: Callable[[_EmbeddingBatch, list[int]], Tensor], width: int, sizes: list[int]) -> Tensor:
        """The row of each position, of ``sizes``; ``rows_of`` looks up what this rank owns."""
        rows = rows_of(self.asked, [len(self.asked), width])
        rows = _all_to_all_rows(rows, self.received, self.sent, self.payload)
        mine = oneflow.empty(self.batch.n_unique, width)
        mine[self.order] = rows
        return self.batch.to_positions(mine, width, sizes)

    def gradients(self, grad: Tensor, width: int) -> Tensor:
        """Gradients for what this rank was asked for, from those of this rank's positions."""
        sums = self.batch.sums(grad, width)[self.order]
        return _all_to_all_rows(sums, self.sent, self.received, self.payload)


def owned(tables: Tensor, ids: Tensor, n_ranks: int, rank: int, n_tables: int) -> Tensor:
    """Numbers of the keys that a rank owns; the keys are different."""
    order, counts = _EmbeddingBatch(ids, tables, n_tables, None).by_owner(n_ranks)
    first = sum(counts[:rank])
    return order[first : first + counts[rank]]
