"""Windows for Fourier transforms: one period of a periodic function, or symmetric with ``periodic=False``.

They are those of :mod:`oneflow.signal.windows`, under PyTorch's older names.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.placement_arguments import takes_placement


def _made(function: str, n: int, periodic: bool, options: dict[str, Any], name: str = "", **shape: Any) -> Tensor:
    from oneflow.signal import windows

    name = name or f"{function}_window"

    if n < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={n}")
    dtype = options.pop("dtype", None) or oneflow.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    layout = options.pop("layout", None)
    if layout not in (None, oneflow.strided):
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    pinned = options.pop("pin_memory", None)
    requires_grad = options.pop("requires_grad", False)
    # Half types are rounded once.
    wide = dtype if dtype is oneflow.float64 else oneflow.float32
    window = getattr(windows, function)(n, sym=not periodic, dtype=wide, **options, **shape).to(dtype)
    window = window.pin_memory() if pinned else window
    return window.requires_grad_() if requires_grad else window


@takes_placement
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """``sin(pi n / N) ** 2``, of shape (window_length,).

    Args:
        window_length: number of points.
        periodic: N is the length; otherwise one less, and the window is symmetric.
        options: ``dtype``, ``layout``, ``device``, ``requires_grad``, ``placement``, ``sbp``.

    Raises:
        RuntimeError: the length is negative, or the dtype is no float.

    Example::

        >>> oneflow.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _made("hann", window_length, periodic, options)


@takes_placement
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """``alpha - beta cos(2 pi n / N)``; see :func:`hann_window`.

    Example::

        >>> oneflow.hamming_window(4)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _made("general_cosine", window_length, periodic, options, "hamming_window", a=[alpha, beta])


@takes_placement
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Up to one and down again in straight lines; see :func:`hann_window`.

    Example::

        >>> oneflow.bartlett_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _made("bartlett", window_length, periodic, options)


@takes_placement
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """``0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)``; see :func:`hann_window`.

    Example::

        >>> oneflow.blackman_window(4)[1:]
        tensor([0.3400, 1.0000, 0.3400])
    """
    return _made("blackman", window_length, periodic, options)


@takes_placement
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """``i0(beta sqrt(1 - t ** 2)) / i0(beta)`` for t from -1 to 1; see :func:`hann_window`.

    Example::

        >>> oneflow.kaiser_window(2)
        tensor([5.2773e-05, 1.0000e+00])
    """
    return _made("kaiser", window_length, periodic, options, beta=beta)
