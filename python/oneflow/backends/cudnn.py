"""cuDNN is not used: convolutions have this package's kernels. Its switches are stored, so that scripts run."""

from __future__ import annotations

from contextlib import AbstractContextManager

from oneflow._base.refusals import constant
from oneflow.backends._flags import changed

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "is_available", "version"]

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"

is_available = constant("oneflow.backends.cudnn.is_available", False, "it is not used")
version = constant("oneflow.backends.cudnn.version", None, "it is not used")
is_acceptable = constant("oneflow.backends.cudnn.is_acceptable", False, "it is not used")


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
    globals().update({name: value for name, value in zip(names, given, strict=True) if value is not None})
    return before


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """Set the switches inside a ``with``.

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
