"""Functions that are one kernel in OneFlow, composed of public ops: the compiler fuses what it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import replicate_like
from oneflow._extra._checks import expect
from oneflow._extra.elementwise import bias_add, fast_gelu


def _functional() -> Any:
    return oneflow.nn.functional


# ---- products of matrices


def fused_matmul_bias(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    _add_to_output: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Tensor:
    """``alpha * a @ b.T + bias``: a (*, K), b (N, K), bias (N,), the result (*, N); plus ``beta`` times another."""
    y = _functional().linear(a, b) * alpha if alpha != 1.0 else _functional().linear(a, b)
    y = y if bias is None else y + bias
    return y if _add_to_output is None else y + _add_to_output * beta


def fused_matmul_bias_add_relu_dropout(
    x: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    skip_final_activation: bool = False,
    dropout_rate_list: Sequence[float] = (),
) -> Tensor:
    """Linear layers one after the other, each followed by relu and dropout; the last one only where wanted."""
    rates = list(dropout_rate_list) or [0.0] * len(weights)
    _check_layers(x, weights, biases)
    expect(
        len(rates) == len(weights),
        f"The number of dropout rates should be equal to weights, but got {len(rates)} and {len(weights)}",
    )
    for i, (weight, bias, rate) in enumerate(zip(weights, biases, rates, strict=True)):
        x = _functional().linear(x, weight, bias)
        if i + 1 < len(weights) or not skip_final_activation:
            x = x.relu()
        x = _functional().dropout(x, rate)
    return x


def _check_layers(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> None:
    expect(len(weights) >= 1, "The number of weights should be greater equal than 1")
    expect(
        len(weights) == len(biases),
        f"The number of weights should be equal to biases, but got {len(weights)} and {len(biases)}",
    )
    width = x.shape[-1]
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        expect(weight.dim() == 2, f"Weight's dim size should == 2, but weight {i} has {weight.dim()}")
        expect(bias.dim() == 1, f"Bias's dim size should == 1, but bias {i} has {bias.dim()}")
        expect(
            bias.shape[0] == weight.shape[0],
            f"Bias's dim is not equal to weight's first dim. ({bias.shape[0]} and {weight.shape[0]} of layer {i})",
        )
        expect(
            weight.shape[1] == width,
            f"weight's second dim should be equal to input's second dim. ({weight.shape[1]} and {width} of layer {i})",
        )
        width = weight.shape[0]


def fused_mlp(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], skip_final_activation: bool = False
) -> Tensor:
    """Linear layers one after the other with relu between them, and after the last one unless it is skipped."""
    return fused_matmul_bias_add_relu_dropout(x, weights, biases, skip_final_activation)


def grouped_matmul(xs: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """``x @ weight.T`` for each pair."""
    return [_functional().linear(x, weight) for x, weight in zip(xs, weights, strict=True)]


def grouped_matmul_bias(xs: Sequence[Tensor], weights: Sequence[Tensor], biases: Sequence[Tensor]) -> list[Tensor]:
    """``x @ weight.T + bias`` for each triple."""
    return [_functional().linear(*each) for each in zip(xs, weights, biases, strict=True)]


_GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "sigmoid": lambda x: x.sigmoid(),
    "relu": lambda x: x.relu(),
    "gelu": lambda x: _functional().gelu(x),
    "fast_gelu": fast_gelu,
    "silu": lambda x: _functional().silu(x),
}


def fused_glu(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    v: Tensor | None = None,
    c: Tensor | None = None,
    split_mode: bool = False,
    activation: str = "none",
) -> Tensor:
    """A gated linear unit: one linear layer times the activation of another.

    Args:
        x: (*, K).
        w, b: of the layer, (N, K) and (N,); without ``v`` of both, (2N, K) and (2N,), the gate's last.
        v, c: of the gate, (N, K) and (N,).
        split_mode: whether ``v`` is given.
        activation: none, sigmoid, relu, gelu, fast_gelu or silu.
    """
    if activation not in _GATES:
        raise ValueError(f"fused_glu: activation must be one of {', '.join(_GATES)}, not {activation!r}")
    if v is not None:
        hidden, gate = _functional().linear(x, w, b), _functional().linear(x, v, c)
    else:
        hidden, gate = _functional().linear(x, w, b).chunk(2, -1)
    return hidden * _GATES[activation](gate)


# ---- bias, dropout, normalisation


def fused_bias_add_gelu(a: Tensor, b: Tensor, axis: int = 1) -> Tensor:
    """GELU of ``a`` plus a vector along a dimension."""
    return _functional().gelu(bias_add(a, b, axis))


def fused_bias_add_dropout(a: Tensor, b: Tensor, p: float = 0.5, axis: int = 1, training: bool = True) -> Tensor:
    """Dropout of ``a`` plus a vector along a dimension."""
    return _functional().dropout(bias_add(a, b, axis), p, training)


def skip_layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    skip: Tensor | None = None,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
) -> Tensor:
    """Layer norm over the last dimension of ``x + bias + alpha * skip``."""
    return _functional().layer_norm(_with_skip(x, bias, skip, alpha), (x.shape[-1],), gamma, beta, epsilon)


def skip_rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    skip: Tensor | None = None,
    epsilon: float = 1e-5,
    alpha: float = 1.0,
) -> Tensor:
    """RMS norm over the last dimension of ``x + bias + alpha * skip``."""
    return _functional().rms_norm(_with_skip(x, bias, skip, alpha), (x.shape[-1],), weight, epsilon)


def _with_skip(x: Tensor, bias: Tensor | None, skip: Tensor | None, alpha: float) -> Tensor:
    x = x if bias is None else x + bias
    return x if skip is None else x + alpha * skip


def rms_layer_norm(hidden_states: Tensor, weight: Tensor, variance_epsilon: float = 1e-6) -> Tensor:
    """T5's layer norm: RMS norm over the last dimension, then scale."""
    return _functional().rms_norm(hidden_states, (hidden_states.shape[-1],), weight, variance_epsilon)


def layer_norm_affine(
    x: Tensor, gamma: Tensor, beta: Tensor, begin_norm_axis: int, begin_params_axis: int, epsilon: float = 1e-5
) -> Tensor:
    """Layer norm over the dimensions from ``begin_norm_axis`` on, then scale and shift."""
    return _functional().layer_norm(x, tuple(x.shape[begin_norm_axis:]), gamma, beta, epsilon)


def normalization(
    x: Tensor,
    moving_mean: Tensor | None,
    moving_variance: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    is_training: bool = False,
) -> Tensor:
    """Batch norm with channels along ``axis``; in training the moving statistics keep ``momentum`` of themselves."""
    expect(x.dim() >= 2, f"NumAxes of x should be greater or equal than 2. Got {x.dim()}")
    expect(
        (moving_mean is None) == (moving_variance is None),
        "Both moving_mean and moving_variance should be None or Tensor.",
    )
    expect(is_training or moving_mean is not None, "Must have moving_mean and moving_variance in eval mode.")
    y = _functional().batch_norm(
        x.movedim(axis, 1), moving_mean, moving_variance, gamma, beta, is_training, 1 - momentum, epsilon
    )
    return y.movedim(1, axis)


def normalization_add_relu(
    x: Tensor,
    addend: Tensor | None,
    moving_mean: Tensor | None,
    moving_variance: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    axis: int = 1,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    is_training: bool = False,
) -> Tensor:
    """``relu(normalization(x) + addend)``."""
    y = normalization(x, moving_mean, moving_variance, gamma, beta, axis, epsilon, momentum, is_training)
    return (y if addend is None else y + addend).relu()


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The mean and the inverse deviation of each channel of (N, C, *)."""
    dims = (0, *range(2, input.dim()))
    var, mean = oneflow.var_mean(input.float(), dims, correction=0)
    return mean, (var + eps).rsqrt()


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float = 0.0
) -> Tensor:
    """Normalise (N, C, *) by given statistics, scale and shift."""
    return _functional().batch_norm(input, mean, invstd.square().reciprocal(), weight, bias, False, 0.0, 0.0)


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Join statistics of several ranks, (ranks, C), of ``counts`` elements each; moves the running ones in place."""
    counts = counts.reshape(-1, 1).to(mean.dtype)
    total = counts.sum()
    joined = (mean * counts).sum(0) / total
    var = ((invstd.square().reciprocal() - eps + (mean - joined).square()) * counts).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(joined, alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_(var * total / (total - 1), alpha=momentum)
    return joined, (var + eps).rsqrt()


def batch_norm_backward_reduce(
    grad_out: Tensor, input: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None, *wanted: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums of batch norm's backward: of the gradient, of it times the centred input, and the weights' gradients."""
    dims = (0, *range(2, input.dim()))
    centred = input - _channels(mean, input)
    sum_dy, sum_dy_xmu = grad_out.sum(dims), (grad_out * centred).sum(dims)
    return sum_dy, sum_dy_xmu, sum_dy_xmu * invstd, sum_dy


def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input of batch norm, from sums over all ranks of ``count`` elements."""
    total = count.sum()
    scale = invstd if weight is None else invstd * weight
    slope = sum_dy_xmu * invstd.square() / total
    centred = input - _channels(mean, input)
    return (grad_out - _channels(sum_dy / total, input) - centred * _channels(slope, input)) * _channels(scale, input)


def _channels(x: Tensor, like: Tensor) -> Tensor:
    return x.reshape(1, -1, *([1] * (like.dim() - 2)))


# ---- masked softmax


def fused_scale_mask_softmax(x: Tensor, mask: Tensor, fill_value: float = 0.0, scale: float = 1.0) -> Tensor:
    """Softmax over the last dimension of ``x * scale`` where ``mask`` is true, of ``fill_value`` elsewhere."""
    return oneflow.where(mask.bool(), x * scale, fill_value).softmax(-1)


def fused_scale_mask_softmax_dropout(
    x: Tensor,
    mask: Tensor,
    fill_value: float = 0.0,
    scale: float = 1.0,
    p: float = 0.5,
    train: bool = True,
) -> tuple[Tensor, Tensor]:
    """Dropout of :func:`fused_scale_mask_softmax`, and that itself."""
    y = fused_scale_mask_softmax(x, mask, fill_value, scale)
    return _functional().dropout(y, p, train), y


def fused_bias_add_scale_mask_softmax_dropout(
    x: Tensor,
    bias: Tensor,
    mask: Tensor,
    fill_value: float = 0.0,
    scale: float = 1.0,
    p: float = 0.5,
    train: bool = True,
) -> tuple[Tensor, Tensor]:
    """As :func:`fused_scale_mask_softmax_dropout`, of ``x + bias``."""
    return fused_scale_mask_softmax_dropout(x + bias, mask, fill_value, scale, p, train)


def fused_scale_mask_bias_softmax(
    x: Tensor, mask: Tensor, bias: Tensor | None = None, scale: float = 1.0, inplace: bool = False
) -> Tensor:
    """Softmax over the last dimension of ``x * scale + mask + bias``."""
    y = x * scale + mask
    return (y if bias is None else y + bias).softmax(-1)


def fused_scale_tril(x: Tensor, diagonal: int = 0, fill_value: float = 0.0, scale: float = 1.0) -> Tensor:
    """``x * scale`` up to a diagonal of the last two dimensions, ``fill_value`` above it."""
    lower = replicate_like(x, oneflow.ones(x.shape[-2:], dtype=oneflow.bool, device=x.device).tril(diagonal))
    return oneflow.where(lower, x * scale, fill_value)


def fused_scale_tril_softmax_mask_scale(
    a: Tensor,
    p: float = 0.5,
    diagonal: int = 0,
    tril_scale_value: float = 1.0,
    tril_fill_value: float = 0.0,
    training: bool = True,
) -> tuple[Tensor, Tensor]:
    """Dropout of the softmax of :func:`fused_scale_tril`, and the softmax itself."""
    y = fused_scale_tril(a, diagonal, tril_fill_value, tril_scale_value).softmax(-1)
    return _functional().dropout(y, p, training), y


# ---- sums and interactions of features


def fused_weighted_sum(inputs: Sequence[Tensor], weights: Sequence[float], alpha: float = 1.0) -> Tensor:
    """``alpha * sum(weight * input)``."""
    if len(inputs) != len(weights) or not inputs:
        raise ValueError(f"fused_weighted_sum: {len(inputs)} inputs and {len(weights)} weights")
    total = inputs[0] * (alpha * weights[0])
    for x, weight in zip(inputs[1:], weights[1:], strict=True):
        total = total + x * (alpha * weight)
    return total


def fused_dot_feature_interaction(
    features: Sequence[Tensor],
    output_concat: Tensor | None = None,
    self_interaction: bool = False,
    output_padding: int = 0,
    pooling: str | None = None,
) -> Tensor:
    """Products of the feature vectors of each sample with each other, as in DLRM.

    Args:
        features: (batch, n_i, width) each; n is their sum.
        output_concat: (batch, width), put before the products.
        self_interaction: also the product of each vector with itself.
        output_padding: zeros after the products.
        pooling: "sum" adds the elementwise products of all pairs instead: (batch, width).

    Returns:
        (batch, width of output_concat + n (n - 1) / 2 + padding).
    """
    x = oneflow.cat([f if f.dim() == 3 else f.unsqueeze(1) for f in features], 1)
    if pooling == "sum":
        return (x.sum(1).square() - x.square().sum(1)) * 0.5
    if pooling not in (None, "none"):
        raise ValueError(f"fused_dot_feature_interaction: pooling must be 'sum' or 'none', not {pooling!r}")
    n = x.shape[1]
    rows, columns = replicate_like(
        x, oneflow.tril_indices(n, n, 0 if self_interaction else -1, device=x.device)
    ).unbind(0)
    parts = [x.matmul(x.transpose(1, 2))[:, rows, columns]]
    if output_concat is not None:
        parts.insert(0, output_concat)
    if output_padding:
        parts.append(x.new_zeros((x.shape[0], output_padding)))
    return oneflow.cat(parts, 1)


def fused_cross_feature_interaction(
    x: Tensor, weight: Tensor, x0: Tensor, bias: Tensor, interaction_mode: str = "vector"
) -> Tensor:
    """A layer of a deep and cross network.

    Args:
        x, x0: (batch, width).
        weight: (1, width) in mode "vector", (width, width) in mode "matrix".
        bias: (width,).
    """
    if interaction_mode == "vector":
        return x0 * x.matmul(weight.t()) + bias + x
    if interaction_mode == "matrix":
        return x0 * (x.matmul(weight.t()) + bias) + x
    raise ValueError(f"interaction_mode must be 'vector' or 'matrix', not {interaction_mode!r}")


def fused_clip_grad(model_diff: Sequence[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale gradients in place so that their common norm is at most ``max_norm``; returns the norm before."""
    with oneflow.no_grad():
        norms = oneflow.stack([oneflow.linalg.vector_norm(g, norm_type) for g in model_diff])
        total = oneflow.linalg.vector_norm(norms, norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for g in model_diff:
            g.mul_(scale)
    return total
