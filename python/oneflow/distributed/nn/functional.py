"""Collectives that return new tensors and have gradients: PyTorch's ``torch.distributed.nn.functional``.

They are compositions of :mod:`oneflow.distributed._functional_collectives`. The loss of a program is the sum of all
ranks' losses: a gradient holds what each rank's result contributes. All ranks call ``backward``, in the same order.
Ranks are named by their numbers in the world.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.autograd.function import Function
from oneflow.distributed import _functional_collectives as functional

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank ``src``, whose gradient is the sum of all ranks'.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = oneflow.full((1,), float(oneflow.distributed.get_rank()), requires_grad=True)
        ...     y = functional.broadcast(x, 1)
        ...     (3 * y).sum().backward()
        ...     return y.item(), x.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [(1.0, 0.0), (1.0, 6.0)]
    """
    return functional.broadcast(tensor, src, group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Every rank's tensor on rank ``dst``; zeros on the others, as PyTorch gives.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = oneflow.full((1,), 1.0 + oneflow.distributed.get_rank())
        ...     return [t.item() for t in functional.gather(x, 0)]
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 2.0], [0.0, 0.0]]
    """
    return tuple(_Gather.apply(tensor, dst, group).unbind(0))


class _Gather(Function):
    """To one rank; the gradient goes back from there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dst: int, group: Any) -> Tensor:
        ctx.dst, ctx.group, ctx.shape = dst, group, x.shape
        n = distributed.get_world_size(group)
        result = x.new_zeros((n, *x.shape))
        places = list(result.unbind(0)) if distributed.get_rank() == dst else None
        distributed.gather(x.detach().contiguous(), places, dst, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Scatter.apply(grad, ctx.dst, ctx.group), None, None


class _Scatter(Function):
    """From one rank; the gradient goes back there."""

    @staticmethod
    def forward(ctx: Any, stacked: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        result = stacked.new_empty(stacked.shape[1:])
        parts = [t.contiguous() for t in stacked.detach().unbind(0)] if distributed.get_rank() == src else None
        distributed.scatter(result, parts, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Gather.apply(grad.contiguous(), ctx.src, ctx.group), None, None


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Entry ``i`` of rank ``src``'s list on rank ``i``. All ranks bring a list; the others' entries give the shape.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = [oneflow.ones(1, requires_grad=True), oneflow.full((1,), 2.0, requires_grad=True)]
        ...     y = functional.scatter(x, 0)
        ...     (5 * y).sum().backward()
        ...     return y.item(), x[1].grad.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [(1.0, 5.0), (2.0, 0.0)]
    """
    n = distributed.get_world_size(group)
    if len(tensors) != n:
        raise ValueError(f"scatter: {len(tensors)} tensors for {n} ranks")
    return _Scatter.apply(oneflow.stack(list(tensors)), src, group)


def reduce(tensor: Tensor, dst: int, op: Any = "sum", group: Any = None) -> Tensor:
    """The reduction on rank ``dst``, and a copy of the input on the others.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> oneflow.testing.run_ranks(2, lambda: functional.reduce(oneflow.ones(1), 0).item())
        [2.0, 1.0]
    """
    return _Reduce.apply(tensor, dst, op, group)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        result = x.detach().clone(memory_format=oneflow.contiguous_format)
        own = result.clone()
        distributed.reduce(result, dst, op, group)
        # What a reduction leaves elsewhere is no result.
        return result if distributed.get_rank() == dst else own

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        functional._linear(str(ctx.op))
        back = functional.broadcast(grad, ctx.dst, ctx.group)
        return back / distributed.get_world_size(ctx.group) if str(ctx.op) == "avg" else back, None, None, None


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = "sum", group: Any = None) -> Tensor:
    """The reduction of all ranks' lists, of which each rank keeps its entry; ``output`` gives the shape.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = [oneflow.ones(1), oneflow.full((1,), 2.0)]
        ...     return functional.reduce_scatter(oneflow.empty(1), x).item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 4.0]
    """
    n = distributed.get_world_size(group)
    if len(input_list) != n or any(t.shape != output.shape for t in input_list):
        shapes = [list(t.shape) for t in input_list]
        raise ValueError(f"reduce_scatter: expected {n} tensors of shape {list(output.shape)}, got {shapes}")
    return functional.reduce_scatter_tensor(oneflow.stack(list(input_list)), str(op), 0, group).squeeze(0)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Every rank's tensor, all of one shape; the gradient is the sum of what all ranks' results contribute.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = oneflow.full((1,), float(oneflow.distributed.get_rank()), requires_grad=True)
        ...     parts = functional.all_gather(x)
        ...     (parts[0] + 2 * parts[1]).sum().backward()
        ...     return [t.item() for t in parts], x.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [([0.0, 1.0], 2.0), ([0.0, 1.0], 4.0)]
    """
    return tuple(functional.all_gather_tensor(tensor.unsqueeze(0), 0, group).unbind(0))


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """What each rank sends here; ``output_tensor_list`` gives the shapes.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = [oneflow.full((1,), 10.0 * oneflow.distributed.get_rank() + i) for i in range(2)]
        ...     return [t.item() for t in functional.all_to_all([oneflow.empty(1), oneflow.empty(1)], x)]
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 10.0], [1.0, 11.0]]
    """
    n = distributed.get_world_size(group)
    if len(output_tensor_list) != n or len(input_tensor_list) != n:
        raise ValueError(
            f"all_to_all: {len(input_tensor_list)} inputs and {len(output_tensor_list)} outputs for {n} ranks"
        )
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    flat = oneflow.cat([t.reshape(-1) for t in input_tensor_list])
    got = functional.all_to_all_single(flat, received, sent, group)
    return tuple(part.view(t.shape) for part, t in zip(got.split(received), output_tensor_list, strict=True))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Rows that the other ranks send to this one; ``output`` gives the number of rows where no sizes are named.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     return functional.all_to_all_single(oneflow.empty(2), x).tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [0.0, 1.0]]
    """
    got = functional.all_to_all_single(input, output_split_sizes, input_split_sizes, group)
    if got.shape != output.shape:
        raise ValueError(f"all_to_all_single: output is {list(output.shape)}, but {list(got.shape)} comes")
    return got


def all_reduce(tensor: Tensor, op: Any = "sum", group: Any = None) -> Tensor:
    """The reduction over all ranks, with the gradients of ``_functional_collectives.all_reduce``.

    PyTorch's own function of this name reduces the gradients of a maximum by a maximum, which is not its gradient.

    Example::

        >>> from oneflow.distributed.nn import functional
        >>> oneflow.testing.run_ranks(2, lambda: functional.all_reduce(oneflow.ones(1)).item())
        [2.0, 2.0]
    """
    return functional.all_reduce(tensor, str(op), group)
