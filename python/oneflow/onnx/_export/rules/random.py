"""Random numbers. The model draws its own: the distributions are those of the program, the numbers are not."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule


def _uniform(n: Op, dtype: Any, low: float = 0.0, high: float = 1.0) -> str:
    """Numbers in the sizes of the result."""
    like = n.b.node("Expand", n.b.const(0.0, dtype), n.b.ints(n.out.sizes))
    made: str = n.b.node("RandomUniformLike", like, low=float(low), high=float(high))
    return made


@rule("rand", "rand_like", "uniform")
def uniform(n: Op) -> Any:
    return _uniform(n, n.out.dtype, n.args.get("from", 0), n.args.get("to", 1))


@rule("randn", "randn_like", "normal")
def normal(n: Op) -> Any:
    like = n.b.node("Expand", n.b.const(0.0, n.out.dtype), n.b.ints(n.out.sizes))
    mean, scale = n.args.get("mean", 0), n.args.get("std", 1)
    return n.b.node("RandomNormalLike", like, mean=float(mean), scale=float(scale))


@rule("randint", "randint.low", "randint_like", "randint_like.low", "random.from", "random.to")
def integers(n: Op) -> Any:
    low, high = n.args.get("low", n.args.get("from", 0)), n.args.get("high", n.args.get("to"))
    if high is None:
        raise n.refuse("without an upper bound has no ONNX form")
    # A float holds each integer of the range.
    dtype = flow.float32 if high - low <= 2**20 else flow.float64
    steps = n.b.node("Floor", _uniform(n, dtype, 0, high - low))
    return n.b.cast(n.b.node("Add", steps, n.b.const(float(low), dtype)), dtype, n.out.dtype)


@rule("bernoulli.p", "bernoulli.float")
def bernoulli(n: Op) -> Any:
    below = n.b.node("Less", _uniform(n, flow.float32), n.b.const(float(n.args["p"]), flow.float32))
    return n.b.cast(below, flow.bool, n.out.dtype)


@rule("exponential")
def exponential(n: Op) -> Any:
    """By the inverse of its distribution; a uniform number may be 0, but is never 1."""
    b, dtype = n.b, n.out.dtype
    survival = b.node("Sub", b.const(1.0, dtype), _uniform(n, dtype))
    return b.node("Div", b.node("Log", survival), b.const(-float(n.args["lambd"]), dtype))
