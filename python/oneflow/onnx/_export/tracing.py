"""The logical graph of a module's forward pass, at one size or with named dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace.source_locations import SourceLocations, paths_of
from oneflow.nn.modules.module import Module
from oneflow.onnx._export.sizes import merged, points


@dataclass
class Value:
    dtype: Any
    sizes: list[Any]
    strides: list[Any]
    offset: Any
    root: int

    @property
    def rank(self) -> int:
        return len(self.sizes)


@dataclass
class Node:
    op: str
    inputs: dict[str, Any]
    args: dict[str, Any]
    outputs: list[int]
    place: str | None
    updates: list[Any]


@dataclass
class Logical:
    """Values, the nodes that make them in program order, and the tensors that outlive a call by the value they are."""

    values: list[Value]
    nodes: list[Node]
    variables: list[tuple[int, str, Tensor]]
    inputs: list[int]
    outputs: list[int]
    structure: Any


def flat(value: Any, found: list[Tensor]) -> Any:
    """The tensors in nested lists, tuples and dictionaries, in order; what remains has their places."""
    if isinstance(value, Tensor):
        found.append(value)
        return None
    if isinstance(value, dict):
        return {k: flat(v, found) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [flat(v, found) for v in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*items)
        return type(value)(items)
    if hasattr(value, "to_tuple"):
        return flat(value.to_tuple(), found)
    return ("constant", value)


def filled(structure: Any, tensors: Any) -> Any:
    """The nested value that `flat` took apart, with other tensors."""
    if structure is None:
        return next(tensors)
    if isinstance(structure, dict):
        return {k: filled(v, tensors) for k, v in structure.items()}
    if isinstance(structure, tuple) and len(structure) == 2 and structure[0] == "constant":
        return structure[1]
    items = [filled(v, tensors) for v in structure]
    return type(structure)(*items) if hasattr(structure, "_fields") else type(structure)(items)


def trace(
    model: Callable[..., Any], structure: Any, tensors: list[Tensor], names: dict[str, Tensor], expand: list[str]
) -> dict[str, Any]:
    """The logical graph as data (see the compiled half), with ``structure`` that of the outputs."""
    if _oneflow._is_tracing():
        raise RuntimeError("onnx.export is called while a graph is traced")
    modules = {"": model} if isinstance(model, Module) else {}
    graph = _oneflow._GraphTrace("main_graph", SourceLocations(paths_of(modules), 1, True))
    buffers = [(m, dict(m._buffers)) for m in model.modules()] if isinstance(model, Module) else []
    try:
        graph.expand(expand)
        for name, tensor in names.items():
            graph.name(tensor, name)
        args, kwargs = filled(structure, iter([graph.input(t) for t in tensors]))
        with oneflow.no_grad():
            result = model(*args, **kwargs)
        outputs: list[Tensor] = []
        shape = flat(result, outputs)
        made = graph.finish_logical(outputs)
    finally:
        graph.abort()
        for module, before in buffers:
            module._buffers.update(before)
    made["structure"] = shape
    return made


def logical_of(parts: list[dict[str, Any]], at: list[dict[str, int]], steps: dict[str, int]) -> Logical:
    """One graph of traces at several sizes: the integers in which they differ are solved."""
    first = parts[0]
    for part in parts[1:]:
        _compare(first["nodes"], part["nodes"])
    values = []
    for i, column in enumerate(zip(*(p["values"] for p in parts), strict=True)):
        where = f"value {i}, of {column[0][0]} {column[0][1]}"
        dtype, sizes, strides, offset, root = column[0]
        try:
            if any(c[1] != sizes for c in column):
                sizes = merged([c[1] for c in column], at, steps, where)
        except ValueError as error:
            maker = next((n for n in first["nodes"] if i in n[3]), None)
            raise ValueError(f"{error} ({_place(maker)})" if maker else str(error)) from None
        values.append(Value(getattr(oneflow, dtype), list(sizes), list(strides), offset, root))
    nodes = []
    for column in zip(*(p["nodes"] for p in parts), strict=True):
        op, inputs, args, outputs, place, updates = column[0]
        if any(c[2] != args for c in column):
            args = merged([c[2] for c in column], at, steps, f"an argument of {op}() ({_place(column[0])})")
        nodes.append(Node(op, inputs, args, outputs, place, updates))
    return Logical(values, nodes, first["variables"], first["inputs"], first["outputs"], first["structure"])


def _place(node: Any) -> str:
    return node[4] or f"{node[0]}()"


def _compare(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=False):
        if a[0] != b[0] or a[1] != b[1] or a[3] != b[3]:
            raise ValueError(
                f"onnx.export: the program depends on a named dimension: it runs {a[0]}() at {_place(a)}, and "
                f"{b[0]}() at {_place(b)} for another size"
            )
    if len(one) != len(other):
        longer = one if len(one) > len(other) else other
        raise ValueError(
            "onnx.export: the program depends on a named dimension: for one size it goes on with "
            f"{_place(longer[min(len(one), len(other))])}"
        )


_STEPS = (1, 2, 4, 8, 16, 32, 64)


def trace_at_sizes(
    run: Callable[[list[Tensor]], dict[str, Any]], tensors: list[Tensor], dims: dict[tuple[int, int], str]
) -> tuple[Logical, list[dict[str, int]]]:
    """Trace with named dimensions: ``dims`` names the axes (number of the input, axis) that stay open.

    Returns the graph, and the sizes that it was traced at.
    """
    base: dict[str, int] = {}
    for (i, axis), name in dims.items():
        size = tensors[i].shape[axis]
        if base.setdefault(name, size) != size:
            raise ValueError(f"onnx.export: the dimension {name!r} is {base[name]} in one input and {size} in another")
    if not base:
        return logical_of([run(tensors)], [{}], {}), [{}]
    error: Exception | None = None
    for step in _STEPS:
        steps = dict.fromkeys(base, step)
        at = points(base, steps)
        try:
            parts = [run([_resized(t, i, dims, sizes) for i, t in enumerate(tensors)]) for sizes in at]
            return logical_of(parts, at, steps), at
        except (RuntimeError, ValueError, IndexError) as failed:
            # A size may have to be a multiple of something: the first failure says the most.
            error = error or failed
    assert error is not None
    raise error


def _resized(tensor: Tensor, i: int, dims: dict[tuple[int, int], str], sizes: dict[str, int]) -> Tensor:
    """A tensor of other sizes: only its meta is read by a trace."""
    shape = list(tensor.shape)
    for axis in range(len(shape)):
        name = dims.get((i, axis))
        if name is not None:
            shape[axis] = sizes[name]
    return tensor if shape == list(tensor.shape) else oneflow.zeros(shape, dtype=tensor.dtype, device=tensor.device)
