"""The graph of a traced module in ONNX: rules applied, names given, types stated."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._trace.logical import Logical
from oneflow._trace.named_sizes import Size
from oneflow.onnx._export.builder import Builder, tensor_of
from oneflow.onnx._export.rules import Op, rules
from oneflow.onnx._export.rules.complex import complex_rules, is_complex
from oneflow.onnx._import.values import elem_of_dtype

# The first version of the file format that knows an opset.
_IR = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}


def model_of(
    graph: Logical,
    opset: int,
    input_names: list[str],
    output_names: list[str],
    dims: dict[tuple[int, int], str],
    points: list[dict[str, int]],
    custom: dict[str, Any],
    embed: bool,
) -> dict[str, Any]:
    """The model as a dictionary, in the names of ONNX's schema."""
    b = Builder(opset, points)
    names: dict[int, str] = {}
    inputs = []
    for i, (value, name) in enumerate(zip(graph.inputs, input_names, strict=True)):
        names[value] = b.name(name)
        for axis in range(graph.values[value].rank):
            if (i, axis) in dims:
                b.dims.setdefault(dims[i, axis], (names[value], axis))
        inputs.append(_info(names[value], graph, value, {a: dims[j, a] for j, a in dims if j == i}))
    for value, name in [*zip(graph.inputs, input_names, strict=True), *zip(graph.outputs, output_names, strict=True)]:
        if graph.values[value].dtype.is_complex:
            raise NotImplementedError(f"onnx.export: {name!r} is complex: give and return reals, by view_as_real()")
    wanted = set(output_names)
    b.taken |= wanted
    for value, name, tensor in graph.variables:
        if value in graph.computed:
            elements = b.reshape(b.ints(graph.computed[value]), list(tensor.shape))
            names[value] = b.cast(elements, oneflow.int64, tensor.dtype)
        elif embed:
            tensor = oneflow.view_as_real(tensor) if tensor.is_complex() else tensor
            names[value] = b.initializer(name, tensor)
        else:
            names[value] = b.name(name)
            inputs.append(_info(names[value], graph, value, {}))
    _nodes(graph, b, names, custom)
    outputs = []
    given: set[str] = {names[v] for v in graph.inputs} | {names[v] for v, _, _ in graph.variables}
    given |= {t["name"] for t in b.initializers}
    for value, name in zip(graph.outputs, output_names, strict=True):
        made = names[value]
        if made in given or not b.rename(made, name):
            made = b.node("Identity", made)
            b.rename(made, name)
        else:
            names = {v: name if n == made else n for v, n in names.items()}
        given.add(name)
        outputs.append(_info(name, graph, value, {}))
    read = {i for node in b.nodes for i in node["input"]}
    return {
        "ir_version": _IR[opset],
        "producer_name": "oneflow",
        "producer_version": oneflow.__version__,
        "opset_import": [{"domain": "", "version": opset}]
        + [{"domain": d, "version": 1} for d in sorted({n["domain"] for n in b.nodes} - {""})],
        "graph": {
            "name": "main_graph",
            "node": b.nodes,
            "initializer": [t for t in b.initializers if t["name"] in read],
            "input": inputs,
            "output": outputs,
        },
    }


def _nodes(graph: Logical, b: Builder, names: dict[int, str], custom: dict[str, Any]) -> None:
    needed, known = _needed(graph), rules()
    for i, node in enumerate(graph.nodes):
        if i not in needed:
            continue
        op = Op(b, graph, node, names)
        of_complex = is_complex(op)
        rule = custom.get(node.op) or (complex_rules() if of_complex else known).get(node.op)
        if rule is None:
            which = " of complex numbers" if of_complex else ""
            raise NotImplementedError(
                f"onnx.export: {node.op}(){which} has no ONNX form{op.place()}: give one in custom_translation_table"
            )
        b.metadata = [("source", node.place)] if node.place else []
        made = rule(op)
        b.metadata = []
        results = made if isinstance(made, (list, tuple)) else [made]
        for value, name in zip(node.outputs, results, strict=False):
            if name is not None:
                names[value] = name
        for value in node.outputs:
            if value not in names and value in needed.values_read:
                raise NotImplementedError(
                    f"onnx.export: a result of {node.op}() that is read has no ONNX form{op.place()}"
                )


class _Needed(set[int]):
    values_read: set[int]


def _needed(graph: Logical) -> _Needed:
    """The nodes whose results are read, and those values."""
    read = set(graph.outputs)
    kept = _Needed()
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        if node.updates:
            raise NotImplementedError(f"onnx.export: {node.op}() writes its inputs, which ONNX cannot say")
        if any(v in read for v in node.outputs):
            kept.add(i)
            for value in node.inputs.values():
                read |= {v for v in (value if isinstance(value, list) else [value]) if v is not None}
    kept.values_read = read
    return kept


def _info(name: str, graph: Logical, value: int, named: dict[int, str]) -> dict[str, Any]:
    v = graph.values[value]
    sizes: list[Any] = []
    for axis, size in enumerate(v.sizes):
        if axis in named:
            sizes.append(named[axis])
        elif isinstance(size, Size):
            only = len(size.terms) == 1 and next(iter(size.terms.items()))
            sizes.append(only[0][0] if only and len(only[0]) == 1 and only[1] == 1 else str(size))
        else:
            sizes.append(size)
    return {"name": name, "elem": elem_of_dtype(v.dtype), "sizes": sizes}


def names_of(model: Any) -> dict[str, Tensor]:
    """Parameters and buffers by name."""
    if not isinstance(model, oneflow.nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


__all__ = ["model_of", "names_of", "tensor_of"]
