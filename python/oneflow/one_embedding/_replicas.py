"""Rows that every rank keeps: ids that most lookups name need not travel.

A skewed table has few rows that make up most of the traffic between ranks. Each rank looks its copies up in its own
store, and all ranks update them by the sum of all gradients, so that the copies stay equal bit by bit.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow._oneflow import _EmbeddingBatch, _EmbeddingKeys, _EmbeddingStore


class Replicas:
    """The ids that every rank keeps, the same on all ranks and in one order.

    Args:
        tables, ids: of the rows; different.
        n_tables: tables of the store.
    """

    def __init__(self, tables: Tensor, ids: Tensor, n_tables: int) -> None:
        self.n_tables = n_tables
        self.batch = _EmbeddingBatch(ids.contiguous(), tables.contiguous(), n_tables, None)
        self.tables, self.ids = self.batch.keys()
        self.keys = _EmbeddingKeys(self.batch)

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, numbers: Tensor) -> _EmbeddingBatch:
        """Some of the ids by their numbers."""
        return _EmbeddingBatch(self.ids[numbers].contiguous(), self.tables[numbers].contiguous(), self.n_tables, None)

    def summed(self, numbers: Tensor, grads: Tensor) -> tuple[_EmbeddingBatch, Tensor]:
        """Add gradients of these numbers up over all ranks; return the ids that any rank has, and their sums."""
        table = oneflow.zeros(len(self), grads.shape[1] + 1)
        table[numbers, 1:] = grads
        table[numbers, 0] = 1.0
        distributed.all_reduce(table)
        touched = (table[:, 0] > 0).nonzero()[:, 0]
        return self.part(touched), table[touched, 1:].contiguous()

    def copy_rows(self, store: _EmbeddingStore, rank: int, n_ranks: int) -> None:
        """Give every rank the rows that their owners have. All ranks call this together."""
        order, counts = self.batch.by_owner(n_ranks)
        first = sum(counts[:rank])
        mine = order[first : first + counts[rank]]
        _, _, steps, uses, values = store.records(self.part(mine))
        numbers = oneflow.zeros(2, len(self), dtype=oneflow.int64)
        numbers[:, mine] = oneflow.stack([steps, uses])
        rows = oneflow.zeros(len(self), values.shape[1])
        rows[mine] = values
        distributed.all_reduce(numbers)
        distributed.all_reduce(rows)
        # Ids that nobody has trained have the same initial weights everywhere.
        there = ((numbers[0] > 0) | (numbers[1] > 0)).nonzero()[:, 0]
        others = oneflow.ones(len(self), dtype=oneflow.bool)
        others[mine] = False
        there = there[others[there]]
        columns = (self.tables, self.ids, numbers[0], numbers[1], rows)
        store.put(*[column[there].contiguous() for column in columns])

    def drop_copies(self, store: _EmbeddingStore, rank: int, n_ranks: int) -> None:
        """Remove the rows that this rank does not own."""
        order, counts = self.batch.by_owner(n_ranks)
        first = sum(counts[:rank])
        others = oneflow.ones(len(self), dtype=oneflow.bool)
        others[order[first : first + counts[rank]]] = False
        store.remove(self.part(others.nonzero()[:, 0]))


def hottest(store: _EmbeddingStore, n: int, n_ranks: int) -> tuple[Tensor, Tensor]:
    """Tables and ids of the ``n`` rows of all ranks that updates named most often. All ranks call this together."""
    tables, ids, counts = store.hottest(n)
    known = oneflow.zeros(n, 3, dtype=oneflow.int64)
    known[: len(ids)] = oneflow.stack([counts, tables, ids], 1)
    if n_ranks > 1:
        parts = [oneflow.empty_like(known) for _ in range(n_ranks)]
        distributed.all_gather(parts, known)
        known = oneflow.cat(parts)
    rows: list[Any] = sorted((-count, table, key) for count, table, key in known.tolist() if count > 0)[:n]
    chosen = oneflow.tensor([row[1:] for row in rows], dtype=oneflow.int64).reshape(-1, 2)
    return chosen[:, 0], chosen[:, 1]
