"""Calls of traced modules written in one way: arguments by name, operators in place of the functions that they mean."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow.fx.experimental.schema_type_annotation import AnnotateTypesWithSchema
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.interpreter import Transformer
from oneflow.fx.node import Node, map_aggregate
from oneflow.fx.operator_schemas import create_type_hint, normalize_function, normalize_module
from oneflow.fx.proxy import Proxy

__all__ = ["NormalizeArgs", "NormalizeOperators"]


class NormalizeArgs(Transformer):
    """Give calls of functions and modules all their arguments by name, defaults too.

    Calls whose signature is not known, or does not fit, stay as they are.

    Args:
        module: the traced module.
        normalize_to_only_use_kwargs: whether arguments that are required are given by name too.

    Example::

        >>> from oneflow.fx.experimental.normalize import NormalizeArgs
        >>> traced = oneflow.fx.symbolic_trace(lambda x: oneflow.nn.functional.relu(x))
        >>> print(NormalizeArgs(traced).transform().code.strip())
        def forward(self, x):
            relu = oneflow.nn.functional.relu(input = x, inplace = False);  x = None
            return relu
    """

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Proxy, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs
        self._types: tuple[Any, dict[str, Any]] = ((), {})

    def run_node(self, n: Node) -> Any:
        args = map_aggregate(n.args, _type_of)
        self._types = tuple(map(create_type_hint, args)), {key: _type_of(value) for key, value in n.kwargs.items()}
        made = super().run_node(n)
        if n.op != "output":
            self.node_map[made] = n
            made.node.meta, made.node.type = n.meta, n.type
        return made

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = normalize_function(target, args, kwargs, *self._types, self.normalize_to_only_use_kwargs)
        return super().call_function(target, *(found or (args, kwargs)))

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = normalize_module(self.module, target, args, kwargs, self.normalize_to_only_use_kwargs)
        return super().call_module(target, *(found or (args, kwargs)))


def _type_of(value: Any) -> Any:
    """The type of a value; of a node what a pass has noted."""
    return value.meta.get("type") if isinstance(value, Node) else type(value)


class NormalizeOperators(AnnotateTypesWithSchema):
    """Write operators (``x + y``) for the functions that they mean (``add(x, y)``), unless these get further arguments.

    Example::

        >>> from oneflow.fx.experimental.normalize import NormalizeOperators
        >>> traced = oneflow.fx.symbolic_trace(lambda x, y: oneflow.add(x, y))
        >>> print(NormalizeOperators(traced).transform().code.strip())
        def forward(self, x, y):
            add = x + y;  x = y = None
            return add
    """

    binary_magic_method_remap: dict[Callable[..., Any], Callable[[Any, Any], Any]] = {
        oneflow.add: operator.add,
        oneflow.mul: operator.mul,
        oneflow.sub: operator.sub,
        oneflow.div: operator.truediv,
        oneflow.floor_divide: operator.floordiv,
        oneflow.remainder: operator.mod,
        oneflow.eq: operator.eq,
        oneflow.ne: operator.ne,
        oneflow.lt: operator.lt,
        oneflow.le: operator.le,
        oneflow.gt: operator.gt,
        oneflow.ge: operator.ge,
    }

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target in self.binary_magic_method_remap and len(args) == 2 and not kwargs:
            target = self.binary_magic_method_remap[target]
        return super().call_function(target, args, kwargs)
