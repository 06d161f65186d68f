"""Max pooling over windows at random places (Graham, "Fractional Max-Pooling", 2014), and other rare functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.amp import in_float32_on_host
from oneflow._base.global_layouts import replicate_like

__all__ = [
    "conv_tbc",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "native_channel_shuffle",
]


def _numbers(name: str, what: str, value: Any, n: int) -> tuple[Any, ...]:
    found = tuple(value) if isinstance(value, Sequence) else (value,) * n
    if len(found) != n:
        raise RuntimeError(f"{name}: {what} must either be a single number or a tuple of {n}, got {found}")
    return found


_SIDES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _starts(sample: Tensor, size: int, out: int, window: int) -> Tensor:
    """Where the windows along one dimension begin: samples (N, C), the result (N, C, out)."""
    if out == 1:
        return replicate_like(sample, oneflow.full((*sample.shape, 1), size - window, device=sample.device))
    step = (size - window) / (out - 1)
    u = sample.unsqueeze(-1)
    index = replicate_like(sample, oneflow.arange(out, device=sample.device))
    starts = ((index + u) * step).long() - (u * step).long()
    return oneflow.where(index == out - 1, size - window, starts)


@in_float32_on_host
def _pooled(
    input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None, n: int
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    batched = input.dim() == n + 2
    if 0 in input.shape[1 if batched else 0 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got: {list(input.shape)}"
        )
    x = input if batched else input.unsqueeze(0)
    sizes, kernel = tuple(x.shape[2:]), _numbers(name, "kernel_size", kernel_size, n)
    if output_size is None:
        ratios = _numbers(name, "output_ratio", output_ratio, n)
        out = tuple(int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True))
    else:
        out = _numbers(name, "output_size", output_size, n)
    for side, size, k, o in zip(_SIDES[n], sizes, kernel, out, strict=True):
        if o + k - 1 > size:
            raise RuntimeError(
                f"{name}(): pool {side} {k} too large relative to input {side} {size} and output {side} {o}"
            )
    if samples is None:
        samples = replicate_like(x, oneflow.rand(*x.shape[:2], n, dtype=x.dtype, device=x.device))
    if tuple(samples.shape) != (*x.shape[:2], n):
        raise RuntimeError(
            f"{name}(): Expect _random_samples of shape {[*x.shape[:2], n]} for input {list(input.shape)}, "
            f"but got {list(samples.shape)}"
        )
    # In two dimensions the first number is the width's.
    columns = range(n) if n == 3 else (1, 0)
    flat: Any = 0
    for d, column in enumerate(columns):
        starts = _starts(samples[..., column], sizes[d], out[d], kernel[d])
        places = starts.unsqueeze(-1) + replicate_like(x, oneflow.arange(kernel[d], device=x.device))
        shape = [1] * (2 * n)
        shape[d], shape[n + d] = out[d], kernel[d]
        flat = flat * sizes[d] + places.reshape(*places.shape[:2], *shape)
    window = oneflow.Size(kernel).numel()
    flat = flat.reshape(*x.shape[:2], flat.shape[2:].numel() // window, window)
    windows = x.flatten(2).gather(2, flat.flatten(2)).reshape(flat.shape)
    values, where = windows.max(-1)
    indices = flat.gather(-1, where.unsqueeze(-1)).squeeze(-1)
    values, indices = (t.reshape(*x.shape[:2], *out) for t in (values, indices))
    return (values, indices) if batched else (values.squeeze(0), indices.squeeze(0))


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """As :func:`fractional_max_pool2d`, with where the maxima are in the flattened image.

    Example::

        >>> x = oneflow.arange(16.0).reshape(1, 1, 4, 4)
        >>> F.fractional_max_pool2d_with_indices(x, 3, output_size=2)[1].flatten().tolist()
        [10, 11, 14, 15]
    """
    return _pooled(input, kernel_size, output_size, output_ratio, _random_samples, 2)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima of windows whose places are drawn, so that sizes need not divide.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: of the windows; a number or two.
        output_size: of the result; or
        output_ratio: of the result to the input, in (0, 1).
        return_indices: also return where the maxima are.
        _random_samples: the numbers to draw, (N, C, 2) in [0, 1).

    Raises:
        ValueError: neither size nor ratio is given.

    Example::

        >>> F.fractional_max_pool2d(oneflow.ones(1, 2, 9, 9), 2, output_ratio=0.5).shape
        oneflow.Size([1, 2, 4, 4])
    """
    found = _pooled(input, kernel_size, output_size, output_ratio, _random_samples, 2)
    return found if return_indices else found[0]


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """As :func:`fractional_max_pool3d`, with where the maxima are in the flattened volume.

    Example::

        >>> F.fractional_max_pool3d_with_indices(oneflow.ones(1, 2, 5, 5, 5), 2, output_size=3)[1].shape
        oneflow.Size([1, 2, 3, 3, 3])
    """
    return _pooled(input, kernel_size, output_size, output_ratio, _random_samples, 3)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """As :func:`fractional_max_pool2d`, of volumes (N, C, D, H, W).

    Example::

        >>> F.fractional_max_pool3d(oneflow.ones(1, 2, 5, 5, 5), 2, output_size=3).shape
        oneflow.Size([1, 2, 3, 3, 3])
    """
    found = _pooled(input, kernel_size, output_size, output_ratio, _random_samples, 3)
    return found if return_indices else found[0]


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of sequences (T, N, in) with a weight (width, in, out): (T', N, out).

    Example::

        >>> oneflow.conv_tbc(oneflow.ones(4, 1, 2), oneflow.ones(3, 2, 5), oneflow.zeros(5)).shape
        oneflow.Size([2, 1, 5])
    """
    y = oneflow.nn.functional.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """See :func:`channel_shuffle`.

    Example::

        >>> oneflow.native_channel_shuffle(oneflow.arange(4.0).reshape(1, 4, 1, 1), 2).flatten()
        tensor([0., 2., 1., 3.])
    """
    return oneflow.nn.functional.channel_shuffle(input, groups)
