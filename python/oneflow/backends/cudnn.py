"""cuDNN 9: convolutions and recurrent networks on a GPU use it where it is installed, and own kernels elsewhere.

``enabled`` says whether they may, ``conv.fp32_precision`` and ``rnn.fp32_precision`` whether float32 operands may be
rounded to TF32 there ("tf32", the default, as in PyTorch), which is faster on an Ampere GPU or a newer one: results are
exact to about three digits then. ``fp32_precision`` is that of all ops of a GPU that have none of their own;
``allow_tf32`` is an older name for ``conv`` and ``rnn``.
Convolutions never take engines whose numbers differ from run to run; recurrent networks may differ in the order of
sums, and run this package's own kernels while ``deterministic`` or ``use_deterministic_algorithms`` is set. The
library's heuristic chooses engines, and ``benchmark`` and ``benchmark_limit`` are stored alone.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from oneflow import _oneflow
from oneflow._base import float32_precision
from oneflow.backends._flags import changed

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "conv",
    "deterministic",
    "enabled",
    "flags",
    "fp32_precision",
    "is_available",
    "rnn",
    "version",
]

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32: bool
fp32_precision: str
conv = float32_precision.Switch("cuda", "conv")
rnn = float32_precision.Switch("cuda", "rnn")


class _Settings(types.ModuleType):
    """The module, whose switches reach the kernels when they are assigned."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "enabled":
            float32_precision.enable_cudnn(value)
        elif name == "deterministic":
            float32_precision.cudnn_deterministic = bool(value)

    @property
    def allow_tf32(self) -> bool:
        return conv.fp32_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        conv.fp32_precision = rnn.fp32_precision = "tf32" if allowed else "none"

    @property
    def fp32_precision(self) -> str:
        return float32_precision.precision("cuda", "all")

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        float32_precision.set_precision("cuda", "all", value)


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
    _fp32_precision: str | None = None,
) -> tuple[bool, bool, int, bool, bool, str]:
    """Set the given switches and return their previous values."""
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision)
    module: Any = sys.modules[__name__]
    before = tuple(getattr(module, name) for name in names)
    for name, value in zip(names, given, strict=True):
        if value is not None:
            setattr(module, name, value)
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Set the switches inside a ``with``; the defaults are PyTorch's.

    Example::

        >>> with oneflow.backends.cudnn.flags(deterministic=True):
        ...     oneflow.backends.cudnn.deterministic
        True
    """
    switches = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit}
    precision = "tf32" if allow_tf32 else "none"
    with (
        changed(__name__, **switches, deterministic=deterministic),
        float32_precision.within("cuda", "all", fp32_precision),
        float32_precision.within("cuda", "conv", precision),
        float32_precision.within("cuda", "rnn", precision),
    ):
        yield
