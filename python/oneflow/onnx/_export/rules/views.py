"""Views, and what moves elements without computing."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow._trace.named_sizes import Size
from oneflow.onnx._export.rules import Op, rule, static

_RESHAPES: tuple[str, ...] = (
    "view",
    "view_copy",
    "reshape",
    "flatten",
    "unflatten",
    "ravel",
    "view_as",
    "reshape_as",
    "atleast_1d",
)
_RESHAPES += ("atleast_2d", "atleast_3d", "squeeze", "squeeze_copy", "squeeze_copy.dim")


@rule(*_RESHAPES)
def reshape(n: Op) -> Any:
    return n.b.reshape(n.x(), n.out.sizes)


@rule("squeeze.dim")
def squeeze(n: Op) -> Any:
    rank = n.meta("input").rank
    dims = n.args["dim"]
    dims = [d % max(rank, 1) for d in (dims if isinstance(dims, list) else [dims])]
    dims = [d for d in dims if rank and n.meta("input").sizes[d] == 1]
    return n.b.node("Squeeze", n.x(), n.b.ints(dims)) if dims else n.b.node("Identity", n.x())


@rule("unsqueeze", "unsqueeze_copy")
def unsqueeze(n: Op) -> Any:
    dim = n.args["dim"] % n.out.rank
    return n.b.node("Unsqueeze", n.x(), n.b.ints([dim]))


@rule("expand", "broadcast_to", "expand_as", "expand_copy")
def expand(n: Op) -> Any:
    if 0 in n.out.sizes:
        # ONNX Runtime does not expand to a size of zero.
        return n.b.node("ConstantOfShape", n.b.ints(n.out.sizes), value=flow.zeros(1, dtype=n.out.dtype))
    return n.b.node("Expand", n.x(), n.b.ints(n.out.sizes))


@rule("permute", "permute_copy")
def permute(n: Op) -> Any:
    rank = n.meta("input").rank
    return n.b.node("Transpose", n.x(), perm=[d % rank for d in n.args["dims"]])


@rule("transpose", "transpose_copy", "swapaxes", "swapdims", "t", "t_copy", "adjoint")
def transpose(n: Op) -> Any:
    rank = n.meta("input").rank
    if rank < 2:
        return n.b.node("Identity", n.x())
    dims = [v for k, v in n.args.items() if k in ("dim0", "dim1", "axis0", "axis1")] or [-2, -1]
    one, other = (d % rank for d in dims)
    perm = list(range(rank))
    perm[one], perm[other] = other, one
    return n.b.node("Transpose", n.x(), perm=perm)


@rule("movedim", "moveaxis")
def movedim(n: Op) -> Any:
    rank = n.meta("input").rank
    source = [d % rank for d in n.args["source"]]
    to = [d % rank for d in n.args["destination"]]
    perm: list[int] = [-1] * rank
    for s, d in zip(source, to, strict=True):
        perm[d] = s
    rest = iter(d for d in range(rank) if d not in source)
    return n.b.node("Transpose", n.x(), perm=[next(rest) if p < 0 else p for p in perm])


@rule("select", "select_copy")
def select(n: Op) -> Any:
    dim, index = n.dim(), n.args["index"]
    if isinstance(index, Size):
        place = n.b.node("Squeeze", n.b.size(index), n.b.ints([0]))
    else:
        place = n.b.const(int(index), flow.int64)
    return n.b.node("Gather", n.x(), place, axis=dim)


@rule("slice", "slice_copy")
def slice_(n: Op) -> Any:
    start, end, step = n.args["start"], n.args["end"], n.args["step"]
    start = 0 if start is None else start
    end = 2**63 - 1 if end is None else end
    b, dim = n.b, n.dim()
    if not static(end) and end == n.meta("input").sizes[dim]:
        end = 2**63 - 1
    return b.node("Slice", n.x(), b.ints([start]), b.ints([end]), b.ints([dim]), b.ints([step]))


@rule("narrow", "narrow_copy")
def narrow(n: Op) -> Any:
    b, dim, start, length = n.b, n.dim(), n.args["start"], n.args["length"]
    begin = b.ints([start])
    if static(start) and static(length):
        size = n.meta("input").sizes[dim]
        start = start + size if start < 0 and static(size) else start
        begin, end = b.ints([start]), b.ints([start + length])
    else:
        end = b.node("Add", begin, b.ints([length]))
    return b.node("Slice", n.x(), begin, end, b.ints([dim]))


_SPLITS: tuple[str, ...] = (
    "split",
    "split.sizes",
    "split_with_sizes",
    "chunk",
    "tensor_split",
    "unsafe_chunk",
    "unsafe_split",
)
_SPLITS += ("unsafe_split_with_sizes", "split_with_sizes_copy", "tensor_split.indices")


@rule(*_SPLITS)
def split(n: Op) -> Any:
    dim = n.dim()
    sizes = [n.graph.values[v].sizes[dim] for v in n.node.outputs]
    if len(sizes) == 1:
        return [n.b.node("Identity", n.x())]
    return n.b.node("Split", n.x(), n.b.ints(sizes), n=len(sizes), axis=dim)


@rule("unbind", "unbind_copy")
def unbind(n: Op) -> Any:
    dim = n.dim()
    return [n.b.node("Gather", n.x(), n.b.const(i, flow.int64), axis=dim) for i in range(len(n.node.outputs))]


@rule("cat", "concat", "concatenate")
def cat(n: Op) -> Any:
    values = [v for v in n.node.inputs["tensors"] if n.graph.values[v].sizes != [0] or n.out.rank == 1]
    names = [n.b.cast(n.names[v], n.graph.values[v].dtype, n.out.dtype) for v in values]
    return n.b.node("Concat", *names, axis=n.args["dim"] % n.out.rank)


@rule("stack")
def stack(n: Op) -> Any:
    dim = n.args["dim"] % n.out.rank
    axes = n.b.ints([dim])
    parts = [n.b.node("Unsqueeze", x, axes) for x in n.all("tensors", n.out.dtype)]
    return n.b.node("Concat", *parts, axis=dim)


@rule("repeat", "tile")
def repeat(n: Op) -> Any:
    times = n.args["repeats" if n.name == "repeat" else "dims"]
    meta, x = n.meta("input"), n.x()
    times = [1] * (meta.rank - len(times)) + list(times)
    if len(times) > meta.rank:
        x = n.b.reshape(x, [1] * (len(times) - meta.rank) + meta.sizes)
    return n.b.node("Tile", x, n.b.ints(times))


@rule("flip")
def flip(n: Op) -> Any:
    b, rank = n.b, n.meta("input").rank
    dims = [d % rank for d in n.args["dims"]]
    far = [-(2**63) + 1] * len(dims)
    return b.node("Slice", n.x(), b.ints([-1] * len(dims)), b.ints(far), b.ints(dims), b.ints([-1] * len(dims)))


@rule("roll")
def roll(n: Op) -> Any:
    b, meta, x = n.b, n.meta("input"), n.x()
    shifts, dims = n.args["shifts"], n.args["dims"]
    if dims:
        return _rolled(n, x, zip(dims, shifts, strict=True))
    return b.reshape(_rolled(n, b.reshape(x, [-1]), [(0, shifts[0])]), meta.sizes)


def _rolled(n: Op, x: str, shifts: Any) -> str:
    """Pairs of a dimension and how far its elements go."""
    b, rank = n.b, max(n.meta("input").rank, 1)
    for dim, shift in shifts:
        axis = b.ints([dim % rank])
        cut = b.ints([-shift]) if static(shift) else b.node("Neg", b.ints([shift]))
        head = b.node("Slice", x, cut, b.ints([2**63 - 1]), axis)
        tail = b.node("Slice", x, b.ints([0]), cut, axis)
        x = b.node("Concat", head, tail, axis=dim % rank)
    return x


_PADS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@rule("pad_nd")
def pad(n: Op) -> Any:
    b, mode, widths, rank = n.b, n.args["mode"], [*n.args["widths"]], n.meta("input").rank
    if mode == "roll":
        firsts = enumerate(widths[::2])
        return _rolled(n, n.x(), [(rank - 1 - i, w) for i, w in firsts if not static(w) or w != 0])
    kept = [0] * (rank - len(widths) // 2)
    before, after = kept + widths[-2::-2], kept + widths[:0:-2]
    if mode == "reflect" and not all(static(w) and w >= 0 for w in widths):
        raise n.refuse("that reflects and cuts has no ONNX form")
    if mode == "circular" and b.opset < 19:
        raise n.refuse("of mode 'circular' needs opset 19")
    # Runtimes pad these numbers alone.
    dtype = n.out.dtype
    wide = {flow.int16: flow.int32, flow.float16: flow.float32, flow.bfloat16: flow.float32}.get(dtype, dtype)
    inputs = [b.cast(n.x(), dtype, wide), b.ints(before + after)]
    if mode == "constant":
        inputs.append(b.cast(b.const(n.args["value"], dtype), dtype, wide))
    return b.cast(b.node("Pad", *inputs, mode=_PADS[mode]), wide, dtype)


@rule("tril", "triu")
def tril(n: Op) -> Any:
    b = n.b
    x = n.x("input", flow.int64) if n.out.dtype == flow.bool else n.x()
    y = b.node("Trilu", x, b.const(int(n.args["diagonal"]), flow.int64), upper=int(n.name == "triu"))
    return b.cast(y, flow.int64, flow.bool) if n.out.dtype == flow.bool else y


@rule("slice_scatter", "select_scatter")
def slice_scatter(n: Op) -> Any:
    b, dim, source = n.b, n.dim(), n.x("src")
    size = n.meta("input").sizes[dim]
    if n.name == "select_scatter":
        begin, step, count = n.args["index"], 1, 1
        source = b.node("Unsqueeze", source, b.ints([dim]))
    else:
        begin, step, count = n.args["start"], n.args["step"], n.meta("src").sizes[dim]
    begin = 0 if begin is None else begin
    if static(begin) and begin < 0:
        rows = b.node("Add", b.count(count, step, begin), b.ints([size]))
    else:
        rows = b.count(count, step, begin)
    # Row i of the result is row order[i] of the input, or of the source that follows it.
    order = b.node("ScatterElements", b.count(size), rows, b.count(count, 1, size), axis=0)
    return b.node("Gather", b.node("Concat", n.x(), source, axis=dim), order, axis=dim)


@rule("unfold", "unfold_copy")
def unfold(n: Op) -> Any:
    """Windows along a dimension; their elements become the last one."""
    b, rank = n.b, n.meta("input").rank
    if rank == 0:
        return b.reshape(n.x(), n.out.sizes)
    dim = n.dim("dimension")
    starts = b.reshape(b.count(n.out.sizes[dim], n.args["step"]), [-1, 1])
    found = b.node("Gather", n.x(), b.node("Add", starts, b.count(n.args["size"])), axis=dim)
    perm = [d for d in range(rank + 1) if d != dim + 1] + [dim + 1]
    return b.node("Transpose", found, perm=perm)


def _diagonal(n: Op, length: Any) -> tuple[list[int], str]:
    """The dimensions with those of the diagonal first, and the places of its elements as rows of a matrix."""
    b, rank, offset = n.b, n.meta("input").rank, n.args["offset"]
    one, other = n.args["dim1"] % rank, n.args["dim2"] % rank
    columns = [b.reshape(b.count(length, 1, start), [-1, 1]) for start in (max(-offset, 0), max(offset, 0))]
    return [one, other] + [d for d in range(rank) if d not in (one, other)], b.node("Concat", *columns, axis=1)


@rule("diagonal_scatter")
def diagonal_scatter(n: Op) -> Any:
    b, rank = n.b, n.meta("input").rank
    perm, index = _diagonal(n, n.meta("src").sizes[-1])
    source = b.node("Transpose", n.x("src", n.out.dtype), perm=[rank - 2, *range(rank - 2)])
    made = b.node("ScatterND", b.node("Transpose", n.x(), perm=perm), index, source)
    return b.node("Transpose", made, perm=[perm.index(d) for d in range(rank)])


@rule("diagonal", "diagonal_copy")
def diagonal(n: Op) -> Any:
    b, rank = n.b, n.meta("input").rank
    perm, index = _diagonal(n, n.out.sizes[-1])
    found = b.node("GatherND", b.node("Transpose", n.x(), perm=perm), index)
    return b.node("Transpose", found, perm=[*range(1, rank - 1), 0])
