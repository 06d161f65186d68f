"""Products, sums along an axis, sorting and what finds elements."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.registry import Call, axis_of, handler
from oneflow.onnx._import.values import dtype_of


@handler("MatMul")
def matmul(c: Call, a: Any, b: Any) -> Any:
    return flow.matmul(a, b)


@handler("MatMulInteger")
def matmul_integer(c: Call, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return flow.matmul(shifted(a, a_zero, -2), shifted(b, b_zero, -1)).to(flow.int32)


def shifted(x: Any, zero: Any, axis: int | None) -> Any:
    """Codes minus their zero point, as int32; a vector of zero points lies along ``axis``."""
    x = x.to(flow.int32)
    if zero is None:
        return x
    zero = zero.to(flow.int32)
    if zero.dim() == 1 and zero.numel() > 1 and axis is not None:
        shape = [1] * x.dim()
        shape[axis] = zero.numel()
        zero = zero.reshape(shape)
    elif zero.numel() == 1:
        zero = zero.reshape(())
    return x - zero


@handler("Gemm")
def gemm(c: Call, a: Any, b: Any, bias: Any = None) -> Any:
    a = a.transpose(0, 1) if c.get("transA", 0) else a
    b = b.transpose(0, 1) if c.get("transB", 0) else b
    alpha, beta = c.get("alpha", 1.0), c.get("beta", 1.0)
    y = flow.matmul(a, b)
    y = y if alpha == 1.0 else (y * alpha).to(a.dtype)
    if bias is None or beta == 0.0:
        return y
    return y + (bias if beta == 1.0 else (bias * beta).to(a.dtype))


@handler("Einsum")
def einsum(c: Call, *values: Any) -> Any:
    return flow.einsum(c.text("equation").replace(" ", ""), *values)


@handler("Det")
def det(c: Call, x: Any) -> Any:
    return flow.linalg.det(x)


def _cumulative(c: Call, x: Any, axis: Any, function: Any, neutral: int) -> Any:
    (dim,) = c.ints(axis)
    reverse = bool(c.get("reverse", 0))
    x = flow.flip(x, [dim]) if reverse else x
    if c.get("exclusive", 0):
        first = flow.full_like(x.narrow(dim, 0, 1), neutral)
        x = flow.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim)
    y = function(x, dim).to(x.dtype)
    return flow.flip(y, [dim]) if reverse else y


@handler("CumSum")
def cumsum(c: Call, x: Any, axis: Any) -> Any:
    return _cumulative(c, x, axis, flow.cumsum, 0)


@handler("CumProd")
def cumprod(c: Call, x: Any, axis: Any) -> Any:
    return _cumulative(c, x, axis, flow.cumprod, 1)


@handler("TopK")
def topk(c: Call, x: Any, k: Any = None) -> Any:
    n = c.need("k") if c.version < 10 else c.ints(k)[0]
    axis, largest = axis_of(c.get("axis", -1), x.dim(), "TopK"), bool(c.get("largest", 1))
    # Of equal elements the one of the lower index comes first, which topk does not promise.
    dtype = x.dtype
    sortable = x.to(flow.int64) if dtype in (flow.uint16, flow.uint32) else x
    values, indices = flow.sort(sortable, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, n).to(dtype), indices.narrow(axis, 0, n)


def _arg(c: Call, x: Any, function: Any) -> Any:
    axis, last = axis_of(c.get("axis", 0), x.dim(), c.op), c.get("select_last_index", 0)
    if last:
        found = x.shape[axis] - 1 - function(flow.flip(x, [axis]), dim=axis, keepdim=bool(c.get("keepdims", 1)))
        return found
    return function(x, dim=axis, keepdim=bool(c.get("keepdims", 1)))


@handler("ArgMax")
def argmax(c: Call, x: Any) -> Any:
    return _arg(c, x, flow.argmax)


@handler("ArgMin")
def argmin(c: Call, x: Any) -> Any:
    return _arg(c, x, flow.argmin)


@handler("Hardmax")
def hardmax(c: Call, x: Any) -> Any:
    if c.version < 13:
        axis = axis_of(c.get("axis", 1), x.dim(), "Hardmax")
        rows = x.reshape(_product(x.shape[:axis]), -1)
        return _one_at(flow.argmax(rows, dim=1, keepdim=True), rows, 1).reshape(x.shape)
    axis = axis_of(c.get("axis", -1), x.dim(), "Hardmax")
    return _one_at(flow.argmax(x, dim=axis, keepdim=True), x, axis)


def _one_at(index: Any, like: Any, axis: int) -> Any:
    return flow.scatter(flow.zeros_like(like), axis, index, flow.ones_like(like))


def _product(values: Any) -> int:
    result = 1
    for value in values:
        result *= value
    return result


@handler("Range")
def arange(c: Call, start: Any, limit: Any, delta: Any) -> Any:
    begin, end, step = (x.item() for x in (start, limit, delta))
    if start.is_floating_point():
        n = max(int(-((begin - end) // step)), 0)
        return (flow.arange(n, dtype=flow.float64) * step + begin).to(start.dtype)
    n = max(-((begin - end) // step), 0)
    return (flow.arange(n, dtype=flow.int64) * step + begin).to(start.dtype)


@handler("NonZero")
def nonzero(c: Call, x: Any) -> Any:
    return flow.nonzero(x).transpose(0, 1).contiguous()


@handler("Unique")
def unique(c: Call, x: Any) -> Any:
    axis, is_sorted = c.get("axis"), c.get("sorted", 1)
    if axis is None:
        x, axis = x.flatten(), 0
    axis = axis_of(axis, x.dim(), "Unique")
    values, inverse, counts = flow.unique(x, return_inverse=True, return_counts=True, dim=axis)
    n, length = values.shape[axis], x.shape[axis]
    places = flow.arange(length, dtype=flow.int64)
    # The first place of each value: of places written in reverse order the last one stays.
    first = flow.full((n,), length, dtype=flow.int64).scatter_reduce(0, inverse, places, "amin")
    if not is_sorted:
        order = flow.argsort(first)
        back = flow.argsort(order)
        values, first, counts = values.index_select(axis, order), first[order], counts[order]
        inverse = back[inverse]
    return values, first, inverse, counts


@handler("EyeLike")
def eye_like(c: Call, x: Any) -> Any:
    dtype = dtype_of(c.get("dtype")) if c.get("dtype") is not None else x.dtype
    rows, columns, k = x.shape[0], x.shape[1], c.get("k", 0)
    row, column = flow.arange(rows).reshape(-1, 1), flow.arange(columns).reshape(1, -1)
    return (column - row == k).to(dtype)


@handler("Trilu")
def trilu(c: Call, x: Any, k: Any = None) -> Any:
    diagonal = 0 if k is None else c.ints(k)[0]
    return flow.triu(x, diagonal) if c.get("upper", 1) else flow.tril(x, diagonal)


@handler("OneHot")
def one_hot(c: Call, indices: Any, depth: Any, values: Any) -> Any:
    n = int(depth.reshape(-1).tolist()[0])
    axis = c.get("axis", -1)
    rank = indices.dim() + 1
    axis = axis_of(axis, rank, "OneHot")
    indices = indices.to(flow.int64)
    indices = flow.where(indices < 0, indices + n, indices)
    shape = [1] * rank
    shape[axis] = n
    hot = indices.unsqueeze(axis) == flow.arange(n, device=indices.device).reshape(shape)
    return flow.where(hot, values[1], values[0])
