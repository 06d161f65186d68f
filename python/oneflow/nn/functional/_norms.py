"""Norms of layers and channels: arguments, state and rare cases; the arithmetic is in the ops."""

from __future__ import annotations

from collections.abc import Sequence

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.amp import widened_on_host


def _check_batch(size: Sequence[int]) -> None:
    per_channel = size[0]
    for n in size[2:]:
        per_channel *= n
    if per_channel == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of ``input`` (N, C, *), then scale by ``weight`` (C,) and shift by ``bias`` (C,).

    Args:
        running_mean, running_var: (C,); they normalise unless ``training``, which mixes the batch's into them.
        momentum: the share of the batch's statistics in that mixture.
        eps: added to the variance.

    Raises:
        ValueError: a channel has a single value in training; or ``eps`` is negative, or zero in training.

    (Ioffe and Szegedy, "Batch Normalization", 2015.)

    Example::

        >>> F.batch_norm(oneflow.tensor([[0.0], [2.0]]), oneflow.zeros(1), oneflow.ones(1), training=True)
        tensor([[-1.0000],
                [ 1.0000]])
    """
    if training:
        _check_batch(input.shape)
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    if input.numel() == 0 and input.shape[0] == 0:
        # No elements to normalise: the affine map keeps the gradients' paths.
        output = input.clone() if weight is None else input * weight[0]
        return output if bias is None else output + bias[0]
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        return _oneflow._C.batch_norm_inference(input, weight, bias, running_mean, running_var, eps)
    output, _, _, running = _oneflow._C.batch_norm_training(
        input, weight, bias, running_mean, running_var, momentum, eps
    )
    if running_mean is not None and running_var is not None:
        mean, var = running.unbind(0)
        running_mean.copy_(mean)
        running_var.copy_(var)
    return output


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise ``num_groups`` groups of channels of ``input`` (N, C, *), then scale and shift each channel.

    Example::

        >>> F.group_norm(oneflow.tensor([[[0.0], [2.0]]]), 1)
        tensor([[[-1.0000],
                 [ 1.0000]]])
    """
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    values = 1
    for n in input.shape[2:]:
        values *= n
    for what, n in (("number of channels", input.shape[1]), ("HxW", values)):
        if n == 0:
            raise RuntimeError(f"Expected {what} to be greater than 0, got 0 (input {list(input.shape)})")
    if num_groups > 0:
        _check_batch([input.shape[0] * input.shape[1] // num_groups, num_groups, *input.shape[2:]])
    return _oneflow.group_norm(input, num_groups, weight, bias, eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample of ``input`` (N, C, *), then scale by ``weight`` and shift by ``bias``.

    Running statistics are the mean over the samples; they normalise unless ``use_input_stats``.

    Example::

        >>> F.instance_norm(oneflow.tensor([[[0.0, 2.0], [1.0, 5.0]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    values = 1
    for n in input.shape[2:]:
        values *= n
    if values == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    channels = input.shape[1]
    input = input.contiguous()
    output, mean, rstd = _oneflow._C.group_norm_with_statistics(input, channels, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        with oneflow.no_grad():
            var = (rstd.pow(-2) - eps) * (values / (values - 1))
            for running, new in ((running_mean, mean), (running_var, var)):
                running.copy_(running * (1 - momentum) + new.mean(0).to(running.dtype) * momentum)
    return output


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x / (k + alpha * mean of x ** 2 over size neighbouring channels) ** beta``, channels in dimension 1.

    Channels beyond the borders count as zero. (Krizhevsky et al., "ImageNet Classification with Deep CNNs", 2012.)

    Example::

        >>> F.local_response_norm(oneflow.ones(1, 3, 2), 2).shape
        oneflow.Size([1, 3, 2])
    """
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)"
        )
    if input.numel() == 0:
        return input
    channels = input.shape[1]
    squares = input * input
    if input.dim() > 3:
        # PyTorch takes the means by a pool of volumes.
        squares = widened_on_host(squares)
    before, after = size // 2, (size - 1) // 2
    shape = list(squares.shape)
    parts = []
    for width, where in ((before, 0), (after, 1)):
        if width:
            shape[1] = width
            parts.append((where, squares.new_zeros(shape)))
    padded = oneflow.cat([z for w, z in parts if w == 0] + [squares] + [z for w, z in parts if w == 1], 1)
    total = padded.narrow(1, 0, channels)
    for i in range(1, size):
        total = total + padded.narrow(1, i, channels)
    return input / (total * (alpha / size) + k).pow(beta)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise the trailing ``normalized_shape`` dimensions, then scale by ``weight`` and shift by ``bias``.

    Example::

        >>> F.layer_norm(oneflow.tensor([[0.0, 2.0], [1.0, 5.0]]), (2,))
        tensor([[-1.0000,  1.0000],
                [-1.0000,  1.0000]])
    """
    return oneflow.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the trailing ``normalized_shape`` dimensions, then scale by ``weight``.

    Example::

        >>> F.rms_norm(oneflow.tensor([3.0, 4.0]), (2,))
        tensor([0.8485, 1.1314])
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError("rms_norm: Expected normalized_shape to be at least 1-dimensional, but got no element")
    if tuple(input.shape[input.dim() - len(shape) :]) != shape:
        raise RuntimeError(
            f"rms_norm: normalized_shape={list(shape)} does not match the trailing dimensions of an input "
            f"of size {list(input.shape)}"
        )
    half = input.dtype in (oneflow.bfloat16, oneflow.float16)
    if eps is None:
        # Of the dtype that is computed in.
        eps = oneflow.finfo(oneflow.float32 if half else input.dtype).eps
    if input.is_floating_point() and (weight is None or weight.dtype == input.dtype):
        return _oneflow._C.native_rms_norm(input, shape, weight, eps)[0]
    wide = input.float() if half else input
    dims = tuple(range(-len(shape), 0))
    y = wide * (wide * wide).mean(dims, keepdim=True).add(eps).rsqrt()
    return (y if weight is None else y * weight).to(input.dtype)
