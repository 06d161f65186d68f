"""Sizes, layouts and the moving of elements: reshape, slice, gather, scatter, pad."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.registry import Call, axis_of, handler
from oneflow.onnx._import.values import Narrow, Strings, on_values


@handler("Shape")
def shape(c: Call, x: Any) -> Any:
    n = len(x.shape)
    start, end = c.get("start", 0), c.get("end", n)
    return flow.tensor(list(x.shape)[start:end] if n else [], dtype=flow.int64)


@handler("Size")
def size(c: Call, x: Any) -> Any:
    return flow.tensor(math.prod(x.shape), dtype=flow.int64)


@handler("Constant")
def constant(c: Call) -> Any:
    for name in ("value", "value_int", "value_float", "value_ints", "value_floats", "value_string", "value_strings"):
        value = c.attributes.get(name)
        if value is None:
            continue
        if name == "value":
            return value
        if name == "value_string":
            return Strings((), [value.decode()])
        if name == "value_strings":
            return Strings((len(value),), [s.decode() for s in value])
        return flow.tensor(value, dtype=flow.int64 if "int" in name else flow.float32)
    if c.attributes.get("sparse_value") is not None:
        return c.attributes["sparse_value"]
    raise ValueError("Constant: it has no value")


@handler("ConstantOfShape")
def constant_of_shape(c: Call, sizes: Any) -> Any:
    value = c.attributes.get("value")
    if value is None:
        return flow.zeros(c.ints(sizes), dtype=flow.float32)
    if isinstance(value, (Narrow, Strings)):
        return on_values(value, lambda v: v.reshape(()).expand(c.ints(sizes)))
    return flow.full(c.ints(sizes), value.reshape(()).item(), dtype=value.dtype)


@handler("Reshape")
def reshape(c: Call, x: Any, sizes: Any = None) -> Any:
    wanted = list(c.need("shape")) if c.version < 5 else c.ints(sizes)
    if not c.get("allowzero", 0):
        if len(wanted) > len(x.shape) and any(n == 0 for n in wanted[len(x.shape) :]):
            raise ValueError(f"Reshape: a 0 in {wanted} has no dimension of {tuple(x.shape)} to copy")
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return on_values(x, lambda v: v.reshape(wanted))


@handler("Flatten")
def flatten(c: Call, x: Any) -> Any:
    axis = c.get("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    rows = math.prod(x.shape[:axis])
    return on_values(x, lambda v: v.reshape(rows, math.prod(v.shape[axis:])))


@handler("Squeeze")
def squeeze(c: Call, x: Any, axes: Any = None) -> Any:
    given = c.axes(axes)
    if given is None:
        given = [i for i, n in enumerate(x.shape) if n == 1]
    dims = {axis_of(a, len(x.shape), "Squeeze") for a in given}
    if any(x.shape[d] != 1 for d in dims):
        raise ValueError(f"Squeeze: a dimension of {sorted(dims)} is not 1 in shape {tuple(x.shape)}")
    sizes = [n for i, n in enumerate(x.shape) if i not in dims]
    return on_values(x, lambda v: v.reshape(sizes))


@handler("Unsqueeze")
def unsqueeze(c: Call, x: Any, axes: Any = None) -> Any:
    given = c.axes(axes) or []
    rank = len(x.shape) + len(given)
    dims = {axis_of(a, rank, "Unsqueeze") for a in given}
    if len(dims) != len(given):
        raise ValueError(f"Unsqueeze: an axis is there twice in {given}")
    rest = iter(x.shape)
    sizes = [1 if i in dims else next(rest) for i in range(rank)]
    return on_values(x, lambda v: v.reshape(sizes))


@handler("Transpose")
def transpose(c: Call, x: Any) -> Any:
    perm = c.get("perm")
    order = list(perm) if perm is not None else list(reversed(range(len(x.shape))))
    return on_values(x, lambda v: v.permute(order))


@handler("Expand")
def expand(c: Call, x: Any, sizes: Any) -> Any:
    wanted = c.ints(sizes)
    common = flow.broadcast_shapes(tuple(x.shape), tuple(wanted))
    return on_values(x, lambda v: v.expand(common))


@handler("Tile")
def tile(c: Call, x: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is not None and c.version < 6:
        times = [1] * len(x.shape)
        times[c.ints(axis)[0]] = c.ints(repeats)[0]
    else:
        times = c.ints(repeats)
    return on_values(x, lambda v: v.repeat(*times) if times else v)


@handler("Concat")
def concat(c: Call, *values: Any) -> Any:
    axis = c.get("axis", 1) if c.version < 4 else c.need("axis")
    if isinstance(values[0], Strings):
        both = [s for v in values for s in v.items]
        start, parts = 0, []
        for v in values:
            parts.append(flow.arange(start, start + len(v.items)).reshape(v.shape))
            start += len(v.items)
        index = flow.cat(parts, axis)
        return Strings(index.shape, [both[i] for i in index.flatten().tolist()])
    if isinstance(values[0], Narrow):
        return Narrow(flow.cat([v.values for v in values], axis), values[0].elem)
    return flow.cat(list(values), axis)


@handler("Split")
def split(c: Call, x: Any, sizes: Any = None) -> Any:
    axis = axis_of(c.get("axis", 0), len(x.shape), "Split")
    given = c.axes(sizes, "split")
    if given is None:
        n = c.get("num_outputs", c.n_outputs)
        if not 1 <= n <= c.n_outputs:
            raise ValueError(f"Split: num_outputs is {n}, and the node has {c.n_outputs} outputs")
        length = -(-x.shape[axis] // n)
        given = [length] * (n - 1)
        given.append(x.shape[axis] - sum(given))
    if sum(given) != x.shape[axis]:
        raise ValueError(f"Split: sizes {given} do not sum to {x.shape[axis]}, the size of axis {axis}")
    starts = [sum(given[:i]) for i in range(len(given))]
    return tuple(on_values(x, lambda v, s=s, n=n: v.narrow(axis, s, n)) for s, n in zip(starts, given, strict=True))


@handler("Slice")
def slice_(c: Call, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    if c.version < 10:
        begins, stops = list(c.need("starts")), list(c.need("ends"))
        dims = list(c.get("axes", range(len(begins))))
        by = [1] * len(begins)
    else:
        begins, stops = c.ints(starts), c.ints(ends)
        dims = c.ints(axes) if axes is not None else list(range(len(begins)))
        by = c.ints(steps) if steps is not None else [1] * len(begins)
    for begin, stop, dim, step in zip(begins, stops, dims, by, strict=True):
        dim = axis_of(dim, len(x.shape), "Slice")
        x = _sliced(x, dim, begin, stop, step)
    return x


def _sliced(x: Any, dim: int, begin: int, stop: int, step: int) -> Any:
    if step == 0:
        raise ValueError("Slice: a step is 0")
    begin, stop, step = slice(begin, stop, step).indices(x.shape[dim])
    n = len(range(begin, stop, step))
    if n == 0:
        return on_values(x, lambda v: v.narrow(dim, 0, 0))
    if step > 0:
        index: list[slice] = [slice(None)] * len(x.shape)
        index[dim] = slice(begin, begin + (n - 1) * step + 1, step)
        return on_values(x, lambda v: v[tuple(index)])
    last = begin + (n - 1) * step
    index = [slice(None)] * len(x.shape)
    index[dim] = slice(last, begin + 1, -step)
    return on_values(x, lambda v: flow.flip(v[tuple(index)], [dim]))


def _wrapped(index: Any, n: int) -> Any:
    index = index.to(flow.int64)
    return flow.where(index < 0, index + n, index)


@handler("Gather")
def gather(c: Call, x: Any, index: Any) -> Any:
    axis = axis_of(c.get("axis", 0), len(x.shape), "Gather")
    sizes = [*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]]
    flat = _wrapped(index, x.shape[axis]).reshape(-1)
    return on_values(x, lambda v: v.index_select(axis, flat).reshape(sizes))


@handler("GatherElements")
def gather_elements(c: Call, x: Any, index: Any) -> Any:
    axis = axis_of(c.get("axis", 0), len(x.shape), c.op)
    return on_values(x, lambda v: flow.gather(v, axis, _wrapped(index, v.shape[axis])))


def _tuples(x: Any, index: Any, n_batch: int) -> list[Any]:
    """The index tensors of each dimension of ``x`` that rows of ``index`` name, those of the batch included."""
    k = index.shape[-1]
    shape = index.shape[:-1]
    found = []
    for i in range(n_batch):
        sizes = [1] * len(shape)
        sizes[i] = shape[i]
        found.append(flow.arange(shape[i], device=index.device).reshape(sizes).expand(shape))
    return found + [_wrapped(index[..., j], x.shape[n_batch + j]) for j in range(k)]


@handler("GatherND")
def gather_nd(c: Call, x: Any, index: Any) -> Any:
    places = tuple(_tuples(x, index, c.get("batch_dims", 0)))
    return on_values(x, lambda v: v[places])


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _reduced(c: Call, x: Any, axis: int, index: Any, updates: Any) -> Any:
    how = c.text("reduction", "none")
    if how == "none":
        return flow.scatter(x, axis, index, updates)
    return flow.scatter_reduce(x, axis, index, updates, _REDUCTIONS[how])


@handler("ScatterElements", "Scatter")
def scatter_elements(c: Call, x: Any, index: Any, updates: Any) -> Any:
    axis = axis_of(c.get("axis", 0), len(x.shape), c.op)
    return _reduced(c, x, axis, _wrapped(index, x.shape[axis]), updates)


@handler("ScatterND")
def scatter_nd(c: Call, x: Any, index: Any, updates: Any) -> Any:
    k = index.shape[-1]
    inner = math.prod(x.shape[k:])
    flat = flow.zeros(index.shape[:-1], dtype=flow.int64, device=index.device)
    for j in range(k):
        flat = flat * x.shape[j] + _wrapped(index[..., j], x.shape[j])
    rows = x.reshape(math.prod(x.shape[:k]), inner)
    where = flat.reshape(-1, 1).expand(flat.numel(), inner)
    return _reduced(c, rows, 0, where, updates.reshape(flat.numel(), inner)).reshape(x.shape)


@handler("TensorScatter")
def tensor_scatter(c: Call, past: Any, update: Any, start: Any = None) -> Any:
    axis = axis_of(c.get("axis", -2), past.dim(), c.op)
    batch, n, length = past.shape[0], update.shape[axis], past.shape[axis]
    begin = flow.zeros(batch, dtype=flow.int64) if start is None else start.to(flow.int64)
    places = begin.reshape(-1, 1) + flow.arange(n)
    if c.text("mode", "linear") == "circular":
        places = flow.remainder(places, length)
    shape = [1] * past.dim()
    shape[0], shape[axis] = batch, n
    return flow.scatter(past, axis, places.reshape(shape).expand(update.shape), update)


@handler("Compress")
def compress(c: Call, x: Any, condition: Any) -> Any:
    axis = c.get("axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    kept = flow.nonzero(condition).reshape(-1)
    return x.index_select(axis, kept)


@handler("ReverseSequence")
def reverse_sequence(c: Call, x: Any, lengths: Any) -> Any:
    batch, time = c.get("batch_axis", 1), c.get("time_axis", 0)
    n = x.shape[time]
    place = flow.arange(n).reshape(1, -1)
    length = lengths.to(flow.int64).reshape(-1, 1)
    index = flow.where(place < length, length - 1 - place, place)
    index = index if batch == 0 else index.transpose(0, 1)
    index = index.reshape(*index.shape, *[1] * (x.dim() - 2)).expand(x.shape)
    return flow.gather(x, time, index)


@handler("Pad")
def pad(c: Call, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    given = list(c.get("pads") or c.need("paddings")) if c.version < 11 else c.ints(pads)
    fill: Any = c.get("value", 0.0) if c.version < 11 else (0 if value is None else value.reshape(()).item())
    dims = [axis_of(a, x.dim(), "Pad") for a in c.ints(axes)] if axes is not None else list(range(x.dim()))
    before, after = given[: len(dims)], given[len(dims) :]
    return padded(x, dict(zip(dims, zip(before, after, strict=True), strict=True)), c.text("mode", "constant"), fill)


def padded(x: Any, by: dict[int, tuple[int, int]], mode: str = "constant", fill: Any = 0) -> Any:
    """Pads each dimension by (before, after); negative numbers crop."""
    if mode == "constant":
        flat = [n for d in reversed(range(x.dim())) for n in by.get(d, (0, 0))]
        return F.pad(x, flat, value=fill) if any(flat) else x
    for dim, (before, after) in by.items():
        if before == 0 and after == 0:
            continue
        n = x.shape[dim]
        place = flow.arange(-before, n + after)
        if mode == "edge":
            place = flow.clamp(place, 0, n - 1)
        elif mode == "wrap":
            place = flow.remainder(place, n)
        elif mode == "reflect":
            period = max(2 * n - 2, 1)
            place = flow.remainder(place, period)
            place = flow.where(place >= n, period - place, place)
        else:
            raise ValueError(f"Pad: the mode {mode!r} is unknown")
        x = x.index_select(dim, place.to(x.device))
    return x


@handler("CenterCropPad")
def center_crop_pad(c: Call, x: Any, sizes: Any) -> Any:
    axes = c.get("axes")
    dims = [axis_of(a, x.dim(), c.op) for a in axes] if axes is not None else list(range(x.dim()))
    for dim, wanted in zip(dims, c.ints(sizes), strict=True):
        have = x.shape[dim]
        if have > wanted:
            x = x.narrow(dim, (have - wanted) // 2, wanted)
        elif have < wanted:
            before = (wanted - have) // 2
            x = padded(x, {dim: (before, wanted - have - before)})
    return x


@handler("DepthToSpace")
def depth_to_space(c: Call, x: Any) -> Any:
    block = c.need("blocksize")
    b, channels, h, w = x.shape
    depth = channels // block**2
    if c.text("mode", "DCR") == "DCR":
        x = x.reshape(b, block, block, depth, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(b, depth, block, block, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(b, depth, h * block, w * block)


@handler("SpaceToDepth")
def space_to_depth(c: Call, x: Any) -> Any:
    block = c.need("blocksize")
    b, channels, h, w = x.shape
    x = x.reshape(b, channels, h // block, block, w // block, block)
    order = (0, 1, 3, 5, 2, 4) if c.text("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return x.permute(*order).reshape(b, channels * block**2, h // block, w // block)
