"""What an op becomes in ONNX: `rule` registers a function for ops by name, `find` looks it up.

A rule takes the call and returns the name of the result, or a list of names with None for results that nobody needs to
read. Ops without a rule are traced as their compositions.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import oneflow as flow
from oneflow._trace.logical import Logical, Node, Value
from oneflow._trace.named_sizes import Size
from oneflow.onnx._export.builder import Builder

Rule = Callable[["Op"], Any]

_RULES: dict[str, Rule] = {}
_FAMILIES = (
    "composed",
    "creation",
    "elementwise",
    "index",
    "nn",
    "random",
    "recurrent",
    "reduction",
    "special",
    "strided",
    "views",
)


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = function
        return function

    return register


def rules() -> dict[str, Rule]:
    """All rules by the op's name."""
    if not _RULES:
        for family in _FAMILIES:
            importlib.import_module(f"oneflow.onnx._export.rules.{family}")
    return _RULES


class Op:
    """One node of the logical graph as its rule sees it."""

    def __init__(self, builder: Builder, graph: Logical, node: Node, names: dict[int, str]) -> None:
        self.b, self.graph, self.node, self.names = builder, graph, node, names
        self.args = node.args

    @property
    def name(self) -> str:
        return self.node.op

    @property
    def out(self) -> Value:
        return self.graph.values[self.node.outputs[0]]

    def is_read(self, i: int) -> bool:
        """Whether something reads a result."""
        value = self.node.outputs[i]
        if value in self.graph.outputs:
            return True
        return any(
            value == v or (isinstance(v, list) and value in v) for n in self.graph.nodes for v in n.inputs.values()
        )

    def has(self, key: str) -> bool:
        return self.node.inputs.get(key) is not None

    def meta(self, key: str) -> Value:
        return self.graph.values[self.node.inputs[key]]

    def x(self, key: str = "input", dtype: Any = None) -> Any:
        """The name of a tensor input, cast if a dtype is given; None if it was left out."""
        value = self.node.inputs.get(key)
        if value is None:
            return None
        name = self.names[value]
        return name if dtype is None else self.b.cast(name, self.graph.values[value].dtype, dtype)

    def all(self, key: str, dtype: Any = None) -> list[str]:
        """The names of a list of tensors."""
        return [
            self.b.cast(self.names[v], self.graph.values[v].dtype, dtype or self.graph.values[v].dtype)
            for v in self.node.inputs[key]
        ]

    def operand(self, key: str, dtype: Any) -> str:
        """A tensor input or a number, in a dtype."""
        if self.has(key):
            return self.x(key, dtype)
        return self.b.const(self.args[key], dtype)

    def common(self, *keys: str) -> Any:
        """The dtype in which tensors and numbers meet."""
        made: Any = None
        for key in keys:
            if self.has(key):
                dtype = self.meta(key).dtype
                made = dtype if made is None else flow.promote_types(made, dtype)
        for key in keys:
            if not self.has(key) and isinstance(self.args.get(key), float) and not made.is_floating_point:
                made = flow.get_default_dtype()
            if not self.has(key) and not isinstance(self.args.get(key), bool) and made == flow.bool:
                made = flow.int64
        return made

    def dim(self, key: str = "dim", of: str = "input") -> int:
        rank = max(self.meta(of).rank, 1)
        return int(self.args[key]) % rank

    def refuse(self, why: str) -> NotImplementedError:
        return NotImplementedError(f"onnx.export: {self.name}() {why}{self.place()}")

    def place(self) -> str:
        return f" (at {self.node.place})" if self.node.place else ""


def static(value: Any) -> bool:
    return not isinstance(value, Size)
