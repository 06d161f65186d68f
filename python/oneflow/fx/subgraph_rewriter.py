"""Replaces what looks like a pattern in a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from oneflow.fx._symbolic_trace import symbolic_trace
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.node import Node
from oneflow.nn import Module

__all__ = ["replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place where the pattern was found: its last node, and the node for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A :class:`Match`, and the nodes that were put in its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace all non-overlapping places of a graph that compute as ``pattern`` does.

    Args:
        gm: the traced module, which is changed and compiled again.
        pattern: a function, a module or a graph. Its inputs match anything.
        replacement: the same, with as many inputs.

    Example::

        >>> traced = oneflow.fx.symbolic_trace(lambda x: oneflow.neg(x) + oneflow.neg(x))
        >>> matches = oneflow.fx.replace_pattern(traced, lambda x: oneflow.neg(x), lambda x: oneflow.abs(x))
        >>> len(matches), traced(-oneflow.ones(1))
        (2, tensor([2.]))
    """
    replaced = _replace(gm, pattern, replacement, None, None, False)
    return [Match(one.anchor, one.nodes_map) for one in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[..., Any] | None = None,
) -> list[ReplacedPatterns]:
    """As :func:`replace_pattern`, where all filters agree.

    Args:
        gm: the traced module.
        pattern: what is looked for.
        replacement: what is put there.
        match_filters: functions of a match, the graph and the pattern's graph.
        ignore_literals: numbers and strings of the pattern match any.
        replacement_callback: creates the replacement of each match from its arguments, in place of ``replacement``.

    Example::

        >>> from oneflow.fx.subgraph_rewriter import replace_pattern_with_filters
        >>> traced = oneflow.fx.symbolic_trace(lambda x: oneflow.neg(x))
        >>> replace_pattern_with_filters(traced, oneflow.fx.symbolic_trace(lambda x: oneflow.neg(x)),
        ...                              lambda x: x, [lambda match, graph, pattern: False])
        []
    """
    return _replace(gm, pattern, replacement, match_filters, replacement_callback, ignore_literals)


def _graph_of(value: Any) -> Graph:
    if isinstance(value, GraphModule):
        return value.graph
    return value if isinstance(value, Graph) else symbolic_trace(value).graph


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: list[Callable[..., bool]] | None,
    callback: Callable[..., Any] | None,
    ignore_literals: bool,
) -> list[ReplacedPatterns]:
    graph, wanted = gm.graph, _graph_of(pattern)
    matches = _Matcher(wanted, ignore_literals).matches(graph)
    matches = [m for m in matches if all(f(m, graph, wanted) for f in filters or ())]
    inputs = [node for node in wanted.nodes if node.op == "placeholder"]
    fixed = None if callback is not None else _graph_of(replacement)
    replaced: list[ReplacedPatterns] = []
    # Nodes that were replaced, since later matches may read them.
    gone: dict[Node, Any] = {}
    for match in matches:
        new = fixed if callback is None else callback(match, graph, wanted)
        assert new is not None
        places = [node for node in new.nodes if node.op == "placeholder"]
        if len(places) != len(inputs):
            raise AssertionError(f"the pattern has {len(inputs)} inputs, its replacement has {len(places)}")
        values: dict[Node, Any] = {}
        for place, node in zip(places, inputs, strict=True):
            value = match.nodes_map[node]
            while value in gone:
                value = gone[value]
            values[place] = value
        inner = [node for own, node in match.nodes_map.items() if own.op != "placeholder" and isinstance(node, Node)]
        outside = {user for node in inner for user in node.users if user not in inner}
        first = next((node for node in graph.nodes if node in outside), None)
        # Behind all of its inputs.
        last = max((v for v in values.values() if isinstance(v, Node)), default=None, key=lambda n: n._at())
        place_of_insertion = first if first is not None and (last is None or last < first) else None
        with graph.inserting_before(place_of_insertion if place_of_insertion is not None else graph.output_node()):
            before = set(graph.nodes)
            result = graph.graph_copy(new, values)
        added = [node for node in graph.nodes if node not in before]
        outputs = _flat(wanted.output_node().args[0])
        results = _flat(result)
        if len(outputs) != len(results):
            raise AssertionError(f"the pattern has {len(outputs)} results, its replacement has {len(results)}")
        for own, made in zip(outputs, results, strict=True):
            old = match.nodes_map[own]
            for user in list(old.users):
                if user not in added:
                    user.replace_input_with(old, made)
            gone[old] = made
        for node in sorted(inner, key=lambda n: n._at(), reverse=True):
            if not node.users and not node._erased:
                graph.erase_node(node)
        replaced.append(ReplacedPatterns(match.anchor, match.nodes_map, added))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return replaced


def _flat(value: Any) -> list[Any]:
    return [item for part in value for item in _flat(part)] if isinstance(value, (tuple, list)) else [value]


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Give the module what the replacement reads."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        path, _, name = str(node.target).rpartition(".")
        try:
            if hasattr(gm.get_submodule(path), name):
                continue
        except AttributeError:
            pass
        try:
            value = getattr(replacement.get_submodule(path), name)
        except AttributeError:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            ) from None
        if isinstance(value, Module):
            gm.add_submodule(str(node.target), value)
        else:
            gm.add_submodule(path, Module()) if path and not hasattr(gm, path) else None
            setattr(gm.get_submodule(path), name, value)
    gm.graph.lint()


class _Matcher:
    """Finds a pattern: from what it returns, upwards through the arguments."""

    def __init__(self, pattern: Graph, ignore_literals: bool) -> None:
        self.pattern = pattern
        self.ignore_literals = ignore_literals
        returned = pattern.output_node()
        self.outputs = list(returned.all_input_nodes)
        # Nodes that are returned and read inside too are reached from others.
        self.anchors = [node for node in self.outputs if all(user is returned for user in node.users)]
        if not self.anchors:
            raise ValueError("the pattern returns nothing that it computes")

    def matches(self, graph: Graph) -> list[Match]:
        found: list[Match] = []
        taken: set[Node] = set()
        first, *others = self.anchors
        for node in reversed(graph.nodes):
            for nodes_map in self._from(first, node, others, graph):
                inner = {new for own, new in nodes_map.items() if own.op != "placeholder"}
                if not inner & taken and self._is_closed(nodes_map):
                    taken |= inner
                    found.append(Match(nodes_map[first], nodes_map))
                    break
        return found[::-1]

    def _from(self, first: Node, node: Node, others: list[Node], graph: Graph) -> Any:
        start: dict[Node, Any] = {}
        if not self._fits(first, node, start):
            return
        partial = [start]
        for anchor in others:
            more = []
            for base in partial:
                for candidate in graph.nodes:
                    trial = dict(base)
                    if candidate not in base.values() and self._fits(anchor, candidate, trial):
                        more.append(trial)
            partial = more
        yield from partial

    def _is_closed(self, nodes_map: dict[Node, Any]) -> bool:
        """Return whether nobody outside reads what the pattern keeps to itself."""
        inner = {new for own, new in nodes_map.items() if own.op != "placeholder"}
        for own, new in nodes_map.items():
            if own.op in ("placeholder", "get_attr") or own in self.outputs:
                continue
            if any(user not in inner for user in new.users):
                return False
        return True

    def _fits(self, own: Any, node: Any, nodes_map: dict[Node, Any]) -> bool:
        if not isinstance(own, Node):
            return self._same(own, node, nodes_map)
        if own in nodes_map:
            return nodes_map[own] is node
        if own.op == "placeholder":
            nodes_map[own] = node
            return True
        if not isinstance(node, Node) or own.op != node.op:
            return False
        if own.op == "get_attr":
            matches = str(own.target).rpartition(".")[2] == str(node.target).rpartition(".")[2]
        elif own.op == "call_module":
            mine, theirs = self.pattern.owning_module, node.graph.owning_module
            matches = type(mine.get_submodule(own.target)) is type(theirs.get_submodule(node.target))
        else:
            matches = own.target == node.target
        if not matches:
            return False
        nodes_map[own] = node
        arguments = (own.args, dict(own.kwargs)), (node.args, dict(node.kwargs))
        if own.args and len(own.args) == len(node.args) and own.kwargs.keys() == node.kwargs.keys():
            fits = self._same(*arguments, nodes_map)
        else:
            fits = self._normalized(own, node, nodes_map)
        if not fits:
            del nodes_map[own]
        return fits

    def _normalized(self, own: Node, node: Node, nodes_map: dict[Node, Any]) -> bool:
        """Return whether the arguments fit once they are bound to the names of the parameters."""
        if own.op != "call_function":
            return self._same((own.args, dict(own.kwargs)), (node.args, dict(node.kwargs)), nodes_map)
        import inspect

        try:
            signature: Any = inspect.signature(own.target)  # type: ignore[arg-type]
            bound = [signature.bind(*n.args, **n.kwargs) for n in (own, node)]
        except (TypeError, ValueError):
            return self._same((own.args, dict(own.kwargs)), (node.args, dict(node.kwargs)), nodes_map)
        for one in bound:
            one.apply_defaults()
        return self._same(dict(bound[0].arguments), dict(bound[1].arguments), nodes_map)

    def _same(self, own: Any, value: Any, nodes_map: dict[Node, Any]) -> bool:
        if isinstance(own, Node):
            return self._fits(own, value, nodes_map)
        if isinstance(own, (tuple, list)):
            is_list = isinstance(value, (tuple, list)) and len(own) == len(value)
            return is_list and all(self._same(a, b, nodes_map) for a, b in zip(own, value, strict=True))
        if isinstance(own, dict):
            return (
                isinstance(value, dict)
                and own.keys() == value.keys()
                and all(self._same(own[key], value[key], nodes_map) for key in own)
            )
        if isinstance(own, slice):
            return isinstance(value, slice) and self._same(
                (own.start, own.stop, own.step), (value.start, value.stop, value.step), nodes_map
            )
        return not isinstance(value, Node) and (self.ignore_literals or (type(own) is type(value) and own == value))
