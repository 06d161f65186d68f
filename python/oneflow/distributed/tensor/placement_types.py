"""How a tensor lies over one dimension of a mesh: PyTorch's ``Shard``, ``Replicate`` and ``Partial``.

They are words for :mod:`oneflow.sbp`: split, broadcast and partial sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.sbp import broadcast, partial_sum, sbp, split

# An average is held as a sum of n-th parts.
_REDUCED = {"sum": partial_sum, "avg": partial_sum, "max": sbp("P(max)"), "min": sbp("P(min)")}
_NAMES = {layout: name for name, layout in _REDUCED.items() if name != "avg"}

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies over one dimension of a mesh.

    Example::

        >>> from oneflow.distributed.tensor import Placement, Shard
        >>> isinstance(Shard(0), Placement), Shard(0).is_replicate()
        (True, False)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether ranks hold slices, along ``dim`` if it is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank holds all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether ranks hold terms of a sum, or candidates of a maximum or minimum."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


class Shard(Placement):
    """Each rank holds a slice along ``dim``, as :func:`oneflow.chunk` cuts it: the last ranks have less or nothing.

    Args:
        dim: the dimension of the tensor, negative from the end.

    Example::

        >>> oneflow.distributed.tensor.Shard(1)
        Shard(dim=1)
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shard) and other.dim == self.dim

    def __hash__(self) -> int:
        return hash(("Shard", self.dim))

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """The size of the slice of one of ``num_chunks`` ranks, and where it begins; an empty one begins at the end.

        Example::

            >>> from oneflow.distributed.tensor import Shard
            >>> [Shard.local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
            [(2, 0), (2, 2), (1, 4), (0, 5)]
        """
        step = -(-curr_local_size // num_chunks)
        start, end = (min(at * step, curr_local_size) for at in (rank, rank + 1))
        return end - start, start

    _local_shard_size_and_offset = local_shard_size_and_offset

    def _split_tensor(
        self, tensor: Tensor, num_chunks: int, *, with_padding: bool = True, contiguous: bool = True
    ) -> tuple[list[Tensor], list[int]]:
        """The slices of all ranks, and how much each one lacks of the first one's size, to which padding brings it.

        PyTorch's private function of this name.
        """
        dim = self.dim % tensor.dim()
        step = -(-tensor.size(dim) // num_chunks)
        pieces, missing = [], []
        for i in range(num_chunks):
            size, start = Shard.local_shard_size_and_offset(tensor.size(dim), num_chunks, i)
            piece = tensor.narrow(dim, start, size)
            missing.append(step - size if with_padding else 0)
            if missing[-1]:
                piece = pad_tensor(piece, dim, missing[-1])
            pieces.append(piece.contiguous() if contiguous else piece)
        return pieces, missing if with_padding else []


class _StridedShard(Placement):
    """A slice along ``dim`` of a tensor that later dimensions of the mesh have cut into ``split_factor`` slices before.

    PyTorch's name for shards of ``fully_shard`` inside those of tensor parallelism: on a mesh ("dp", "tp"),
    ``[_StridedShard(0, split_factor=tp), Shard(0)]`` cuts rows over "tp" first, and the slices over "dp".

    Args:
        dim: the dimension of the tensor, negative from the end.
        split_factor: the product of the sizes of the mesh's dimensions that cut ``dim`` first; ``sf`` for short.

    Raises:
        TypeError: both ``split_factor`` and ``sf``.

    Example::

        >>> from oneflow.distributed.tensor.placement_types import _StridedShard
        >>> _StridedShard(0, split_factor=2)
        _StridedShard(dim=0, sf=2)
    """

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        if sf is not None and split_factor != 1:
            raise TypeError("_StridedShard received both split_factor and sf")
        self.dim, self.split_factor = dim, int(split_factor if sf is None else sf)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StridedShard) and (other.dim, other.split_factor) == (self.dim, self.split_factor)

    def __hash__(self) -> int:
        return hash(("_StridedShard", self.dim, self.split_factor))

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """Each rank holds all of the tensor.

    Example::

        >>> oneflow.distributed.tensor.Replicate()
        Replicate()
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replicate)

    def __hash__(self) -> int:
        return hash("Replicate")

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """Each rank holds a term; the tensor is their sum or average, or their greatest or smallest.

    Args:
        reduce_op: ``"sum"``, ``"avg"``, ``"max"`` or ``"min"``. DTensors made of terms of an average hold n-th parts of
            them, for n ranks, so that their ``placements`` say ``Partial(sum)``.

    Raises:
        NotImplementedError: another way to reduce.

    Example::

        >>> oneflow.distributed.tensor.Partial()
        Partial(sum)
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        if reduce_op not in _REDUCED:
            raise NotImplementedError(
                f"Partial: reduce_op {reduce_op!r} is not supported; terms are reduced by {', '.join(_REDUCED)}"
            )
        self.reduce_op = reduce_op

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partial) and other.reduce_op == self.reduce_op

    def __hash__(self) -> int:
        return hash(("Partial", self.reduce_op))

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def to_sbp(placements: Sequence[Placement] | None, n_axes: int, ndim: int, what: str) -> list[Any]:
    """The SBP of placements, one for each of ``n_axes``; all replicated if there are none.

    Raises:
        ValueError: another number of them than the mesh has dimensions.
        IndexError: a dimension that the tensor does not have.
    """
    if placements is None:
        return [broadcast] * n_axes
    if len(placements) != n_axes:
        raise ValueError(
            f"{what}: `placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {n_axes}."
        )
    return [_one_sbp(p, ndim, what) for p in placements]


def _one_sbp(p: Placement, ndim: int, what: str) -> Any:
    if isinstance(p, Shard):
        if not -ndim <= p.dim < ndim:
            raise IndexError(f"{what}: {p!r} is out of range for a tensor of {ndim} dimensions")
        return split(p.dim % ndim)
    if isinstance(p, Replicate):
        return broadcast
    if isinstance(p, Partial):
        return _REDUCED[p.reduce_op]
    raise TypeError(f"{what}: placements are Shard, Replicate or Partial, got {type(p).__name__}")


def n_averaged(placements: Sequence[Placement] | None, sizes: Sequence[int]) -> int:
    """By how much terms are divided that a sum over dimensions of a mesh of these sizes makes an average of."""
    n = 1
    for placement, size in zip(placements or (), sizes, strict=False):
        n *= size if placement.is_partial("avg") else 1
    return n


def from_sbp(layout: Sequence[Any]) -> tuple[Placement, ...]:
    """The placements of an SBP."""
    return tuple(
        Partial(_NAMES[s]) if is_partial(s) else Replicate() if s.dim is None else Shard(s.dim) for s in layout
    )


def is_partial(s: Any) -> bool:
    """Whether an entry of an SBP says that ranks hold terms, by whatever they are reduced."""
    return s in _NAMES


# Its name in older versions of PyTorch.
_Partial = Partial


def pad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """``tensor`` with ``pad_size`` zeros more at the end of a dimension."""
    if pad_size == 0:
        return tensor
    pad = [0, 0] * (tensor.dim() - pad_dim)
    pad[-1] = pad_size
    return oneflow.nn.functional.pad(tensor, pad)
