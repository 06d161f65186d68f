"""Reductions, softmax, sorting."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule, static


def _dims(n: Op, key: str = "dim") -> list[int]:
    rank = n.meta("input").rank
    given = n.args.get(key)
    if given is None or given == []:
        return list(range(rank))
    return [d % max(rank, 1) for d in (given if isinstance(given, list) else [given])]


def _reduced(n: Op, op: str, dtype: Any) -> Any:
    x = n.x("input", dtype)
    if n.meta("input").rank == 0:
        return n.b.node("Identity", x)
    return n.b.reduce(op, x, _dims(n), bool(n.args.get("keepdim", False)))


@rule("sum", "mean", "prod", "amax", "amin", "max", "min", "logsumexp")
def reduce(n: Op) -> Any:
    ops = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp"}
    op = ops.get(n.name, "ReduceMax" if "max" in n.name else "ReduceMin")
    if n.out.dtype == flow.bool:
        return n.b.cast(_reduced(n, op, flow.int32), flow.int32, flow.bool)
    return _reduced(n, op, n.out.dtype)


@rule("any", "all")
def any_(n: Op) -> Any:
    """Counts elements, which also gives the right answer for dimensions without elements."""
    b, x = n.b, n.x("input", flow.bool)
    if n.meta("input").rank:
        x = b.node("Not", x) if n.name == "all" else x
        count = b.reduce("ReduceSum", b.cast(x, flow.bool, flow.int64), _dims(n), bool(n.args["keepdim"]))
        zero = b.const(0, flow.int64)
        x = b.node("Equal", count, zero) if n.name == "all" else b.node("Greater", count, zero)
    return b.cast(x, flow.bool, n.out.dtype) if n.out.dtype != flow.bool else b.node("Identity", x)


@rule("argmax", "argmin")
def argmax(n: Op) -> Any:
    b, op = n.b, "ArgMax" if n.name == "argmax" else "ArgMin"
    if n.args["dim"] is None or n.meta("input").rank == 0:
        found = b.node(op, b.reshape(n.x(), [-1]), axis=0, keepdims=0)
        return b.reshape(found, n.out.sizes)
    return b.node(op, n.x(), axis=n.dim(), keepdims=int(n.args["keepdim"]))


@rule("max.dim", "min.dim")
def max_dim(n: Op) -> Any:
    b, dim, keep = n.b, n.dim(), bool(n.args["keepdim"])
    kind = "Max" if n.name == "max.dim" else "Min"
    if n.meta("input").rank == 0:
        return [b.node("Identity", n.x()), b.node("Identity", b.const(0, flow.int64))]
    return [b.reduce(f"Reduce{kind}", n.x(), [dim], keep), b.node(f"Arg{kind}", n.x(), axis=dim, keepdims=int(keep))]


@rule("softmax", "log_softmax")
def softmax(n: Op) -> Any:
    op = "Softmax" if n.name == "softmax" else "LogSoftmax"
    if n.meta("input").rank == 0:
        return n.b.reshape(n.b.node(op, n.b.reshape(n.x("input", n.out.dtype), [1]), axis=0), [])
    return n.b.node(op, n.x("input", n.out.dtype), axis=n.dim())


@rule("cumsum")
def cumsum(n: Op) -> Any:
    return n.b.node("CumSum", n.x("input", n.out.dtype), n.b.const(n.dim(), flow.int64))


def _before(n: Op, x: str, shift: int, fill: str) -> str:
    """The elements ``shift`` places before along ``dim``; ``fill`` where there are none."""
    b, meta, dim = n.b, n.meta("input"), n.dim()
    axis = b.ints([dim])
    kept = b.node("Slice", x, b.ints([0]), b.ints([meta.sizes[dim] - shift]), axis)
    pads = [0] * (2 * meta.rank)
    pads[dim] = shift
    return b.node("Pad", kept, b.ints(pads), fill)


def _shifts(n: Op) -> list[int]:
    """Doubling distances: after all of them, each element has been combined with all before it."""
    size = n.meta("input").sizes[n.dim()] if n.meta("input").rank else 1
    if not static(size):
        raise n.refuse("along a named dimension has no ONNX form")
    return [2**i for i in range(max(size - 1, 0).bit_length())]


@rule("cumprod")
def cumprod(n: Op) -> Any:
    dtype = n.out.dtype
    x, one = n.x("input", dtype), n.b.const(1, dtype)
    for shift in _shifts(n):
        x = n.b.node("Mul", x, _before(n, x, shift, one))
    return n.b.node("Identity", x)


@rule("cummax", "cummin", "cumulative_extreme")
def cumulative_extreme(n: Op) -> Any:
    """The last position of the largest or smallest element so far; NaN counts as both."""
    b, meta = n.b, n.meta("input")
    largest = n.args["largest"] if n.name == "cumulative_extreme" else n.name == "cummax"
    dtype = flow.int32 if meta.dtype == flow.bool else meta.dtype
    if dtype.is_floating_point:
        worst: Any = float("-inf") if largest else float("inf")
    else:
        worst = flow.iinfo(dtype).min if largest else flow.iinfo(dtype).max
    x, fill, zero = n.x("input", dtype), b.const(worst, dtype), b.const(0, flow.int64)
    shape = [1] * meta.rank
    if meta.rank:
        shape[n.dim()] = -1
        count = flow.arange(meta.sizes[n.dim()]) if static(meta.sizes[n.dim()]) else flow.zeros(1, dtype=flow.int64)
        at = b.node("Expand", b.const(count.reshape(shape)), b.ints(meta.sizes))
    else:
        at = b.node("Identity", zero)
    for shift in _shifts(n):
        earlier, place = _before(n, x, shift, fill), _before(n, at, shift, zero)
        better = b.node("Greater" if largest else "Less", earlier, x)
        if dtype.is_floating_point:
            is_first = b.node("And", b.node("IsNaN", earlier), b.node("Not", b.node("IsNaN", x)))
            better = b.node("Or", better, is_first)
        x, at = b.node("Where", better, earlier, x), b.node("Where", better, place, at)
    if n.name == "cumulative_extreme":
        return at
    return [b.node("Identity", b.cast(x, dtype, meta.dtype)), at]


@rule("topk")
def topk(n: Op) -> Any:
    k = n.b.ints([n.args["k"]])
    return n.b.node("TopK", n.x(), k, n=2, axis=n.dim(), largest=int(n.args["largest"]), sorted=int(n.args["sorted"]))


@rule("sort", "argsort")
def sort(n: Op) -> Any:
    if n.meta("input").rank == 0:
        found = [n.b.node("Identity", n.x()), n.b.node("Identity", n.b.const(0, flow.int64))]
        return found if n.name == "sort" else found[1]
    k = n.b.ints([n.meta("input").sizes[n.dim()]])
    found = n.b.node("TopK", n.x(), k, n=2, axis=n.dim(), largest=int(n.args["descending"]), sorted=1)
    return found if n.name == "sort" else found[1]


@rule("square_deviations")
def square_deviations(n: Op) -> Any:
    """The sum of squared distances from the mean, over a divisor."""
    b, dims, dtype = n.b, _dims(n), n.out.dtype
    x = n.x("input", dtype)
    centered = b.node("Sub", x, b.reduce("ReduceMean", x, dims, True))
    total = b.reduce("ReduceSum", b.node("Mul", centered, centered), dims, bool(n.args["keepdim"]))
    result = b.node("Div", total, b.const(float(n.args["divisor"]), dtype))
    return b.node("Sqrt", result) if n.args["root"] else result


@rule("var", "std")
def variance(n: Op) -> Any:
    b, dims, dtype = n.b, _dims(n), n.out.dtype
    sizes = [n.meta("input").sizes[d] for d in dims]
    if not all(map(static, sizes)):
        raise n.refuse("over a named dimension has no ONNX form")
    count = 1
    for size in sizes:
        count *= size
    correction = n.args["correction"]
    rest = count - (1 if correction is None else correction)
    x = n.x("input", dtype)
    centered = b.node("Sub", x, b.reduce("ReduceMean", x, dims, True))
    total = b.reduce("ReduceSum", b.node("Mul", centered, centered), dims, bool(n.args["keepdim"]))
    result = b.node("Div", total, b.const(float(rest), dtype))
    return result if n.name == "var" else b.node("Sqrt", result)
