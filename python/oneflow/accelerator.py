"""The accelerator of this machine, whatever its kind: a GPU if there is one."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import cuda

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_device_idx",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is an accelerator.

    Example::

        >>> isinstance(oneflow.accelerator.is_available(), bool)
        True
    """
    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> Any:
    """Return the kind of accelerator as a device; None if there is none.

    Example::

        >>> oneflow.accelerator.is_available() == (oneflow.accelerator.current_accelerator() is not None)
        True
    """
    return oneflow.device("cuda") if is_available() else None


def device_count() -> int:
    """How many accelerators there are.

    Example::

        >>> oneflow.accelerator.device_count() >= 0
        True
    """
    return cuda.device_count()


current_device_index = current_device_idx = cuda.current_device
set_device_index = set_device_idx = cuda.set_device
current_stream = cuda.current_stream
synchronize = cuda.synchronize
empty_cache = cuda.empty_cache
memory_allocated = cuda.memory_allocated
max_memory_allocated = cuda.max_memory_allocated
reset_peak_memory_stats = cuda.reset_peak_memory_stats
