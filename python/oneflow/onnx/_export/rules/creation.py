"""Tensors that are made of arguments."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow._trace.named_sizes import Size
from oneflow.onnx._export.rules import Op, rule, static

_ZEROS: tuple[str, ...] = (
    "zeros",
    "new_zeros",
    "zeros_like",
    "zero",
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
)
_ZEROS += ("new_empty_strided", "empty_permuted")


@rule(*_ZEROS, "ones", "new_ones", "ones_like", "full", "new_full", "full_like", "fill", "scalar_tensor")
def full(n: Op) -> Any:
    if n.name == "fill" and n.has("value"):
        return n.b.node("Expand", n.x("value", n.out.dtype), n.b.ints(n.out.sizes))
    value: Any = 0 if n.name in _ZEROS else 1
    for key in ("fill_value", "value", "s"):
        value = n.args.get(key, value)
    one = n.b.const(value, n.out.dtype)
    return n.b.node("Expand", one, n.b.ints(n.out.sizes)) if n.out.sizes else n.b.node("Identity", one)


@rule("arange", "arange.start")
def arange(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    start, end, step = n.args.get("start", 0), n.args["end"], n.args.get("step", 1)
    if all(static(v) for v in (start, end, step)):
        return b.const(flow.arange(start, end, step, dtype=dtype))

    def number(value: Any) -> str:
        if isinstance(value, Size):
            return b.cast(b.node("Squeeze", b.size(value), b.ints([0])), flow.int64, dtype)
        return b.const(value, dtype)

    return b.node("Range", number(start), number(end), number(step))


@rule("eye")
def eye(n: Op) -> Any:
    rows, columns = (n.b.count(size) for size in n.out.sizes)
    found = n.b.node("Equal", n.b.reshape(rows, [-1, 1]), columns)
    return n.b.cast(found, flow.bool, n.out.dtype)


@rule("linspace", "tril_indices", "triu_indices")
def constant(n: Op) -> Any:
    args = {k: v for k, v in n.args.items() if k not in ("dtype", "device", "requires_grad")}
    if (n.node.inputs and any(v is not None for v in n.node.inputs.values())) or not all(map(static, args.values())):
        raise n.refuse("of a size that follows from a named dimension has no ONNX form")
    return n.b.const(getattr(flow, n.name)(**args, dtype=n.out.dtype))
