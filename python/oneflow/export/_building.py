"""The logical graph of a traced module as a graph of calls: a node for each op, and for each size that is open."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace.logical import Logical, Node, Value
from oneflow._trace.named_sizes import Named, Size
from oneflow.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from oneflow.fx.graph import Graph


@dataclass
class Parameter:
    """A parameter of an op: its type, whether it has to be named in a call, and its default where there is one."""

    name: str
    type: str
    keyword: bool
    default: Any


_NONE = object()


@functools.cache
def signatures() -> dict[str, list[Parameter]]:
    """The parameters of each op of the table, by the op's name."""
    return {op["name"]: _parameters(op["signature"]) for op in _oneflow._C._ops()}


def _parameters(signature: str) -> list[Parameter]:
    inside = signature.partition("(")[2].rpartition(" -> ")[0].rpartition(")")[0]
    found, keyword = [], False
    for text in re.split(r",\s*(?![^()\[\]]*[)\]])", inside):
        if text.strip() == "*":
            keyword = True
        elif text.strip():
            declared, _, default = text.strip().partition("=")
            kind, _, name = declared.strip().rpartition(" ")
            found.append(Parameter(name, kind, keyword, _default(default)))
    return found


def _default(text: str) -> Any:
    try:
        return ast.literal_eval(text) if text else _NONE
    except (ValueError, SyntaxError):
        return _NONE


@dataclass
class Leaf:
    """A leaf of the arguments: its name, and what it is."""

    name: str
    value: Any


class Builder:
    """Adds the nodes of one program to a graph."""

    def __init__(self, traced: Logical, dims: Mapping[tuple[int, int], Named], point: dict[str, int]) -> None:
        # `point` has the sizes of the example.
        self.traced, self.dims, self.point = traced, dims, point
        self.graph = Graph()
        self.nodes: dict[int, Any] = {}
        self._sizes: dict[Size, Any] = {}
        # The inputs' nodes in the order of their tensors.
        self._inputs: list[Any] = []

    def input(self, kind: InputKind, name: str, value: Any, target: str | None, persistent: bool | None) -> InputSpec:
        """Add a placeholder for a tensor that outlives the call."""
        node = self.graph.placeholder(name)
        node.meta["val"] = _meta(value)
        return InputSpec(kind, TensorArgument(node.name), target, persistent)

    def argument(self, leaf: Leaf) -> InputSpec:
        """Add a placeholder for a leaf of the arguments."""
        node = self.graph.placeholder(leaf.name)
        if not isinstance(leaf.value, Tensor):
            node.meta["val"] = leaf.value
            return InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, leaf.value), None)
        number = len(self._inputs)
        value = self.traced.inputs[number]
        self._inputs.append(node)
        self.nodes[value] = node
        self._note(node, self.traced.values[value])
        open_sizes = {axis: named for (i, axis), named in self.dims.items() if i == number}
        node.meta["sizes"] = [open_sizes.get(axis, size) for axis, size in enumerate(leaf.value.shape)]
        return InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None)

    def _note(self, node: Any, value: Value) -> None:
        sizes = [int(s.at(self.point)) if isinstance(s, Size) else s for s in value.sizes]
        node.meta["val"] = oneflow.empty(sizes, dtype=value.dtype, device="meta")
        node.meta["sizes"] = value.sizes

    def calls(self) -> None:
        """Add the nodes of the program that something reads."""
        needed, read = read_values(self.traced)
        for i, node in enumerate(self.traced.nodes):
            if i in needed:
                self._call(node, read)

    def _call(self, node: Node, read: set[int]) -> None:
        name, _, overload = node.op.partition(".")
        target = getattr(getattr(oneflow.ops.aten, name), overload or "default")
        args, kwargs = self._arguments(node)
        made = self.graph.create_node("call_function", target, tuple(args), kwargs, name=name)
        if node.place:
            made.meta["stack_trace"] = node.place
        if len(node.outputs) == 1 and not _gives_list(node.op):
            self._bind(node.outputs[0], made)
            return
        for i, value in enumerate(node.outputs):
            if value not in read:
                continue
            item = self.graph.create_node("call_function", operator.getitem, (made, i), name="getitem")
            self._bind(value, item)

    def _bind(self, value: int, node: Any) -> None:
        self.nodes[value] = node
        self._note(node, self.traced.values[value])

    def _arguments(self, node: Node) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        # The number of arguments up to the last one that is given.
        given = 0
        for p in signatures()[node.op]:
            value = self._argument(node, p)
            is_default = p.default is not _NONE and type(value) is type(p.default) and value == p.default
            if p.keyword:
                if not is_default:
                    kwargs[p.name] = value
                continue
            args.append(value)
            if not is_default:
                given = len(args)
        return args[:given], kwargs

    def _argument(self, node: Node, p: Parameter) -> Any:
        operand = node.inputs.get(p.name)
        if isinstance(operand, list):
            return [None if v is None else self.nodes[v] for v in operand]
        if operand is not None:
            return self.nodes[operand]
        value = node.args.get(p.name)
        if p.type.startswith("Generator"):
            return None
        if p.type.startswith("DType") and isinstance(value, str):
            return getattr(oneflow, value)
        if isinstance(value, tuple) and len(value) == 2 and "[" not in p.type:
            return complex(*value)
        return self.sized(value)

    def sized(self, value: Any) -> Any:
        """An argument, with nodes for the integers that depend on open dimensions."""
        if isinstance(value, list):
            return [self.sized(v) for v in value]
        if not isinstance(value, Size):
            return value
        if value not in self._sizes:
            self._sizes[value] = self._computed(value)
        return self._sizes[value]

    def elements(self, value: int, elements: Sequence[Any]) -> None:
        """Add the nodes of a tensor of integers that depend on open dimensions."""
        aten, meta = oneflow.ops.aten, self.traced.values[value]

        def call(target: Any, *args: Any, **kwargs: Any) -> Any:
            return self.graph.create_node("call_function", target, args, kwargs, name=target.__name__.partition(".")[0])

        made = [call(aten.scalar_tensor.default, self.sized(e), dtype=meta.dtype) for e in elements]
        for node in made:
            node.meta["val"], node.meta["sizes"] = oneflow.empty((), dtype=meta.dtype, device="meta"), []
        if meta.rank == 0:
            self._bind(value, made[0])
            return
        flat = call(aten.stack.default, made)
        flat.meta["val"] = oneflow.empty(len(made), dtype=meta.dtype, device="meta")
        flat.meta["sizes"] = [len(made)]
        self._bind(value, call(aten.reshape.default, flat, list(meta.sizes)))

    def _computed(self, size: Size) -> Any:
        """Nodes that compute a polynomial of open dimensions."""
        below = lcm(*(c.denominator for c in size.terms.values()))
        total: Any = None
        for term, factor in sorted(size.terms.items(), key=lambda item: -len(item[0])):
            part: Any = None
            for name in term:
                part = self._root(name) if part is None else self._number(operator.mul, part, self._root(name))
            factor *= below
            if part is None:
                part = int(factor)
            elif factor != 1:
                part = self._number(operator.mul, part, int(factor))
            total = part if total is None else self._number(operator.add, total, part)
        return total if below == 1 else self._number(operator.floordiv, total, below)

    def _number(self, function: Any, *args: Any) -> Any:
        return self.graph.create_node("call_function", function, args, name=function.__name__)

    def _root(self, name: str) -> Any:
        """The node of a named dimension: the size of an input."""
        whole = Size({(name,): Fraction(1)})
        if whole in self._sizes:
            return self._sizes[whole]
        at, named = min(
            ((at, named) for at, named in self.dims.items() if _root_of(named) == name),
            key=lambda item: (isinstance(item[1], Size), item[0]),
        )
        target = oneflow.ops.aten.sym_size.int
        made = self.graph.create_node("call_function", target, (self._inputs[at[0]], at[1]), name="sym_size_int")
        made.meta["size"] = named
        if isinstance(named, Size):
            constant, factor = named.terms.get((), Fraction(0)), named.terms[(name,)]
            if constant:
                made = self._number(operator.sub, made, int(constant))
            if factor != 1:
                made = self._number(operator.floordiv, made, int(factor))
        self._sizes[whole] = made
        return made


def _root_of(named: Named) -> str:
    return named.root() if isinstance(named, Size) else named


@functools.cache
def _lists() -> set[str]:
    return {op["name"] for op in _oneflow._C._ops() if "Tensor[]" in op["signature"].rpartition(" -> ")[2]}


def _gives_list(op: str) -> bool:
    return op in _lists()


def _meta(tensor: Tensor) -> Tensor:
    return oneflow.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def read_values(traced: Logical) -> tuple[set[int], set[int]]:
    """Return the indices of the nodes whose results are read, and of the values that are read."""
    read = {*traced.outputs, *(value for _, value in traced.writes)}
    kept = set()
    for i in range(len(traced.nodes) - 1, -1, -1):
        node = traced.nodes[i]
        if any(v in read for v in node.outputs):
            kept.add(i)
            for value in node.inputs.values():
                read |= {v for v in (value if isinstance(value, list) else [value]) if v is not None}
    return kept, read


def build(
    traced: Logical,
    dims: Mapping[tuple[int, int], Named],
    point: dict[str, int],
    lasting: Sequence[tuple[InputKind, str, Tensor, bool | None]],
    leaves: Sequence[Leaf],
    results: Sequence[Any],
) -> tuple[Graph, ExportGraphSignature, dict[str, Tensor]]:
    """A graph whose inputs are all tensors that outlive the call, then the arguments.

    Args:
        traced: the program.
        dims: the open dimensions of the arguments.
        point: their sizes in the example.
        lasting: parameters, buffers and constants of the module, with whether a buffer is saved.
        leaves: the arguments.
        results: the leaves of the result: None for a tensor, and a constant otherwise (in a tuple of one).

    Returns:
        The graph, what its inputs and outputs are, and the constants of the trace by name.
    """
    b = Builder(traced, dims, point)
    values = {name: value for value, name, _ in traced.variables}
    inputs: list[InputSpec] = []
    prefixes = {InputKind.PARAMETER: "p", InputKind.BUFFER: "b", InputKind.CONSTANT_TENSOR: "c"}

    def hold(kind: InputKind, name: str, tensor: Tensor, persistent: bool | None) -> None:
        made = b.input(kind, re.sub(r"\W", "_", f"{prefixes[kind]}_{name}"), tensor, name, persistent)
        inputs.append(made)
        if name in values:
            b.nodes[values[name]] = next(reversed(b.graph.nodes))

    for kind, name, tensor, persistent in lasting:
        if kind is not InputKind.CONSTANT_TENSOR or name in values:
            hold(kind, name, tensor, persistent)
    known = {name for _, name, _, _ in lasting}
    constants = {name: t for kind, name, t, _ in lasting if kind is InputKind.CONSTANT_TENSOR and name in values}
    for value, name, tensor in traced.variables:
        if name not in known and value not in traced.computed:
            lifted = f"lifted_tensor_{len(constants)}"
            constants[lifted] = tensor
            values[lifted] = value
            hold(InputKind.CONSTANT_TENSOR, lifted, tensor, None)
    arguments = [b.argument(leaf) for leaf in leaves]
    for value, elements in traced.computed.items():
        b.elements(value, elements)
    b.calls()
    outputs = _writes(b, inputs, arguments)
    returned = [b.nodes[value] for _, value in traced.writes]
    tensors = iter(traced.outputs)
    for leaf in results:
        given = b.nodes[next(tensors)] if leaf is None else b.sized(leaf[0])
        returned.append(given)
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, _described(given, leaf is None), None))
    b.graph.output(tuple(returned))
    return b.graph, ExportGraphSignature(inputs + arguments, outputs), constants


def _writes(b: Builder, inputs: list[InputSpec], arguments: list[InputSpec]) -> list[OutputSpec]:
    kinds = {
        InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
        InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION,
        InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }
    by_node = {spec.arg.name: spec for spec in (*inputs, *arguments)}
    found = []
    for target, value in b.traced.writes:
        spec = by_node[b.nodes[target].name]
        name = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
        found.append(OutputSpec(kinds[spec.kind], TensorArgument(b.nodes[value].name), name))
    return found


def _described(given: Any, is_tensor: bool) -> Any:
    if is_tensor:
        return TensorArgument(given.name)
    return SymIntArgument(given.name) if isinstance(given, oneflow.fx.Node) else ConstantArgument("", given)
