"""``context_parallel``: buffers are cut along the sequence, and attention inside of the block is that of the whole.

PyTorch cuts equal parts; here lengths need not divide, and masks may be given.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import oneflow
import oneflow.nn.functional as F
from oneflow import Tensor, distributed
from oneflow.distributed.context import balanced_spans, even_spans, order_of, ring_attention
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor.experimental._context_parallel._load_balancer import _LoadBalancer
from oneflow.overrides import TorchFunctionMode

__all__ = [
    "_RotateMethod",
    "_context_parallel_shard",
    "_cp_options",
    "_disable_context_parallel_dispatcher",
    "_enable_context_parallel_dispatcher",
    "context_parallel",
    "context_parallel_unshard",
    "set_rotate_method",
]


class _RotateMethod(enum.Enum):
    ALL_TO_ALL = enum.auto()
    ALL_GATHER = enum.auto()


@dataclass
class _ContextParallelOptions:
    """Settings of the process.

    Args:
        convert_to_f32: half types are summed in float32; always so here.
        enable_load_balance: each rank has a part from the beginning and one from the end of a sequence.
        rotate_method: keys and values go around from rank to rank, or are gathered.
    """

    convert_to_f32: bool = True
    enable_load_balance: bool = True
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method: str) -> None:
    """Say how keys and values reach the other ranks: "allgather", the default, or "alltoall" around a ring.

    Raises:
        NotImplementedError: another method.
    """
    methods = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in methods:
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = methods[rotate_method]


_SIGNATURE = inspect.signature(
    lambda query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False: None
)


class _RingOfParts(TorchFunctionMode):
    """``scaled_dot_product_attention`` of parts of a sequence over a mesh.

    Args:
        length: of the whole sequence. Ranks hold equal parts by default.
        balanced: whether the parts are in balanced order.
        seq_dim: of queries, keys and values.
    """

    def __init__(self, mesh: DeviceMesh, length: int | None, balanced: bool, seq_dim: int = 2) -> None:
        super().__init__()
        self.mesh, self.length, self.balanced, self.seq_dim = mesh, length, balanced, seq_dim

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **kwargs)
        given = _SIGNATURE.bind(*args, **kwargs)
        given.apply_defaults()
        return self._attend(**given.arguments)

    def _attend(
        self, query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, **options: Any
    ) -> Tensor:
        if dropout_p:
            raise NotImplementedError("context_parallel: attention weights are not dropped; pass dropout_p=0.0")
        n, dim = self.mesh.size(), self.seq_dim
        parts = [x.transpose(dim, 2) for x in (query, key, value)]
        length = parts[1].shape[2] * n if self.length is None else self.length
        spans = (balanced_spans if self.balanced else even_spans)(length, n)
        ring = _cp_options.rotate_method is _RotateMethod.ALL_TO_ALL
        y = ring_attention(
            parts[0],
            parts[1],
            parts[2],
            attn_mask,
            is_causal,
            spans=spans,
            method="ring" if ring else "allgather",
            group=self.mesh.get_group(),
            **options,
        )
        return y.transpose(dim, 2)


def _own(buffer: Tensor, dim: int, order: Tensor, counts: list[int], rank: int) -> Tensor:
    """A rank's part of a buffer whose positions come in ``order``, (1 or batch, length)."""
    start = sum(counts[:rank])
    own = order[:, start : start + counts[rank]].to(buffer.device)
    if len(own) == 1 or dim == 0:
        return buffer.index_select(dim, own[0])
    if len(own) != buffer.shape[0]:
        raise ValueError(
            f"Cannot rearrange buffer: load_balance_indices has shape {tuple(order.shape)}, but buffer has shape "
            f"{tuple(buffer.shape)}."
        )
    return oneflow.stack([row.index_select(dim - 1, at) for row, at in zip(buffer, own, strict=True)])


def _order(length: int, n: int, balancer: _LoadBalancer | None, balanced: bool) -> tuple[Tensor, list[int]]:
    """Positions in their new order, (1 or batch, length), and how many each rank has."""
    counts = [end - start for ((start, end),) in even_spans(length, n)]
    indices = None if balancer is None else balancer._generate_indices()
    if indices is not None:
        if indices.dim() != 2 or indices.shape[1] != length:
            raise ValueError(f"the load balancer orders {tuple(indices.shape)} positions of a sequence of {length}")
        return indices, counts
    spans = balanced_spans(length, n) if balanced else even_spans(length, n)
    return oneflow.tensor([order_of(spans)]), counts


def _lengths_of(buffers: Sequence[Any], dims: Sequence[int]) -> int:
    if len(buffers) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    for buffer in buffers:
        if not isinstance(buffer, Tensor):
            raise NotImplementedError(f"context parallelism splits tensors, got {type(buffer).__name__}")
    lengths = {buffer.shape[dim] for buffer, dim in zip(buffers, dims, strict=True)}
    if len(lengths) > 1:
        raise ValueError(f"buffers have sequences of different lengths: {sorted(lengths)}")
    return lengths.pop() if lengths else 0


def _context_parallel_shard(
    mesh: DeviceMesh,
    buffers: Sequence[Tensor],
    seq_dims: Sequence[int],
    load_balancer: _LoadBalancer | None = None,
) -> list[Tensor]:
    """Return this rank's part of each buffer, in the order of ``load_balancer`` if there is one.

    Raises:
        ValueError: not one dimension for each buffer, or sequences of different lengths.
        NotImplementedError: something else than tensors, block masks for instance.
    """
    length = _lengths_of(buffers, seq_dims)
    order, counts = _order(length, mesh.size(), load_balancer, False)
    rank = mesh.get_local_rank()
    return [_own(buffer, dim, order, counts, rank) for buffer, dim in zip(buffers, seq_dims, strict=True)]


@contextlib.contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: list[Tensor] | None = None,
    buffer_seq_dims: list[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """Inside, buffers hold this rank's part of the sequence, and attention is that of the whole sequence.

    ``scaled_dot_product_attention`` takes a rank's parts (batch, heads, time, head_dim) and gives its rows; a mask has
    a rank's rows and all columns, in the order in which ranks hold them.

    Args:
        mesh: of one dimension.
        buffers: tensors with a dimension of the sequence: tokens, labels, positions. They change in place, each rank to
            two parts from either end (``_cp_options.enable_load_balance``), and become whole again at the end.
        buffer_seq_dims: the dimension of each.
        no_restore_buffers: those that need not become whole again.

    Raises:
        ValueError: not one dimension for each buffer, or sequences of different lengths.
        NotImplementedError: dropped attention weights.

    Example::

        >>> from oneflow.distributed.tensor.experimental import context_parallel
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     x = oneflow.ones(1, 2, 8, 4)
        ...     with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
        ...         return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 2, 4, 4]), oneflow.Size([1, 2, 4, 4])]
    """
    buffers, dims = buffers or [], buffer_seq_dims or []
    kept = list(no_restore_buffers or ())
    length = _lengths_of(buffers, dims)
    if any(all(b is not buffer for buffer in buffers) for b in kept):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    balanced = _cp_options.enable_load_balance
    with oneflow.no_grad():
        whole = [None if any(b is x for x in kept) else b.clone() for b in buffers]
        order, counts = _order(length, mesh.size(), None, balanced)
        for buffer, dim in zip(buffers, dims, strict=True):
            part = _own(buffer, dim, order, counts, mesh.get_local_rank())
            buffer.resize_(part.shape)
            buffer.copy_(part)
    try:
        with _RingOfParts(mesh, length if buffers else None, balanced):
            yield
    finally:
        with oneflow.no_grad():
            for buffer, old in zip(buffers, whole, strict=True):
                if old is not None:
                    buffer.resize_(old.shape)
                    buffer.copy_(old)


@oneflow.no_grad()
def context_parallel_unshard(
    mesh: DeviceMesh, buffers: list[Tensor], seq_dims: list[int], load_balancer: _LoadBalancer | None = None
) -> list[Tensor]:
    """Return the whole of tensors of which each rank has a part, in the order of positions.

    Args:
        load_balancer: the one by which they were cut; that of :func:`context_parallel` by default.

    Example::

        >>> from oneflow.distributed.tensor.experimental import context_parallel
        >>> from oneflow.distributed.tensor.experimental._attention import context_parallel_unshard
        >>> def rank():
        ...     mesh, x = oneflow.distributed.init_device_mesh("cpu", (2,)), oneflow.arange(8)
        ...     with context_parallel(mesh, buffers=[x], buffer_seq_dims=[0]):
        ...         return context_parallel_unshard(mesh, [x * 10], [0])[0].tolist()
        >>> oneflow.testing.run_ranks(2, rank)[0]
        [0, 10, 20, 30, 40, 50, 60, 70]
    """
    n, found = mesh.size(), []
    for buffer, dim in zip(buffers, seq_dims, strict=True):
        rows = buffer.movedim(dim, 0).contiguous()
        counts: list[Any] = [None] * n
        distributed.all_gather_object(counts, rows.shape[0], mesh.get_group())
        parts = [rows.new_empty((count, *rows.shape[1:])) for count in counts]
        distributed.all_gather(parts, rows, mesh.get_group())
        joined = oneflow.cat(parts).movedim(0, dim)
        order, _ = _order(sum(counts), n, load_balancer, _cp_options.enable_load_balance)
        found.append(_own(joined, dim, order.argsort(-1), [sum(counts)], 0))
    return found


def _enable_context_parallel_dispatcher() -> None:
    """Accepted: modules that ``_ContextParallel`` was applied to need nothing more."""


def _disable_context_parallel_dispatcher() -> None:
    """The counterpart of ``_enable_context_parallel_dispatcher``."""
