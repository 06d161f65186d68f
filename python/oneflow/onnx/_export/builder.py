"""Builds an ONNX graph: its nodes, constants and names. The rule of an op decides which nodes it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow as flow
from oneflow._trace.named_sizes import Size
from oneflow.onnx._import.values import elem_of_dtype


class Builder:
    """Collects a graph. Values are named by strings; types are those of this package."""

    def __init__(self, opset: int, points: list[dict[str, int]]) -> None:
        self.opset = opset
        # The sizes of named dimensions that the program was traced at.
        self.points = points
        self.nodes: list[dict[str, Any]] = []
        self.initializers: list[dict[str, Any]] = []
        self.taken: set[str] = set()
        # Where each named dimension can be read: (input, axis).
        self.dims: dict[str, tuple[str, int]] = {}
        self._counts: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._sizes: dict[Size, str] = {}
        self.metadata: list[tuple[str, str]] = []

    def name(self, wanted: str) -> str:
        """A name that nothing else has."""
        made = wanted
        while not made or made in self.taken:
            n = self._counts.get(wanted, 0)
            self._counts[wanted] = n + 1
            made = f"{wanted}_{n}"
        self.taken.add(made)
        return made

    def node(self, op: str, *inputs: str | None, n: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Add a node; return the name of its output, or of its ``n`` outputs."""
        outputs = [self.name(op.lower()) for _ in range(n)]
        names = [i or "" for i in inputs]
        while names and not names[-1]:
            names.pop()
        self.nodes.append(
            {
                "op_type": op,
                "name": self.name(f"node_{op}"),
                "domain": domain,
                "input": names,
                "output": outputs,
                "attribute": [_attribute(k, v) for k, v in attributes.items() if v is not None],
                "metadata_props": [{"key": k, "value": v} for k, v in self.metadata],
            }
        )
        return outputs[0] if n == 1 else outputs

    def rename(self, old: str, new: str) -> bool:
        """Give a value that a node makes another name; False if no node makes it."""
        found = False
        for node in self.nodes:
            found = found or old in node["output"]
            node["output"] = [new if o == old else o for o in node["output"]]
            node["input"] = [new if i == old else i for i in node["input"]]
        return found

    def initializer(self, name: str, tensor: Any) -> str:
        name = self.name(name)
        self.initializers.append(tensor_of(name, tensor))
        return name

    def const(self, value: Any, dtype: Any = None) -> str:
        """A small constant: a number, a list of them, or a tensor; a number may follow from named dimensions."""
        if isinstance(value, Size):
            return self.cast(self.scalar(value), flow.int64, dtype or flow.int64)
        tensor = value if isinstance(value, flow.Tensor) else flow.tensor(value, dtype=dtype)
        key = (str(tensor.dtype), tuple(tensor.shape), tuple(map(repr, tensor.flatten().tolist())))
        if len(key[2]) > 64:
            return self.initializer("constant", tensor)
        if key not in self._constants:
            self._constants[key] = self.initializer("constant", tensor)
        return self._constants[key]

    def ints(self, values: Sequence[Any]) -> str:
        """A vector of int64; entries may follow from named dimensions."""
        if not any(isinstance(v, Size) for v in values):
            return self.const([int(v) for v in values], flow.int64)
        parts = [self.size(v) if isinstance(v, Size) else self.const([int(v)], flow.int64) for v in values]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def scalar(self, size: Any) -> str:
        """One int64 without dimensions: an integer or a size."""
        if isinstance(size, Size):
            return self.node("Squeeze", self.size(size), self.const([0], flow.int64))
        return self.const(int(size), flow.int64)

    def count(self, n: Any, step: Any = 1, start: Any = 0) -> str:
        """``n`` int64 numbers from ``start`` on, ``step`` apart; each of the three may follow from named dimensions."""
        if not any(isinstance(v, Size) for v in (n, step, start)):
            return self.const(flow.arange(n) * step + start)
        steps = self.node("Range", self.scalar(0), self.scalar(n), self.scalar(1))
        if step != 1:
            steps = self.node("Mul", steps, self.ints([step]))
        return steps if start == 0 else self.node("Add", steps, self.ints([start]))

    def size(self, size: Size) -> str:
        """A vector of one int64: the value of a size at run time."""
        if size in self._sizes:
            return self._sizes[size]
        denominator = 1
        for factor in size.terms.values():
            denominator = denominator * factor.denominator // _gcd(denominator, factor.denominator)
        total: str | None = None
        for term, factor in size.terms.items():
            whole = int(factor * denominator)
            part = self.const([whole], flow.int64) if not term or whole != 1 else None
            for name in term:
                read = self._dim(name)
                part = read if part is None else self.node("Mul", part, read)
            assert part is not None
            total = part if total is None else self.node("Add", total, part)
        assert total is not None
        if denominator != 1:
            total = self.node("Div", total, self.const([denominator], flow.int64))
        self._sizes[size] = total
        return total

    def _dim(self, name: str) -> str:
        single = Size({(name,): 1})  # type: ignore[dict-item]
        if single not in self._sizes:
            source, axis = self.dims[name]
            self._sizes[single] = self.node("Shape", source, start=axis, end=axis + 1)
        return self._sizes[single]

    def at_points(self, size: Any) -> list[int]:
        """A size at each of the sizes that the program was traced at."""
        return [int(size.at(dims)) if isinstance(size, Size) else int(size) for dims in self.points]

    def cast(self, x: str, source: Any, to: Any) -> str:
        return x if source == to else self.node("Cast", x, to=elem_of_dtype(to))

    def reshape(self, x: str, sizes: Sequence[Any]) -> str:
        """Reshape; one size that is open becomes -1, if all others are known and not zero."""
        open_ = [i for i, s in enumerate(sizes) if isinstance(s, Size)]
        if len(open_) == 1 and all(s != 0 for s in sizes):
            return self.node("Reshape", x, self.ints([-1 if i == open_[0] else s for i, s in enumerate(sizes)]))
        empty = any(not isinstance(s, Size) and s == 0 for s in sizes)
        return self.node("Reshape", x, self.ints(sizes), allowzero=1 if empty else None)

    def reduce(self, op: str, x: str, dims: Sequence[int], keepdims: bool) -> str:
        if self.opset < 18 and op != "ReduceSum":
            return self.node(op, x, axes=list(dims), keepdims=int(keepdims))
        return self.node(op, x, self.ints(dims), keepdims=int(keepdims))


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def tensor_of(name: str, tensor: Any) -> dict[str, Any]:
    tensor = tensor.detach()
    return {"name": name, "elem": elem_of_dtype(tensor.dtype), "dims": list(tensor.shape), "data": tensor}


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, str):
        return {"name": name, "type": 3, "value": value.encode()}
    if isinstance(value, int):
        return {"name": name, "type": 2, "value": value}
    if isinstance(value, float):
        return {"name": name, "type": 1, "value": value}
    if isinstance(value, flow.Tensor):
        return {"name": name, "type": 4, "value": tensor_of("", value)}
    if value and isinstance(value[0], float):
        return {"name": name, "type": 6, "value": list(value)}
    if value and isinstance(value[0], str):
        return {"name": name, "type": 8, "value": [v.encode() for v in value]}
    if any(isinstance(v, Size) for v in value):
        raise NotImplementedError(f"onnx.export: the attribute {name} = {value} would depend on a named dimension")
    return {"name": name, "type": 7, "value": [int(v) for v in value]}
