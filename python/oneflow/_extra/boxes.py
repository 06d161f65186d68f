"""Boxes of detectors: suppression, regions of interest, deformable convolution, the terms of the complete IoU."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like
from oneflow._extra._checks import expect


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes that no better box overlaps by more than a threshold, best first.

    Args:
        boxes: (N, 4) as (x1, y1, x2, y2).
        scores: (N,).
        iou_threshold: the most that the intersection may be of the union.

    Example::

        >>> boxes = oneflow.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]])
        >>> oneflow.nms(boxes, oneflow.tensor([0.9, 0.8, 0.7]), 0.5)
        tensor([0, 2])
    """
    if boxes.dim() != 2 or boxes.shape[1] != 4 or tuple(scores.shape) != (boxes.shape[0],):
        raise RuntimeError(
            f"nms: expected boxes (N, 4) and scores (N,), got {list(boxes.shape)} and {list(scores.shape)}"
        )
    order = scores.argsort(descending=True, stable=True)
    over = _suppresses(boxes[order], iou_threshold)
    # A box stays if no better box that stays overlaps it. From the best one on the result is final; each round decides
    # at least one more link of every chain.
    keep = replicate_like(boxes, oneflow.ones(boxes.shape[0], dtype=oneflow.bool, device=boxes.device))
    while True:
        following = ~(over & keep.unsqueeze(1)).any(0)
        if bool((following == keep).all()):
            return order[keep]
        keep = following


def nms_mask(boxes: Tensor, iou_threshold: float) -> Tensor:
    """Of boxes (N, 4) in the order of their scores, which ones stay: (N,) as int8, the form of OneFlow's op."""
    scores = oneflow.arange(boxes.shape[0], 0, -1, device=boxes.device)
    kept = nms(boxes, scores, iou_threshold)
    return oneflow.zeros(boxes.shape[0], dtype=oneflow.int8, device=boxes.device).index_fill(0, kept, 1)


def _suppresses(boxes: Tensor, threshold: float) -> Tensor:
    """Which box (row) overlaps which later box (column) by more than the threshold."""
    x1, y1, x2, y2 = boxes.unbind(1)
    area = (x2 - x1) * (y2 - y1)
    width = (oneflow.minimum(x2[:, None], x2) - oneflow.maximum(x1[:, None], x1)).clamp(min=0)
    height = (oneflow.minimum(y2[:, None], y2) - oneflow.maximum(y1[:, None], y1)).clamp(min=0)
    common = width * height
    return (common > threshold * (area[:, None] + area - common)).triu(1)


def _sample(x: Tensor, rows: Tensor, columns: Tensor, outside_by: float) -> Tensor:
    """Bilinear values (B, C, n) of x (B, C, H, W) at positions (B, n); zero beyond the edge by ``outside_by``."""
    height, width = x.shape[-2:]
    inside = (rows >= -outside_by) & (rows <= height - 1 + outside_by)
    inside = inside & (columns >= -outside_by) & (columns <= width - 1 + outside_by)
    flat = x.flatten(2)
    top, left = rows.detach().floor(), columns.detach().floor()
    total: Any = 0
    for row, row_share in ((top, 1 - (rows - top)), (top + 1, rows - top)):
        for column, share in ((left, 1 - (columns - left)), (left + 1, columns - left)):
            there = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
            value = flat.gather(2, index.unsqueeze(1).expand(-1, x.shape[1], -1))
            weight = oneflow.where(there, row_share * share, oneflow.zeros_like(share))
            total = total + value * weight.unsqueeze(1)
    return total


def roi_align(
    x: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_h: int,
    pooled_w: int,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Means over a grid of bilinear samples in each region (He et al., "Mask R-CNN", 2017).

    Args:
        x: (N, C, H, W).
        rois: (K, 5), constants: the image's index, then (x1, y1, x2, y2) in the image's own units.
        spatial_scale: what to multiply those units with.
        pooled_h, pooled_w: size of the result.
        sampling_ratio: samples a cell and dimension; below 1 as many as the region is larger than the result.
        aligned: pixels are centred at half numbers.

    Returns:
        (K, C, pooled_h, pooled_w).

    Example::

        >>> x = oneflow.arange(16.0).reshape(1, 1, 4, 4)
        >>> oneflow.roi_align(x, oneflow.tensor([[0.0, 0.0, 0.0, 2.0, 2.0]]), 1.0, 1, 1)
        tensor([[[[5.]]]])
    """
    expect(x.dim() == 4, f"roi_align: The dimension of x tensor must be equal to 4, but got {x.dim()}")
    expect(rois.dim() == 2, f"roi_align: The dimension of rois tensor must be equal to 2, but got {rois.dim()}")
    expect(
        rois.shape[1] == 5,
        f"roi_align: The size of rois tensor must be equal to 5 at dimension 1, but got {rois.shape[1]}",
    )
    rois = rois.detach()
    image, boxes = rois[:, 0].long(), rois[:, 1:] * spatial_scale
    if aligned:
        boxes = boxes - 0.5
    x1, y1, x2, y2 = boxes.unbind(1)
    width, height = x2 - x1, y2 - y1
    if not aligned:
        width, height = width.clamp(min=1), height.clamp(min=1)
    cell_h, cell_w = height / pooled_h, width / pooled_w
    rows, row_counts = _grid(y1, cell_h, pooled_h, sampling_ratio)
    columns, column_counts = _grid(x1, cell_w, pooled_w, sampling_ratio)
    n_rows, n_columns = rows.shape[-1], columns.shape[-1]
    k, channels = rois.shape[0], x.shape[1]
    shape = (k, pooled_h, n_rows, pooled_w, n_columns)
    at_rows = rows.reshape(k, pooled_h, n_rows, 1, 1).expand(shape)
    at_columns = columns.reshape(k, 1, 1, pooled_w, n_columns).expand(shape)
    # A sample up to one pixel beyond the edge takes the edge's value.
    h, w = x.shape[-2:]
    inside = (at_rows >= -1) & (at_rows <= h) & (at_columns >= -1) & (at_columns <= w)
    used = replicate_like(x, oneflow.arange(n_rows, device=x.device)) < row_counts.reshape(k, 1)
    used_columns = replicate_like(x, oneflow.arange(n_columns, device=x.device)) < column_counts.reshape(k, 1)
    inside = inside & used.reshape(k, 1, n_rows, 1, 1) & used_columns.reshape(k, 1, 1, 1, n_columns)
    flat_rows, flat_columns = at_rows.clamp(0, h - 1).flatten(1), at_columns.clamp(0, w - 1).flatten(1)
    values = _sample(x[image], flat_rows, flat_columns, 0.0).reshape(k, channels, *shape[1:])
    total = (values * inside.unsqueeze(1)).sum((3, 5))
    return total / (row_counts * column_counts).clamp(min=1).reshape(k, 1, 1, 1)


def _grid(start: Tensor, cell: Tensor, pooled: int, ratio: int) -> tuple[Tensor, Tensor]:
    """Positions (K, pooled, most samples) along one dimension, and how many of the samples each region has (K,)."""
    counts = oneflow.full_like(cell, float(ratio)) if ratio > 0 else cell.detach().ceil().clamp(min=1)
    most = ratio if ratio > 0 else int(counts.max().item()) if counts.numel() else 1
    step = replicate_like(cell, oneflow.arange(most, device=cell.device) + 0.5) / counts.unsqueeze(1)
    index = replicate_like(cell, oneflow.arange(pooled, device=cell.device)).reshape(1, -1, 1)
    return start.reshape(-1, 1, 1) + (index + step.unsqueeze(1)) * cell.reshape(-1, 1, 1), counts


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """Convolution whose windows are sampled at shifted places (Dai et al., 2017; with ``mask``, Zhu et al., 2019).

    Args:
        input: (N, C, H, W).
        offset: (N, 2 * groups of offsets * kh * kw, out_h, out_w): rows and columns in turn.
        weight: (out, C / groups, kh, kw).
        bias: (out,).
        mask: (N, groups of offsets * kh * kw, out_h, out_w), a factor of each sample.

    Returns:
        (N, out, out_h, out_w).

    Example::

        >>> F.deform_conv2d(oneflow.ones(1, 1, 3, 3), oneflow.zeros(1, 8, 2, 2), oneflow.ones(1, 1, 2, 2)).shape
        oneflow.Size([1, 1, 2, 2])
    """
    for name, tensor in (("input", input), ("weight", weight), ("offset", offset), ("mask", mask)):
        if tensor is not None:
            dims = tensor.dim()
            expect(dims == 4, f"deform_conv2d: The dimension of the {name} tensor must be 4, but got {dims}")
    (sh, sw), (ph, pw), (dh, dw) = (v if isinstance(v, (tuple, list)) else (v, v) for v in (stride, padding, dilation))
    expect(sh > 0 and sw > 0, f"deform_conv2d: The stride must be greater than 0, but got {(sh, sw)}")
    expect(ph >= 0 and pw >= 0, f"deform_conv2d: The pad must be greater than or equal to 0, but got {(ph, pw)}")
    expect(dh > 0 and dw > 0, f"deform_conv2d: The dilation must be greater than 0, but got {(dh, dw)}")
    n, channels, _, _ = input.shape
    out_channels, per_group, kh, kw = weight.shape
    k = kh * kw
    expect(
        offset.shape[1] > 0 and offset.shape[1] % (2 * k) == 0,
        "deform_conv2d: The shape of the offset tensor at dimension 1 is not valid: expected a multiple of "
        f"{2 * k}, got {offset.shape[1]}",
    )
    expect(offset.shape[0] == n, f"deform_conv2d: invalid batch size of offset: expected {n}, got {offset.shape[0]}")
    out_h, out_w = offset.shape[-2:]
    wanted = tuple(
        (size + 2 * pad - dil * (kernel - 1) - 1) // step + 1
        for size, pad, dil, kernel, step in ((input.shape[2], ph, dh, kh, sh), (input.shape[3], pw, dw, kw, sw))
    )
    expect(min(wanted) > 0, f"deform_conv2d: Calculated output size too small: {wanted[0]} x {wanted[1]}")
    expect(
        (out_h, out_w) == wanted,
        f"deform_conv2d: invalid offset output dims: expected {wanted[0]} x {wanted[1]}, got {out_h} x {out_w}",
    )
    n_offsets = offset.shape[1] // (2 * k)
    expect(
        mask is None or mask.shape[1] == n_offsets * k,
        f"deform_conv2d: mask.shape[1] is not valid: expected {n_offsets * k}",
    )
    expect(mask is None or mask.shape[0] == n, f"deform_conv2d: invalid batch size of mask: expected {n}")
    shift = offset.reshape(n, n_offsets, k, 2, out_h, out_w)
    device = input.device
    tap = oneflow.arange(k, device=device)
    base_rows = (oneflow.arange(out_h, device=device) * sh - ph).reshape(1, -1, 1) + (tap // kw * dh).reshape(-1, 1, 1)
    base_columns = (oneflow.arange(out_w, device=device) * sw - pw).reshape(1, 1, -1) + (tap % kw * dw).reshape(
        -1, 1, 1
    )
    rows = (replicate_like(input, base_rows) + shift[:, :, :, 0]).reshape(n * n_offsets, -1)
    columns = (replicate_like(input, base_columns) + shift[:, :, :, 1]).reshape(n * n_offsets, -1)
    grouped = input.reshape(n * n_offsets, channels // n_offsets, *input.shape[2:])
    sampled = _sample(grouped, rows, columns, 1.0).reshape(n, n_offsets, channels // n_offsets, k, out_h * out_w)
    if mask is not None:
        sampled = sampled * mask.reshape(n, n_offsets, 1, k, out_h * out_w)
    groups = channels // per_group
    taken = sampled.reshape(n, groups, per_group * k, out_h * out_w)
    kernels = weight.reshape(groups, out_channels // groups, per_group * k)
    y = kernels.matmul(taken).reshape(n, out_channels, out_h, out_w)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


# ---- the complete intersection over union (Zheng et al., "Distance-IoU Loss", 2020)


def fused_get_boundding_boxes_coord(
    x1: Tensor, y1: Tensor, w1: Tensor, h1: Tensor, x2: Tensor, y2: Tensor, w2: Tensor, h2: Tensor
) -> tuple[Tensor, ...]:
    """Left, right, top and bottom of two boxes, from centres and sizes."""
    first = (x1 - w1 / 2, x1 + w1 / 2, y1 - h1 / 2, y1 + h1 / 2)
    return (*first, x2 - w2 / 2, x2 + w2 / 2, y2 - h2 / 2, y2 + h2 / 2)


def fused_get_intersection_area(
    b1_x1: Tensor,
    b1_x2: Tensor,
    b2_x1: Tensor,
    b2_x2: Tensor,
    b1_y1: Tensor,
    b1_y2: Tensor,
    b2_y1: Tensor,
    b2_y2: Tensor,
) -> Tensor:
    """The area that two boxes share."""
    width = (oneflow.minimum(b1_x2, b2_x2) - oneflow.maximum(b1_x1, b2_x1)).clamp(min=0)
    return width * (oneflow.minimum(b1_y2, b2_y2) - oneflow.maximum(b1_y1, b2_y1)).clamp(min=0)


def fused_get_iou(w1: Tensor, h1: Tensor, w2: Tensor, h2: Tensor, inter: Tensor, eps: float) -> Tensor:
    """The shared area by that of the union."""
    return inter / (w1 * h1 + w2 * h2 - inter + eps)


def fused_get_convex_diagonal_squared(
    b1_x1: Tensor,
    b1_x2: Tensor,
    b2_x1: Tensor,
    b2_x2: Tensor,
    b1_y1: Tensor,
    b1_y2: Tensor,
    b2_y1: Tensor,
    b2_y2: Tensor,
    eps: float,
) -> Tensor:
    """The squared diagonal of the least box that holds both."""
    width = oneflow.maximum(b1_x2, b2_x2) - oneflow.minimum(b1_x1, b2_x1)
    height = oneflow.maximum(b1_y2, b2_y2) - oneflow.minimum(b1_y1, b2_y1)
    return width.square() + height.square() + eps


def fused_get_center_dist(
    b1_x1: Tensor,
    b1_x2: Tensor,
    b2_x1: Tensor,
    b2_x2: Tensor,
    b1_y1: Tensor,
    b1_y2: Tensor,
    b2_y1: Tensor,
    b2_y2: Tensor,
) -> Tensor:
    """The squared distance of the centres."""
    across = b2_x1 + b2_x2 - b1_x1 - b1_x2
    along = b2_y1 + b2_y2 - b1_y1 - b1_y2
    return (across.square() + along.square()) / 4


def fused_get_ciou_diagonal_angle(w1: Tensor, h1: Tensor, w2: Tensor, h2: Tensor, eps: float) -> Tensor:
    """How far the boxes' proportions differ, as angles: between 0 and 1."""
    return (4 / math.pi**2) * ((w2 / (h2 + eps)).atan() - (w1 / (h1 + eps)).atan()).square()


def fused_get_ciou_result(v: Tensor, iou: Tensor, rho2: Tensor, c2: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The complete IoU, and the weight of the proportions in it."""
    alpha = v.detach() / (v.detach() - iou.detach() + (1 + eps))
    return iou - (rho2 / c2 + v * alpha), alpha
