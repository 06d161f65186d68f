"""Collectives that return new tensors and have gradients: PyTorch's ``torch.distributed._functional_collectives``.

Each is complete when it returns, so :func:`wait_tensor` has nothing to wait for. A gradient is a collective too: all
ranks call ``backward`` for the same results in the same order. Gradients of gradients work alike. A group may also be a
mesh of one dimension, ``(mesh, dimension)``, or the list of all ranks.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.autograd.function import Function
from oneflow.distributed.device_mesh import DeviceMesh

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_single_autograd",
    "all_gather_single_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
    "wait_tensors",
]


class AsyncCollectiveTensor(Tensor):
    """The class of results that PyTorch still waits for. Those here are complete: none is of this class.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> isinstance(functional.wait_tensor(oneflow.ones(1)), functional.AsyncCollectiveTensor)
        False
    """


def _of(group: Any) -> Any:
    """The process group: itself, that of a mesh of one dimension, or of ``(mesh, dimension)``."""
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, list):
        if sorted(group) != list(range(distributed.get_world_size())):
            raise NotImplementedError(
                f"functional collectives: a list as group is that of all {distributed.get_world_size()} ranks, got "
                f"{group}; give a group of distributed.new_group, or a mesh"
            )
        return None
    return group


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor: it is complete.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> functional.wait_tensor(oneflow.ones(1))
        tensor([1.])
    """
    return tensor


def wait_tensors(tensors: list[Tensor]) -> list[Tensor]:
    """Return the tensors: they are complete.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> functional.wait_tensors([oneflow.ones(1)])
        [tensor([1.])]
    """
    return tensors


def all_reduce(self: Tensor, reduceOp: str, group: Any = None, tag: str = "") -> Tensor:
    """The reduction over all ranks; gradients of ``"sum"``, ``"avg"``, ``"max"`` and ``"min"``.

    The gradient of a maximum or minimum goes to the ranks that have it, in equal shares.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     x = oneflow.ones(1, requires_grad=True)
        ...     functional.all_reduce(3 * x, "sum").backward()
        ...     return x.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)  # Each rank's result depends on this one's input.
        [6.0, 6.0]
    """
    return _AllReduce.apply(self, reduceOp, _of(group))


def all_reduce_coalesced(self: list[Tensor], reduceOp: str, group: Any = None, tag: str = "") -> list[Tensor]:
    """:func:`all_reduce` of each of the tensors.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> oneflow.testing.run_ranks(2, lambda: functional.all_reduce_coalesced([oneflow.ones(1)], "sum"))
        [[tensor([2.])], [tensor([2.])]]
    """
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def broadcast(self: Tensor, src: int, group: Any = None, tag: str = "") -> Tensor:
    """The tensor of rank ``src``, whose gradient is the sum of all ranks'.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     return functional.broadcast(oneflow.full((1,), float(oneflow.distributed.get_rank())), 1).item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 1.0]
    """
    return _Broadcast.apply(self, src, _of(group))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any = None, tag: str = "") -> Tensor:
    """The tensors of all ranks, one after the other along a dimension.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     x = oneflow.full((1, 2), float(oneflow.distributed.get_rank()))
        ...     return functional.all_gather_tensor(x, 0).tolist()
        >>> oneflow.testing.run_ranks(2, rank)[0]
        [[0.0, 0.0], [1.0, 1.0]]
    """
    gathered = _AllGather.apply(self.movedim(gather_dim, 0), _of(group))
    return gathered.movedim(0, gather_dim)


def all_gather_into_tensor_coalesced(self: list[Tensor], group: Any = None, tag: str = "") -> list[Tensor]:
    """:func:`all_gather_tensor` of each of the tensors, along their first dimensions.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> oneflow.testing.run_ranks(2, lambda: functional.all_gather_into_tensor_coalesced([oneflow.ones(1)]))
        [[tensor([1., 1.])], [tensor([1., 1.])]]
    """
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str, scatter_dim: list[int], group: Any = None, tag: str = ""
) -> list[Tensor]:
    """:func:`reduce_scatter_tensor` of each of the tensors.

    Args:
        inputs: the tensors.
        reduceOp: how all are reduced.
        scatter_dim: for each its dimension.

    Raises:
        ValueError: not as many dimensions as tensors, or one that is no multiple of the number of ranks.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     return functional.reduce_scatter_tensor_coalesced([oneflow.ones(2)], "sum", [0])
        >>> oneflow.testing.run_ranks(2, rank)
        [[tensor([2.])], [tensor([2.])]]
    """
    if len(inputs) != len(scatter_dim):
        raise ValueError(
            f"reduce_scatter_tensor_coalesced: {len(inputs)} inputs have {len(scatter_dim)} dimensions in scatter_dim"
        )
    return [reduce_scatter_tensor(x, reduceOp, dim, group) for x, dim in zip(inputs, scatter_dim, strict=True)]


def permute_tensor(self: Tensor, src_dst: list[int], group: Any = None, tag: str = "") -> Tensor:
    """The tensor of another rank.

    Args:
        self: of the same shape on all ranks.
        src_dst: for each rank of the group the one to which its tensor goes.

    Raises:
        ValueError: ``src_dst`` does not name each rank once.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     return functional.permute_tensor(oneflow.full((1,), float(oneflow.distributed.get_rank())), [1, 0])
        >>> oneflow.testing.run_ranks(2, rank)
        [tensor([1.]), tensor([0.])]
    """
    group = _of(group)
    here, n = distributed.get_rank(group), distributed.get_world_size(group)
    if sorted(src_dst) != list(range(n)):
        raise ValueError(f"permute_tensor: src_dst names each of {n} ranks once, got {src_dst}")
    sent, received = [0] * n, [0] * n
    sent[src_dst[here]] = received[src_dst.index(here)] = self.numel()
    return all_to_all_single(self.reshape(-1), received, sent, group).view(self.shape)


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any = None, tag: str = "") -> Tensor:
    """The reduction over all ranks, of which each keeps its piece along a dimension.

    Raises:
        ValueError: the dimension is no multiple of the number of ranks.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     return functional.reduce_scatter_tensor(oneflow.arange(2.0), "sum", 0).tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0], [2.0]]
    """
    group = _of(group)
    n = distributed.get_world_size(group)
    if self.shape[scatter_dim] % n:
        raise ValueError(
            f"reduce_scatter_tensor: dimension {scatter_dim} of {list(self.shape)} is no multiple of {n} ranks"
        )
    return _ReduceScatter.apply(self.movedim(scatter_dim, 0), reduceOp, group).movedim(0, scatter_dim)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any = None,
    tag: str = "",
) -> Tensor:
    """Rows that the other ranks send to this one, in the order of ranks.

    Example::

        >>> from oneflow.distributed import _functional_collectives as functional
        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     return functional.all_to_all_single(x, None, None).tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [0.0, 1.0]]
    """
    return _AllToAll.apply(self, output_split_sizes, input_split_sizes, _of(group))


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
# Their names since PyTorch 2.15.
all_gather_single = all_gather_single_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


def _linear(op: str, others: str = "sum and avg") -> str:
    if op not in ("sum", "avg"):
        raise RuntimeError(f"the gradient of a reduction by '{op}' is not defined; {others} have one")
    return op


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, op: str, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = x.detach().clone(memory_format=oneflow.contiguous_format)
        distributed.all_reduce(result, op.lower(), group)
        if op.lower() in ("max", "min"):
            ctx.save_for_backward((x == result) | (x.isnan() & result.isnan()))
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.op.lower() in ("max", "min"):
            (has_it,) = ctx.saved_tensors
            n_have_it = has_it.float()
            distributed.all_reduce(n_have_it, "sum", ctx.group)
            shared = all_reduce(grad, "sum", ctx.group) / n_have_it.to(grad.dtype)
            return shared.masked_fill(~has_it, 0.0), None, None
        return all_reduce(grad, _linear(ctx.op, "sum, avg, max and min"), ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        result = x.detach().clone(memory_format=oneflow.contiguous_format)
        distributed.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        # A product on all ranks, whose own gradients are a collective again.
        return all_reduce(grad, "sum", ctx.group) * float(distributed.get_rank() == ctx.src), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        n = distributed.get_world_size(group)
        result = x.new_empty((n * x.shape[0], *x.shape[1:]))
        distributed.all_gather_into_tensor(result, x.detach().contiguous(), group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return reduce_scatter_tensor(grad, "sum", 0, ctx.group), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, op: str, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        n = distributed.get_world_size(group)
        result = x.new_empty((x.shape[0] // n, *x.shape[1:]))
        distributed.reduce_scatter_tensor(result, x.detach().contiguous(), op.lower(), group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        gathered = all_gather_tensor(grad, 0, ctx.group)
        return (
            gathered / distributed.get_world_size(ctx.group) if _linear(ctx.op) == "avg" else gathered,
            None,
            None,
        )


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, received: list[int] | None, sent: list[int] | None, group: Any) -> Tensor:
        ctx.sizes, ctx.group = (received, sent), group
        result = x.new_empty((sum(received) if received else x.shape[0], *x.shape[1:]))
        distributed.all_to_all_single(result, x.detach().contiguous(), received, sent, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        received, sent = ctx.sizes
        return all_to_all_single(grad, sent, received, ctx.group), None, None, None
