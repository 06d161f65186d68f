"""Which rows of a call's inputs each micro-batch takes, and results in the order of rows again.

Where ranks share inputs by rows (``split(0)``), a micro-batch takes a part of each rank's rows, so that no row moves:
as OneFlow's graphs cut inputs, and as each process of a data-parallel job cuts its own. All inputs are cut alike,
replicated ones too, so rows that belong together stay together. Otherwise micro-batches are consecutive rows.
"""

from __future__ import annotations

import math

import oneflow
from oneflow import Tensor, _oneflow

__all__ = ["MicroBatches"]


class MicroBatches:
    """The parts of the inputs of one call.

    Args:
        inputs: the tensors that the call is given.
        count: the number of micro-batches.

    Raises:
        ValueError: the first dimension of an input does not divide.
    """

    def __init__(self, inputs: list[Tensor], count: int) -> None:
        for tensor in inputs if count > 1 else []:
            if tensor.dim() == 0 or tensor.size(0) % count:
                raise ValueError(
                    f"nn.Graph: {count} gradient accumulation steps need inputs whose first dimension is a multiple of "
                    f"{count}, got one of shape {tuple(tensor.shape)}"
                )
        self._count = count
        self._n_parts = _parts(inputs, count)
        self._rows = {tensor.size(0) // count for tensor in inputs if count > 1}

    def part(self, tensor: Tensor, index: int) -> Tensor:
        """The part of an input that a micro-batch takes."""
        if self._count == 1:
            return tensor
        rows = tensor.size(0) // self._count
        if self._n_parts == 1:
            return tensor.narrow(0, index * rows, rows)
        size = rows // self._n_parts
        if _n_split(tensor) == 1:
            blocks = tensor.reshape(self._n_parts, self._count, size, *tensor.shape[1:])
            return blocks.select(1, index).reshape(rows, *tensor.shape[1:])
        own = _own(tensor)
        # A rank outside of the placement has nothing.
        own = own.narrow(0, index * size, size) if own.size(0) == size * self._count else own
        return _assembled(own, tensor, rows)

    def together(self, parts: list[Tensor]) -> Tensor:
        """The results of all micro-batches as one tensor."""
        first = parts[0]
        if first.dim() == 0:
            return oneflow.stack(parts)
        if self._n_parts == 1 or first.size(0) not in self._rows:
            return oneflow.cat(parts)
        rows = first.size(0) * self._count
        if first.is_global and _n_split(first) == self._n_parts:
            return _assembled(oneflow.cat([_own(part) for part in parts]), first, rows)
        blocks = [part.reshape(self._n_parts, part.size(0) // self._n_parts, *part.shape[1:]) for part in parts]
        return oneflow.cat(blocks, 1).reshape(rows, *first.shape[1:])


def _n_split(tensor: Tensor) -> int:
    """In how many parts ranks share the rows of a global tensor."""
    return math.prod(n for n, s in zip(tensor.placement.ranks.shape, tensor.sbp, strict=True) if s.dim == 0)


def _parts(inputs: list[Tensor], count: int) -> int:
    """In how many parts ranks share the rows of all inputs; 1 where they do not do so alike."""
    if count == 1 or not all(tensor.is_global for tensor in inputs):
        return 1
    found = {n for n in map(_n_split, inputs) if n > 1}
    n = found.pop() if len(found) == 1 else 1
    return n if all(tensor.size(0) % (n * count) == 0 for tensor in inputs) else 1


def _own(tensor: Tensor) -> Tensor:
    """This rank's rows."""
    return _oneflow._C._shard(tensor, tensor.placement, list(tensor.sbp), False)


def _assembled(own: Tensor, like: Tensor, rows: int) -> Tensor:
    """The global tensor of so many rows of which these are this rank's."""
    return _oneflow._C._assemble(own, like.placement, list(like.sbp), [rows, *like.shape[1:]])
