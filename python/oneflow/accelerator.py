"""The accelerator of this machine, whatever its kind: a GPU if there is one."""

from __future__ import annotations

import contextlib
from typing import Any

import oneflow
from oneflow import cuda

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_device_idx",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
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
memory_stats = cuda.memory_stats
memory_reserved = cuda.memory_reserved
max_memory_reserved = cuda.max_memory_reserved
reset_accumulated_memory_stats = cuda.reset_accumulated_memory_stats
get_memory_info = cuda.mem_get_info
set_stream = cuda.set_stream


class device_index:
    """Context within which a device is the current one. None changes nothing.

    Args:
        device: its number.

    Raises:
        RuntimeError: on entering, there is no accelerator of this number.

    Example::

        >>> with oneflow.accelerator.device_index(None):
        ...     oneflow.ones(1).item()
        1.0
    """

    def __init__(self, device: int | None, /) -> None:
        self._context = contextlib.nullcontext() if device is None else cuda.device(device)

    def __enter__(self) -> None:
        self._context.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._context.__exit__(*raised)
