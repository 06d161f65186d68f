"""Reductions of runs of a tensor."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like
from oneflow._oneflow import Function

_INITIAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SCATTER = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


_OTHER_NAMES = {"amax": "max", "amin": "min"}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Reduce each of the segments that follow one another along ``axis``.

    Args:
        data: floating point.
        reduce: ``"sum"``, ``"mean"``, ``"max"`` or ``"amax"``, ``"min"`` or ``"amin"``, or ``"prod"``.
        lengths: lengths of the segments, of shape ``data.shape[:axis] + (segments,)``; they add up to the size of
            ``axis``.
        indices: not implemented.
        offsets: instead of lengths: where the segments begin, and the end of the last one; one entry more.
        axis: the dimension of the segments; dimensions before it are batches with segments of their own.
        unsafe: do not check that lengths are not negative and add up.
        initial: the start of the reduction. Without it, an empty segment gives the neutral element, and nan for a mean.

    Returns:
        Shape ``data.shape[:axis] + (segments,) + data.shape[axis + 1:]``.

    Raises:
        RuntimeError: neither or both of lengths and offsets are given, or they do not fit the data.

    Example::

        >>> oneflow.segment_reduce(oneflow.arange(6.0), "sum", lengths=oneflow.tensor([2, 4]))
        tensor([ 1., 14.])
    """
    reduce = _OTHER_NAMES.get(reduce, reduce)
    if reduce not in _INITIAL:
        raise RuntimeError(f"segment_reduce(): reduce must be one of {', '.join(_INITIAL)}, got '{reduce}'")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if data.dim() == 0 or not data.is_floating_point():
        raise RuntimeError(f"segment_reduce(): data must be floating point with dimensions, got {data.dtype}[]")
    axis = axis + data.dim() if axis < 0 else axis
    if lengths is None:
        lengths = offsets.diff(dim=-1)  # type: ignore[union-attr]
    if lengths.dim() != axis + 1 or lengths.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): lengths of shape {list(lengths.shape)} do not fit axis {axis} of data of shape "
            f"{list(data.shape)}"
        )
    size, n = data.shape[axis], lengths.shape[-1]
    if not unsafe and lengths.numel() > 0:
        if bool((lengths < 0).any()):
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if bool((lengths.sum(-1) != size).any()):
            raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis)")
    # The segment of each position: how many segments end at it or before.
    ends = lengths.cumsum(-1)
    position = replicate_like(data, oneflow.arange(size, device=data.device))
    segment = (position[:, None] >= ends[..., None, :]).sum(-1)
    shape = (*data.shape[:axis], n, *data.shape[axis + 1 :])
    tail = [1] * (data.dim() - axis - 1)
    start = _INITIAL[reduce] if initial is None else initial
    result = replicate_like(data, oneflow.full(shape, start, dtype=data.dtype, device=data.device))
    if data.numel() > 0:
        index = segment.reshape(*segment.shape, *tail).expand(data.shape)
        if reduce in _GRADIENTS and data.requires_grad and oneflow.is_grad_enabled():
            return _Chosen.apply(data, index, axis, reduce, start, result)
        result = result.scatter_reduce(axis, index, data, _SCATTER[reduce])
    elif data.requires_grad:
        # Of no element, and yet a function of them.
        result = result + data.sum()
    if reduce == "mean":
        counts = lengths.reshape(*lengths.shape, *tail)
        mean = result / counts
        result = mean if initial is None else oneflow.where(counts == 0, result, mean)
    return result


class _Chosen(Function):
    """Reductions whose gradient counts NaN as chosen, and the initial value as no element."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, index: Tensor, axis: int, reduce: str, start: Any, empty: Tensor) -> Tensor:
        result = empty.scatter_reduce(axis, index, data, _SCATTER[reduce])
        ctx.save_for_backward(data, index, result)
        ctx.axis, ctx.reduce, ctx.start = axis, reduce, start
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        data, index, result = ctx.saved_tensors
        grad = _GRADIENTS[ctx.reduce](grads[0], data, index, ctx.axis, result, ctx.start)
        return grad, None, None, None, None, None


def _extremum_grad(grad: Tensor, data: Tensor, index: Tensor, axis: int, result: Tensor, start: Any) -> Tensor:
    """Elements that are the extremum share its gradient."""
    chosen = (data == result.gather(axis, index)) | data.isnan()
    counts = oneflow.zeros_like(result).scatter_add(axis, index, chosen.to(data.dtype))
    return oneflow.where(chosen, (grad / counts).gather(axis, index), 0.0)


def _prod_grad(grad: Tensor, data: Tensor, index: Tensor, axis: int, result: Tensor, start: Any) -> Tensor:
    """The product of all others: by division, but for zeros and NaN."""
    is_zero, is_nan = data == 0, data.isnan()
    plain = oneflow.where(is_zero | is_nan, 1.0, data)
    others = oneflow.full_like(result, start).scatter_reduce(axis, index, plain, "prod").gather(axis, index)

    def n_others(which: Tensor) -> Tensor:
        numbers = which.to(data.dtype)
        return oneflow.zeros_like(result).scatter_add(axis, index, numbers).gather(axis, index) - numbers

    special = oneflow.where(n_others(is_zero) > 0, 0.0, others)
    special = oneflow.where(n_others(is_nan) > 0, math.nan, special)
    by_division = result.gather(axis, index) / plain
    return grad.gather(axis, index) * oneflow.where(is_zero | is_nan, special, by_division)


_GRADIENTS = {"max": _extremum_grad, "min": _extremum_grad, "prod": _prod_grad}
# PyTorch's own programs call it by this name.
_segment_reduce = segment_reduce
