"""The interpreter: runs the nodes of a graph in order, each by its handler or as a function of the model.

Some values are known while a model is traced: those computed from constants, integer initializers and shapes alone.
Their nodes are `static`. They run eagerly, outside of any trace, so that sizes can be read as numbers.
"""

from __future__ import annotations

from typing import Any

from oneflow._base.untraced import untraced
from oneflow.onnx._import.model import Function, Graph, Model, Node, Reference
from oneflow.onnx._import.registry import Call, find

_SHAPES = ("Shape", "Size")
_NEVER_STATIC: tuple[str, ...] = (
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
_NEVER_STATIC += ("Dropout", "If", "Loop", "Scan", "SequenceMap")
# Ops that read no input as a size, and those that make and lay out initial states for them.
_NUMBERS = ("LSTM", "GRU", "RNN", "Add", "Sub", "Mul", "Div")
_FILLS = ("Expand", "ConstantOfShape", "Unsqueeze", "Concat")


class Scope:
    """Values by name, and those of the graphs around."""

    def __init__(self, outer: Scope | None, attributes: dict[str, Any] | None, opsets: dict[str, int]) -> None:
        self.values: dict[str, Any] = {}
        self.outer, self.attributes, self.opsets = outer, attributes, opsets

    def get(self, name: str) -> Any:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise KeyError(name)


def prepare(model: Model, trainable: set[str]) -> None:
    """Find the handler of each node, and which nodes are static; refuse ops that have no handler."""
    missing: dict[str, int] = {}
    for function in model.functions.values():
        _prepare(function.graph, model, function.opsets, set(), missing)
    constants = set(model.graph.initializers) - trainable
    _prepare(model.graph, model, model.opsets, constants, missing)
    if missing:
        listed = ", ".join(f"{op} ({n})" for op, n in sorted(missing.items()))
        raise NotImplementedError(f"ONNX: these ops are not provided: {listed}")


def _prepare(graph: Graph, model: Model, opsets: dict[str, int], static: set[str], missing: dict[str, int]) -> None:
    static = set(static)
    for node in graph.nodes:
        function = model.functions.get((node.domain, node.op, node.overload))
        node.run = function if function is not None else find(node.domain, node.op)
        if node.run is None:
            kind = f"{node.domain}::{node.op}" if node.domain else f"{node.op} of opset {opsets.get('', 1)}"
            missing[kind] = missing.get(kind, 0) + 1
        inner = [
            g for v in node.attributes.values() for g in (v if isinstance(v, list) else [v]) if isinstance(g, Graph)
        ]
        for graph_ in inner:
            _prepare(graph_, model, opsets, static | set(graph_.initializers), missing)
        known = all(not n or n in static for n in node.inputs) and node.op not in _NEVER_STATIC and not inner
        node.static = node.domain == "" and (node.op in _SHAPES or known)
        if node.static:
            static |= set(node.outputs)
    _trace_filled(graph)


def _trace_filled(graph: Graph) -> None:
    """Trace tensors that are filled to a shape and never read as a size: the shape may depend on open dimensions."""
    if any(_holds_graph(value) for node in graph.nodes for value in node.attributes.values()):
        return
    readers: dict[str, list[Node]] = {info.name: [] for info in graph.outputs}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    for node in reversed(graph.nodes):
        found = [reader for name in node.outputs for reader in readers.get(name, ())]
        if node.static and node.op in _FILLS and found:
            node.static = any(r.static or r.op not in (*_NUMBERS, *_FILLS) for r in found)


def _holds_graph(value: Any) -> bool:
    return any(isinstance(v, Graph) for v in (value if isinstance(value, list) else [value]))


class Interpreter:
    """Runs graphs of one model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, graph: Graph, values: dict[str, Any], outer: Scope | None, scope: Scope) -> list[Any]:
        scope.values.update(values)
        for node in graph.nodes:
            try:
                made = self._static(node, scope) if node.static else self._node(node, scope)
            except KeyError as error:
                if error.args and error.args[0] in node.inputs:
                    raise ValueError(f"ONNX: {node} reads {error.args[0]!r}, which has no value here") from None
                raise _noted(error, node) from None
            except Exception as error:
                raise _noted(error, node) from None
            outputs = list(made) if isinstance(made, tuple) else [made]
            for name, value in zip(node.outputs, outputs, strict=False):
                if name:
                    scope.values[name] = value
            for name in node.last:
                scope.values.pop(name, None)
        try:
            return [scope.get(info.name) for info in graph.outputs]
        except KeyError as error:
            raise ValueError(f"ONNX: nothing has made the output {error.args[0]!r} of graph {graph.name!r}") from None

    def _static(self, node: Node, scope: Scope) -> Any:
        with untraced():
            return self._node(node, scope)

    def _node(self, node: Node, scope: Scope) -> Any:
        inputs = [scope.get(name) if name else None for name in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        attributes = node.attributes
        if scope.attributes is not None:
            attributes = {k: _resolved(v, scope) for k, v in attributes.items()}
        if isinstance(node.run, Function):
            return self._function(node.run, inputs, attributes)
        version = scope.opsets.get(node.domain, 1)

        def run(graph: Graph, values: list[Any]) -> list[Any]:
            names = [info.name for info in graph.inputs]
            if len(names) != len(values):
                raise ValueError(f"{node.op}: the graph {graph.name!r} has {len(names)} inputs, not {len(values)}")
            inner = Scope(scope, scope.attributes, scope.opsets)
            inner.values.update(self.constants(graph))
            return self.run(graph, dict(zip(names, values, strict=True)), scope, inner)

        call = Call(node.op, version, attributes, len(node.outputs), run)
        return node.run(call, *inputs)

    def _function(self, function: Function, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        scope = Scope(None, {**function.defaults, **attributes}, function.opsets)
        values = dict(zip(function.inputs, [*inputs, *[None] * len(function.inputs)], strict=False))
        return tuple(self.run(function.graph, values, None, scope))

    def constants(self, graph: Graph) -> dict[str, Any]:
        """The initializers of an inner graph."""
        from oneflow.onnx._import.model import dense_of, value_of

        made = graph.__dict__.get("_constants")
        if made is None:
            with untraced():
                made = {name: dense_of(t) if "indices" in t else value_of(t) for name, t in graph.initializers.items()}
            graph.__dict__["_constants"] = made
        return dict(made)


def _resolved(value: Any, scope: Scope) -> Any:
    if isinstance(value, Reference):
        return (scope.attributes or {}).get(value.name)
    return value


# What a handler raises where an input or an attribute is not there, or not of the kind that the op takes.
_MISFITS = (AttributeError, AssertionError, KeyError, OverflowError, UnboundLocalError, ZeroDivisionError)


def _noted(error: Exception, node: Node) -> Exception:
    """Return the error with the node named in its text; of the same type, if that type is constructed from a text."""
    if getattr(error, "onnx_node", None) is not None:
        return error
    text = f"ONNX {node}: {error}"
    try:
        if isinstance(error, _MISFITS):
            made: Exception = ValueError(
                f"ONNX {node}: its inputs or attributes are not those that the op takes: {error}"
            )
        else:
            made = type(error)(text)
    except Exception:
        made = RuntimeError(text)
    made.onnx_node = str(node)  # type: ignore[attr-defined]
    return made.with_traceback(error.__traceback__)
