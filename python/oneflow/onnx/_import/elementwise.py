"""Elementwise ops: functions of one element, activations, comparisons, choices and casts."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.registry import Call, handler
from oneflow.onnx._import.values import (
    FLOAT4,
    INT2,
    INT4,
    LARGEST,
    STRING,
    UINT2,
    UINT4,
    Narrow,
    Strings,
    dtype_of,
    elem_of,
    is_narrow,
)

_UNARY = {
    "Abs": flow.abs,
    "Acos": flow.acos,
    "Acosh": flow.acosh,
    "Asin": flow.asin,
    "Asinh": flow.asinh,
    "Atan": flow.atan,
    "Atanh": flow.atanh,
    "Ceil": flow.ceil,
    "Cos": flow.cos,
    "Cosh": flow.cosh,
    "Erf": flow.erf,
    "Exp": flow.exp,
    "Floor": flow.floor,
    "IsNaN": flow.isnan,
    "Log": flow.log,
    "Neg": flow.neg,
    "Not": flow.logical_not,
    "Reciprocal": flow.reciprocal,
    "Relu": flow.relu,
    "Round": flow.round,
    "Sigmoid": flow.sigmoid,
    "Sign": flow.sign,
    "Sin": flow.sin,
    "Sinh": flow.sinh,
    "Softplus": lambda x: flow.logaddexp(x, flow.zeros_like(x)),
    "Softsign": lambda x: x / (1 + flow.abs(x)),
    "Sqrt": flow.sqrt,
    "Tan": flow.tan,
    "Tanh": flow.tanh,
    "HardSwish": F.hardswish,
    "Mish": F.mish,
}


def _register_unary() -> None:
    for name, function in _UNARY.items():
        handler(name)(lambda c, x, function=function: function(x))


_register_unary()


@handler("Identity")
def identity(c: Call, x: Any) -> Any:
    return x


@handler("BitwiseNot")
def bitwise_not(c: Call, x: Any) -> Any:
    return flow.bitwise_not(x.to(flow.int64)).to(x.dtype) if _is_unsigned(x) else flow.bitwise_not(x)


@handler("LeakyRelu")
def leaky_relu(c: Call, x: Any) -> Any:
    return F.leaky_relu(x, c.get("alpha", 0.01))


@handler("Elu")
def elu(c: Call, x: Any) -> Any:
    return F.elu(x, c.get("alpha", 1.0))


@handler("Celu")
def celu(c: Call, x: Any) -> Any:
    return F.celu(x, c.get("alpha", 1.0))


@handler("Selu")
def selu(c: Call, x: Any) -> Any:
    alpha, gamma = c.get("alpha", 1.6732631921768188), c.get("gamma", 1.0507010221481323)
    return gamma * flow.where(x > 0, x, alpha * flow.expm1(flow.clamp(x, max=0)))


@handler("PRelu")
def prelu(c: Call, x: Any, slope: Any) -> Any:
    if c.version < 7 and slope.dim() == 1 and x.dim() > 2 and slope.numel() > 1:
        slope = slope.reshape(-1, *[1] * (x.dim() - 2))
    return flow.where(x < 0, x * slope, x)


@handler("ThresholdedRelu")
def thresholded_relu(c: Call, x: Any) -> Any:
    return flow.where(x > c.get("alpha", 1.0), x, flow.zeros_like(x))


@handler("HardSigmoid")
def hard_sigmoid(c: Call, x: Any) -> Any:
    return flow.clamp(x * c.get("alpha", 0.2) + c.get("beta", 0.5), 0, 1)


@handler("Gelu")
def gelu(c: Call, x: Any) -> Any:
    return F.gelu(x, approximate=c.text("approximate", "none"))


@handler("Gelu", "FastGelu", domain="com.microsoft")
def gelu_of_runtime(c: Call, x: Any, bias: Any = None) -> Any:
    x = x if bias is None else x + bias
    return F.gelu(x, approximate="tanh" if c.op == "FastGelu" else "none")


@handler("QuickGelu", domain="com.microsoft")
def quick_gelu(c: Call, x: Any) -> Any:
    return x * flow.sigmoid(x * c.get("alpha", 1.702))


@handler("Swish")
def swish(c: Call, x: Any) -> Any:
    return x * flow.sigmoid(x * c.get("alpha", 1.0))


@handler("SwiGLU")
def swiglu(c: Call, gate: Any, value: Any) -> Any:
    return gate * flow.sigmoid(gate * c.get("alpha", 1.0)) * value


@handler("Shrink")
def shrink(c: Call, x: Any) -> Any:
    lambd, bias = c.get("lambd", 0.5), c.get("bias", 0.0)
    zero = flow.zeros_like(x)
    y = flow.where(x < -lambd, x + bias, flow.where(x > lambd, x - bias, zero))
    return y.to(x.dtype)


@handler("Clip")
def clip(c: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    if c.version < 11:
        low, high = c.get("min", -3.4028234663852886e38), c.get("max", 3.4028234663852886e38)
        return flow.clamp(x, low, high)
    if low is not None:
        x = flow.maximum(x, low.reshape(()).to(x.dtype))
    return x if high is None else flow.minimum(x, high.reshape(()).to(x.dtype))


@handler("IsInf")
def is_inf(c: Call, x: Any) -> Any:
    found = flow.isinf(x)
    if not c.get("detect_positive", 1):
        found = flow.logical_and(found, x < 0)
    if not c.get("detect_negative", 1):
        found = flow.logical_and(found, x > 0)
    return found


def _aligned(c: Call, a: Any, b: Any) -> Any:
    """The second operand of a version below 7, which was broadcast along ``axis`` and only on request."""
    if c.version >= 7 or not c.get("broadcast", 0) or b.dim() == 0:
        return b
    axis = c.get("axis", a.dim() - b.dim())
    axis = axis + a.dim() if axis < 0 else axis
    return b.reshape(*b.shape, *[1] * (a.dim() - axis - b.dim()))


def _divide(a: Any, b: Any) -> Any:
    return a / b if a.is_floating_point() or a.is_complex() else flow.div(a, b, rounding_mode="trunc")


def _xor(a: Any, b: Any) -> Any:
    return flow.logical_xor(a, b)


_BINARY = {
    "Add": flow.add,
    "Sub": flow.sub,
    "Mul": flow.mul,
    "Div": _divide,
    "And": flow.logical_and,
    "Or": flow.logical_or,
    "Xor": _xor,
    "Greater": flow.gt,
    "GreaterOrEqual": flow.ge,
    "Less": flow.lt,
    "LessOrEqual": flow.le,
    "BitwiseAnd": flow.bitwise_and,
    "BitwiseOr": flow.bitwise_or,
    "BitwiseXor": flow.bitwise_xor,
}


_COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def _of_unsigned(op: str, function: Any, a: Any, b: Any) -> Any:
    """Apply a function to unsigned integers as signed ones of 64 bits: sums and products have the same bits."""
    wide = [x.to(flow.int64) for x in (a, b)]
    if a.dtype == flow.uint64 and op in _COMPARISONS:
        # The order of unsigned numbers is that of signed ones with the uppermost bit flipped.
        wide = [flow.bitwise_xor(x, -(2**63)) for x in wide]
    if a.dtype == flow.uint64 and op in ("Div", "Mod") and any(bool((x < 0).any()) for x in wide):
        raise NotImplementedError(f"{op}: uint64 numbers from 2 ** 63 on are not provided")
    result = function(*wide)
    return result if op in _COMPARISONS else result.to(a.dtype)


def _is_unsigned(x: Any) -> bool:
    return x.dtype in (flow.uint16, flow.uint32, flow.uint64)


def _register_binary() -> None:
    for name, function in _BINARY.items():

        def compute(c: Call, a: Any, b: Any, function: Any = function) -> Any:
            b = _aligned(c, a, b)
            return _of_unsigned(c.op, function, a, b) if _is_unsigned(a) else function(a, b)

        handler(name)(compute)


_register_binary()


@handler("Equal")
def equal(c: Call, a: Any, b: Any) -> Any:
    if isinstance(a, Strings):
        numbers: dict[str, int] = {}
        left, right = (
            flow.tensor([numbers.setdefault(s, len(numbers)) for s in x.items]).reshape(x.shape) for x in (a, b)
        )
        return flow.eq(left, right)
    return flow.eq(a, _aligned(c, a, b))


@handler("Pow")
def power(c: Call, a: Any, b: Any) -> Any:
    b = _aligned(c, a, b)
    if a.is_floating_point() == b.is_floating_point() or a.is_floating_point():
        return flow.pow(a, b.to(a.dtype) if b.dtype != a.dtype else b).to(a.dtype)
    return flow.pow(a.to(flow.float64), b.to(flow.float64)).to(a.dtype)


@handler("Mod")
def modulo(c: Call, a: Any, b: Any) -> Any:
    function = flow.fmod if c.get("fmod", 0) else flow.remainder
    return _of_unsigned("Mod", function, a, b) if _is_unsigned(a) else function(a, b)


_BITS = {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "uint32": 32, "int32": 32}


@handler("BitShift")
def bit_shift(c: Call, a: Any, b: Any) -> Any:
    name = str(a.dtype).split(".")[-1]
    bits, signed = _BITS.get(name, 64), name.startswith("int")
    wide, by = a.to(flow.int64), b.to(flow.int64)
    beyond, by = by >= bits, flow.clamp(by, max=bits - 1)
    if c.text("direction") == "LEFT":
        shifted, empty = flow.bitwise_left_shift(wide, by), flow.zeros_like(wide)
    else:
        shifted = flow.bitwise_right_shift(wide, by)
        empty = flow.bitwise_right_shift(wide, bits - 1) if signed else flow.zeros_like(wide)
        if name == "uint64":
            # A logical shift: the uppermost bits become zero, whatever the sign.
            mask = flow.bitwise_right_shift(flow.full_like(by, 2**63 - 1), flow.clamp(by - 1, min=0))
            shifted = flow.where(by > 0, flow.bitwise_and(shifted, mask), shifted)
    return flow.where(beyond, empty, shifted).to(a.dtype)


def _folded(function: Any) -> Any:
    def fold(c: Call, *values: Any) -> Any:
        result = values[0]
        for value in values[1:]:
            result = function(result, value)
        return result

    return fold


handler("Sum")(_folded(flow.add))
handler("Max")(_folded(flow.maximum))
handler("Min")(_folded(flow.minimum))


@handler("Mean")
def mean(c: Call, *values: Any) -> Any:
    return _folded(flow.add)(c, *values) / len(values)


@handler("Where")
def where(c: Call, condition: Any, a: Any, b: Any) -> Any:
    if isinstance(a, Strings):
        both = Strings((len(a.items) + len(b.items),), a.items + b.items)
        left = flow.arange(len(a.items)).reshape(a.shape)
        right = flow.arange(len(a.items), len(both.items)).reshape(b.shape)
        index = flow.where(condition, left, right)
        return Strings(index.shape, [both.items[i] for i in index.flatten().tolist()])
    return flow.where(condition, a, b)


_FLOAT4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def round_to_float4(x: Any) -> Any:
    """The nearest of the eight magnitudes of float4e2m1, ties to the even one; beyond the largest, the largest."""
    magnitude = flow.abs(x)
    result = flow.zeros_like(x)
    for i, value in enumerate(_FLOAT4_VALUES[1:], start=1):
        middle = (value + _FLOAT4_VALUES[i - 1]) / 2
        # A tie goes to the value whose last bit is zero.
        result = flow.where(magnitude >= middle if i % 2 == 0 else magnitude > middle, flow.full_like(x, value), result)
    result = flow.where(flow.isnan(x), flow.zeros_like(x), result)
    return flow.where(flow.signbit(x), -result, result)


def _wrapped(x: Any, elem: int) -> Any:
    """Whole numbers in the bits of a narrow type."""
    bits, signed = {UINT4: (4, False), INT4: (4, True), UINT2: (2, False), INT2: (2, True)}[elem]
    low = flow.bitwise_and(x.to(flow.int64), (1 << bits) - 1)
    return flow.where(low >= 1 << (bits - 1), low - (1 << bits), low) if signed else low


def cast_to(value: Any, elem: int, saturate: bool = True, round_mode: str = "up") -> Any:
    """Casts as ONNX does: strings are read and written, eight-bit floats saturate, four bits wrap."""
    if isinstance(value, Strings):
        if elem == STRING:
            return value
        if not is_narrow(elem) and not dtype_of(elem).is_floating_point:
            numbers: list[Any] = [int(float(s)) if "." in s or "e" in s.lower() else int(s) for s in value.items]
        else:
            numbers = [float(s) for s in value.items]
        return cast_to(flow.tensor(numbers).reshape(value.shape), elem)
    if elem == elem_of(value):
        return value
    source = value.elem if isinstance(value, Narrow) else None
    x = value.values if isinstance(value, Narrow) else value
    if elem == STRING:
        return Strings(x.shape, [_text(v, x.dtype) for v in x.flatten().tolist()])
    if elem == FLOAT4:
        return Narrow(round_to_float4(x.to(flow.float32)), elem)
    if is_narrow(elem):
        if x.is_floating_point():
            x = flow.trunc(x.to(flow.float32)) if source is None else x
        return Narrow(_wrapped(x, elem).to(dtype_of(elem)), elem)
    if elem == 24:
        return _to_powers_of_two(x.to(flow.float32), saturate, round_mode)
    largest = LARGEST.get(elem)
    if largest is not None:
        return _to_float8(x.to(flow.float32), elem, largest, saturate)
    return x.to(dtype_of(elem))


def _to_float8(x: Any, elem: int, largest: float, saturate: bool) -> Any:
    dtype = dtype_of(elem)
    if saturate:
        return flow.clamp(x, -largest, largest).to(dtype)
    overflow = flow.abs(x) > largest * (1 + 2.0**-4 if elem in (17, 18) else 1 + 2.0**-3)
    beyond = math.inf if elem == 19 else math.nan
    bounded = flow.clamp(x, -largest, largest)
    signed = flow.copysign(flow.full_like(x, beyond), x)
    return flow.where(flow.logical_or(overflow, flow.isinf(x)), signed, bounded).to(dtype)


def _to_powers_of_two(x: Any, saturate: bool, round_mode: str) -> Any:
    """Float8e8m0: the exponent alone."""
    bits = x.contiguous().view(flow.int32)
    exponent = flow.bitwise_and(flow.bitwise_right_shift(bits, 23), 255)
    fraction = flow.bitwise_and(bits, (1 << 23) - 1)
    if round_mode == "up":
        up = fraction > 0
    elif round_mode == "down":
        up = flow.zeros_like(fraction).to(flow.bool)
    else:
        up = flow.logical_or(
            fraction > 1 << 22, flow.logical_and(fraction == 1 << 22, flow.bitwise_and(exponent, 1) == 1)
        )
        up = fraction >= 1 << 22
    raised = exponent + up.to(exponent.dtype)
    if saturate:
        raised = flow.clamp(raised, max=254)
    nan = flow.isnan(x)
    if not saturate:
        nan = flow.logical_or(nan, flow.isinf(x))
    code = flow.where(nan, flow.full_like(raised, 255), raised)
    return code.to(flow.uint8).view(flow.float8_e8m0fnu)


def _text(value: Any, dtype: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "INF" if value > 0 else "-INF"
        if dtype == flow.float32:
            return _shortest_float32(value)
    return str(value)


def _shortest_float32(value: float) -> str:
    """The shortest decimal number that reads as this float32."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if float(flow.tensor(float(text), dtype=flow.float32)) == value:
            return str(float(text))
    return str(value)


@handler("Cast")
def cast(c: Call, x: Any) -> Any:
    to = c.need("to")
    if isinstance(to, bytes):
        to = _OLD_NAMES[to.decode()]
    return cast_to(x, to, bool(c.get("saturate", 1)), c.text("round_mode", "up"))


_OLD_NAMES = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10}
_OLD_NAMES.update({"DOUBLE": 11, "UINT16": 4, "UINT32": 12, "UINT64": 13, "STRING": 8})


@handler("CastLike")
def cast_like(c: Call, x: Any, like: Any) -> Any:
    return cast_to(x, elem_of(like), bool(c.get("saturate", 1)), c.text("round_mode", "up"))


@handler("BitCast")
def bit_cast(c: Call, x: Any) -> Any:
    to = c.need("to")
    if isinstance(x, Narrow) or is_narrow(to):
        if isinstance(x, Narrow) and is_narrow(to) and {x.elem, to} in ({UINT4, INT4}, {UINT2, INT2}):
            return Narrow(_wrapped(x.values, to).to(dtype_of(to)), to)
        raise NotImplementedError(f"BitCast: from {elem_of(x)} to element type {to} is not provided")
    if x.dtype == flow.bool:
        x = x.to(flow.uint8)
    if dtype_of(to) == flow.bool:
        return x.contiguous().view(flow.uint8) != 0
    return x.contiguous().view(dtype_of(to))
