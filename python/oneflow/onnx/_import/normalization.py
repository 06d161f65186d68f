"""Normalizations and dropout."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
from oneflow.nn import functional as F
from oneflow.onnx._import.registry import Call, axis_of, handler
from oneflow.onnx._import.values import dtype_of


def _along_channels(v: Any, rank: int) -> Any:
    return v.reshape(1, -1, *[1] * (rank - 2))


@handler("BatchNormalization")
def batch_normalization(c: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    epsilon, momentum = c.get("epsilon", 1e-5), c.get("momentum", 0.9)
    training = bool(c.get("training_mode", 0)) if c.version >= 14 else c.version < 7 and not c.get("is_test", 0)
    if not training:
        # Not ``batch_norm``: an imported model that trains keeps the statistics of its file unless it says otherwise.
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
    dims = [i for i in range(x.dim()) if i != 1]
    batch_mean = flow.mean(x, dims)
    batch_var = flow.mean((x - _along_channels(batch_mean, x.dim())) ** 2, dims)
    y = F.batch_norm(x, batch_mean, batch_var, scale, bias, False, 0.0, epsilon)
    return (
        y,
        mean * momentum + batch_mean * (1 - momentum),
        var * momentum + batch_var * (1 - momentum),
        batch_mean,
        batch_var,
    )


@handler("InstanceNormalization")
def instance_normalization(c: Call, x: Any, scale: Any, bias: Any) -> Any:
    return F.instance_norm(x, weight=scale, bias=bias, eps=c.get("epsilon", 1e-5))


@handler("LayerNormalization")
def layer_normalization(c: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = axis_of(c.get("axis", -1), x.dim(), c.op)
    epsilon = c.get("epsilon", 1e-5)
    sizes = list(x.shape[axis:])
    if c.n_outputs == 1 and list(scale.shape) == sizes and x.dtype == scale.dtype:
        return F.layer_norm(x, sizes, scale, bias, epsilon)
    dims = list(range(axis, x.dim()))
    wide = x.to(dtype_of(c.get("stash_type", 1)))
    mean = flow.mean(wide, dims, keepdim=True)
    centered = wide - mean
    inverse = flow.rsqrt(flow.mean(centered * centered, dims, keepdim=True) + epsilon)
    y = (centered * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@handler("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(c: Call, x: Any, scale: Any) -> Any:
    axis = axis_of(c.get("axis", -1), x.dim(), c.op)
    wide = x.to(dtype_of(c.get("stash_type", 1)))
    square = flow.mean(wide * wide, list(range(axis, x.dim())), keepdim=True)
    return (wide * flow.rsqrt(square + c.get("epsilon", 1e-5))).to(x.dtype) * scale


@handler("SkipLayerNormalization", domain="com.microsoft")
def skip_layer_normalization(c: Call, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None) -> Any:
    total = x + skip if bias is None else x + skip + bias
    y = F.layer_norm(total, [x.shape[-1]], gamma, beta, c.get("epsilon", 1e-12))
    return y, None, None, total


@handler("SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_rms_normalization(c: Call, x: Any, skip: Any, gamma: Any, bias: Any = None) -> Any:
    total = x + skip if bias is None else x + skip + bias
    y = total * flow.rsqrt(flow.mean(total * total, -1, keepdim=True) + c.get("epsilon", 1e-12)) * gamma
    return y, None, None, total


@handler("GroupNormalization")
def group_normalization(c: Call, x: Any, scale: Any, bias: Any) -> Any:
    groups, epsilon = c.need("num_groups"), c.get("epsilon", 1e-5)
    if c.version >= 21:
        return F.group_norm(x, groups, scale, bias, epsilon)
    # Version 18 scales each group, not each channel.
    y = F.group_norm(x, groups, None, None, epsilon).reshape(x.shape[0], groups, -1)
    return (y * scale.reshape(1, -1, 1) + bias.reshape(1, -1, 1)).reshape(x.shape)


@handler("MeanVarianceNormalization")
def mean_variance_normalization(c: Call, x: Any) -> Any:
    axes = c.get("axes") or [0, 2, 3]
    mean = flow.mean(x, axes, keepdim=True)
    variance = flow.mean(x * x, axes, keepdim=True) - mean * mean
    return (x - mean) / (flow.sqrt(variance) + 1e-9)


@handler("LRN")
def local_response_normalization(c: Call, x: Any) -> Any:
    size, alpha, beta, bias = c.need("size"), c.get("alpha", 1e-4), c.get("beta", 0.75), c.get("bias", 1.0)
    before = (size - 1) // 2
    squares = F.pad(x * x, [0, 0] * (x.dim() - 2) + [before, size - 1 - before])
    total: Any = 0
    for i in range(size):
        total = total + squares.narrow(1, i, x.shape[1])
    return x / (bias + alpha / size * total) ** beta


@handler("Dropout")
def dropout(c: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    p = c.get("ratio", 0.5) if c.version < 12 else (0.5 if ratio is None else float(ratio.item()))
    active = training is not None and bool(training.item())
    if c.version < 7:
        active = not c.get("is_test", 0)
    mask_type = x.dtype if c.version < 10 else flow.bool
    if not active or p == 0.0:
        mask = flow.ones_like(x).to(mask_type) if c.n_outputs > 1 else None
        return (x, mask) if c.n_outputs > 1 else x
    seed = c.get("seed")
    if seed is not None:
        flow.manual_seed(int(seed))
    mask = flow.rand(x.shape, device=x.device) >= p
    scale = 0.0 if p >= 1 else 1 / (1 - p)
    return x * mask.to(x.dtype) * scale, mask.to(mask_type)


def scaled_by(total: int) -> float:
    return 1.0 / math.sqrt(total)
