"""Convolutions and pools of any number of spatial dimensions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.math import shifted
from oneflow.onnx._import.registry import Call, handler, spatial
from oneflow.onnx._import.shapes import padded


def _pads(c: Call, sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """(begin..., end...) by ``pads`` or ``auto_pad``."""
    n = len(kernel)
    auto = c.text("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        return spatial(c.get("pads"), 2 * n, 0)
    if auto == "VALID":
        return [0] * (2 * n)
    before, after = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small = total // 2
        before.append(total - small if auto == "SAME_LOWER" else small)
        after.append(small if auto == "SAME_LOWER" else total - small)
    return before + after


def _pad_spatial(x: Any, pads: list[int], fill: Any = 0) -> Any:
    n = len(pads) // 2
    return padded(x, {2 + i: (pads[i], pads[n + i]) for i in range(n)}, fill=fill)


def _convolve(x: Any, w: Any, bias: Any, strides: Any, dilations: Any, group: int) -> Any:
    n = w.dim() - 2
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}.get(n)
    if function is None:
        raise NotImplementedError(f"Conv: {n} spatial dimensions are not provided (1 to 3 are)")
    return function(x, w, bias, strides, 0, dilations, group)


def convolution(c: Call, x: Any, w: Any, bias: Any = None) -> Any:
    n = x.dim() - 2
    strides, dilations = spatial(c.get("strides"), n, 1), spatial(c.get("dilations"), n, 1)
    pads = _pads(c, list(x.shape[2:]), list(w.shape[2:]), strides, dilations)
    if pads[:n] == pads[n:] and n in (1, 2, 3):
        function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]
        return function(x, w, bias, strides, pads[:n], dilations, c.get("group", 1))
    return _convolve(_pad_spatial(x, pads), w, bias, strides, dilations, c.get("group", 1))


@handler("Conv")
def conv(c: Call, x: Any, w: Any, bias: Any = None) -> Any:
    return convolution(c, x, w, bias)


@handler("ConvInteger")
def conv_integer(c: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    x = shifted(x, x_zero, None).to(flow.float64)
    return flow.round(convolution(c, x, shifted(w, w_zero, 0).to(flow.float64))).to(flow.int32)


@handler("ConvTranspose")
def conv_transpose(c: Call, x: Any, w: Any, bias: Any = None) -> Any:
    n = x.dim() - 2
    strides, dilations = spatial(c.get("strides"), n, 1), spatial(c.get("dilations"), n, 1)
    extra, wanted = spatial(c.get("output_padding"), n, 0), c.get("output_shape")
    auto = c.text("auto_pad", "NOTSET")
    full = [(x.shape[2 + i] - 1) * strides[i] + (w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(n)]
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        sizes = list(wanted)[-n:] if wanted is not None else [x.shape[2 + i] * strides[i] for i in range(n)]
        totals = [full[i] + extra[i] - sizes[i] for i in range(n)]
        small = [t // 2 for t in totals]
        large = [t - s for t, s in zip(totals, small, strict=True)]
        pads = small + large if auto == "SAME_UPPER" else large + small
    else:
        pads = spatial(c.get("pads"), 2 * n, 0) if auto != "VALID" else [0] * (2 * n)
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[n]
    y = function(x, w, None, strides, 0, 0, c.get("group", 1), dilations)
    # What remains is cut off, and what lies behind the last element is zero.
    y = _pad_spatial(y, [-p for p in pads[:n]] + [e - p for e, p in zip(extra, pads[n:], strict=True)])
    return y if bias is None else y + bias.reshape(1, -1, *[1] * n)


@handler("DeformConv")
def deform_conv(c: Call, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
    strides, dilations = spatial(c.get("strides"), 2, 1), spatial(c.get("dilations"), 2, 1)
    pads, group, offset_group = spatial(c.get("pads"), 4, 0), c.get("group", 1), c.get("offset_group", 1)
    b, channels, h, width = x.shape
    out_channels, _, kh, kw = w.shape
    oh, ow = offset.shape[2:]
    offset = offset.reshape(b, offset_group, kh * kw, 2, oh, ow)
    row = flow.arange(oh) * strides[0] - pads[0]
    column = flow.arange(ow) * strides[1] - pads[1]
    ky = (flow.arange(kh) * dilations[0]).reshape(-1, 1).expand(kh, kw).reshape(-1)
    kx = (flow.arange(kw) * dilations[1]).reshape(1, -1).expand(kh, kw).reshape(-1)
    y = ky.reshape(-1, 1, 1) + row.reshape(1, -1, 1) + offset[:, :, :, 0]
    xx = kx.reshape(-1, 1, 1) + column.reshape(1, 1, -1) + offset[:, :, :, 1]
    parts = x.reshape(b, offset_group, channels // offset_group, h * width)
    sampled = _bilinear(parts, y, xx, h, width)
    if mask is not None:
        sampled = sampled * mask.reshape(b, offset_group, 1, kh * kw, oh, ow)
    columns = sampled.reshape(b, group, channels // group * kh * kw, oh * ow)
    weights = w.reshape(group, out_channels // group, -1)
    out = flow.matmul(weights, columns).reshape(b, out_channels, oh, ow)
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


def _bilinear(x: Any, y: Any, xx: Any, h: int, w: int) -> Any:
    """Samples (B, G, C, H * W) at (B, G, K, OH, OW); outside lie zeros."""
    y0, x0 = flow.floor(y), flow.floor(xx)
    result: Any = 0
    b, g, channels, _ = x.shape
    for dy, dx in itertools.product((0, 1), (0, 1)):
        py, px = y0 + dy, x0 + dx
        weight = (1 - flow.abs(y - py)) * (1 - flow.abs(xx - px))
        inside = (py >= 0) & (py < h) & (px >= 0) & (px < w)
        index = (flow.clamp(py, 0, h - 1) * w + flow.clamp(px, 0, w - 1)).to(flow.int64)
        flat = index.reshape(b, g, 1, -1).expand(b, g, channels, -1)
        found = flow.gather(x, 3, flat).reshape(b, g, channels, *y.shape[2:])
        result = result + found * (weight * inside.to(weight.dtype)).unsqueeze(2)
    return result


@handler("Col2Im")
def col2im(c: Call, x: Any, image: Any, block: Any) -> Any:
    sizes, kernel = c.ints(image), c.ints(block)
    n = len(sizes)
    strides, dilations = spatial(c.get("strides"), n, 1), spatial(c.get("dilations"), n, 1)
    pads = spatial(c.get("pads"), 2 * n, 0)
    whole = [sizes[i] + pads[i] + pads[n + i] for i in range(n)]
    steps = [(whole[i] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(n)]
    place = flow.zeros([1] * (2 * n), dtype=flow.int64)
    for i in range(n):
        a, b = [1] * (2 * n), [1] * (2 * n)
        a[i], b[n + i] = kernel[i], steps[i]
        along = flow.arange(kernel[i]).reshape(a) * dilations[i] + flow.arange(steps[i]).reshape(b) * strides[i]
        place = place * whole[i] + along
    batch, channels = x.shape[0], x.shape[1] // math.prod(kernel)
    flat = flow.zeros(batch, channels, math.prod(whole), dtype=x.dtype)
    index = place.reshape(1, 1, -1).expand(batch, channels, place.numel())
    y = flow.scatter_add(flat, 2, index, x.reshape(batch, channels, -1)).reshape(batch, channels, *whole)
    return _pad_spatial(y, [-p for p in pads])


def _windows(c: Call, x: Any, fill: Any) -> tuple[Any, Any, list[int]]:
    """All windows of a pool: (values (B, C, *outputs, K), places in the input or -1 (*outputs, K), output sizes)."""
    kernel = list(c.need("kernel_shape"))
    n, sizes = len(kernel), list(x.shape[2:])
    strides, dilations = spatial(c.get("strides"), n, 1), spatial(c.get("dilations"), n, 1)
    given = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    if any(len(numbers) != len(sizes) or min(numbers, default=1) < 1 for numbers in given.values()):
        raise ValueError(f"{c.op}: {given} do not fit an input of sizes {list(x.shape)}")
    pads = _pads(c, sizes, kernel, strides, dilations)
    out = []
    for i in range(n):
        span = sizes[i] + pads[i] + pads[n + i] - ((kernel[i] - 1) * dilations[i] + 1)
        count = -(-span // strides[i]) + 1 if c.get("ceil_mode", 0) else span // strides[i] + 1
        # A window must begin in the input or in the padding before it.
        if c.get("ceil_mode", 0) and (count - 1) * strides[i] >= sizes[i] + pads[i]:
            count -= 1
        out.append(count)
    place = flow.zeros([1] * (2 * n), dtype=flow.int64)
    inside, padding = (flow.ones([1] * (2 * n), dtype=flow.bool) for _ in range(2))
    for i in range(n):
        a, b = [1] * (2 * n), [1] * (2 * n)
        a[i], b[n + i] = out[i], kernel[i]
        along = flow.arange(out[i]).reshape(a) * strides[i] - pads[i] + flow.arange(kernel[i]).reshape(b) * dilations[i]
        inside = inside & (along >= 0) & (along < sizes[i])
        padding = padding & (along < sizes[i] + pads[n + i])
        place = place * sizes[i] + flow.clamp(along, 0, sizes[i] - 1)
    shape = [*out, math.prod(kernel)]
    place, inside = place.reshape(shape), inside.expand(*out, *kernel).reshape(shape)
    padding = padding.expand(*out, *kernel).reshape(shape)
    flat = x.reshape(x.shape[0], x.shape[1], -1)
    values = flat.index_select(2, place.reshape(-1)).reshape(x.shape[0], x.shape[1], *shape)
    values = flow.where(inside, values, flow.full((), fill, dtype=x.dtype))
    return values, (place, inside, padding), out


def _lowest(dtype: Any) -> Any:
    return -math.inf if dtype.is_floating_point else flow.iinfo(dtype).min


@handler("MaxPool")
def max_pool(c: Call, x: Any) -> Any:
    kernel = list(c.need("kernel_shape"))
    n = len(kernel)
    fast = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}.get(n)
    pads = spatial(c.get("pads"), 2 * n, 0)
    if (
        c.n_outputs == 1
        and fast is not None
        and x.is_floating_point()
        and c.text("auto_pad", "NOTSET") in ("", "NOTSET")
        and pads[:n] == pads[n:]
        and all(2 * p <= k for p, k in zip(pads, kernel, strict=False))
    ):
        strides, dilations = spatial(c.get("strides"), n, 1), spatial(c.get("dilations"), n, 1)
        return fast(x, kernel, strides, pads[:n], dilations, ceil_mode=bool(c.get("ceil_mode", 0)))
    values, (place, _, _), _ = _windows(c, x, _lowest(x.dtype))
    best = flow.argmax(values, dim=-1, keepdim=True)
    result = flow.gather(values, -1, best).squeeze(-1)
    if c.n_outputs == 1:
        return result
    index = flow.gather(place.expand(values.shape), -1, best).squeeze(-1)
    sizes = list(x.shape[2:])
    if c.get("storage_order", 0) and len(sizes) > 1:
        digits, rest = [], index
        for size in reversed(sizes):
            digits.append(flow.remainder(rest, size))
            rest = flow.div(rest, size, rounding_mode="floor")
        index = flow.zeros_like(index)
        for digit, size in zip(digits, reversed(sizes), strict=True):
            index = index * size + digit
    planes = flow.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *[1] * len(sizes))
    return result, index + planes * math.prod(sizes)


@handler("AveragePool")
def average_pool(c: Call, x: Any) -> Any:
    values, (_, inside, padding), _ = _windows(c, x, 0)
    counted = padding if c.get("count_include_pad", 0) else inside
    return flow.sum(values, -1) / flow.sum(counted.to(x.dtype), -1)


@handler("LpPool")
def lp_pool(c: Call, x: Any) -> Any:
    p = c.get("p", 2)
    values, _, _ = _windows(c, x, 0)
    return flow.sum(flow.abs(values) ** p, -1) ** (1.0 / p)


@handler("GlobalAveragePool")
def global_average_pool(c: Call, x: Any) -> Any:
    return flow.mean(x, list(range(2, x.dim())), keepdim=True)


@handler("GlobalMaxPool")
def global_max_pool(c: Call, x: Any) -> Any:
    return flow.amax(x, list(range(2, x.dim())), keepdim=True)


@handler("MaxUnpool")
def max_unpool(c: Call, x: Any, index: Any, shape: Any = None) -> Any:
    kernel = list(c.need("kernel_shape"))
    n = len(kernel)
    strides, pads = spatial(c.get("strides"), n, 1), spatial(c.get("pads"), 2 * n, 0)
    sizes = [(x.shape[2 + i] - 1) * strides[i] - pads[i] - pads[n + i] + kernel[i] for i in range(n)]
    wanted = sizes if shape is None else c.ints(shape)[2:]
    count, plane = x.shape[0] * x.shape[1], math.prod(sizes)
    # Indices count through the whole tensor of the inferred sizes; a larger result holds it at its front.
    flat = flow.zeros(count * plane, dtype=x.dtype)
    y = flow.scatter(flat, 0, index.reshape(-1), x.reshape(-1)).reshape(*x.shape[:2], *sizes)
    return _pad_spatial(y, [0] * n + [w - s for w, s in zip(wanted, sizes, strict=True)])


@handler("CausalConvWithState")
def causal_conv(c: Call, x: Any, w: Any, bias: Any = None, state: Any = None) -> Any:
    k = w.shape[-1]
    if state is None:
        state = flow.zeros(x.shape[0], x.shape[1], k - 1, dtype=x.dtype)
    joined = flow.cat([state, x], 2)
    y = F.conv1d(joined, w, bias, 1, 0, 1, x.shape[1])
    activation = c.text("activation", "none").lower()
    if activation in ("silu", "swish"):
        y = y * flow.sigmoid(y)
    return y, joined.narrow(2, joined.shape[2] - (k - 1), k - 1)
