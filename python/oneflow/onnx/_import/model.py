"""The parsed form of a model, as nodes and graphs that the interpreter walks.

The compiled half of the package parses bytes into dictionaries that are named as in ONNX's schema; a tensor arrives as
``(element type, sizes, function that reads its bytes or strings)``. What a graph refers to is checked here, once:
cycles, names without a producer and names produced twice are refused before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import oneflow as flow
from oneflow.onnx._import.values import FLOAT4, NAMES, Narrow, Strings, dtype_of, is_narrow

OLDEST, NEWEST = 1, 28
_FLOAT4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@dataclass
class Reference:
    """An attribute of a node in a function that takes the value of an attribute of the function's call."""

    name: str


@dataclass
class Node:
    op: str
    domain: str
    name: str
    overload: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    # Names of the values that nobody reads after this node.
    last: list[str] = field(default_factory=list)
    static: bool = False
    run: Any = None

    def __str__(self) -> str:
        kind = f"{self.domain}::{self.op}" if self.domain else self.op
        return f"node {self.name!r} ({kind})" if self.name else f"{kind} that makes {', '.join(self.outputs)}"


@dataclass
class ValueInfo:
    """A named input or output: its element type and sizes (an integer, a name, or None), where the file says so."""

    name: str
    elem: int | None = None
    sizes: list[int | str | None] | None = None
    kind: str = "tensor"


@dataclass
class Graph:
    name: str
    nodes: list[Node]
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    initializers: dict[str, Any]
    # Names from an outer graph.
    outer: set[str] = field(default_factory=set)


@dataclass
class Function:
    name: str
    domain: str
    overload: str
    inputs: list[str]
    outputs: list[str]
    defaults: dict[str, Any]
    graph: Graph
    opsets: dict[str, int]


@dataclass
class Model:
    graph: Graph
    opsets: dict[str, int]
    functions: dict[tuple[str, str, str], Function]
    metadata: dict[str, str]


def plain_domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def model_of(parsed: dict[str, Any]) -> Model:
    """Build and check the model of a parsed file."""
    if "graph" not in parsed:
        raise ValueError("ONNX: the file has no graph, so it is not a model")
    opsets = _opsets(parsed)
    functions = {}
    for p in parsed.get("functions", ()):
        f = _function(p, opsets)
        key = (f.domain, f.name, f.overload)
        if key in functions:
            raise ValueError(f"ONNX: the function {f.domain}::{f.name} is defined twice")
        functions[key] = f
    _refuse_recursion(functions)
    metadata = {p.get("key", ""): p.get("value", "") for p in parsed.get("metadata_props", ())}
    return Model(_graph(parsed["graph"], set()), opsets, functions, metadata)


def _opsets(parsed: dict[str, Any]) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in parsed.get("opset_import", ()):
        domain = plain_domain(entry.get("domain", ""))
        opsets[domain] = max(entry.get("version", 0), opsets.get(domain, 0))
    version = opsets.setdefault("", 1)
    if not OLDEST <= version <= NEWEST:
        raise ValueError(f"ONNX: opset {version} is not provided: versions {OLDEST} to {NEWEST} are")
    return opsets


def _refuse_recursion(functions: dict[tuple[str, str, str], Function]) -> None:
    state: dict[tuple[str, str, str], int] = {}

    def visit(key: tuple[str, str, str]) -> None:
        stack = [(key, iter(_called(functions[key].graph, functions)))]
        state[key] = 1
        while stack:
            current, calls = stack[-1]
            for called in calls:
                if state.get(called) == 1:
                    raise ValueError(f"ONNX: the function {called[0]}::{called[1]} calls itself")
                if called not in state:
                    state[called] = 1
                    stack.append((called, iter(_called(functions[called].graph, functions))))
                    break
            else:
                state[current] = 2
                stack.pop()

    for key in functions:
        if key not in state:
            visit(key)


def _called(graph: Graph, functions: dict[tuple[str, str, str], Function]) -> list[tuple[str, str, str]]:
    found = []
    for node in graph.nodes:
        key = (node.domain, node.op, node.overload)
        if key in functions:
            found.append(key)
        for value in node.attributes.values():
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Graph):
                    found += _called(inner, functions)
    return found


def _function(parsed: dict[str, Any], opsets: dict[str, int]) -> Function:
    inputs, outputs = list(parsed.get("input", ())), list(parsed.get("output", ()))
    graph = _graph({"node": parsed.get("node", []), "name": parsed.get("name", "")}, set(), inputs, outputs)
    defaults = dict(_attribute(a) for a in parsed.get("attribute_proto", ()))
    own = _opsets(parsed) if parsed.get("opset_import") else opsets
    domain = plain_domain(parsed.get("domain", ""))
    name, overload = parsed.get("name", ""), parsed.get("overload", "")
    return Function(name, domain, overload, inputs, outputs, defaults, graph, own)


def _graph(
    parsed: dict[str, Any], known: set[str], inputs: list[str] | None = None, outputs: list[str] | None = None
) -> Graph:
    tensors = {}
    for tensor in parsed.get("initializer", ()):
        name = tensor.get("name", "")
        if name in tensors:
            raise ValueError(f"ONNX: the initializer {name!r} is there twice")
        tensors[name] = tensor
    for sparse in parsed.get("sparse_initializer", ()):
        tensors[sparse["values"].get("name", "")] = sparse
    infos = [_info(p) for p in parsed.get("input", ())] if inputs is None else [ValueInfo(n) for n in inputs]
    results = [_info(p) for p in parsed.get("output", ())] if outputs is None else [ValueInfo(n) for n in outputs]
    here = {i.name for i in infos}
    if len(here) < len(infos):
        twice = next(i.name for k, i in enumerate(infos) if any(i.name == other.name for other in infos[:k]))
        raise ValueError(f"ONNX: the input {twice!r} of graph {parsed.get('name', '')!r} is there twice")
    here |= set(tensors)
    nodes, outer = _sorted(parsed.get("node", ()), here, known, parsed.get("name", ""))
    made = here | {o for n in nodes for o in n.outputs}
    for result in results:
        if result.name not in made:
            if result.name not in known:
                raise ValueError(f"ONNX: nothing makes the output {result.name!r} of graph {parsed.get('name', '')!r}")
            outer.add(result.name)
    _note_last_uses(nodes, results)
    return Graph(parsed.get("name", ""), nodes, infos, results, tensors, outer)


def _sorted(parsed: Any, here: set[str], known: set[str], graph: str) -> tuple[list[Node], set[str]]:
    """The nodes in an order in which each comes after what it reads; the file's own one, if it is such an order."""
    producers: dict[str, int] = {}
    for i, p in enumerate(parsed):
        for name in p.get("output", ()):
            if not name:
                continue
            if name in producers or name in here:
                raise ValueError(f"ONNX: {name!r} is made twice in graph {graph!r}")
            producers[name] = i
    scope = known | here | set(producers)
    nodes = [_node(p, scope) for p in parsed]
    outer: set[str] = set()
    needs: list[list[int]] = []
    for node in nodes:
        read = {n for n in node.inputs if n} | _outer_names(node)
        for name in read:
            if name not in producers and name not in here:
                if name not in known:
                    raise ValueError(f"ONNX: {node} reads {name!r}, which nothing makes")
                outer.add(name)
        needs.append([producers[n] for n in read if n in producers])
    return [nodes[i] for i in _order(needs, nodes, graph)], outer


def _order(needs: list[list[int]], nodes: list[Node], graph: str) -> list[int]:
    if all(j < i for i, before in enumerate(needs) for j in before):
        return list(range(len(needs)))
    order: list[int] = []
    state = [0] * len(needs)
    for root in range(len(needs)):
        stack = [root] if state[root] == 0 else []
        while stack:
            i = stack[-1]
            if state[i] == 0:
                state[i] = 1
                for j in needs[i]:
                    if state[j] == 1:
                        raise ValueError(f"ONNX: {nodes[j]} of graph {graph!r} depends on its own result")
                    if state[j] == 0:
                        stack.append(j)
            else:
                stack.pop()
                if state[i] == 1:
                    state[i] = 2
                    order.append(i)
    return order


def _outer_names(node: Node) -> set[str]:
    names: set[str] = set()
    for value in node.attributes.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Graph):
                names |= inner.outer
    return names


def _note_last_uses(nodes: list[Node], results: list[ValueInfo]) -> None:
    seen = {r.name for r in results}
    for node in reversed(nodes):
        used = {n for n in node.inputs if n} | _outer_names(node) | {n for n in node.outputs if n}
        node.last = [n for n in used if n not in seen]
        seen |= used


def _node(parsed: dict[str, Any], scope: set[str]) -> Node:
    attributes = {}
    for a in parsed.get("attribute", ()):
        name, value = _attribute(a, scope)
        if name in attributes:
            raise ValueError(f"ONNX: the attribute {name!r} of a node {parsed.get('op_type', '')} is there twice")
        attributes[name] = value
    return Node(
        parsed.get("op_type", ""),
        plain_domain(parsed.get("domain", "")),
        parsed.get("name", ""),
        parsed.get("overload", ""),
        list(parsed.get("input", ())),
        list(parsed.get("output", ())),
        attributes,
    )


def _attribute(parsed: dict[str, Any], scope: set[str] = frozenset()) -> tuple[str, Any]:  # type: ignore[assignment]
    name = parsed.get("name", "")
    if parsed.get("ref_attr_name"):
        return name, Reference(parsed["ref_attr_name"])
    value: Any = parsed.get("value")
    kind = parsed.get("type", 0)
    if kind == 5:
        return name, _graph(value, scope)
    if kind == 10:
        return name, [_graph(g, scope) for g in value]
    if kind == 4:
        return name, value_of(value)
    if kind == 9:
        return name, [value_of(t) for t in value]
    if kind == 11:
        return name, dense_of(value)
    return name, value


def _info(parsed: dict[str, Any]) -> ValueInfo:
    name, kind = parsed.get("name", ""), parsed.get("type") or {}
    tensor = kind.get("tensor_type") or kind.get("sparse_tensor_type")
    if tensor is None:
        for other in ("sequence_type", "optional_type", "map_type"):
            if other in kind:
                return ValueInfo(name, None, None, other.removesuffix("_type"))
        return ValueInfo(name)
    sizes = None
    if "shape" in tensor:
        sizes = [d.get("dim_value", d.get("dim_param")) for d in tensor["shape"].get("dim", ())]
    return ValueInfo(name, tensor.get("elem_type"), sizes)


def value_of(tensor: dict[str, Any]) -> Any:
    """The tensor, or what stands for one, of a parsed tensor."""
    elem, sizes, read = tensor["tensor"]
    data = read()
    if isinstance(data, list):
        return Strings(sizes, [s.decode("utf-8", "replace") for s in data])
    if elem == FLOAT4:
        values = flow.tensor([_FLOAT4[b] for b in data], dtype=flow.float32).reshape(sizes)
        return Narrow(values, elem)
    if elem not in NAMES:
        raise NotImplementedError(f"ONNX: element type {elem} of tensor {tensor.get('name', '')!r} is not provided")
    dtype = dtype_of(elem)
    values = flow.frombuffer(data, dtype=dtype).reshape(sizes) if data else flow.zeros(sizes, dtype=dtype)
    return Narrow(values, elem) if is_narrow(elem) else values


def dense_of(sparse: dict[str, Any]) -> Any:
    """The dense tensor of a sparse one in coordinates, or in places of the flattened tensor."""
    values, indices, dims = value_of(sparse["values"]), value_of(sparse["indices"]), list(sparse.get("dims", ()))
    n = 1
    for d in dims:
        n *= d
    if indices.dim() == 2:
        flat = flow.zeros(indices.shape[0], dtype=flow.int64)
        for k, d in enumerate(dims):
            flat = flat * d + indices[:, k]
    else:
        flat = indices
    if flat.numel() and not 0 <= int(flat.min()) <= int(flat.max()) < n:
        raise ValueError(f"ONNX: an index of a sparse tensor lies outside of its sizes {dims}")
    return flow.scatter(flow.zeros(n, dtype=values.dtype), 0, flat, values).reshape(dims)
