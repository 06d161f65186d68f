"""Rows between ranks: each key has one owner, found by its hash; only different keys leave a rank.

A lookup sends keys to their owners and brings rows back; its gradients go the same way as the keys. Knows batches and
tensors, no store: the modules pass in the rows.
"""

from __future__ import annotations

import oneflow
from oneflow import Tensor, distributed
from oneflow._oneflow import _EmbeddingBatch
from oneflow.one_embedding._replicas import Replicas

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
        replicas: ids that every rank keeps, which do not travel.
    """

    def __init__(
        self, batch: _EmbeddingBatch, n_ranks: int, n_tables: int, payload: str, replicas: Replicas | None = None
    ) -> None:
        self.batch, self.payload, self.replicas = batch, payload, replicas
        self.order, self.sent = batch.by_owner(n_ranks, None if replicas is None else replicas.keys)
        # The ids of replicas: numbers in the batch and among the replicas, and the ids by themselves.
        self.kept: tuple[Tensor, Tensor] | None = None
        self.kept_batch: _EmbeddingBatch | None = None
        if replicas is not None:
            self.kept = batch.members(replicas.keys)
            self.kept_batch = replicas.part(self.kept[1])
        counts = oneflow.tensor(self.sent, dtype=oneflow.int64)
        answer = oneflow.empty_like(counts)
        distributed.all_to_all_single(answer, counts)
        self.received = answer.tolist()
        keys = oneflow.stack(batch.keys(), dim=1)[self.order]
        tables, ids = _all_to_all(keys, self.sent, self.received).unbind(1)
        # The keys that other ranks ask for, those of the first rank first: sums over them have one order.
        self.asked = _EmbeddingBatch(ids.contiguous(), tables.contiguous(), n_tables, None)

    def lookup(self, rows: Tensor, kept: Tensor | None, width: int, sizes: list[int]) -> Tensor:
        """The row of each position, of ``sizes``, given the rows that this rank was asked for and its replicas."""
        rows = _all_to_all_rows(rows, self.received, self.sent, self.payload)
        mine = oneflow.empty(self.batch.n_unique, width)
        mine[self.order] = rows
        if self.kept is not None and kept is not None:
            mine[self.kept[0]] = kept
        return self.batch.to_positions(mine, width, sizes)

    def gradients(self, grad: Tensor, width: int) -> list[tuple[_EmbeddingBatch, Tensor]]:
        """Ids of this rank and their gradients, from those of this rank's positions."""
        sums = self.batch.sums(grad, width)
        found = [(self.asked, _all_to_all_rows(sums[self.order], self.sent, self.received, self.payload))]
        if self.replicas is not None and self.kept is not None:
            found.append(self.replicas.summed(self.kept[1], sums[self.kept[0]]))
        return found


def owned(tables: Tensor, ids: Tensor, n_ranks: int, rank: int, n_tables: int) -> Tensor:
    """Numbers of the keys that a rank owns; the keys are different."""
    order, counts = _EmbeddingBatch(ids, tables, n_tables, None).by_owner(n_ranks)
    first = sum(counts[:rank])
    return order[first : first + counts[rank]]
