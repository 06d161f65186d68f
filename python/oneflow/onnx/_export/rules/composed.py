"""Elementwise ops that ONNX lacks, of several nodes each."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule


class Terms:
    """Shorthand for formulas: each method adds a node in the op's dtype."""

    def __init__(self, n: Op, dtype: Any = None) -> None:
        self.b, self.dtype = n.b, dtype or n.out.dtype

    def number(self, value: float) -> str:
        return self.b.const(value, self.dtype)

    def __getattr__(self, op: str) -> Any:
        def node(*inputs: Any) -> str:
            return self.b.node(op, *[i if isinstance(i, str) else self.number(i) for i in inputs])

        return node


@rule("lerp")
def lerp(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    start = n.x("input", dtype)
    return t.Add(start, t.Mul(n.operand("weight", dtype), t.Sub(n.x("end", dtype), start)))


@rule("squared_difference")
def squared_difference(n: Op) -> Any:
    t = Terms(n)
    d = t.Sub(n.x("input", n.out.dtype), n.x("target", n.out.dtype))
    return t.Mul(d, d)


@rule("smooth_absolute_difference")
def smooth_absolute_difference(n: Op) -> Any:
    t, beta = Terms(n), n.args["beta"]
    d = t.Abs(t.Sub(n.x("input", n.out.dtype), n.x("target", n.out.dtype)))
    if beta == 0:
        return d
    return t.Where(t.Less(d, beta), t.Div(t.Mul(t.Mul(d, d), 0.5), beta), t.Sub(d, beta / 2))


@rule("xlogy_pair", "xlog1py_pair")
def xlogy(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    x, y = n.x("input", dtype), n.x("other", dtype)
    log = t.Log(t.Add(y, 1) if n.name == "xlog1py_pair" else y)
    made = t.Where(t.Equal(x, 0), 0, t.Mul(x, log))
    return t.Where(t.IsNaN(y), y, made)


@rule("binary_entropy")
def binary_entropy(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    x, target = n.x("input", dtype), n.x("target", dtype)
    soft = t.Softplus(t.Neg(x))
    if n.has("pos_weight"):
        weight = t.Add(t.Mul(t.Sub(n.x("pos_weight", dtype), 1), target), 1)
        soft = t.Mul(weight, soft)
    return t.Add(t.Mul(t.Sub(1, target), x), soft)


@rule("binary_entropy_of_probability")
def binary_entropy_of_probability(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    x, target = n.x("input", dtype), n.x("target", dtype)
    one = t.Mul(target, t.Max(t.Log(x), -100))
    other = t.Mul(t.Sub(1, target), t.Max(t.Log(t.Sub(1, x)), -100))
    return t.Neg(t.Add(one, other))


@rule("logaddexp", "logaddexp2")
def logaddexp(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    x, y = n.x("input", dtype), n.x("other", dtype)
    far = t.Neg(t.Abs(t.Sub(x, y)))
    if n.name == "logaddexp":
        return t.Add(t.Max(x, y), t.Log(t.Add(t.Exp(far), 1)))
    return t.Add(t.Max(x, y), t.Div(t.Log(t.Add(t.Pow(2, far), 1)), math.log(2)))


@rule("hypot")
def hypot(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    x, y = n.x("input", dtype), n.x("other", dtype)
    return t.Sqrt(t.Add(t.Mul(x, x), t.Mul(y, y)))


def _is_negative(t: Terms, x: str) -> str:
    """True for -0.0 too, whose reciprocal is negative."""
    return t.Or(t.Less(x, 0), t.And(t.Equal(x, 0), t.Less(t.Reciprocal(x), 0)))


@rule("copysign")
def copysign(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    size = t.Abs(n.x("input", dtype))
    return t.Where(_is_negative(t, n.operand("other", dtype)), t.Neg(size), size)


@rule("signbit")
def signbit(n: Op) -> Any:
    dtype = n.meta("input").dtype
    t = Terms(n, dtype)
    return _is_negative(t, n.x()) if dtype.is_floating_point else t.Less(n.x(), 0)


@rule("hardshrink", "softshrink")
def shrink(n: Op) -> Any:
    lambd = float(n.args["lambd"])
    return n.b.node("Shrink", n.x(), lambd=lambd, bias=0.0 if n.name == "hardshrink" else lambd)


@rule("heaviside")
def heaviside(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    x = n.x("input", dtype)
    step = n.b.cast(t.Greater(x, 0), flow.bool, dtype)
    return t.Where(t.Equal(x, 0), n.x("values", dtype), step)


@rule("isneginf", "isposinf")
def is_infinite(n: Op) -> Any:
    positive = n.name == "isposinf"
    if not n.meta("input").dtype.is_floating_point:
        return n.b.node("IsInf", n.x("input", flow.float32))
    return n.b.node("IsInf", n.x(), detect_negative=int(not positive), detect_positive=int(positive))


@rule("isreal")
def is_real(n: Op) -> Any:
    return n.b.node("Expand", n.b.const(True), n.b.ints(n.out.sizes))


@rule("logit")
def logit(n: Op) -> Any:
    t, eps = Terms(n), n.args["eps"]
    x = n.x("input", n.out.dtype)
    if eps is not None:
        x = t.Clip(x, eps, 1 - eps)
    return t.Log(t.Div(x, t.Sub(1, x)))


@rule("nan_to_num")
def nan_to_num(n: Op) -> Any:
    if not n.out.dtype.is_floating_point:
        return n.b.node("Identity", n.x())
    t, limits, x = Terms(n), flow.finfo(n.out.dtype), n.x()
    nan, high, low = n.args["nan"], n.args["posinf"], n.args["neginf"]
    y = t.Where(t.IsNaN(x), 0.0 if nan is None else nan, x)
    above = n.b.node("IsInf", x, detect_negative=0)
    below = n.b.node("IsInf", x, detect_positive=0)
    y = t.Where(above, limits.max if high is None else high, y)
    return t.Where(below, limits.min if low is None else low, y)


@rule("sinc")
def sinc(n: Op) -> Any:
    t = Terms(n)
    x = t.Mul(n.x("input", n.out.dtype), math.pi)
    return t.Where(t.Equal(x, 0), 1, t.Div(t.Sin(x), x))


@rule("prelu_kernel")
def prelu(n: Op) -> Any:
    return n.b.node("PRelu", n.x(), n.x("weight"))


@rule("atan2", "angle")
def atan2(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    if n.name == "angle":
        return t.Where(t.Less(n.x("input", dtype), 0), math.pi, 0)
    y, x = n.x("input", dtype), n.x("other", dtype)
    base = t.Atan(t.Div(y, x))
    half = t.Where(_is_negative(t, y), -math.pi, math.pi)
    moved = t.Where(t.Less(x, 0), t.Add(base, half), base)
    upright = t.Where(t.Equal(y, 0), 0, t.Mul(t.Sign(y), math.pi / 2))
    return t.Where(t.Equal(x, 0), upright, moved)


@rule("special_entr")
def entropy(n: Op) -> Any:
    t = Terms(n)
    x = n.x("input", n.out.dtype)
    y = t.Where(t.Equal(x, 0), 0, t.Neg(t.Mul(x, t.Log(x))))
    return t.Where(t.Less(x, 0), -math.inf, y)


@rule("special_ndtr")
def normal_distribution(n: Op) -> Any:
    t = Terms(n)
    return t.Mul(t.Add(t.Erf(t.Mul(n.x("input", n.out.dtype), math.sqrt(0.5))), 1), 0.5)


@rule("bitwise_left_shift", "bitwise_right_shift")
def shift(n: Op) -> Any:
    t, dtype = Terms(n), n.out.dtype
    factor = t.Pow(2, n.operand("other", dtype))
    if n.name == "bitwise_left_shift":
        return t.Mul(n.x("input", dtype), factor)
    # Rounds towards minus infinity, as an arithmetic shift does.
    x = n.x("input", dtype)
    return t.Div(t.Sub(x, n.b.node("Mod", x, factor, fmod=0)), factor)
