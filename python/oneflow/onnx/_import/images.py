"""Resizing, sampling at places, regions of interest and the choice among overlapping boxes."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.registry import Call, axis_of, handler


def _place(mode: str, out: int, size: int, length: float, scale: float, roi: tuple[float, float]) -> list[float]:
    """Where each output element of an axis lies in the input; ``length`` is the unrounded size of the output."""
    n = range(out)
    if mode == "align_corners":
        return [i * (size - 1) / (length - 1) if length > 1 else 0.0 for i in n]
    if mode == "asymmetric":
        return [i / scale for i in n]
    if mode == "tf_crop_and_resize":
        start, end = roi
        if length > 1:
            return [start * (size - 1) + i * (end - start) * (size - 1) / (length - 1) for i in n]
        return [0.5 * (start + end) * (size - 1)] * out
    if mode == "pytorch_half_pixel" and out == 1:
        return [-0.5]
    if mode == "half_pixel_symmetric":
        adjustment = out / length
        center = size / 2
        offset = center * (1 - adjustment)
        return [offset + (i + 0.5) / scale - 0.5 for i in n]
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return [(i + 0.5) / scale - 0.5 for i in n]
    if mode == "tf_half_pixel_for_nn":
        return [(i + 0.5) / scale for i in n]
    raise ValueError(f"Resize: the coordinate mode {mode!r} is unknown")


def _nearest(places: list[float], how: str, size: int) -> list[int]:
    found = []
    for x in places:
        if how == "round_prefer_floor":
            i = math.ceil(x - 0.5)
        elif how == "round_prefer_ceil":
            i = math.floor(x + 0.5)
        else:
            i = math.floor(x) if how == "floor" else math.ceil(x)
        found.append(min(max(i, 0), size - 1))
    return found


def _kernel(mode: str, a: float) -> tuple[Any, int]:
    """The weight of an element by its distance, and how far it reaches."""
    if mode == "linear":
        return (lambda d: max(1 - abs(d), 0.0)), 1

    def cubic(d: float) -> float:
        d = abs(d)
        if d <= 1:
            return ((a + 2) * d - (a + 3)) * d * d + 1
        return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0

    return cubic, 2


def _rows(places: list[float], size: int, mode: str, a: float, scale: float, exclude: bool, antialias: bool) -> Any:
    """The matrix (outputs, inputs) of an axis."""
    function, reach = _kernel(mode, a)
    shrink = min(scale, 1.0) if antialias else 1.0
    reach = math.ceil(reach / shrink)
    matrix = [[0.0] * size for _ in places]
    for row, x in zip(matrix, places, strict=True):
        base = math.floor(x)
        weights = [(i, function((i - x) * shrink)) for i in range(base - reach + 1, base + reach + 1)]
        if exclude:
            weights = [(i, w) for i, w in weights if 0 <= i < size]
        if exclude or antialias:
            total = sum(w for _, w in weights)
            weights = [(i, w / total) for i, w in weights]
        for i, w in weights:
            row[min(max(i, 0), size - 1)] += w
    return matrix


@handler("Resize")
def resize(c: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    if c.version < 11:
        # Version 10 has the scales where later ones have the region.
        roi, scales = None, roi
    axes = c.get("axes")
    dims = [axis_of(a, x.dim(), "Resize") for a in axes] if axes is not None else list(range(x.dim()))
    if sizes is not None and sizes.numel():
        wanted = c.ints(sizes)
        factors = [w / x.shape[d] for w, d in zip(wanted, dims, strict=True)]
        policy = c.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = min(factors) if policy == "not_larger" else max(factors)
            factors = [one] * len(dims)
            wanted = [math.floor(one * x.shape[d] + 0.5) for d in dims]
            lengths = [float(w) for w in wanted]
        lengths = [float(w) for w in wanted]
    else:
        factors = [float(s) for s in scales.tolist()]
        lengths = [s * x.shape[d] for s, d in zip(factors, dims, strict=True)]
        wanted = [math.floor(length + 1e-9) for length in lengths]
    region = (
        [float(r) for r in roi.tolist()] if roi is not None and roi.numel() else [0.0] * len(dims) + [1.0] * len(dims)
    )
    coordinate = c.text("coordinate_transformation_mode", "half_pixel" if c.version >= 11 else "asymmetric")
    mode = c.text("mode", "nearest")
    nearest_mode = c.text("nearest_mode", "round_prefer_floor" if c.version >= 11 else "floor")
    dtype = x.dtype
    outside = None
    for j, dim in enumerate(dims):
        size = x.shape[dim]
        bounds = (region[j], region[len(dims) + j])
        if wanted[j] == size and factors[j] == 1.0 and coordinate != "tf_crop_and_resize":
            continue
        places = _place(coordinate, wanted[j], size, lengths[j], factors[j], bounds)
        if coordinate == "tf_crop_and_resize":
            beyond = flow.tensor([not 0 <= p <= size - 1 for p in places])
            shape = [1] * x.dim()
            shape[dim] = wanted[j]
            beyond = beyond.reshape(shape)
            outside = beyond if outside is None else flow.logical_or(outside, beyond)
        if mode == "nearest":
            x = x.index_select(dim, flow.tensor(_nearest(places, nearest_mode, size), device=x.device))
            continue
        matrix = _rows(
            places,
            size,
            mode,
            c.get("cubic_coeff_a", -0.75),
            factors[j],
            bool(c.get("exclude_outside", 0)),
            bool(c.get("antialias", 0)),
        )
        wide = x.to(flow.float32) if not x.is_floating_point() else x
        weights = flow.tensor(matrix, dtype=wide.dtype, device=x.device)
        x = flow.matmul(wide.transpose(dim, -1), weights.t()).transpose(dim, -1)
    if outside is not None:
        x = flow.where(outside, flow.full((), c.get("extrapolation_value", 0.0), dtype=x.dtype), x)
    if not dtype.is_floating_point and x.dtype != dtype:
        limits = flow.iinfo(dtype)
        x = flow.clamp(flow.round(x), limits.min, limits.max)
    return x.to(dtype)


@handler("Upsample")
def upsample(c: Call, x: Any, scales: Any = None) -> Any:
    if scales is None:
        given = c.get("scales") or [1.0, 1.0, c.get("height_scale", 1.0), c.get("width_scale", 1.0)]
        scales = flow.tensor(list(given))
    attributes = {"mode": c.text("mode", "nearest").replace("bilinear", "linear").encode()}
    attributes["coordinate_transformation_mode"] = b"asymmetric"
    attributes["nearest_mode"] = b"floor"
    return resize(Call("Upsample", 13, attributes, 1), x, None, scales)


@handler("GridSample")
def grid_sample(c: Call, x: Any, grid: Any) -> Any:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(c.text("mode", "linear"), c.text("mode", "linear"))
    return F.grid_sample(x, grid, mode, c.text("padding_mode", "zeros"), bool(c.get("align_corners", 0)))


@handler("AffineGrid")
def affine_grid(c: Call, theta: Any, size: Any) -> Any:
    return F.affine_grid(theta, c.ints(size), bool(c.get("align_corners", 0)))


@handler("RoiAlign")
def roi_align(c: Call, x: Any, rois: Any, batch_indices: Any) -> Any:
    height, width, scale = c.get("output_height", 1), c.get("output_width", 1), c.get("spatial_scale", 1.0)
    ratio, mode = c.get("sampling_ratio", 0), c.text("mode", "avg")
    half = c.text("coordinate_transformation_mode", "half_pixel" if c.version >= 16 else "output_half_pixel")
    shift = 0.5 if half == "half_pixel" else 0.0
    made = []
    for box, b in zip(rois.tolist(), batch_indices.tolist(), strict=True):
        x1, y1, x2, y2 = (v * scale - shift for v in box)
        w, h = x2 - x1, y2 - y1
        if not shift:
            w, h = max(w, 1.0), max(h, 1.0)
        ny = ratio or math.ceil(h / height)
        nx = ratio or math.ceil(w / width)
        ys = [y1 + (i + (j + 0.5) / ny) * h / height for i in range(height) for j in range(ny)]
        xs = [x1 + (i + (j + 0.5) / nx) * w / width for i in range(width) for j in range(nx)]
        made.append(_sampled(x[b], ys, xs, height, ny, width, nx, mode))
    return flow.stack(made) if made else x.new_zeros(0, x.shape[1], height, width)


def _line(places: list[float], size: int) -> list[tuple[int, int, float, float]]:
    """For each position, the elements on both sides and their weights, which are zero outside of the input."""
    found = []
    for p in places:
        if p < -1 or p > size:
            found.append((0, 0, 0.0, 0.0))
            continue
        p = max(p, 0.0)
        low = int(p)
        if low >= size - 1:
            found.append((size - 1, size - 1, 1.0, 0.0))
        else:
            found.append((low, low + 1, 1 - (p - low), p - low))
    return found


def _sampled(x: Any, ys: list[float], xs: list[float], height: int, ny: int, width: int, nx: int, mode: str) -> Any:
    lines, columns = _line(ys, x.shape[1]), _line(xs, x.shape[2])
    parts = []
    for i in (0, 1):
        rows = x.index_select(1, flow.tensor([r[i] for r in lines]))
        for j in (0, 1):
            weight = flow.tensor([r[2 + i] for r in lines]).reshape(-1, 1) * flow.tensor([k[2 + j] for k in columns])
            parts.append(rows.index_select(2, flow.tensor([k[j] for k in columns])) * weight.to(x.dtype))
    stacked = flow.stack(parts)
    cells = stacked.reshape(4, x.shape[0], height, ny, width, nx)
    if mode == "max":
        return flow.amax(cells, (0, 3, 5))
    return flow.sum(cells, (0, 3, 5)) / (ny * nx)


@handler("NonMaxSuppression")
def non_max_suppression(
    c: Call, boxes: Any, scores: Any, limit: Any = None, overlap: Any = None, least: Any = None
) -> Any:
    most = 0 if limit is None else c.ints(limit)[0]
    threshold = 0.0 if overlap is None else float(overlap.reshape(-1).tolist()[0])
    lowest = -math.inf if least is None else float(least.reshape(-1).tolist()[0])
    chosen: list[list[int]] = []
    for b, (rows, classes) in enumerate(zip(boxes.tolist(), scores.tolist(), strict=True)):
        corners = [_corners(r, c.get("center_point_box", 0)) for r in rows]
        for k, values in enumerate(classes):
            order = sorted((i for i, s in enumerate(values) if s > lowest), key=lambda i: -values[i])
            kept: list[int] = []
            for i in order:
                if len(kept) >= most:
                    break
                if all(_overlap(corners[i], corners[j]) <= threshold for j in kept):
                    kept.append(i)
            chosen += [[b, k, i] for i in kept]
    return flow.tensor(chosen, dtype=flow.int64).reshape(-1, 3)


def _corners(box: list[float], centered: int) -> tuple[float, float, float, float]:
    if centered:
        x, y, w, h = box
        return x - w / 2, y - h / 2, x + w / 2, y + h / 2
    y1, x1, y2, x2 = box
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    common = w * h
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)
