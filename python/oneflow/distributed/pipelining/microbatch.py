"""Arguments cut into micro-batches, and results put together again."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """Says along which dimension a tensor is cut; by default the first.

    Example::

        >>> oneflow.distributed.pipelining.microbatch.TensorChunkSpec(1)
        TensorChunkSpec(1)
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """Return a specification for each dimension."""
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """Return a specification for each named dimension."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[Any, ...] | None = None,
    kwargs_chunk_spec: dict[str, Any] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Return the arguments of each micro-batch.

    Args:
        args: of a whole batch; ``kwargs`` those by name. Tensors in nests are cut, other values repeated.
        chunks: the number of micro-batches.
        args_chunk_spec: for each of ``args`` a :class:`TensorChunkSpec`, or None for one that every micro-batch gets
            whole.

    Raises:
        ValueError: a tensor is too short for so many micro-batches, or the specifications do not match the arguments.

    Example::

        >>> split = oneflow.distributed.pipelining.microbatch.split_args_kwargs_into_chunks
        >>> [a[0].tolist() for a in split((oneflow.arange(4),), None, 2)[0]]
        [[0, 1], [2, 3]]
    """
    kwargs = kwargs or {}
    if args_chunk_spec is not None and len(args_chunk_spec) != len(args):
        raise ValueError(f"args_chunk_spec has {len(args_chunk_spec)} entries for {len(args)} arguments")
    if kwargs_chunk_spec is not None and set(kwargs_chunk_spec) != set(kwargs):
        raise ValueError(f"kwargs_chunk_spec has {sorted(kwargs_chunk_spec)}, the arguments are {sorted(kwargs)}")
    whole = TensorChunkSpec(0)
    of_args = args_chunk_spec or (whole,) * len(args)
    of_kwargs = kwargs_chunk_spec or dict.fromkeys(kwargs, whole)
    cut = [
        _cut(f"argument {i}", value, chunks, spec) for i, (value, spec) in enumerate(zip(args, of_args, strict=True))
    ]
    named = {name: _cut(f"argument {name!r}", value, chunks, of_kwargs[name]) for name, value in kwargs.items()}
    return [tuple(c[i] for c in cut) for i in range(chunks)], [
        {k: c[i] for k, c in named.items()} for i in range(chunks)
    ]


def _cut(what: str, value: Any, chunks: int, spec: TensorChunkSpec | None) -> list[Any]:
    leaves, nest = tree_flatten(value)
    parts: list[list[Any]] = [[] for _ in range(chunks)]
    for leaf in leaves:
        pieces = [leaf] * chunks
        if isinstance(leaf, Tensor) and spec is not None:
            dim = spec.split_dim
            if not -leaf.dim() <= dim < leaf.dim() or leaf.size(dim) < chunks:
                raise ValueError(
                    f"{what} of shape {tuple(leaf.shape)} cannot be cut into {chunks} micro-batches along "
                    f"dimension {dim}"
                )
            pieces = list(oneflow.tensor_split(leaf, chunks, dim))
        for part, piece in zip(parts, pieces, strict=True):
            part.append(piece)
    return [tree_unflatten(part, nest) for part in parts]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """Return one nest made of those of all micro-batches: tensors concatenated, of other values the first.

    Args:
        chunks: the results of each micro-batch.
        chunk_spec: a :class:`TensorChunkSpec` for all tensors, or a tuple or dict of them; None means the first
            dimension.

    Example::

        >>> merge = oneflow.distributed.pipelining.microbatch.merge_chunks
        >>> merge([oneflow.zeros(1), oneflow.ones(1)], None)
        tensor([0., 1.])
    """
    if isinstance(chunk_spec, (tuple, list)):
        return type(chunks[0])(merge_chunks([c[i] for c in chunks], spec) for i, spec in enumerate(chunk_spec))
    if isinstance(chunk_spec, dict):
        return {name: merge_chunks([c[name] for c in chunks], spec) for name, spec in chunk_spec.items()}
    dim = chunk_spec.split_dim if isinstance(chunk_spec, TensorChunkSpec) else 0
    flat = [tree_flatten(c) for c in chunks]
    merged = []
    for leaves in zip(*[leaves for leaves, _ in flat], strict=True):
        if isinstance(leaves[0], Tensor):
            merged.append(oneflow.stack(leaves) if leaves[0].dim() == 0 else oneflow.cat(leaves, dim))
        else:
            merged.append(leaves[0])
    return tree_unflatten(merged, flat[0][1])
