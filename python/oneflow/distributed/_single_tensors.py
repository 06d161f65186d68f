"""Collectives with one tensor for all ranks, under the names that PyTorch has for them since 2.15."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed._groups import _members_only, _root, get_rank, get_world_size

__all__ = ["all_gather_single", "gather_into_tensor", "gather_single", "reduce_scatter_single"]


@_members_only
def all_gather_single(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """Another name of :func:`oneflow.distributed.all_gather_into_tensor`.

    Example::

        >>> def rank():
        ...     got = oneflow.zeros(2)
        ...     oneflow.distributed.all_gather_single(got, oneflow.ones(1))
        ...     return got.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 1.0], [1.0, 1.0]]
    """
    return oneflow.distributed.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


@_members_only
def reduce_scatter_single(
    output: Tensor, input: Tensor, op: Any = "sum", group: Any = None, async_op: bool = False
) -> Any:
    """Another name of :func:`oneflow.distributed.reduce_scatter_tensor`.

    Example::

        >>> def rank():
        ...     got = oneflow.zeros(1)
        ...     oneflow.distributed.reduce_scatter_single(got, oneflow.ones(2))
        ...     return got.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[2.0], [2.0]]
    """
    return oneflow.distributed.reduce_scatter_tensor(output, input, op, group, async_op)


@_members_only
def gather_single(
    tensor: Tensor,
    gather_tensor: Tensor | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Collect every rank's ``tensor`` in ``gather_tensor`` of rank ``dst``, one after the other.

    Args:
        gather_tensor: contiguous, with as many elements as all tensors together, whatever its shape; of rank ``dst``.
        dst: a number in the world, ``group_dst`` one in the group; rank 0 by default.

    Raises:
        ValueError: rank ``dst`` has no ``gather_tensor``, or one of another size or dtype, or one that has gaps.

    Example::

        >>> def rank():
        ...     got = oneflow.zeros(2) if oneflow.distributed.get_rank() == 0 else None
        ...     oneflow.distributed.gather_single(oneflow.full((1,), oneflow.distributed.get_rank() + 1.0), got)
        ...     return None if got is None else got.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 2.0], None]
    """
    peer = _root("gather_single", "dst", group, dst, group_dst)
    if get_rank(group) != peer:
        return oneflow.distributed._run(group, async_op, "gather", tensor, tensor, peer=peer)
    if gather_tensor is None:
        raise ValueError("gather_single: gather_tensor must be specified on the destination rank")
    n = get_world_size(group)
    if gather_tensor.dtype != tensor.dtype or gather_tensor.numel() != n * tensor.numel():
        raise ValueError(
            f"gather_single: gather_tensor is {tuple(gather_tensor.shape)} of {gather_tensor.dtype}, and {n} tensors "
            f"of {tuple(tensor.shape)} of {tensor.dtype} come"
        )
    if not gather_tensor.is_contiguous():
        raise ValueError(f"gather_single: gather_tensor must be contiguous, its strides are {gather_tensor.stride()}")
    output = gather_tensor.view(n, *tensor.shape)
    return oneflow.distributed._run(group, async_op, "gather", output, tensor, peer=peer)


@_members_only
def gather_into_tensor(
    tensor: Tensor,
    gather_tensor: Tensor | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Another name of :func:`gather_single`.

    Example::

        >>> def rank():
        ...     got = oneflow.zeros(2) if oneflow.distributed.get_rank() == 0 else None
        ...     oneflow.distributed.gather_into_tensor(oneflow.ones(1), got)
        ...     return None if got is None else got.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 1.0], None]
    """
    return gather_single(tensor, gather_tensor, dst, group, async_op, group_dst)
