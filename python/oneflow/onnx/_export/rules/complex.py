"""Complex numbers. A complex value is a real tensor in ONNX whose last dimension, of size two, holds the parts.

Only what programs compute on the way from reals to reals is provided: arithmetic, products, views, sums and Fourier
transforms. Inputs and outputs of a model are real.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import oneflow as flow
from oneflow._trace.named_sizes import Size
from oneflow.onnx._export.rules import Op, Rule, rules, static

_RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = function
        return function

    return register


def complex_rules() -> dict[str, Rule]:
    """The rules for calls that take or return complex numbers, by the op's name."""
    return _RULES


def real_dtype(dtype: Any) -> Any:
    """The dtype of the parts."""
    return flow.float64 if dtype == flow.complex128 else flow.float32


def is_complex(n: Op) -> bool:
    """Whether an input or a result of a call is complex."""
    read = [v for given in n.node.inputs.values() for v in (given if isinstance(given, list) else [given])]
    values = [n.graph.values[v] for v in [*read, *n.node.outputs] if v is not None]
    return any(v.dtype.is_complex for v in values)


class _Number:
    """A complex value as nodes: its two parts."""

    def __init__(self, n: Op, real: str, imag: str | None) -> None:
        self.n, self.real, self.imag = n, real, imag

    @classmethod
    def of(cls, n: Op, key: str) -> _Number:
        """An input or a number of the call, in the dtype of the parts of its result."""
        dtype = real_dtype(n.out.dtype) if n.out.dtype.is_complex else n.out.dtype
        if not n.has(key):
            value = n.args[key]
            real, imag = value if isinstance(value, (list, tuple)) else (value, None)
            return cls(n, n.b.const(float(real), dtype), None if imag is None else n.b.const(float(imag), dtype))
        if not n.meta(key).dtype.is_complex:
            return cls(n, n.x(key, dtype), None)
        axis = n.meta(key).rank
        x = n.b.cast(n.x(key), real_dtype(n.meta(key).dtype), dtype)
        return cls(n, *[n.b.node("Gather", x, n.b.const(i, flow.int64), axis=axis) for i in (0, 1)])

    def pair(self) -> str:
        b, axis = self.n.b, self.n.b.ints([-1])
        real = b.node("Unsqueeze", self.real, axis)
        if self.imag is None:
            zero = b.const(0.0, real_dtype(self.n.out.dtype))
            imag = b.node("Expand", zero, b.node("Shape", real))
        else:
            imag = b.node("Unsqueeze", self.imag, axis)
        return b.node("Concat", real, imag, axis=-1)

    def map(self, op: str, other: _Number) -> _Number:
        """An op that treats the parts alike, such as Add."""
        b = self.n.b
        zero = b.const(0.0, real_dtype(self.n.out.dtype))
        imag = b.node(op, self.imag or zero, other.imag or zero)
        return _Number(self.n, b.node(op, self.real, other.real), imag)

    def product(self, other: _Number, op: str = "Mul") -> _Number:
        b = self.n.b

        def mul(x: str | None, y: str | None) -> str | None:
            return None if x is None or y is None else b.node(op, x, y)

        real, imag = mul(self.real, other.real), mul(self.imag, other.imag)
        one, two = mul(self.real, other.imag), mul(self.imag, other.real)
        assert real is not None
        return _Number(
            self.n,
            real if imag is None else b.node("Sub", real, imag),
            b.node("Add", one, two) if one and two else one or two,
        )

    def over(self, other: _Number) -> _Number:
        b = self.n.b
        if other.imag is None:
            imag = self.imag and b.node("Div", self.imag, other.real)
            return _Number(self.n, b.node("Div", self.real, other.real), imag)
        turned = self.product(_Number(self.n, other.real, b.node("Neg", other.imag)))
        size = b.node("Add", b.node("Mul", other.real, other.real), b.node("Mul", other.imag, other.imag))
        return turned.over(_Number(self.n, size, None))


def _wide(n: Op, number: _Number) -> str:
    """The pair in the sizes of the result, whose real part or number may be smaller."""
    pair = number.pair()
    return n.b.node("Expand", pair, n.b.ints([*n.out.sizes, 2]))


@rule("complex")
def complex_(n: Op) -> Any:
    return _Number(n, n.x("real"), n.x("imag")).pair()


@rule("polar")
def polar(n: Op) -> Any:
    b, size, angle = n.b, n.x("abs"), n.x("angle")
    return _Number(n, *[b.node("Mul", size, b.node(op, angle)) for op in ("Cos", "Sin")]).pair()


@rule("view_as_real", "view_as_complex", "clone", "clone_contiguous", "contiguous", "alias_copy", "positive")
def same(n: Op) -> Any:
    return n.b.node("Identity", n.x())


@rule("real", "imag")
def part(n: Op) -> Any:
    x = _Number.of(n, "input")
    found = x.real if n.name == "real" else x.imag
    assert found is not None
    return found


@rule("conj", "conj_physical")
def conj(n: Op) -> Any:
    return n.b.node("Mul", n.x(), n.b.const([1.0, -1.0], real_dtype(n.out.dtype)))


@rule("neg")
def neg(n: Op) -> Any:
    return n.b.node("Neg", n.x())


@rule("abs")
def abs_(n: Op) -> Any:
    return n.b.reduce("ReduceL2", n.x(), [n.meta("input").rank], False)


@rule("to_copy")
def to_copy(n: Op) -> Any:
    if not n.out.dtype.is_complex:
        return _Number.of(n, "input").real
    if not n.meta("input").dtype.is_complex:
        return _Number.of(n, "input").pair()
    return n.b.cast(n.x(), real_dtype(n.meta("input").dtype), real_dtype(n.out.dtype))


@rule("add", "sub")
def add(n: Op) -> Any:
    x, y = _Number.of(n, "input"), _Number.of(n, "other")
    if (alpha := n.args.get("alpha", 1)) != 1:
        y = y.product(_Number(n, n.b.const(float(alpha), real_dtype(n.out.dtype)), None))
    return _wide(n, x.map("Add" if n.name == "add" else "Sub", y))


@rule("mul")
def mul(n: Op) -> Any:
    return _wide(n, _Number.of(n, "input").product(_Number.of(n, "other")))


@rule("div")
def div(n: Op) -> Any:
    return _wide(n, _Number.of(n, "input").over(_Number.of(n, "other")))


@rule("matmul", "mm", "bmm", "mv")
def matmul(n: Op) -> Any:
    other = next(k for k in ("other", "mat2", "vec") if n.has(k))
    return _Number.of(n, "input").product(_Number.of(n, other), "MatMul").pair()


# What moves or sums elements is done with both parts alike: its rule sees a real tensor with one dimension more.
_ALIKE = (
    *("view", "reshape", "flatten", "unflatten", "ravel", "view_as", "reshape_as", "squeeze", "squeeze.dim"),
    *("unsqueeze", "expand", "broadcast_to", "expand_as", "permute", "transpose", "swapaxes", "swapdims", "movedim"),
    *("select", "slice", "narrow", "split", "split.sizes", "split_with_sizes", "chunk", "unbind", "cat", "stack"),
    *("flip", "index_select", "sum", "mean", "cumsum", "pad_nd"),
)
_DIMS = ("dim", "dim0", "dim1", "axis0", "axis1", "dims", "source", "destination")


@rule(*_ALIKE)
def alike(n: Op) -> Any:
    graph = copy.copy(n.graph)
    graph.values = [_with_parts(v) if v.dtype.is_complex else v for v in n.graph.values]
    seen = Op(n.b, graph, n.node, n.names)
    rank = n.out.rank if n.name in ("stack", "unsqueeze") else _first(n).rank
    seen.args = {k: _positive(v, rank) if k in _DIMS else v for k, v in n.args.items()}
    if n.name == "pad_nd":
        seen.args["widths"] = [0, 0, *n.args["widths"]]
        if n.args["mode"] == "constant" and n.args["value"] != 0:
            raise n.refuse("of complex numbers with another value than zero has no ONNX form")
    if n.name == "permute":
        seen.args["dims"] = [*seen.args["dims"], rank]
    elif n.name in ("sum", "mean") and not seen.args.get("dim"):
        seen.args["dim"] = list(range(rank))
    return rules()[n.name](seen)


def _first(n: Op) -> Any:
    given = next(v for v in n.node.inputs.values() if v is not None)
    return n.graph.values[given[0] if isinstance(given, list) else given]


def _positive(dims: Any, rank: int) -> Any:
    if isinstance(dims, (list, tuple)):
        return [_positive(d, rank) for d in dims]
    return dims + max(rank, 1) if isinstance(dims, int) and dims < 0 else dims


def _with_parts(value: Any) -> Any:
    made = copy.copy(value)
    made.dtype, made.sizes = real_dtype(value.dtype), [*value.sizes, 2]
    return made


def _fourier(n: Op, x: str, dim: int, inverse: bool, onesided: bool = False) -> str:
    flags: dict[str, Any] = {"inverse": int(inverse) or None, "onesided": int(onesided) or None}
    if n.b.opset < 20:
        return n.b.node("DFT", x, axis=dim, **flags)
    return n.b.node("DFT", x, None, n.b.const(dim, flow.int64), **flags)


def _scaled(n: Op, x: str, sizes: list[Any], n_inverse: list[Any]) -> str:
    """By the normalization that is asked for; ONNX divides by the sizes of inverse transforms."""
    b, kind, dtype = n.b, n.args["normalization"], real_dtype(n.out.dtype)
    if all(map(static, [*sizes, *n_inverse])):
        n_all = math.prod(sizes)
        factor = math.prod(n_inverse) / (1.0, math.sqrt(n_all), float(n_all))[kind]
        return x if factor == 1 else b.node("Mul", x, b.const(factor, dtype))
    for group, op in ((n_inverse, "Mul"), (sizes if kind else [], "Div")):
        for size in group:
            number = b.cast(b.scalar(size), flow.int64, dtype)
            x = b.node(op, x, b.node("Sqrt", number) if op == "Div" and kind == 1 else number)
    return x


@rule("fft_c2c", "fft_r2c")
def transform(n: Op) -> Any:
    meta = n.meta("input")
    dims = [d % meta.rank for d in n.args["dim"]]
    inverse = n.name == "fft_c2c" and not n.args["forward"]
    x = n.x() if n.name == "fft_c2c" else n.b.node("Unsqueeze", n.x(), n.b.ints([-1]))
    for i, dim in enumerate(reversed(dims)):
        x = _fourier(n, x, dim, inverse, i == 0 and n.name == "fft_r2c" and bool(n.args["onesided"]))
    sizes = [meta.sizes[d] for d in dims]
    return _scaled(n, x, sizes, sizes if inverse else [])


@rule("fft_c2r")
def to_real(n: Op) -> Any:
    """The second half of the last dimension is that of the conjugate at the mirrored place."""
    b, x, meta, length = n.b, n.x(), n.meta("input"), n.args["last_dim_size"]
    dims = [d % meta.rank for d in n.args["dim"]]
    for dim in dims[:-1]:
        x = _fourier(n, x, dim, True)
    last, axis = dims[-1], b.ints([dims[-1]])
    if isinstance(length, Size):
        raise n.refuse("to an open size has no ONNX form")
    half = length // 2 + 1
    x = b.node("Slice", x, b.ints([0]), b.ints([half]), axis)
    if length > 2:
        mirrored = b.node("Slice", x, b.ints([(length - 1) // 2]), b.ints([0]), axis, b.ints([-1]))
        mirrored = b.node("Mul", mirrored, b.const([1.0, -1.0], n.out.dtype))
        x = b.node("Concat", x, mirrored, axis=last)
    sizes = [*(meta.sizes[d] for d in dims[:-1]), length]
    x = b.node("Gather", _fourier(n, x, last, True), b.const(0, flow.int64), axis=meta.rank)
    return _scaled(n, x, sizes, sizes)
