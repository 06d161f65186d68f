"""Meetings at a store, of processes that are no ranks yet: PyTorch's ``elastic.utils.store``.

Nothing is removed from the store: a prefix serves once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from oneflow.distributed import DistStoreError

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]

_N, _LAST, _SEEN, _TOLD = "/num_members", "/last_member", "/TRACE", "/TRACING_GATE"


@contextmanager
def store_timeout(store: Any, timeout: float) -> Iterator[None]:
    """Give a store another timeout, in seconds, for a block.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> with oneflow.distributed.elastic.utils.store.store_timeout(store, 2.0):
        ...     store.timeout.total_seconds()
        2.0
    """
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def get_all(store: Any, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """Return the values of ``prefix`` followed by each rank's number. Rank 0 returns once all ranks have them.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> store.set("data0", "a")
        >>> oneflow.distributed.elastic.utils.store.get_all(store, 0, "data", 1)
        [b'a']
    """
    found: list[bytes] = store.multi_get([f"{prefix}{other}" for other in range(world_size)])
    last = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:
        # Where the store is a process of rank 0, the others must have read it before it ends.
        store.wait([last])
    return found


def synchronize(
    store: Any, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """Return what each rank brings, by rank.

    Raises:
        DistStoreError: a rank has not come in ``timeout`` seconds.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> oneflow.distributed.elastic.utils.store.synchronize(store, b"a", 0, 1, "round1")
        [b'a']
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(
    store: Any,
    world_size: int,
    key_prefix: str,
    barrier_timeout: float = 300,
    rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None,
    trace_timeout: float = 10,
) -> None:
    """Return once ``world_size`` processes have called it.

    Args:
        rank: this process's number; with it the error names the ranks that are missing.
        rank_tracing_decoder: what a rank is called in the error, such as its host.
        trace_timeout: seconds in which ranks tell rank 0 that they are there, after a timeout.

    Raises:
        DistStoreError: too few have come in ``barrier_timeout`` seconds.

    Example::

        >>> store = oneflow.distributed.HashStore()
        >>> oneflow.distributed.elastic.utils.store.barrier(store, 1, "start", rank=0)
    """
    if rank is None and rank_tracing_decoder is not None:
        raise AssertionError("Tracing requires rank information")
    with store_timeout(store, barrier_timeout):
        last = _arrive(store, world_size, key_prefix)
        try:
            store.wait([last])
        except DistStoreError:
            if rank is None:
                raise
            name = rank_tracing_decoder or str
            missing = _missing(store, world_size, key_prefix, rank, name, trace_timeout)
            if missing is None:
                raise
            raise DistStoreError(
                f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} (world_size={world_size}, "
                f"missing_ranks=[{', '.join(missing)}], timeout={barrier_timeout})"
            ) from None


def _arrive(store: Any, world_size: int, prefix: str) -> str:
    """Say that this process is there; the key that the last one sets."""
    if store.add(prefix + _N, 1) == world_size:
        store.set(prefix + _LAST, "all are there")
    return prefix + _LAST


def _missing(
    store: Any, world_size: int, prefix: str, rank: int, name: Callable[[int], str], timeout: float
) -> list[str] | None:
    """The ranks that do not say that they are there, which rank 0 finds out; None where it does not come itself."""
    store.set(f"{prefix}{rank}{_SEEN}", "here")
    if rank != 0:
        try:
            store.wait([prefix + _TOLD])
        except DistStoreError:
            return None
        return [f"<check rank 0 ({name(0)}) for missing rank info>"]
    absent: list[str] = []
    for other in range(1, world_size):
        # The first one that is missing is waited for, and the rest have had as long.
        patience = timedelta(seconds=timeout) if not absent else timedelta(milliseconds=1)
        try:
            store.wait([f"{prefix}{other}{_SEEN}"], patience)
        except DistStoreError:
            absent.append(name(other))
    store.set(prefix + _TOLD, "known")
    return absent
