"""Window functions of ``M`` points, symmetric or (``sym=False``) one period of a periodic function.

All take ``dtype``, ``device`` and ``requires_grad`` as the factories do. A window of no points is empty, one of one
point is one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import oneflow
from oneflow import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(f: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Checks of arguments, the trivial windows, and the sample points, shared by all windows."""

    @functools.wraps(f)
    def window(
        M: int,
        *args: Any,
        sym: bool = True,
        dtype: oneflow.dtype | None = None,
        layout: Any = oneflow.strided,
        device: Any = None,
        requires_grad: bool = False,
        **kwargs: Any,
    ) -> Tensor:
        name = f.__name__
        dtype = oneflow.get_default_dtype() if dtype is None else dtype
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not oneflow.strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if dtype not in (oneflow.float32, oneflow.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
        options = {"dtype": dtype, "device": device}
        made = f(M, *args, sym=sym, options=options, **kwargs)
        if M == 0:
            made = oneflow.empty((0,), **options)
        elif M == 1:
            made = oneflow.ones((1,), **options)
        return made.requires_grad_() if requires_grad else made

    return window


def _line(start: float, step: float, M: int, options: dict[str, Any]) -> Tensor:
    return oneflow.linspace(start, start + max(M - 1, 0) * step, M, **options)


def _period(M: int, sym: bool) -> int:
    """Steps from the first point to where the window's last belongs."""
    return max(M - 1 if sym else M, 1)


@_window
def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool, options: dict[str, Any]) -> Tensor:
    """``exp(-abs(n - center) / tau)``; another center than the middle only with ``sym=False``.

    Example::

        >>> oneflow.signal.windows.exponential(5)
        tensor([0.1353, 0.3679, 1.0000, 0.3679, 0.1353])
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2.0 if center is None else center
    return (-_line(-middle / tau, 1.0 / tau, M, options).abs()).exp()


@_window
def cosine(M: int, *, sym: bool, options: dict[str, Any]) -> Tensor:
    """``sin(pi (n + 1/2) / M)``.

    Example::

        >>> oneflow.signal.windows.cosine(5)
        tensor([0.3090, 0.8090, 1.0000, 0.8090, 0.3090])
    """
    step = math.pi / max(M + 1 if not sym and M > 1 else M, 1)
    return _line(0.5 * step, step, M, options).sin()


@_window
def gaussian(M: int, *, std: float = 1.0, sym: bool, options: dict[str, Any]) -> Tensor:
    """``exp(-((n - middle) / std) ** 2 / 2)``.

    Example::

        >>> oneflow.signal.windows.gaussian(5)
        tensor([0.1353, 0.6065, 1.0000, 0.6065, 0.1353])
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2.0
    step = 1.0 / (std * math.sqrt(2.0))
    k = _line(-middle * step, step, M, options)
    return (-(k**2)).exp()


@_window
def kaiser(M: int, *, beta: float = 12.0, sym: bool, options: dict[str, Any]) -> Tensor:
    """``i0(beta sqrt(1 - t ** 2)) / i0(beta)`` for t from -1 to 1.

    Example::

        >>> oneflow.signal.windows.kaiser(5)
        tensor([5.2773e-05, 2.1567e-01, 1.0000e+00, 2.1567e-01, 5.2773e-05])
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    step = 2.0 * beta / _period(M, sym)
    k = oneflow.linspace(-beta, min(beta, -beta + max(M - 1, 0) * step), M, **options)
    return oneflow.i0((beta * beta - k**2).sqrt()) / oneflow.i0(oneflow.tensor(beta, **options))


@_window
def general_cosine(M: int, *, a: Iterable[float], sym: bool, options: dict[str, Any]) -> Tensor:
    """``sum((-1) ** i a[i] cos(i t))`` for t from 0 to 2 pi.

    Example::

        >>> oneflow.signal.windows.general_cosine(5, a=[0.5, 0.5])
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = [float(x) for x in a]
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    k = _line(0.0, 2.0 * math.pi / _period(M, sym), M, options)
    total = oneflow.full((M,), weights[0], **options)
    for i, weight in enumerate(weights[1:], 1):
        total = total + (i * k).cos() * (-weight if i % 2 else weight)
    return total


@_window
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool, options: dict[str, Any]) -> Tensor:
    """``alpha - (1 - alpha) cos(t)`` for t from 0 to 2 pi.

    Example::

        >>> oneflow.signal.windows.general_hamming(5)
        tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


@_window
def hamming(M: int, *, sym: bool, options: dict[str, Any]) -> Tensor:
    """The general Hamming window with alpha 0.54.

    Example::

        >>> oneflow.signal.windows.hamming(5)
        tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return general_cosine(M, a=[0.54, 0.46], sym=sym, **options)


@_window
def hann(M: int, *, sym: bool, options: dict[str, Any]) -> Tensor:
    """The general Hamming window with alpha 0.5.

    Example::

        >>> oneflow.signal.windows.hann(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return general_cosine(M, a=[0.5, 0.5], sym=sym, **options)


@_window
def blackman(M: int, *, sym: bool, options: dict[str, Any]) -> Tensor:
    """Three cosines with 0.42, 0.5 and 0.08.

    Example::

        >>> oneflow.signal.windows.blackman(5)
        tensor([-1.4901e-08,  3.4000e-01,  1.0000e+00,  3.4000e-01, -1.4901e-08])
    """
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


@_window
def bartlett(M: int, *, sym: bool, options: dict[str, Any]) -> Tensor:
    """``1 - abs(t)`` for t from -1 to 1.

    Example::

        >>> oneflow.signal.windows.bartlett(5)
        tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return 1 - _line(-1.0, 2.0 / _period(M, sym), M, options).abs()


@_window
def nuttall(M: int, *, sym: bool, options: dict[str, Any]) -> Tensor:
    """Four cosines with 0.3635819, 0.4891775, 0.1365995 and 0.0106411. (Nuttall, 1981.)

    Example::

        >>> oneflow.signal.windows.nuttall(5)
        tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6280e-04])
    """
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)
