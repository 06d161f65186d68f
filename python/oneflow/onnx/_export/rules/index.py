"""Gathers and scatters."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule


@rule("embedding")
def embedding(n: Op) -> Any:
    return n.b.node("Gather", n.x("weight"), n.x("indices"), axis=0)


@rule("index_select")
def index_select(n: Op) -> Any:
    return n.b.node("Gather", n.x(), n.x("index"), axis=n.dim())


@rule("gather", "take_along_dim")
def gather(n: Op) -> Any:
    return n.b.node("GatherElements", n.x(), n.x("index"), axis=n.dim())


@rule("scatter.src", "scatter_add")
def scatter(n: Op) -> Any:
    how = "add" if n.name == "scatter_add" else "none"
    source = _as_index(n, n.x("src", n.out.dtype))
    return n.b.node("ScatterElements", n.x(), n.x("index"), source, axis=n.dim(), reduction=how)


@rule("scatter.value")
def scatter_value(n: Op) -> Any:
    source = n.b.node("Expand", n.b.const(n.args["value"], n.out.dtype), n.b.ints(n.meta("index").sizes))
    return n.b.node("ScatterElements", n.x(), n.x("index"), source, axis=n.dim())


@rule("index_add")
def index_add(n: Op) -> Any:
    """Adds slices: each place of the index is spread over the sizes of the source."""
    b, dim, dtype = n.b, n.dim(), n.out.dtype
    sizes, source = n.meta("source").sizes, n.x("source", dtype)
    if n.args["alpha"] != 1:
        source = b.node("Mul", source, b.const(n.args["alpha"], dtype))
    shape = [1] * len(sizes)
    shape[dim] = -1
    index = b.node("Expand", b.reshape(n.x("index", flow.int64), shape), b.ints(sizes))
    return b.node("ScatterElements", n.x(), index, source, axis=dim, reduction="add")


_COMBINED = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@rule("scatter_combine", "scatter.reduce", "scatter.value_reduce")
def scatter_combine(n: Op) -> Any:
    b, kind = n.b, _COMBINED.get(n.args["reduce"])
    if kind is None:
        raise n.refuse(f"with {n.args['reduce']!r} has no ONNX form")
    sizes = n.meta("index").sizes
    if n.name == "scatter.value_reduce":
        source = b.node("Expand", b.const(n.args["value"], n.out.dtype), b.ints(sizes))
    else:
        source = _as_index(n, n.x("src", n.out.dtype))
    return b.node("ScatterElements", n.x(), n.x("index"), source, axis=n.dim(), reduction=kind)


def _as_index(n: Op, source: str) -> str:
    """The part of the source that the index has places for."""
    index, given = n.meta("index").sizes, n.meta("src").sizes
    if index == given:
        return source
    axes = list(range(len(index)))
    return n.b.node("Slice", source, n.b.ints([0] * len(axes)), n.b.ints(index), n.b.ints(axes))


def _indexed(n: Op) -> tuple[list[int], str]:
    """The dimensions that index tensors name, and the places as rows of a matrix of any shape."""
    given = n.node.inputs["indices"]
    dims = [i for i, v in enumerate(given) if v is not None]
    if any(n.graph.values[given[i]].dtype == flow.bool for i in dims):
        raise n.refuse("with a mask as index has no ONNX form: its result depends on data")
    b = n.b
    names = [n.names[given[i]] for i in dims]
    if len(dims) == 1:
        return dims, b.node("Unsqueeze", names[0], b.ints([-1]))
    shape = flow.broadcast_shapes(*[tuple(1 if s == 1 else 2 for s in n.graph.values[given[i]].sizes) for i in dims])
    del shape
    wide = _common_sizes(n, [n.graph.values[given[i]].sizes for i in dims])
    spread = [b.node("Unsqueeze", b.node("Expand", x, b.ints(wide)), b.ints([-1])) for x in names]
    return dims, b.node("Concat", *spread, axis=-1)


def _common_sizes(n: Op, all_sizes: list[list[Any]]) -> list[Any]:
    rank = max(map(len, all_sizes))
    wide: list[Any] = [1] * rank
    for sizes in all_sizes:
        for i, size in enumerate(reversed(sizes)):
            if size != 1:
                wide[rank - 1 - i] = size
    return wide


@rule("index")
def index(n: Op) -> Any:
    b, meta = n.b, n.meta("input")
    given = n.node.inputs["indices"]
    dims = [i for i, v in enumerate(given) if v is not None]
    if len(dims) == 1 and n.graph.values[given[dims[0]]].dtype != flow.bool:
        return b.node("Gather", n.x(), n.names[given[dims[0]]], axis=dims[0])
    dims, places = _indexed(n)
    x = n.x()
    rest = [d for d in range(meta.rank) if d not in dims]
    if dims != list(range(len(dims))):
        x = b.node("Transpose", x, perm=dims + rest)
    found = b.node("GatherND", x, places)
    adjacent = dims == list(range(dims[0], dims[-1] + 1))
    if adjacent and dims[0] > 0:
        # The new dimensions stand where the indexed ones were.
        n_new = n.out.rank - len(rest)
        order = [n_new + i for i in range(dims[0])] + list(range(n_new)) + list(range(n_new + dims[0], n.out.rank))
        found = b.node("Transpose", found, perm=order)
    return found


@rule("index_put")
def index_put(n: Op) -> Any:
    b, meta = n.b, n.meta("input")
    dims, places = _indexed(n)
    if dims != list(range(len(dims))):
        raise n.refuse("that leaves out a first dimension has no ONNX form")
    given = n.node.inputs["indices"]
    wide = _common_sizes(n, [n.graph.values[given[i]].sizes for i in dims])
    values = b.node("Expand", n.x("values", n.out.dtype), b.ints([*wide, *meta.sizes[len(dims) :]]))
    return b.node("ScatterND", n.x(), places, values, reduction="add" if n.args["accumulate"] else "none")
