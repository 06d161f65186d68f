"""The memory of GPUs: what the caching allocator holds, counts and may hold.

Without a GPU there is nothing to count: sums are zero, statistics and snapshots are empty.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from oneflow import _oneflow

__all__ = [
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
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
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _available() -> bool:
    from oneflow import cuda

    return cuda.is_available()


def _index(device: Any) -> int:
    from oneflow import cuda

    return cuda._index(device)


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Return what the allocator of a GPU counted, under PyTorch's keys; empty without a GPU.

    A key is ``{what}.{pool}.{count}``. ``what`` is ``allocation``, ``segment``, ``active`` or ``inactive_split``
    (numbers of blocks), the same with ``_bytes`` (``reserved_bytes`` for segments), or ``requested_bytes`` (before
    rounding). ``pool`` is ``all``, ``small_pool`` or ``large_pool`` (requests above 1 MiB). ``count`` is ``current``,
    ``peak``, ``allocated`` or ``freed``. Besides: ``num_alloc_retries``, ``num_ooms``, ``num_device_alloc``,
    ``num_device_free``.

    Args:
        device: the GPU; None is the current one.

    Raises:
        RuntimeError: there is no such GPU.

    Example::

        >>> oneflow.cuda.memory_stats().get("allocated_bytes.all.current", 0) == oneflow.cuda.memory_allocated()
        True
    """
    if not _available():
        return OrderedDict()
    stats = _oneflow._cuda_memory_stats(_index(device))
    # Blocks of every size are split, and no segment is too large for the pools.
    for name in ("oversize_allocations", "oversize_segments"):
        stats.update({f"{name}.{count}": 0 for count in ("current", "peak", "allocated", "freed")})
    stats.update({"max_split_size": -1, "num_sync_all_streams": 0})
    return OrderedDict(sorted(stats.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return :func:`memory_stats` as dictionaries of dictionaries, one for each part of a key.

    Example::

        >>> isinstance(oneflow.cuda.memory_stats_as_nested_dict(), dict)
        True
    """
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """Return the allocator's segments by address, each with its blocks, as PyTorch does.

    A segment is memory that the driver gave in one piece: ``address``, ``total_size``, ``allocated_size``,
    ``active_size`` and ``requested_size`` in bytes, ``stream``, ``segment_type`` (``small`` or ``large``),
    ``segment_pool_id`` (of captured graphs; (0, 0) outside of them). Its ``blocks`` have ``address``, ``size``,
    ``requested_size`` and ``state``: ``active_allocated``, ``active_pending_free`` (a stream may still use it) or
    ``inactive``. Stacks (``frames``) are not recorded.

    Args:
        device: the GPU; None takes all of them.

    Example::

        >>> sum(s["total_size"] for s in oneflow.cuda.memory_snapshot()) >= oneflow.cuda.memory_allocated()
        True
    """
    from oneflow import cuda

    if not _available():
        return []
    devices = range(cuda.device_count()) if device is None else [_index(device)]
    return [segment for index in devices for segment in _oneflow._cuda_memory_snapshot(index)]


def memory_allocated(device: Any = None) -> int:
    """Return the bytes held by tensors.

    Example::

        >>> oneflow.cuda.memory_allocated() >= 0
        True
    """
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes held by tensors since the start or the last reset.

    Example::

        >>> oneflow.cuda.max_memory_allocated() >= oneflow.cuda.memory_allocated()
        True
    """
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that the allocator holds, in use or not.

    Example::

        >>> oneflow.cuda.memory_reserved() >= oneflow.cuda.memory_allocated()
        True
    """
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that the allocator held since the start or the last reset.

    Example::

        >>> oneflow.cuda.max_memory_reserved() >= oneflow.cuda.memory_reserved()
        True
    """
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def memory_cached(device: Any = None) -> int:
    """Return :func:`memory_reserved`, of which it is the old name.

    Example::

        >>> oneflow.cuda.memory_cached() == oneflow.cuda.memory_reserved()
        True
    """
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Return :func:`max_memory_reserved`, of which it is the old name.

    Example::

        >>> oneflow.cuda.max_memory_cached() == oneflow.cuda.max_memory_reserved()
        True
    """
    return max_memory_reserved(device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start new peaks: the ``peak`` counts of :func:`memory_stats` and both maxima.

    Example::

        >>> oneflow.cuda.reset_peak_memory_stats()
        >>> oneflow.cuda.max_memory_allocated() == oneflow.cuda.memory_allocated()
        True
    """
    if _available():
        _oneflow._cuda_reset_memory_stats(_index(device), True, False)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Start new sums: the ``allocated`` and ``freed`` counts of :func:`memory_stats` and those of retries and refusals.

    Example::

        >>> oneflow.cuda.reset_accumulated_memory_stats()
        >>> oneflow.cuda.memory_stats().get("allocation.all.allocated", 0)
        0
    """
    if _available():
        _oneflow._cuda_reset_memory_stats(_index(device), False, True)


def reset_max_memory_allocated(device: Any = None) -> None:
    """Start new peaks, as :func:`reset_peak_memory_stats`.

    Example::

        >>> oneflow.cuda.reset_max_memory_allocated()
    """
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Start new peaks, as :func:`reset_peak_memory_stats`.

    Example::

        >>> oneflow.cuda.reset_max_memory_cached()
    """
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Give memory that no tensor uses back to the driver, pinned host memory too.

    Memory of a graph that is still there is kept, and nothing is given back while work is captured.

    Example::

        >>> oneflow.cuda.empty_cache()
    """
    _oneflow._cuda_empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the bytes that the driver has free on a GPU, and how many the GPU has.

    What the allocator holds for later tensors counts as taken: :func:`empty_cache` gives it back.

    Raises:
        RuntimeError: there is no such GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     free, total = oneflow.cuda.mem_get_info()
        ...     share = free / total
    """
    return _oneflow._cuda_driver_memory(_index(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit the share of a GPU's memory that the allocator may hold: beyond it, allocations raise OutOfMemoryError.

    Args:
        fraction: between 0 and 1, of :func:`mem_get_info`'s total.
        device: the GPU; None is the current one.

    Raises:
        TypeError: ``fraction`` is no float.
        ValueError: ``fraction`` is not between 0 and 1.
        RuntimeError: there is no such GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     oneflow.cuda.set_per_process_memory_fraction(0.5)
        ...     oneflow.cuda.set_per_process_memory_fraction(1.0)
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _oneflow._cuda_set_memory_fraction(_index(device), fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the share of the GPU's memory that the allocator may hold.

    Raises:
        RuntimeError: there is no such GPU.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     share = oneflow.cuda.get_per_process_memory_fraction()
    """
    return _oneflow._cuda_memory_fraction(_index(device))


def get_allocator_backend() -> str:
    """Return ``native``: blocks come from the caching allocator of this package.

    Example::

        >>> oneflow.cuda.get_allocator_backend()
        'native'
    """
    return "native"


def host_memory_stats() -> dict[str, int]:
    """Return the bytes of pinned host memory: obtained from the driver, and in use among them. Empty without a GPU.

    Example::

        >>> isinstance(oneflow.cuda.host_memory_stats(), dict)
        True
    """
    if not _available():
        return {}
    obtained, free = _oneflow._cuda_pinned_bytes()
    return {"reserved_bytes.current": obtained, "allocated_bytes.current": obtained - free}


_ROWS = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "GPU reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "GPU reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return a table of :func:`memory_stats` for people.

    Args:
        device: the GPU; None is the current one.
        abbreviated: leave out the rows of the small and the large pool.

    Example::

        >>> "Allocated memory" in oneflow.cuda.memory_summary()
        True
    """
    stats = memory_stats(device)
    bar = "|" + "=" * 75 + "|"
    title = f"CUDA memory summary, device ID {_index(device) if stats else 0}"
    refused = f"CUDA OOMs: {stats.get('num_ooms', 0)}"
    retried = f"retries: {stats.get('num_alloc_retries', 0)}"
    lines = [
        bar,
        f"|{title:^75}|",
        "|" + "-" * 75 + "|",
        f"|{refused:^37}|{retried:^37}|",
        bar,
        f"|{'Metric':^23}|{'Cur Usage':^12}|{'Peak Usage':^12}|{'Tot Alloc':^12}|{'Tot Freed':^12}|",
    ]
    pools = [("all", None), ("large_pool", "from large pool"), ("small_pool", "from small pool")]
    for key, row, is_bytes in _ROWS:
        lines.append("|" + "-" * 75 + "|")
        for pool, name in pools[:1] if abbreviated else pools:
            values = [stats.get(f"{key}.{pool}.{count}", 0) for count in ("current", "peak", "allocated", "freed")]
            cells = "".join(f"{_size(value) if is_bytes else str(value):>11} |" for value in values)
            lines.append(f"| {row if name is None else '      ' + name:<22}|{cells}")
    return "\n".join([*lines, bar]) + "\n"


def _size(n: int) -> str:
    """A number of bytes in the largest unit that shows three digits or more."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 100 * 1024 or unit == "TiB":
            break
        n //= 1024
    return f"{n} {unit}"
