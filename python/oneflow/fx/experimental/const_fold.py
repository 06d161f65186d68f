"""Constant folding: what of a traced module depends on its attributes alone is computed once, in the first call."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from operator import getitem
from typing import Any

from oneflow import Tensor
from oneflow.fx._symbolic_trace import symbolic_trace
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule, _get_attr
from oneflow.fx.node import Node, map_arg
from oneflow.nn import Module, Parameter, ParameterList

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A traced module whose constant part, a graph of its own, runs before its first call.

    Args:
        root: where the attributes of both graphs come from: a module, or a dictionary of paths.
        graph: the part that runs in each call; it reads the results of the other from an attribute.
        const_subgraph: the part without inputs. None: there is nothing to fold.
        fx_const_folded_attrs_name: the attribute that receives its result, a parameter, or its results, a list of them.
        device_for_folded_attrs: accepted; results stay on the device on which they are computed.

    Attributes:
        const_subgraph_module: the constant part as a module, or None.
        has_folding_been_run: whether it has run.

    Example::

        >>> from oneflow.fx.experimental.const_fold import split_const_subgraphs
        >>> class Scaled(oneflow.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weight = oneflow.nn.Parameter(oneflow.ones(2))
        ...     def forward(self, x):
        ...         return x * (self.weight + 1)
        >>> folded = split_const_subgraphs(Scaled())
        >>> folded(oneflow.ones(2)).tolist(), folded.has_folding_been_run
        ([2.0, 2.0], True)
    """

    def __init__(
        self,
        root: Any,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constant part; it runs once."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        made = self.const_subgraph_module()
        held: Any = _held(made)
        if isinstance(made, tuple):
            results = [_held(value) for value in made]
            held = ParameterList(results) if all(isinstance(r, Parameter) for r in results) else results
        # A result that is no tensor takes the place of a parameter, which would refuse it.
        if hasattr(self, self.fx_const_folded_attrs_name):
            delattr(self, self.fx_const_folded_attrs_name)
        setattr(self, self.fx_const_folded_attrs_name, held)


def _held(value: Any) -> Any:
    return Parameter(value.detach().clone(), value.requires_grad) if isinstance(value, Tensor) else value


def get_unique_attr_name_in_module(mod_traced: Module, name: str) -> str:
    """Return ``name``, made an identifier, with a number behind it where the module has such an attribute.

    Example::

        >>> from oneflow.fx.experimental.const_fold import get_unique_attr_name_in_module
        >>> get_unique_attr_name_in_module(oneflow.nn.Linear(1, 1), "weight")
        'weight_1'
    """
    name = re.sub(r"\W+", "_", name, flags=re.ASCII)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        base, _, number = name.rpartition("_")
        name = f"{base}_{int(number) + 1}" if base and number.isdecimal() else f"{name}_1"
    return name


def split_const_subgraphs(
    module: Module,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
    is_impure_node: Callable[[Node], bool] | None = None,
) -> FoldedGraphModule:
    """Return ``module`` in two parts: what depends on tensors of the module alone, and the rest.

    Args:
        module: a module, which is traced, or a traced one.
        skip_folding_node_fn: whether a node stays in the rest. It is asked of the nodes of called traced modules too:
            such a call stays if one of them does.
        device_for_folded_attrs: accepted; results stay on the device on which they are computed.
        is_impure_node: whether a node without users stays, besides those that dead code always keeps.

    Example::

        >>> from oneflow.fx.experimental.const_fold import split_const_subgraphs
        >>> split_const_subgraphs(oneflow.nn.ReLU()).const_subgraph_module is None
        True
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant(traced, skip_folding_node_fn)
    results = [
        node
        for node in traced.graph.nodes
        if node in constant and node.op != "get_attr" and any(user not in constant for user in node.users)
    ]
    if not results:
        return FoldedGraphModule(traced, traced.graph)
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    inner = _computed(traced.graph, constant, results)
    outer = _rest(traced.graph, constant, results, name)
    root: dict[str, Any] = {name: Parameter() if len(results) == 1 else ParameterList()}
    for node in (*inner.nodes, *outer.nodes):
        if node.op in ("get_attr", "call_module") and node.target not in root:
            root[node.target] = _get_attr(traced, node.target)
    made = FoldedGraphModule(root, outer, inner, name, device_for_folded_attrs)
    made.training = traced.training
    made.graph.eliminate_dead_code(
        None if is_impure_node is None else lambda node: node.is_impure() or is_impure_node(node)
    )
    made.recompile()
    return made


def _constant(traced: GraphModule, skip: Callable[[Node], bool] | None) -> set[Node]:
    """The nodes that read tensors of the module, and those that compute with nothing else."""
    found: set[Node] = set()
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "get_attr":
            try:
                value = _get_attr(traced, node.target)
            except AttributeError:
                continue
            if isinstance(value, (Module, types.ModuleType)):
                continue
        elif not found.issuperset(node.all_input_nodes):
            continue
        inside = list(_called(traced, node))
        if skip is not None and any(skip(n) for n in (node, *inside)):
            continue
        if node.is_impure() or any(n.op == "call_function" and n.is_impure() for n in inside):
            continue
        found.add(node)
    return found


def _called(owner: Module, node: Node) -> Iterator[Node]:
    """The nodes that run in a call of a traced module."""
    if node.op != "call_module":
        return
    module = owner.get_submodule(str(node.target))
    if isinstance(module, GraphModule):
        for inner in module.graph.nodes:
            if inner.op not in ("placeholder", "output"):
                yield inner
                yield from _called(module, inner)


def _computed(graph: Graph, constant: set[Node], results: list[Node]) -> Graph:
    """The graph without inputs that returns ``results``."""
    made = Graph()
    values: dict[Node, Node] = {}
    needed = set(results)
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    for node in graph.nodes:
        if node in needed:
            values[node] = made.node_copy(node, values.__getitem__)
    outputs = tuple(values[node] for node in results)
    made.output(outputs[0] if len(outputs) == 1 else outputs)
    return made


def _rest(graph: Graph, constant: set[Node], results: list[Node], name: str) -> Graph:
    """The graph that reads ``results`` from the attribute ``name``."""
    made = Graph(tracer_cls=graph._tracer_cls, tracer_extras=graph._tracer_extras)
    made.set_codegen(graph._codegen)
    values: dict[Node, Node] = {}
    attribute = None
    for node in graph.nodes:
        if node in results:
            attribute = made.get_attr(name) if attribute is None else attribute
            values[node] = attribute
            if len(results) > 1:
                values[node] = made.call_function(getitem, (attribute, results.index(node)))
            values[node].meta = node.meta.copy()
        elif node.op == "output":
            made.output(map_arg(node.args[0], values.__getitem__), node.type).meta = node.meta.copy()
        elif node not in constant or node.op == "get_attr":
            values[node] = made.node_copy(node, values.__getitem__)
    return made
