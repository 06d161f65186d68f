"""Symbolic tracing of Python is not provided: :class:`oneflow.nn.Graph` and :func:`oneflow.compile` trace tensors.

The names exist, so that ``isinstance(model, fx.GraphModule)`` is False and modules that import them load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from oneflow._base.refusals import refuse, refuse_class
from oneflow.utils import _pytree

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "map_arg",
    "symbolic_trace",
    "wrap",
]

T = TypeVar("T")

_INSTEAD = "use oneflow.nn.Graph or oneflow.compile, whose traces hold tensors' ops"

Graph: Any = refuse_class("oneflow.fx.Graph", _INSTEAD)
GraphModule: Any = refuse_class("oneflow.fx.GraphModule", _INSTEAD)
Interpreter: Any = refuse_class("oneflow.fx.Interpreter", _INSTEAD)
Node: Any = refuse_class("oneflow.fx.Node", _INSTEAD)
Proxy: Any = refuse_class("oneflow.fx.Proxy", _INSTEAD)
Tracer: Any = refuse_class("oneflow.fx.Tracer", _INSTEAD)
Transformer: Any = refuse_class("oneflow.fx.Transformer", _INSTEAD)
symbolic_trace = refuse("oneflow.fx.symbolic_trace", _INSTEAD)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """``a`` with ``fn(node)`` for each node in it; here nothing is one.

    Example::

        >>> oneflow.fx.map_arg([1, (2,)], str)
        [1, (2,)]
    """
    return _pytree.tree_map_only(Node, fn, a)


def wrap(fn_or_name: T) -> T:
    """Return ``fn_or_name`` itself: no tracer looks into functions.

    Example::

        >>> oneflow.fx.wrap(abs) is abs
        True
    """
    return fn_or_name
