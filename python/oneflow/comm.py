"""Collectives of local tensors under OneFlow's names; they are those of :mod:`oneflow.distributed`."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    barrier,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]


def send(input: Tensor, dst: int, send_meta: bool = True) -> None:
    """Send a tensor to rank ``dst``; with ``send_meta`` its shape and dtype go before it.

    Example::

        >>> def rank():
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.comm.send(oneflow.ones(2), 1)
        ...         return None
        ...     return oneflow.comm.recv(0).tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [None, [1.0, 1.0]]
    """
    if send_meta:
        kinds = _dtypes()
        meta = oneflow.full((66,), -1, dtype=oneflow.int64)
        meta[0], meta[1] = kinds.index(input.dtype), input.dim()
        if input.dim():
            meta[2 : 2 + input.dim()] = oneflow.tensor(list(input.shape))
        distributed.send(meta, dst)
    distributed.send(input.contiguous(), dst)


def recv(src: int, shape: Any = None, dtype: Any = None, device: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Receive a tensor from rank ``src``.

    Args:
        shape, dtype, device: as the sender's, which then passes ``send_meta=False``; else they come with the tensor.
        out: where to put it.

    Raises:
        ValueError: only some of shape, dtype and device are given.

    Example::

        >>> def rank():
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.comm.send(oneflow.ones(2), 1)
        ...         return None
        ...     return oneflow.comm.recv(0).tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [None, [1.0, 1.0]]
    """
    given = [value is not None for value in (shape, dtype, device)]
    if any(given) and not all(given):
        raise ValueError("comm.recv: shape, dtype and device are given together or not at all")
    if not any(given):
        meta = oneflow.empty(66, dtype=oneflow.int64)
        distributed.recv(meta, src)
        numbers = meta.tolist()
        dtype, shape = _dtypes()[numbers[0]], numbers[2 : 2 + numbers[1]]
    result = oneflow.empty(tuple(shape), dtype=dtype) if out is None else out
    distributed.recv(result, src)
    return result


def _dtypes() -> list[Any]:
    """Dtypes by the number that represents them in a message."""
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    more = ("complex64", "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")
    last = ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")
    return [getattr(oneflow, name) for name in (*names, *more, *last)]
