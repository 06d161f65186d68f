"""Programs traced as graphs of Python calls, which can be read, changed and compiled again.

:func:`symbolic_trace` runs a module with proxies for its inputs; each call on them becomes a node of a :class:`Graph`,
and a :class:`GraphModule` runs the graph. :class:`oneflow.nn.Graph` and
:func:`oneflow.compile` trace tensors' ops instead and make programs of them; this package changes Python.
"""

from __future__ import annotations

from oneflow.fx import immutable_collections, node, operator_schemas, proxy, subgraph_rewriter, traceback
from oneflow.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from oneflow.fx.graph import CodeGen, Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.interpreter import Interpreter, Transformer
from oneflow.fx.node import Node, has_side_effect, map_arg
from oneflow.fx.proxy import Proxy
from oneflow.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "PH",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "immutable_collections",
    "map_arg",
    "node",
    "operator_schemas",
    "proxy",
    "replace_pattern",
    "subgraph_rewriter",
    "symbolic_trace",
    "traceback",
    "wrap",
]
