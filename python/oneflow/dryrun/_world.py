"""A world that is only described: this thread is one of its ranks, and large tensors hold no memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oneflow import _oneflow
from oneflow.auto_parallel.cluster import Cluster

__all__ = ["as_rank", "cluster_numbers", "cluster_of", "described"]

# Tensors from this size on hold no memory. Smaller ones have values: learning rates, masks, counters.
_RESERVED_FROM = 64 << 10
_NUMBERS = ("flops", "memory_bandwidth", "memory", "launch", "call", "cores", "disk")


def cluster_of(cluster: Cluster | str | Path) -> Cluster:
    """Return a cluster, or the one of a name or a file."""
    return cluster if isinstance(cluster, Cluster) else Cluster.load(cluster)


def cluster_numbers(cluster: Cluster) -> dict[str, Any]:
    """The description as the simulator takes it."""
    numbers = {key: getattr(cluster, key) for key in ("hosts", "devices_per_host")}
    numbers.update((key, float(getattr(cluster, key))) for key in _NUMBERS)
    for key in ("inside", "between"):
        link = getattr(cluster, key)
        numbers[key] = (float(link.latency), float(link.bandwidth), link.shared)
    host = cluster.host
    numbers["host"] = (0.0, 0.0, False) if host is None else (float(host.latency), float(host.bandwidth), host.shared)
    return numbers


@contextlib.contextmanager
def described(cluster: Cluster | str | Path, rank: int = 0, n_ranks: int | None = None) -> Iterator[None]:
    """Inside, this thread is a rank of a job on a described cluster, whose other ranks are not there.

    Tensors of 64 KiB and more hold no memory. What is computed from them is not computed, and small results of it are
    zeros. Collectives send nothing: a rank gets what it would get if all others had brought the same as it has.

    Args:
        cluster: a ``Cluster``, the name of one that the package describes, or a toml file.
        rank: which rank this thread is.
        n_ranks: the number of ranks; by default one for each device.

    Raises:
        ValueError: there is no such rank, or the cluster has fewer devices.

    Example::

        >>> with oneflow.dryrun.described("8xh100"):
        ...     place = oneflow.placement.all("cpu")
        ...     w = oneflow.zeros(1 << 20, 1 << 20, placement=place, sbp=oneflow.sbp.split(0))
        ...     w.to_local().shape
        oneflow.Size([131072, 1048576])
    """
    cluster = cluster_of(cluster)
    n = cluster.n_devices if n_ranks is None else n_ranks
    if not 1 <= n <= cluster.n_devices:
        raise ValueError(f"dryrun: {n} ranks on {cluster.name}, which has {cluster.n_devices} devices")
    before = _oneflow._reserve_from(_RESERVED_FROM)
    try:
        with as_rank(rank, n):
            yield
    finally:
        _oneflow._reserve_from(before)


@contextlib.contextmanager
def as_rank(rank: int, n: int) -> Iterator[None]:
    """Inside, this thread is another rank of the described job, with groups of its own."""
    outside = _oneflow._world_group()
    inner = outside.backend() == "described"
    group = _oneflow._described_group(rank, n)
    group.enter_thread()
    try:
        yield
    finally:
        if inner:
            outside.enter_thread()
        else:
            group.leave_thread()
