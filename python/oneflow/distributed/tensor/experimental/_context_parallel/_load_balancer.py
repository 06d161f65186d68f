"""Orders of a sequence under which all ranks have the same work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed.context import balanced_spans, order_of

__all__ = ["_HeadTailLoadBalancer", "_LoadBalancer", "_PerDocumentHeadTailLoadBalancer"]


class _LoadBalancer(ABC):
    """Says in which order a sequence is cut into equal parts, one for each rank.

    ``_generate_indices()`` gives int64 (1, seq_len), or (batch, seq_len) where rows differ: the positions in their new
    order; with ``restore=True`` where each position lies.
    """

    @abstractmethod
    def _generate_indices(self, restore: bool = False) -> Tensor | None: ...


class _HeadTailLoadBalancer(_LoadBalancer):
    """Each rank has a part from the beginning and one from the end: equal work under a causal mask.

    Raises:
        AssertionError: twice the number of ranks does not divide the length.
    """

    def __init__(self, seq_length: int, world_size: int, device: Any) -> None:
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        return _indices([self.seq_length], self.world_size, self.device, restore).unsqueeze(0)


class _PerDocumentHeadTailLoadBalancer(_LoadBalancer):
    """The same within each document of a sequence: every rank has a part of every document.

    Args:
        seq_length_per_doc: the lengths of documents, one list for all rows of the batch or one for each.

    Raises:
        AssertionError: twice the number of ranks does not divide a length.
    """

    def __init__(self, seq_length_per_doc: Sequence[Sequence[int]], world_size: int, device: Any) -> None:
        self.seq_length_per_doc, self.world_size, self.device = seq_length_per_doc, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        rows = [_indices(lengths, self.world_size, self.device, restore) for lengths in self.seq_length_per_doc]
        return oneflow.stack(rows)


def _indices(lengths: Sequence[int], n: int, device: Any, restore: bool) -> Tensor:
    if any(length % (2 * n) for length in lengths):
        raise AssertionError(f"lengths {list(lengths)} do not divide by twice the {n} ranks")
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    spans = [balanced_spans(length, n) for length in lengths]
    order = [
        start + position
        for rank in range(n)
        for start, of in zip(starts, spans, strict=True)
        for position in order_of([of[rank]])
    ]
    indices = oneflow.tensor(order, device=device)
    return indices.argsort() if restore else indices
