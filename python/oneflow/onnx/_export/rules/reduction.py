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
    """By counting, which is right for dimensions without elements too."""
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
