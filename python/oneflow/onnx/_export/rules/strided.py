"""Views by sizes and strides: what a program reads from memory that it has written, and `as_strided` itself."""

from __future__ import annotations

import math
from typing import Any

from oneflow.onnx._export.rules import Op, rule


def _layout(n: Op) -> tuple[list[Any], list[Any], Any]:
    """Sizes, strides and offset of the view; each may follow from named dimensions."""
    return n.args["size"], n.args["stride"], n.args.get("offset", n.args.get("storage_offset")) or 0


def _is_dense(sizes: list[int], strides: list[int]) -> bool:
    """Whether a layout is row-major without gaps."""
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _base_order(n: Op) -> list[int]:
    """The dimensions of the memory's own layout from the slowest to the fastest."""
    meta = n.graph.values[n.meta("input").root]
    sizes = [n.b.at_points(s)[0] for s in meta.sizes]
    order = sorted(range(meta.rank), key=lambda d: -meta.strides[d]) if not _is_dense(sizes, meta.strides) else None
    if order is None:
        return list(range(meta.rank))
    if not _is_dense([sizes[d] for d in order], [meta.strides[d] for d in order]):
        raise n.refuse(f"of memory with sizes {meta.sizes} and strides {meta.strides} has no ONNX form")
    return order


def _memory(n: Op) -> str:
    """The elements of the memory that is viewed, in their order there."""
    root, order = n.meta("input").root, _base_order(n)
    x = n.names[root]
    return n.b.reshape(x if order == list(range(len(order))) else n.b.node("Transpose", x, perm=order), [-1])


def _places(n: Op) -> str:
    """Where each element of the view lies in its memory."""
    b, (sizes, strides, offset) = n.b, _layout(n)
    places = b.ints([offset])
    if not sizes:
        return b.node("Squeeze", places, b.ints([0]))
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        along = b.reshape(b.count(size, stride), [-1 if j == i else 1 for j in range(len(sizes))])
        places = b.node("Add", places, along)
    return places


def _permutation(n: Op) -> list[int] | None:
    """The dimensions of the view as they lie in memory, where it permutes all elements of a row-major memory.

    Sizes that follow from named dimensions are compared at the sizes of the traces.
    """
    b, (sizes, strides, offset) = n.b, _layout(n)
    meta = n.graph.values[n.meta("input").root]
    if offset != 0 or _base_order(n) != list(range(meta.rank)):
        return None
    columns = [[b.at_points(v) for v in group] for group in (sizes, strides, meta.sizes)]
    order: list[int] | None = None
    for p in range(len(b.at_points(1))):
        size, stride, base = ([column[p] for column in group] for group in columns)
        order = order or sorted(range(len(size)), key=lambda d: -stride[d])
        dense = _is_dense([size[d] for d in order], [stride[d] for d in order])
        if not dense or math.prod(size) != math.prod(base):
            return None
    return order


@rule("_as_strided", "as_strided", "as_strided_copy")
def as_strided(n: Op) -> Any:
    b, (sizes, strides, offset) = n.b, _layout(n)
    meta = n.meta("input")
    if sizes == meta.sizes and strides == meta.strides and offset == meta.offset:
        return b.node("Identity", n.x())
    if (order := _permutation(n)) is not None:
        dense = b.reshape(n.names[meta.root], [sizes[d] for d in order])
        return b.node("Transpose", dense, perm=[order.index(d) for d in range(len(order))])
    return b.node("Gather", _memory(n), _places(n), axis=0)


@rule("_as_strided_scatter", "as_strided_scatter")
def as_strided_scatter(n: Op) -> Any:
    b, given = n.b, n.meta("input")
    meta, source = n.graph.values[given.root], n.x("src", n.out.dtype)
    if (order := _permutation(n)) is not None:
        # Every element is written.
        return b.reshape(b.node("Transpose", source, perm=order), n.out.sizes)
    if (given is not meta and given.rank != 1) or (given is meta and _base_order(n) != list(range(meta.rank))):
        raise n.refuse(f"into memory with sizes {meta.sizes} and strides {meta.strides} has no ONNX form")
    places = b.reshape(_places(n), [-1])
    made = b.node("ScatterElements", _memory(n), places, b.reshape(source, [-1]), axis=0)
    return b.reshape(made, n.out.sizes)
