"""The sum of sparse tensors over all ranks: their indices and values are gathered, and added on each."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed._work import _Steps

__all__ = ["all_reduce"]


def all_reduce(group: Any, tensor: Tensor, op: str) -> _Steps:
    """Start reducing a sparse COO tensor in place. Ranks may have different numbers of elements.

    Returns when all ranks have told these numbers; what is sent after that goes on.

    Raises:
        RuntimeError: ``op`` is neither a sum nor an average, or ranks have tensors of different sizes.
    """
    if op not in ("sum", "avg"):
        raise RuntimeError(
            f"all_reduce: unsupported reduction operation {getattr(op, 'value', op)!r} of sparse tensors; use "
            "'sum' or 'avg'"
        )
    n = group.size()
    with oneflow.no_grad():
        mine = tensor.detach().coalesce()
        indices, values = mine.indices().t().contiguous(), mine.values().contiguous()
    facts = oneflow.tensor([indices.shape[0], indices.shape[1], *tensor.shape], dtype=oneflow.int64)
    told = facts.new_empty(n * facts.numel())
    group.issue("all_gather", told, facts, wait=True)
    rows = told.view(n, -1).tolist()
    for rank, row in enumerate(rows):
        if row[1:] != rows[0][1:]:
            raise RuntimeError(
                f"all_reduce: sparse tensors have sizes {rows[0][2:]} ({rows[0][1]} of them sparse) on rank 0 and "
                f"{row[2:]} ({row[1]}) on rank {rank}"
            )
    counts, n_dims, dense = [row[0] for row in rows], indices.shape[1], tuple(values.shape[1:])
    width = 1
    for size in dense:
        width *= size
    all_indices = indices.new_empty(sum(counts) * n_dims)
    all_values = values.new_empty(sum(counts) * width)
    works = [
        group.issue("all_gather", all_indices, indices.view(-1), counts=[c * n_dims for c in counts]),
        group.issue("all_gather", all_values, values.view(-1), counts=[c * width for c in counts]),
    ]

    def add() -> None:
        with oneflow.no_grad():
            at, elements = all_indices.view(-1, n_dims).t(), all_values.view(-1, *dense)
            if op == "avg":
                elements = elements / n
            tensor.copy_(oneflow.sparse_coo_tensor(at, elements, tuple(tensor.shape)).coalesce())

    return _Steps(works, add, [tensor])
