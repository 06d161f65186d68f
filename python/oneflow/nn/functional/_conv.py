"""Convolutions and poolings as functions.

Kernel sizes, strides, paddings and dilations are one int or one for each spatial dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.amp import in_float32_on_host

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_Size = int | Sequence[int]

conv1d = _oneflow.conv1d
conv2d = _oneflow.conv2d
conv3d = _oneflow.conv3d
conv_transpose1d = _oneflow.conv_transpose1d
conv_transpose2d = _oneflow.conv_transpose2d
conv_transpose3d = _oneflow.conv_transpose3d
avg_pool1d = _oneflow.avg_pool1d
avg_pool2d = _oneflow.avg_pool2d
avg_pool3d = _oneflow.avg_pool3d
adaptive_avg_pool1d = _oneflow.adaptive_avg_pool1d


def _pool_example(function: str, n: int, argument: str, part: str) -> str:
    """The example of a pooling function: four elements along each dimension become two."""
    sizes, pooled = ", ".join(["4"] * n), ", ".join(["2"] * n)
    call = f"{function}(oneflow.ones(1, 3, {sizes}), {argument}){part}.shape"
    return f"\n\nExample::\n\n    >>> {call}\n    oneflow.Size([1, 3, {pooled}])"


def _max_pool(op: Any, op_with_indices: Any, name: str) -> tuple[Any, Any]:
    def with_indices(
        input: Tensor,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: _Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return op_with_indices(input, kernel_size, () if stride is None else stride, padding, dilation, bool(ceil_mode))

    def plain(
        input: Tensor,
        kernel_size: _Size,
        stride: _Size | None = None,
        padding: _Size = 0,
        dilation: _Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        f = op_with_indices if return_indices else op
        return f(input, kernel_size, () if stride is None else stride, padding, dilation, bool(ceil_mode))

    for f, f_name in ((with_indices, f"{name}_with_indices"), (plain, name)):
        f.__name__ = f.__qualname__ = f_name
    plain.__doc__ = (
        "Maxima of windows; with ``return_indices`` also their row-major positions among the spatial dimensions.\n\n"
        "The stride is the kernel's size where none is given; ``ceil_mode`` counts windows that reach over the end."
        + _pool_example(f"F.{name}", int(name[-2]), "2", "")
    )
    with_indices.__doc__ = (
        "Maxima of windows and their row-major positions among the spatial dimensions."
        + _pool_example(f"F.{name}_with_indices", int(name[-2]), "2", "[1]")
    )
    return plain, with_indices


max_pool1d, max_pool1d_with_indices = _max_pool(_oneflow.max_pool1d, _oneflow.max_pool1d_with_indices, "max_pool1d")
max_pool2d, max_pool2d_with_indices = _max_pool(_oneflow.max_pool2d, _oneflow.max_pool2d_with_indices, "max_pool2d")
max_pool3d, max_pool3d_with_indices = _max_pool(_oneflow.max_pool3d, _oneflow.max_pool3d_with_indices, "max_pool3d")


def _sizes(output_size: Any, input: Tensor, n: int) -> Any:
    """Replace None in output sizes by the input's size."""
    if isinstance(output_size, int):
        return output_size
    own = input.shape[-n:]
    if input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    return [own[i] if size is None else size for i, size in enumerate(output_size)]


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover (n, c, h, w) evenly; sizes of None are the input's.

    Example::

        >>> F.adaptive_avg_pool2d(oneflow.ones(1, 3, 8, 8), 1).shape
        oneflow.Size([1, 3, 1, 1])
    """
    return _oneflow.adaptive_avg_pool2d(input, _sizes(output_size, input, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover (n, c, d, h, w) evenly; sizes of None are the input's.

    Example::

        >>> F.adaptive_avg_pool3d(oneflow.ones(1, 3, 4, 4, 4), 1).shape
        oneflow.Size([1, 3, 1, 1, 1])
    """
    return _oneflow.adaptive_avg_pool3d(input, _sizes(output_size, input, 3))


def _adaptive_max_pool(op: Any, n: int) -> tuple[Any, Any]:
    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        return op(input, _sizes(output_size, input, n))

    def plain(input: Tensor, output_size: Any, return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        result = op(input, _sizes(output_size, input, n))
        return result if return_indices else result[0]

    name = f"adaptive_max_pool{n}d"
    for f, f_name in ((with_indices, f"{name}_with_indices"), (plain, name)):
        f.__name__ = f.__qualname__ = f_name
    plain.__doc__ = (
        "Maxima of windows that cover the spatial dimensions evenly; with ``return_indices`` also their positions."
        + _pool_example(f"F.{name}", n, "2", "")
    )
    with_indices.__doc__ = (
        "Maxima of windows that cover the spatial dimensions evenly, and their positions."
        + _pool_example(f"F.{name}_with_indices", n, "2", "[1]")
    )
    return plain, with_indices


adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive_max_pool(_oneflow.adaptive_max_pool1d, 1)
adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive_max_pool(_oneflow.adaptive_max_pool2d, 2)
adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive_max_pool(_oneflow.adaptive_max_pool3d, 3)


def _lp_pool(input: Tensor, norm_type: float, kernel_size: _Size, stride: Any, ceil_mode: bool, n: int) -> Tensor:
    kernel = (kernel_size,) * n if isinstance(kernel_size, int) else tuple(kernel_size)
    elements = 1
    for k in kernel:
        elements *= k
    power = input.pow(norm_type)
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1]
    mean = pool(power, kernel, () if stride is None else stride, 0, ceil_mode)
    return (oneflow.sign(mean) * mean.abs().relu()).mul(elements).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` over windows of (n, c, l) or (c, l).

    Example::

        >>> F.lp_pool1d(oneflow.tensor([[[3.0, 4.0]]]), 2, 2)
        tensor([[[5.]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` over windows of (n, c, h, w) or (c, h, w).

    Example::

        >>> F.lp_pool2d(oneflow.ones(1, 1, 2, 2), 2, 2)
        tensor([[[[2.]]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: _Size, stride: _Size | None = None, ceil_mode: bool = False
) -> Tensor:
    """``sum(x ** p) ** (1 / p)`` over windows of (n, c, d, h, w) or (c, d, h, w).

    Example::

        >>> F.lp_pool3d(oneflow.ones(1, 1, 2, 2, 2), 2, 2).shape
        oneflow.Size([1, 1, 1, 1, 1])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


def _tuple(v: _Size, n: int) -> tuple[int, ...]:
    return (v,) * n if isinstance(v, int) else tuple(v)


def _unpool_size(
    input: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], wanted: Any
) -> list[int]:
    n = len(kernel)
    sizes = input.shape[-n:]
    default = [(sizes[d] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(n)]
    if wanted is None:
        return default
    wanted = list(wanted)[-n:] if len(wanted) == n + 2 else list(wanted)
    if len(wanted) != n:
        raise ValueError(
            "output_size should be a sequence containing "
            f"{n} or {n + 2} elements, but it has a length of '{len(wanted)}'"
        )
    for d in range(n):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < wanted[d] < high:
            raise ValueError(f'invalid output_size "{wanted}" (dim {d} must be between {low} and {high})')
    return wanted


@in_float32_on_host
def _max_unpool(
    input: Tensor, indices: Tensor, kernel_size: _Size, stride: Any, padding: _Size, output_size: Any, n: int
) -> Tensor:
    kernel = _tuple(kernel_size, n)
    stride = _tuple(stride, n) if stride is not None else kernel
    for what, numbers in (("kernel_size", kernel), ("stride", stride)):
        if len(numbers) != n:
            raise RuntimeError(f"max_unpool{n}d: {what} must be one number or {n}, but got {list(numbers)}")
    size = _unpool_size(input, kernel, stride, _tuple(padding, n), output_size)
    if any(s >= 2**63 for s in size):
        raise TypeError(f"max_unpool{n}d(): output_size {size} does not fit 64 bits")
    if any(s < 0 for s in size):
        raise ValueError(f"max_unpool{n}d: output_size must not be negative, but got {size}")
    if indices.dtype != oneflow.int64:
        raise RuntimeError(f"elements in indices should be type int64 but got: {indices.dtype}")
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(
            f"Input to max_unpooling{n}d should be a {n + 1}d or {n + 2}d Tensor, "
            f"but got a tensor with {input.dim()} dimensions."
        )
    if input.shape != indices.shape:
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    if n == 3 and min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    lead = list(input.shape[:-n])
    plane = 1
    for s in size:
        plane *= s
    if plane >= 2**63:
        raise RuntimeError(f"max_unpool{n}d: integer multiplication overflow for sizes {size}")
    zeros = input.new_zeros([*lead, plane])
    made = zeros.scatter(-1, indices.flatten(-n), input.flatten(-n)).reshape([*lead, *size])
    if n == 2 and input.dim() == 4 and input.is_contiguous(memory_format=oneflow.channels_last):
        return made.contiguous(memory_format=oneflow.channels_last)
    return made


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    output_size: Any = None,
) -> Tensor:
    """Put the maxima of :func:`max_pool1d` back to where they were, among zeros.

    Example::

        >>> y, at = F.max_pool1d(oneflow.tensor([[[1.0, 3.0, 7.0, 5.0]]]), 2, return_indices=True)
        >>> F.max_unpool1d(y, at, 2)
        tensor([[[0., 3., 7., 0.]]])
    """
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    output_size: Any = None,
) -> Tensor:
    """Put the maxima of :func:`max_pool2d` back to where they were, among zeros.

    Example::

        >>> y, at = F.max_pool2d(oneflow.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
        >>> F.max_unpool2d(y, at, 2)
        tensor([[[[0., 0.],
                  [0., 3.]]]])
    """
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: _Size,
    stride: _Size | None = None,
    padding: _Size = 0,
    output_size: Any = None,
) -> Tensor:
    """Put the maxima of :func:`max_pool3d` back to where they were, among zeros.

    Example::

        >>> y, at = F.max_pool3d(oneflow.ones(1, 1, 4, 4, 4), 2, return_indices=True)
        >>> F.max_unpool3d(y, at, 2).shape
        oneflow.Size([1, 1, 4, 4, 4])
    """
    return _max_unpool(input, indices, kernel_size, stride, padding, output_size, 3)
