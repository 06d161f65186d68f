"""Reductions, softmax and the norms of vectors."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, axis_of, handler


def _dims(c: Call, x: Any, axes: Any) -> list[int] | None:
    """The dimensions to reduce, or None if there are none."""
    given = c.axes(axes)
    if not given:
        if c.get("noop_with_empty_axes", 0):
            return None
        return list(range(x.dim()))
    return sorted({axis_of(a, x.dim(), c.op) for a in given})


def _log_sum_exp(x: Any, dims: list[int], keep: bool) -> Any:
    return flow.logsumexp(x, dims, keep)


def _extreme(function: Any, lowest: Any) -> Any:
    def reduce(x: Any, dims: list[int], keep: bool) -> Any:
        if x.numel() == 0:
            shape = [(1 if i in dims else n) for i, n in enumerate(x.shape) if keep or i not in dims]
            return flow.full(shape, lowest(x.dtype), dtype=x.dtype, device=x.device)
        if x.dtype == flow.bool:
            return function(x.to(flow.uint8), dims, keep).to(flow.bool)
        return function(x, dims, keep)

    return reduce


def _least(dtype: Any) -> Any:
    if dtype == flow.bool:
        return False
    return -math.inf if dtype.is_floating_point else flow.iinfo(dtype).min


def _most(dtype: Any) -> Any:
    if dtype == flow.bool:
        return True
    return math.inf if dtype.is_floating_point else flow.iinfo(dtype).max


def _product(x: Any, dims: list[int], keep: bool) -> Any:
    for dim in reversed(dims):
        x = flow.prod(x, dim, keepdim=keep)
    return x


def _sum(x: Any, dims: list[int], keep: bool) -> Any:
    return flow.sum(x, dims, keepdim=keep).to(x.dtype)


def _mean(x: Any, dims: list[int], keep: bool) -> Any:
    if x.is_floating_point():
        return flow.mean(x, dims, keepdim=keep)
    return flow.mean(x.to(flow.float64), dims, keepdim=keep).to(x.dtype)


# The function, and what it does to one element (where there are no axes to reduce).
_REDUCTIONS: dict[str, tuple[Any, Any]] = {
    "ReduceSum": (_sum, lambda x: x),
    "ReduceMean": (_mean, lambda x: x),
    "ReduceProd": (_product, lambda x: x),
    "ReduceMax": (_extreme(flow.amax, _least), lambda x: x),
    "ReduceMin": (_extreme(flow.amin, _most), lambda x: x),
    "ReduceL1": (lambda x, d, k: _sum(flow.abs(x), d, k), flow.abs),
    "ReduceL2": (lambda x, d, k: flow.sqrt(_sum(x * x, d, k).to(_floating(x))).to(x.dtype), flow.abs),
    "ReduceSumSquare": (lambda x, d, k: _sum(x * x, d, k), lambda x: x * x),
    "ReduceLogSum": (lambda x, d, k: flow.log(_sum(x, d, k).to(_floating(x))).to(x.dtype), flow.log),
    "ReduceLogSumExp": (
        lambda x, d, k: _log_sum_exp(x.to(_floating(x)), d, k).to(x.dtype),
        lambda x: x,
    ),
}


def _floating(x: Any) -> Any:
    return x.dtype if x.is_floating_point() else flow.float64


def _register() -> None:
    for name, (function, alone) in _REDUCTIONS.items():

        def reduce(c: Call, x: Any, axes: Any = None, function: Any = function, alone: Any = alone) -> Any:
            dims = _dims(c, x, axes)
            if dims is None or x.dim() == 0:
                return alone(x)
            return function(x, dims, bool(c.get("keepdims", 1)))

        handler(name)(reduce)


_register()


def _flat_rows(c: Call, x: Any, function: Any) -> Any:
    """Versions below 13 see the input as a matrix: the axes before ``axis`` are its rows."""
    if c.version >= 13:
        return function(x, axis_of(c.get("axis", -1), x.dim(), c.op))
    axis = axis_of(c.get("axis", 1), x.dim(), c.op)
    rows = math.prod(x.shape[:axis])
    return function(x.reshape(rows, math.prod(x.shape[axis:])), 1).reshape(x.shape)


@handler("Softmax")
def softmax(c: Call, x: Any) -> Any:
    return _flat_rows(c, x, flow.softmax)


@handler("LogSoftmax")
def log_softmax(c: Call, x: Any) -> Any:
    return _flat_rows(c, x, flow.log_softmax)


@handler("LpNormalization")
def lp_normalization(c: Call, x: Any) -> Any:
    axis, p = c.get("axis", -1), c.get("p", 2)
    norm = flow.sum(flow.abs(x), axis, keepdim=True) if p == 1 else flow.sqrt(flow.sum(x * x, axis, keepdim=True))
    return flow.where(norm == 0, flow.zeros_like(x), x / norm)


@handler("GlobalLpPool")
def global_lp_pool(c: Call, x: Any) -> Any:
    p = c.get("p", 2)
    return flow.sum(flow.abs(x) ** p, list(range(2, x.dim())), keepdim=True) ** (1.0 / p)
