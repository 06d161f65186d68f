"""cuDNN 9: convolutions on a GPU use it where it is installed, and this package's own kernels elsewhere.

``enabled`` says whether they may, ``allow_tf32`` whether float32 operands may be rounded to TF32 there, which is faster
on an Ampere GPU or a newer one and on by default, as in PyTorch: results are exact to about three digits then.
Engines whose numbers differ from run to run are never taken, so ``deterministic`` changes nothing; the library's
heuristic chooses engines, and ``benchmark`` and ``benchmark_limit`` are stored alone.
"""

from __future__ import annotations

import sys
import types
from contextlib import AbstractContextManager
from typing import Any

from oneflow import _oneflow
from oneflow.backends._flags import changed

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "is_available", "version"]

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


class _Settings(types.ModuleType):
    """The module, whose switches reach the kernels when they are assigned."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("enabled", "allow_tf32"):
            _oneflow._cuda_cudnn_settings(bool(self.enabled), bool(self.allow_tf32))


sys.modules[__name__].__class__ = _Settings


def version() -> int | None:
    """Return the release of cuDNN, 91002 for 9.10.2; None where convolutions cannot use it.

    Example::

        >>> oneflow.backends.cudnn.version() is None or oneflow.backends.cudnn.version() >= 90000
        True
    """
    return _oneflow._cuda_cudnn_version()


def is_available() -> bool:
    """Return whether there is a GPU and cuDNN 9.

    Example::

        >>> oneflow.backends.cudnn.is_available() == (oneflow.backends.cudnn.version() is not None)
        True
    """
    return version() is not None


def is_acceptable(tensor: Any) -> bool:
    """Return whether cuDNN takes a tensor: on a GPU, of float16, bfloat16, float32 or float64.

    Example::

        >>> oneflow.backends.cudnn.is_acceptable(oneflow.ones(1))
        False
    """
    return bool(enabled and tensor.is_cuda and tensor.is_floating_point() and is_available())


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int, bool, bool]:
    """Set the given switches and return their previous values."""
    before = (enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    for name, value in zip(names, given, strict=True):
        if value is not None:
            setattr(sys.modules[__name__], name, value)
    return before


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set the switches inside a ``with``; the defaults are PyTorch's.

    Example::

        >>> with oneflow.backends.cudnn.flags(deterministic=True):
        ...     oneflow.backends.cudnn.deterministic
        True
    """
    return changed(
        __name__,
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
    )
