"""Divides a traced module into submodules that run one after the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule, _copy_attr, _get_attr
from oneflow.fx.node import Node, map_arg
from oneflow.nn import Module

__all__ = ["split_module"]


class _Part:
    """The nodes of one submodule: what they read from outside, and what is read of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graph = Graph()
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.needs: dict[Any, None] = {}
        self.values: dict[Node, Node] = {}
        # Attributes of the module that the nodes read, under names without dots.
        self.attributes: dict[str, Any] = {}

    def copied(self, node: Node, root: Any) -> Node:
        """A copy of a node, whose attribute becomes one of the submodule."""
        made = self.graph.node_copy(node, self.values.__getitem__)
        if node.op in ("call_module", "get_attr"):
            made.target = str(node.target).replace(".", "_")
            self.attributes[made.target] = _get_attr(root, str(node.target))
        return made


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int | str],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    partition_affix: str | None = None,
) -> GraphModule:
    """A module that calls a submodule for each partition.

    Args:
        m: the traced module.
        root_m: where attributes come from.
        split_callback: the partition of a node.
        qualname_map: receives the old path of each moved module, by its new one.
        keep_original_order: partitions run in the order in which they first occur.
        keep_original_node_name: nodes keep their names.
        partition_affix: part of the names of the submodules.

    Raises:
        RuntimeError: partitions need each other's results, so that none can run first.

    Example::

        >>> from oneflow.fx.passes.split_module import split_module
        >>> traced = oneflow.fx.symbolic_trace(lambda x: oneflow.relu(x) + 1)
        >>> split = split_module(traced, traced, lambda node: int(node.name == "add"))
        >>> [name for name, _ in split.named_children()], split(-oneflow.ones(1))
        (['submod_0', 'submod_1'], tensor([1.]))
    """
    affix = f"{partition_affix}_" if partition_affix else ""
    parts: dict[Any, _Part] = {}
    where: dict[Node, Any] = {}
    for node in m.graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            where[node] = key = split_callback(node)
            parts.setdefault(key, _Part(f"submod_{affix}{key}"))
    for node in m.graph.nodes:
        own = where.get(node)
        for source in node.all_input_nodes:
            if node.op == "output":
                if source in where:
                    parts[where[source]].outputs[source] = None
            elif source in where and where[source] != own:
                parts[where[source]].outputs[source] = None
                parts[own].inputs[source] = None
                parts[own].needs[where[source]] = None
            elif source.op == "placeholder":
                parts[own].inputs[source] = None
    order = list(parts) if keep_original_order else _ordered(parts)
    _fill(m, root_m, parts, where, qualname_map, keep_original_node_name)
    return _assembled(m, parts, order)


def _ordered(parts: dict[Any, _Part]) -> list[Any]:
    done: dict[Any, None] = {}
    while len(done) < len(parts):
        ready = next((key for key, part in parts.items() if key not in done and part.needs.keys() <= done.keys()), None)
        if ready is None and not any(
            key not in done and part.needs.keys() <= done.keys() for key, part in parts.items()
        ):
            raise RuntimeError("cycle exists between partitions!")
        done[ready] = None
    return list(done)


def _fill(
    m: GraphModule, root_m: Module, parts: dict[Any, _Part], where: dict[Node, Any], names: Any, keep_names: bool
) -> None:
    for part in parts.values():
        for node in part.inputs:
            part.values[node] = made = part.graph.placeholder(node.name, node.type)
            made.meta = node.meta.copy()
    for node in m.graph.nodes:
        if node not in where:
            continue
        part = parts[where[node]]
        for source in node.all_input_nodes:
            if source.op == "get_attr" and source not in part.values:
                part.values[source] = part.copied(source, root_m)
        made = part.copied(node, root_m)
        if keep_names:
            made.name = node.name
        part.values[node] = made
        if names is not None and node.op == "call_module":
            names[f"{part.name}.{made.target}"] = str(node.target)
    for part in parts.values():
        outputs = tuple(part.values[node] for node in part.outputs)
        if outputs:
            part.graph.output(outputs[0] if len(outputs) == 1 else outputs)
        else:
            part.graph.output(())


def _assembled(m: GraphModule, parts: dict[Any, _Part], order: list[Any]) -> GraphModule:
    graph = Graph()
    root = Module()
    values: dict[Node, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            values[node] = graph.placeholder(node.name, node.type, default)
            values[node].meta = node.meta.copy()
    for key in order:
        part = parts[key]
        setattr(root, part.name, GraphModule(part.attributes, part.graph))
        result = graph.call_module(part.name, tuple(values[node] for node in part.inputs))
        outputs = list(part.outputs)
        if len(outputs) == 1:
            values[outputs[0]] = result
        else:
            from operator import getitem

            for i, node in enumerate(outputs):
                values[node] = graph.call_function(getitem, (result, i))
    for node in m.graph.nodes:
        if node.op == "output":
            for source in node.all_input_nodes:
                if source.op == "get_attr":
                    values[source] = graph.get_attr(str(source.target))
                    _copy_attr(m, root, str(source.target))
            graph.output(map_arg(node.args[0], values.__getitem__))
    return GraphModule(root, graph)
