"""GPUs: which there are, their memory, their streams.

Tensors and modules are moved with ``device="cuda"``, ``.to("cuda")`` and ``.cuda()``. The module can be imported
without a GPU; :func:`unavailable_reason` says then what was searched for.

>>> import oneflow
>>> oneflow.cuda.is_available() == (oneflow.cuda.unavailable_reason() is None)
True
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from oneflow import _oneflow
from oneflow._base.lazy import LazyNames as _LazyNames
from oneflow._oneflow import OutOfMemoryError
from oneflow._oneflow import device as _device
from oneflow.cuda._precompile import precompile
from oneflow.cuda._queries import *  # noqa: F403
from oneflow.cuda.graphs import CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables
from oneflow.cuda.memory import (
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from oneflow.cuda.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from oneflow.random import manual_seed as _manual_seed

__all__ = [
    "CUDAGraph",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "graph",
    "graph_pool_handle",
    "host_memory_stats",
    "init",
    "is_available",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "precompile",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_device",
    "set_per_process_memory_fraction",
    "set_stream",
    "stream",
    "synchronize",
    "unavailable_reason",
]


def unavailable_reason() -> str | None:
    """Return why CUDA cannot be used, with everything that was tried; None where it can.

    Example::

        >>> oneflow.cuda.is_available() or isinstance(oneflow.cuda.unavailable_reason(), str)
        True
    """
    return _oneflow._cuda_unavailable_reason()


def is_available() -> bool:
    """Return whether a GPU can be used. Never raises.

    Example::

        >>> isinstance(oneflow.cuda.is_available(), bool)
        True
    """
    return unavailable_reason() is None


def is_initialized() -> bool:
    """Return whether the provider could be opened; devices are opened on first use.

    Example::

        >>> isinstance(oneflow.cuda.is_initialized(), bool)
        True
    """
    return is_available()


def device_count() -> int:
    """Return the number of GPUs, 0 where CUDA cannot be used.

    Example::

        >>> oneflow.cuda.device_count() >= 0
        True
    """
    return _oneflow._cuda_device_count()


def _index(device: Any = None) -> int:
    """Return the index a device argument names: None is the current one."""
    if device is None:
        return _oneflow._cuda_current_device()
    if isinstance(device, int):
        return _oneflow._cuda_current_device() if device < 0 else device
    named = _device(device)
    if named.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {named}")
    return _oneflow._cuda_current_device() if named.index is None else named.index


def current_device() -> int:
    """Return the index of the GPU that ``device="cuda"`` means on this thread.

    Raises:
        RuntimeError: there is no GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     index = oneflow.cuda.current_device()
    """
    _check()
    return _oneflow._cuda_current_device()


def set_device(device: Any) -> None:
    """Make a GPU the one that ``device="cuda"`` means on this thread. A negative index changes nothing.

    Raises:
        RuntimeError: there is no GPU with this index.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     oneflow.cuda.set_device(0)
    """
    _oneflow._cuda_set_device(_index(device))


class device:
    """Context manager that sets the thread's current GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     with oneflow.cuda.device(0):
        ...         x = oneflow.ones(2, device="cuda")
    """

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = _oneflow._cuda_current_device()
        _oneflow._cuda_set_device(self.idx)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        _oneflow._cuda_set_device(self.prev_idx)


def _check() -> None:
    reason = unavailable_reason()
    if reason is not None:
        raise RuntimeError(f"CUDA is not available: {reason}")


def synchronize(device: Any = None) -> None:
    """Wait for everything issued to a GPU. Errors that kernels met meanwhile are raised here.

    Example::

        >>> oneflow.accelerator.is_available() and oneflow.accelerator.synchronize()
        False
    """
    _oneflow._cuda_synchronize(_index(device))


@dataclass(frozen=True)
class _Properties:
    """Properties of a GPU."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int


def get_device_properties(device: Any = None) -> _Properties:
    """Return name, compute capability (``major``, ``minor``), ``total_memory`` in bytes and ``multi_processor_count``.

    Raises:
        RuntimeError: there is no such GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     gigabytes = oneflow.cuda.get_device_properties(0).total_memory / 1e9
    """
    return _Properties(*_oneflow._cuda_properties(_index(device)))


def get_device_name(device: Any = None) -> str:
    """Return the name of a GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     name = oneflow.cuda.get_device_name()
    """
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the compute capability of a GPU, (major, minor).

    Example::

        >>> if oneflow.cuda.is_available():
        ...     major, minor = oneflow.cuda.get_device_capability()
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def manual_seed(seed: int) -> None:
    """Seed random draws. There is one generator for all devices: equal seeds draw equal numbers on each.

    Example::

        >>> oneflow.cuda.manual_seed(0)
    """
    _manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """As :func:`manual_seed`.

    Example::

        >>> oneflow.cuda.manual_seed_all(0)
    """
    _manual_seed(seed)


def init() -> None:
    """Initialise the GPUs, which their first use does too.

    Raises:
        RuntimeError: there is none.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     oneflow.cuda.init()
    """
    if (reason := unavailable_reason()) is not None:
        raise RuntimeError(f"cuda.init(): {reason}")


class device_of(device):
    """Make the GPU of a tensor current in a ``with`` block; a tensor elsewhere changes nothing.

    Example::

        >>> with oneflow.cuda.device_of(oneflow.ones(1)):
        ...     pass
    """

    def __init__(self, obj: Any) -> None:
        self.idx = obj.get_device() if obj.is_cuda else -1
        self.prev_idx = -1

    def __enter__(self) -> device_of:
        if self.idx >= 0:
            super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if self.idx >= 0:
            super().__exit__(kind, value, trace)


_lazy = _LazyNames(__name__, ("amp", "nvtx", "random"))


def __getattr__(name: str) -> Any:
    if name == "_initialized":
        return is_initialized()
    return _lazy.find(name)


def __dir__() -> list[str]:
    return _lazy.dir()
