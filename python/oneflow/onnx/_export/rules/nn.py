"""Layers: products, convolutions, pools, normalizations, attention, resizing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import oneflow as flow
from oneflow.onnx._export.rules import Op, rule, static


@rule("linear")
def linear(n: Op) -> Any:
    b, meta = n.b, n.meta("input")
    if meta.rank == 2 and n.meta("weight").rank == 2:
        return b.node("Gemm", n.x(), n.x("weight"), n.x("bias"), transB=1)
    weight = n.x("weight") if n.meta("weight").rank < 2 else b.node("Transpose", n.x("weight"), perm=[1, 0])
    y = b.node("MatMul", n.x(), weight)
    return b.node("Add", y, n.x("bias")) if n.has("bias") else y


@rule("matmul", "mm", "bmm", "mv", "dot", "vdot", "_int_mm")
def matmul(n: Op) -> Any:
    other = next(k for k in ("other", "mat2", "vec", "tensor") if n.has(k))
    return n.b.node("MatMul", n.x("input", n.out.dtype), n.x(other, n.out.dtype))


@rule("addmm", "baddbmm")
def addmm(n: Op) -> Any:
    b, dtype, alpha, beta = n.b, n.out.dtype, n.args["alpha"], n.args["beta"]
    if n.name == "addmm" and dtype.is_floating_point:
        return b.node("Gemm", n.x("mat1"), n.x("mat2"), n.x(), alpha=float(alpha), beta=float(beta))
    one, other = ("mat1", "mat2") if n.name == "addmm" else ("batch1", "batch2")
    y, x = b.node("MatMul", n.x(one), n.x(other)), n.x()
    y = y if alpha == 1 else b.node("Mul", y, b.const(alpha, dtype))
    x = x if beta == 1 else b.node("Mul", x, b.const(beta, dtype))
    return b.node("Add", x, y)


@rule("native_conv")
def conv(n: Op) -> Any:
    pads = list(n.args["padding"])
    return n.b.node(
        "Conv",
        n.x(),
        n.x("weight"),
        n.x("bias"),
        kernel_shape=n.meta("weight").sizes[2:],
        strides=n.args["stride"],
        pads=pads + pads,
        dilations=n.args["dilation"],
        group=n.args["groups"],
    )


@rule("conv_backward_input")
def conv_transpose(n: Op) -> Any:
    """A transposed convolution is the gradient of a convolution."""
    kernel, size = n.meta("weight").sizes[2:], n.meta("grad_output").sizes[2:]
    stride, pads, dilation = n.args["stride"], n.args["padding"], n.args["dilation"]
    if not all(map(static, size)):
        raise n.refuse("of an open size has no ONNX form here")
    # The part of the output beyond the last window.
    extra = [
        out - ((s - 1) * st - 2 * p + d * (k - 1) + 1)
        for out, s, st, p, d, k in zip(n.out.sizes[2:], size, stride, pads, dilation, kernel, strict=True)
    ]
    return n.b.node(
        "ConvTranspose",
        n.x("grad_output"),
        n.x("weight"),
        n.x("bias"),
        kernel_shape=kernel,
        strides=stride,
        pads=[*pads, *pads],
        dilations=dilation,
        output_padding=extra,
        group=n.args["groups"],
    )


@rule("batch_norm_inference")
def batch_norm(n: Op) -> Any:
    channels = n.meta("mean").sizes
    weight = n.x("weight") or n.b.const(flow.ones(channels, dtype=n.meta("mean").dtype))
    bias = n.x("bias") or n.b.const(flow.zeros(channels, dtype=n.meta("mean").dtype))
    return n.b.node("BatchNormalization", n.x(), weight, bias, n.x("mean"), n.x("var"), epsilon=n.args["eps"])


@rule("native_layer_norm")
def layer_norm(n: Op) -> Any:
    sizes = n.args["normalized_shape"]
    weight = n.x("weight") or n.b.const(flow.ones(sizes, dtype=n.out.dtype))
    y = n.b.node("LayerNormalization", n.x(), weight, n.x("bias"), axis=-len(sizes), epsilon=n.args["eps"])
    return [y, None, None]


@rule("native_rms_norm")
def rms_norm(n: Op) -> Any:
    b, dtype = n.b, n.out.dtype
    dims = list(range(-len(n.args["normalized_shape"]), 0))
    if b.opset >= 23 and n.has("weight"):
        y = b.node("RMSNormalization", n.x(), n.x("weight"), axis=dims[0], epsilon=n.args["eps"])
        return [y, None]
    wide = n.x("input", flow.float32)
    square = b.reduce("ReduceMean", b.node("Mul", wide, wide), dims, True)
    root = b.node("Sqrt", b.node("Add", square, b.const(n.args["eps"], flow.float32)))
    y = b.cast(b.node("Div", wide, root), flow.float32, dtype)
    return [b.node("Mul", y, n.x("weight")) if n.has("weight") else y, None]


@rule("group_norm_with_statistics")
def group_norm(n: Op) -> Any:
    b, meta, groups, dtype = n.b, n.meta("input"), n.args["num_groups"], n.out.dtype
    shape = [1, -1] + [1] * (meta.rank - 2)
    ones = b.const(flow.ones(groups, dtype=dtype))
    zeros = b.const(flow.zeros(groups, dtype=dtype))
    rows = b.node("Reshape", n.x(), b.const([0, groups, -1], flow.int64))
    y = b.node("InstanceNormalization", rows, ones, zeros, epsilon=n.args["eps"])
    y = b.node("Reshape", y, b.ints(meta.sizes)) if not all(map(static, meta.sizes)) else b.reshape(y, meta.sizes)
    for key, op in (("weight", "Mul"), ("bias", "Add")):
        if n.has(key):
            y = b.node(op, y, b.reshape(n.x(key), shape))
    return [y, None, None]


def _rounds_up(n: Op, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> int:
    for size, out, k, s, p, d in zip(
        n.meta("input").sizes[2:], n.args["output_size"], kernel, stride, padding, dilation, strict=True
    ):
        for have, made in zip(n.b.at_points(size), n.b.at_points(out), strict=True):
            if (have + 2 * p - d * (k - 1) - 1) // s + 1 != made:
                return 1
    return 0


@rule("native_max_pool")
def max_pool(n: Op) -> Any:
    b, kernel, stride, pads = n.b, n.args["kernel_size"], n.args["stride"], n.args["padding"]
    if not all(kernel):
        return _adaptive(n, "MaxPool")
    up = _rounds_up(n, kernel, stride, pads, n.args["dilation"])
    indices = n.is_read(1)
    made = b.node(
        "MaxPool",
        n.x(),
        n=2 if indices else 1,
        kernel_shape=kernel,
        strides=stride,
        pads=[*pads, *pads],
        dilations=n.args["dilation"],
        ceil_mode=up,
    )
    if not indices:
        return [made, None]
    # ONNX counts through the whole tensor, not through a plane.
    sizes = n.meta("input").sizes[2:]
    plane = b.ints([sizes[0]])
    for size in sizes[1:]:
        plane = b.node("Mul", plane, b.ints([size]))
    return [made[0], b.node("Mod", made[1], plane, fmod=0)]


@rule("native_avg_pool")
def avg_pool(n: Op) -> Any:
    kernel, stride, pads = n.args["kernel_size"], n.args["stride"], n.args["padding"]
    if not all(kernel):
        return _adaptive(n, "AveragePool")
    count = math.prod(kernel)
    made = n.b.node(
        "AveragePool",
        n.x(),
        kernel_shape=kernel,
        strides=stride,
        pads=[*pads, *pads],
        count_include_pad=int(n.args["count_include_pad"] or bool(n.args["divisor"])),
        ceil_mode=_rounds_up(n, kernel, stride, pads, [1] * len(kernel)),
    )
    divisor = n.args["divisor"]
    return made if not divisor else n.b.node("Mul", made, n.b.const(count / divisor, n.out.dtype))


def _adaptive(n: Op, op: str) -> Any:
    """A pool by the size of its result. Where windows differ in size, they are read by tables of their places."""
    sizes, out = n.meta("input").sizes[2:], n.args["output_size"]
    is_max = op == "MaxPool"
    indices = is_max and n.is_read(1)
    if all(o == 1 for o in out) and not indices:
        made = n.b.node("Global" + op, n.x())
    elif not all(map(static, sizes)):
        raise n.refuse(f"from sizes {sizes} to {out} has no ONNX form: the windows depend on a named dimension")
    elif all(s % o == 0 for s, o in zip(sizes, out, strict=True)) and not indices:
        kernel = [s // o for s, o in zip(sizes, out, strict=True)]
        made = n.b.node(op, n.x(), kernel_shape=kernel, strides=kernel)
    elif is_max:
        return _windowed_max(n, sizes, out)
    else:
        return _windowed_mean(n, sizes, out)
    return [made, None] if is_max else made


def _windows(size: int, n_windows: int) -> list[range]:
    return [range(i * size // n_windows, -(-(i + 1) * size // n_windows)) for i in range(n_windows)]


def _windowed_mean(n: Op, sizes: list[int], out: list[int]) -> Any:
    """One product with a matrix of means for each axis."""
    b, (batch, channels) = n.b, n.meta("input").sizes[:2]
    x, rows, columns = n.x(), channels, math.prod(sizes)
    for size, n_windows in zip(sizes, out, strict=True):
        columns //= size
        means = flow.zeros(n_windows, size, dtype=n.out.dtype)
        for row, window in zip(means, _windows(size, n_windows), strict=True):
            row[window.start : window.stop] = 1 / len(window)
        x = b.node("MatMul", b.const(means), b.reshape(x, [batch, rows, size, columns]))
        rows *= n_windows
    return b.reshape(x, n.out.sizes)


def _windowed_max(n: Op, sizes: list[int], out: list[int]) -> Any:
    """The largest element of each row of a table of places in the plane; short rows repeat their first place."""
    b, (batch, channels) = n.b, n.meta("input").sizes[:2]
    places = [[0]] * math.prod(out)
    for i, cell in enumerate(itertools.product(*map(_windows, sizes, out))):
        places[i] = [_place(at, sizes) for at in itertools.product(*cell)]
    longest = max(map(len, places))
    table = b.const([row + row[:1] * (longest - len(row)) for row in places], flow.int64)
    found = b.node("Gather", b.reshape(n.x(), [batch, channels, math.prod(sizes)]), table, axis=2)
    largest = b.reshape(b.reduce("ReduceMax", found, [3], False), n.out.sizes)
    if not n.is_read(1):
        return [largest, None]
    starts = b.const([i * longest for i in range(len(places))], flow.int64)
    at = b.node("Add", b.node("ArgMax", found, axis=3, keepdims=0), starts)
    return [largest, b.reshape(b.node("Gather", b.reshape(table, [-1]), at, axis=0), n.out.sizes)]


def _place(at: tuple[int, ...], sizes: list[int]) -> int:
    place = 0
    for i, size in zip(at, sizes, strict=True):
        place = place * size + i
    return place


@rule("resample")
def resample(n: Op) -> Any:
    b, mode, meta = n.b, n.args["mode"], n.meta("input")
    coordinate = "align_corners" if n.args["align_corners"] else "half_pixel"
    attributes: dict[str, Any] = {}
    if mode == "nearest":
        attributes = {"mode": "nearest", "nearest_mode": "floor"}
        coordinate = "asymmetric"
    elif mode == "nearest-exact":
        attributes = {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
    elif mode == "area" and all(map(static, meta.sizes[2:])):
        return _windowed_mean(n, meta.sizes[2:], n.out.sizes[2:])
    elif mode not in ("linear", "bilinear", "trilinear", "cubic", "bicubic"):
        raise n.refuse(f"of mode {mode!r} has no ONNX form")
    else:
        attributes = {"mode": "cubic" if "cubic" in mode else "linear"}
        if "cubic" in mode:
            attributes["cubic_coeff_a"] = -0.75
        if n.args["antialias"]:
            if b.opset < 18:
                raise n.refuse("with antialias needs opset 18")
            attributes.update(antialias=1, exclude_outside=1, cubic_coeff_a=-0.5)
    attributes["coordinate_transformation_mode"] = coordinate
    ratios = n.args["scales"]
    if ratios and not n.args["align_corners"] and all(r > 0 for r in ratios):
        scales = b.const([1.0, 1.0] + [1 / r for r in ratios], flow.float32)
        exact = all(
            static(s) and static(o) and math.floor(s / r) == o
            for s, r, o in zip(meta.sizes[2:], ratios, n.args["size"], strict=True)
        )
        if exact or not all(map(static, meta.sizes[2:])):
            return b.node("Resize", n.x(), None, scales, **attributes)
    return b.node("Resize", n.x(), None, None, b.ints([*meta.sizes[:2], *n.args["size"]]), **attributes)


@rule("native_cross_entropy", "native_cross_entropy_reduced")
def cross_entropy(n: Op) -> Any:
    how = "none" if n.name == "native_cross_entropy" else "mean" if n.args["mean"] else "sum"
    if n.args["label_smoothing"] or n.meta("input").rank < 2:
        return [_smoothed_cross_entropy(n, how), None, None]
    loss = n.b.node(
        "SoftmaxCrossEntropyLoss",
        n.x(),
        n.x("target"),
        n.x("weight"),
        reduction=how,
        ignore_index=n.args["ignore_index"],
    )
    return [loss, None, None]


def _smoothed_cross_entropy(n: Op, how: str) -> Any:
    """With a part of the target spread over all classes; a single sample is a batch of one."""
    b, dtype, smoothing = n.b, n.meta("input").dtype, float(n.args["label_smoothing"])
    x, target, weight, sizes = n.x(), n.x("target"), n.x("weight"), n.meta("input").sizes
    if len(sizes) == 1:
        x, target, sizes = b.reshape(x, [1, *sizes]), b.reshape(target, [1]), [1, *sizes]
    logs = b.node("LogSoftmax", x, axis=1)
    ignored = n.args["ignore_index"]
    losses = b.node("NegativeLogLikelihoodLoss", logs, target, weight, reduction="none", ignore_index=ignored)
    counts = b.node("Not", b.node("Equal", target, b.const(ignored, n.meta("target").dtype)))
    counts = b.cast(counts, flow.bool, dtype)
    if smoothing:
        spread = logs if weight is None else b.node("Mul", logs, b.reshape(weight, [-1] + [1] * (len(sizes) - 2)))
        spread = b.node("Mul", b.reduce("ReduceSum", spread, [1], False), counts)
        spread = b.node("Mul", spread, b.const(-smoothing / sizes[1], dtype))
        losses = b.node("Add", b.node("Mul", losses, b.const(1 - smoothing, dtype)), spread)
    if how == "none":
        return b.reshape(losses, n.out.sizes)
    total = b.node("ReduceSum", losses, keepdims=0)
    if how == "mean":
        if weight is not None:
            zero = b.const(0, n.meta("target").dtype)
            seen = b.node("Where", b.cast(counts, dtype, flow.bool), target, zero)
            counts = b.node("Mul", counts, b.node("Gather", weight, seen, axis=0))
        total = b.node("Div", total, b.node("ReduceSum", counts, keepdims=0))
    return total


@rule("grid_sample")
def grid_sample(n: Op) -> Any:
    mode = n.args["mode"]
    if n.b.opset >= 20:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return n.b.node(
        "GridSample",
        n.x(),
        n.x("grid"),
        mode=mode,
        padding_mode=n.args["padding_mode"],
        align_corners=int(n.args["align_corners"]),
    )


@rule("native_attention")
def attention(n: Op) -> Any:
    b, q, k, dtype = n.b, n.meta("query"), n.meta("key"), n.out.dtype
    scale, causal = n.args["scale"], n.args["is_causal"]
    if n.args["dropout_p"]:
        raise n.refuse("with dropout has no ONNX form: export the model in eval mode")
    mask = n.x("attn_mask")
    if b.opset >= 23 and q.rank == 4:
        return [
            b.node("Attention", n.x("query"), n.x("key"), n.x("value"), mask, scale=scale, is_causal=int(causal)),
            None,
        ]
    keys, values = n.x("key"), n.x("value")
    heads, kv_heads = (m.sizes[1] if m.rank == 4 else 1 for m in (q, k))
    if heads != kv_heads and kv_heads != 1:
        keys, values = (_repeated(n, name, heads // kv_heads) for name in ("key", "value"))
    perm = list(range(k.rank))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    root = b.const(math.sqrt(scale), dtype) if scale > 0 else None
    if root is None:
        scores = b.node(
            "Mul", b.node("MatMul", n.x("query"), b.node("Transpose", keys, perm=perm)), b.const(scale, dtype)
        )
    else:
        scaled = b.node("Mul", b.node("Transpose", keys, perm=perm), root)
        scores = b.node("MatMul", b.node("Mul", n.x("query"), root), scaled)
    least = b.const(-math.inf, dtype)
    if causal:
        ones = b.node("Expand", b.const(1, flow.int64), b.ints([q.sizes[-2], k.sizes[-2]]))
        allowed = b.cast(b.node("Trilu", ones, upper=0), flow.int64, flow.bool)
        scores = b.node("Where", allowed, scores, least)
    if mask is not None:
        if n.meta("attn_mask").dtype == flow.bool:
            scores = b.node("Where", mask, scores, least)
        else:
            scores = b.node("Add", scores, n.x("attn_mask", dtype))
    weights = b.node("Softmax", scores, axis=-1)
    if mask is not None:
        # Rows that may attend to nothing have weights of zero.
        weights = b.node("Where", b.node("IsNaN", weights), b.const(0, dtype), weights)
    return [b.node("MatMul", weights, values), None]


def _repeated(n: Op, key: str, times: int) -> str:
    """Each head several times, one after the other."""
    b, (batch, heads, length, width) = n.b, n.meta(key).sizes
    x = b.node("Unsqueeze", n.x(key), b.ints([2]))
    x = b.node("Expand", x, b.ints([1, 1, times, 1, 1]))
    return b.reshape(x, [batch, heads * times, length, width])
