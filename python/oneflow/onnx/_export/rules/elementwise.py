"""Elementwise ops."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule

_SAME = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sgn": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
    "hardswish": "HardSwish",
}
_WHOLE = ("ceil", "floor", "round", "trunc")


def _register_same() -> None:
    for name, op in _SAME.items():

        def same(n: Op, op: str = op) -> Any:
            if n.name in _WHOLE and not n.out.dtype.is_floating_point:
                return n.b.node("Identity", n.x())
            return n.b.node(op, n.x("input", n.out.dtype))

        rule(name)(same)


_register_same()


@rule(
    "clone",
    "clone_contiguous",
    "contiguous",
    "alias_copy",
    "positive",
    "conj",
    "conj_physical",
    "real",
    "copy",
    "straight",
)
def identity(n: Op) -> Any:
    if n.name == "copy":
        source = n.x("src", n.out.dtype)
        return n.b.node("Expand", source, n.b.ints(n.out.sizes)) if n.meta("src").sizes != n.out.sizes else source
    return n.b.node("Identity", n.x())


@rule("to_copy")
def to_copy(n: Op) -> Any:
    return n.x("input", n.out.dtype) if n.out.dtype != n.meta("input").dtype else n.b.node("Identity", n.x())


@rule("round")
def round_(n: Op) -> Any:
    if n.args["decimals"]:
        raise n.refuse("with decimals has no ONNX form")
    return n.b.node("Round", n.x()) if n.out.dtype.is_floating_point else n.b.node("Identity", n.x())


@rule("trunc", "frac")
def trunc(n: Op) -> Any:
    b, x = n.b, n.x()
    if not n.out.dtype.is_floating_point:
        return b.node("Identity", x)
    whole = b.node("Mul", b.node("Sign", x), b.node("Floor", b.node("Abs", x)))
    return whole if n.name == "trunc" else b.node("Sub", x, whole)


@rule("rsqrt", "square", "exp2", "log2", "log10", "log1p", "expm1", "erfc", "log_sigmoid", "silu", "deg2rad", "rad2deg")
def composed_of_two(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    x = n.x("input", dtype)

    def number(value: float) -> str:
        return b.const(value, dtype)

    name = n.name
    if name == "rsqrt":
        return b.node("Reciprocal", b.node("Sqrt", x))
    if name == "square":
        return b.node("Mul", x, x)
    if name == "exp2":
        return b.node("Pow", number(2), x)
    if name in ("log2", "log10"):
        return b.node("Div", b.node("Log", x), number(math.log(2 if name == "log2" else 10)))
    if name == "log1p":
        return b.node("Log", b.node("Add", x, number(1)))
    if name == "expm1":
        return b.node("Sub", b.node("Exp", x), number(1))
    if name == "erfc":
        return b.node("Sub", number(1), b.node("Erf", x))
    if name == "log_sigmoid":
        return b.node("Neg", b.node("Softplus", b.node("Neg", x)))
    if name == "silu":
        return b.node("Mul", x, b.node("Sigmoid", x))
    return b.node("Mul", x, number(math.pi / 180 if name == "deg2rad" else 180 / math.pi))


@rule("gelu")
def gelu(n: Op) -> Any:
    b, x, dtype = n.b, n.x(), n.out.dtype
    how = n.args["approximate"]
    if b.opset >= 20:
        return b.node("Gelu", x, approximate=how)
    if how == "none":
        inner = b.node("Erf", b.node("Div", x, b.const(math.sqrt(2), dtype)))
    else:
        cube = b.node("Mul", b.node("Mul", b.node("Mul", x, x), x), b.const(0.044715, dtype))
        inner = b.node("Tanh", b.node("Mul", b.node("Add", x, cube), b.const(math.sqrt(2 / math.pi), dtype)))
    return b.node("Mul", b.node("Mul", x, b.node("Add", inner, b.const(1, dtype))), b.const(0.5, dtype))


@rule("leaky_relu")
def leaky_relu(n: Op) -> Any:
    return n.b.node("LeakyRelu", n.x(), alpha=float(n.args["negative_slope"]))


@rule("elu")
def elu(n: Op) -> Any:
    if n.args["scale"] != 1 or n.args["input_scale"] != 1:
        raise n.refuse("with a scale has no ONNX form")
    return n.b.node("Elu", n.x(), alpha=float(n.args["alpha"]))


@rule("celu")
def celu(n: Op) -> Any:
    return n.b.node("Celu", n.x(), alpha=float(n.args["alpha"]))


@rule("selu")
def selu(n: Op) -> Any:
    return n.b.node("Selu", n.x())


@rule("softplus")
def softplus(n: Op) -> Any:
    b, beta = n.b, n.args["beta"]
    if beta == 1:
        return b.node("Softplus", n.x())
    scale = b.const(beta, n.out.dtype)
    return b.node("Div", b.node("Softplus", b.node("Mul", n.x(), scale)), scale)


@rule("hardsigmoid")
def hardsigmoid(n: Op) -> Any:
    return n.b.node("HardSigmoid", n.x(), alpha=1 / 6, beta=0.5)


@rule("mish")
def mish(n: Op) -> Any:
    if n.b.opset >= 18:
        return n.b.node("Mish", n.x())
    return n.b.node("Mul", n.x(), n.b.node("Tanh", n.b.node("Softplus", n.x())))


@rule("hardtanh", "clamp", "clamp_min", "clamp_max", "clamp.Tensor")
def clamp(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    low = "min_val" if n.name == "hardtanh" else "min"
    high = "max_val" if n.name == "hardtanh" else "max"
    x = n.x("input", dtype)
    if n.has(low) or n.has(high):
        x = b.node("Max", x, n.x(low, dtype)) if n.has(low) else x
        return b.node("Min", x, n.x(high, dtype)) if n.has(high) else x
    bounds = [None if n.args.get(k) is None else b.const(n.args[k], dtype) for k in (low, high)]
    return b.node("Clip", x, *bounds)


@rule("threshold")
def threshold(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    above = b.node("Greater", n.x(), b.const(n.args["threshold"], dtype))
    return b.node("Where", above, n.x(), b.const(n.args["value"], dtype))


@rule("isnan", "isinf", "isfinite")
def is_special(n: Op) -> Any:
    b, x = n.b, n.x()
    if not n.meta("input").dtype.is_floating_point:
        x = n.x("input", flow.float32)
    if n.name == "isnan":
        return b.node("IsNaN", x)
    if n.name == "isinf":
        return b.node("IsInf", x)
    return b.node("Not", b.node("Or", b.node("IsInf", x), b.node("IsNaN", x)))


@rule("add", "sub", "rsub")
def add(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    left, right, alpha = n.x("input", dtype), n.operand("other", dtype), n.args["alpha"]
    if dtype == flow.bool:
        return b.node("Or", left, right)
    if n.name == "rsub":
        left, right = right, left
        if alpha != 1:
            right = b.node("Mul", right, b.const(alpha, dtype))
        return b.node("Sub", left, right)
    if alpha != 1:
        right = b.node("Mul", right, b.const(alpha, dtype))
    return b.node("Add" if n.name == "add" else "Sub", left, right)


@rule("mul")
def mul(n: Op) -> Any:
    dtype = n.out.dtype
    op = "And" if dtype == flow.bool else "Mul"
    return n.b.node(op, n.x("input", dtype), n.operand("other", dtype))


@rule("div")
def div(n: Op) -> Any:
    b, dtype, how = n.b, n.out.dtype, n.args["rounding_mode"]
    left, right = n.x("input", dtype), n.operand("other", dtype)
    if how == "floor":
        return _floor_divided(b, left, right, dtype)
    quotient = b.node("Div", left, right)
    if how == "trunc" and dtype.is_floating_point:
        return b.node("Mul", b.node("Sign", quotient), b.node("Floor", b.node("Abs", quotient)))
    return quotient


def _floor_divided(b: Any, left: str, right: str, dtype: Any) -> str:
    if dtype.is_floating_point:
        return b.node("Floor", b.node("Div", left, right))
    return b.node("Div", b.node("Sub", left, b.node("Mod", left, right, fmod=0)), right)


def _modulo(b: Any, left: str, right: str, dtype: Any) -> str:
    if not dtype.is_floating_point:
        return b.node("Mod", left, right, fmod=0)
    return b.node("Sub", left, b.node("Mul", b.node("Floor", b.node("Div", left, right)), right))


@rule("remainder", "fmod", "floor_divide")
def remainder(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    left, right = n.x("input", dtype), n.operand("other", dtype)
    if n.name == "fmod":
        return b.node("Mod", left, right, fmod=1)
    if n.name == "remainder":
        return _modulo(b, left, right, dtype)
    return _floor_divided(b, left, right, dtype)


@rule("pow", "float_power")
def power(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    x = n.x("input", dtype)
    if not n.has("exponent") and n.args["exponent"] in (2, 0.5):
        return b.node("Mul", x, x) if n.args["exponent"] == 2 else b.node("Sqrt", x)
    return b.node("Pow", x, n.operand("exponent", dtype))


@rule("pow.scalar")
def power_of_number(n: Op) -> Any:
    return n.b.node("Pow", n.b.const(n.args["input"], n.out.dtype), n.x("exponent", n.out.dtype))


@rule("maximum", "minimum", "max.other", "min.other", "fmax", "fmin")
def maximum(n: Op) -> Any:
    dtype = n.out.dtype
    op = "Max" if "max" in n.name else "Min"
    return n.b.node(op, n.x("input", dtype), n.x("other", dtype))


_COMPARISONS = {
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "lt": "Less",
    "le": "LessOrEqual",
    "eq": "Equal",
    "ne": "Equal",
}


@rule(*_COMPARISONS)
def comparison(n: Op) -> Any:
    dtype = n.common("input", "other")
    if dtype == flow.bool and n.name not in ("eq", "ne"):
        dtype = flow.int32
    found = n.b.node(_COMPARISONS[n.name], n.x("input", dtype), n.operand("other", dtype))
    return n.b.node("Not", found) if n.name == "ne" else found


@rule("logical_and", "logical_or", "logical_xor")
def logical(n: Op) -> Any:
    op = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}[n.name]
    return n.b.node(op, n.x("input", flow.bool), n.x("other", flow.bool))


@rule("logical_not")
def logical_not(n: Op) -> Any:
    return n.b.node("Not", n.x("input", flow.bool))


@rule("bitwise_and", "bitwise_or", "bitwise_xor")
def bitwise(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    kind = n.name.removeprefix("bitwise_").capitalize()
    if dtype != flow.bool and b.opset < 18:
        raise n.refuse("needs opset 18")
    op = kind if dtype == flow.bool else f"Bitwise{kind}"
    return b.node(op, n.x("input", dtype), n.operand("other", dtype))


@rule("bitwise_not")
def bitwise_not(n: Op) -> Any:
    return n.b.node("Not" if n.out.dtype == flow.bool else "BitwiseNot", n.x())


@rule("where")
def where(n: Op) -> Any:
    dtype = n.out.dtype
    return n.b.node("Where", n.x("condition", flow.bool), n.operand("input", dtype), n.operand("other", dtype))


@rule("masked_fill")
def masked_fill(n: Op) -> Any:
    dtype = n.out.dtype
    filled = n.b.node("Where", n.x("mask", flow.bool), n.operand("value", dtype), n.x("input", dtype))
    return filled


@rule("addcmul", "addcdiv")
def addcmul(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    made = b.node("Mul" if n.name == "addcmul" else "Div", n.x("tensor1", dtype), n.x("tensor2", dtype))
    if n.args["value"] != 1:
        made = b.node("Mul", made, b.const(n.args["value"], dtype))
    return b.node("Add", n.x("input", dtype), made)


@rule("native_dropout")
def dropout(n: Op) -> Any:
    b = n.b
    y, mask = b.node("Dropout", n.x(), b.const(float(n.args["p"]), flow.float32), b.const(True), n=2)
    return [y, mask]
