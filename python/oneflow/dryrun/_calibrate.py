"""Descriptions of the machine that this runs on, by measuring it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import _oneflow
from oneflow._trace.structure import flatten_call
from oneflow.auto_parallel.cluster import Cluster, Link

__all__ = ["calibrate", "measure"]


def calibrate(name: str = "here") -> Cluster:
    """Return a description of this machine with a device for each rank of the job. A collective call of all its ranks.

    Products and copies are timed on all ranks at once, then all-reduces of two sizes, whose times give the latency
    and the bandwidth of the links. All ranks return the same numbers.

    Example::

        >>> oneflow.dryrun.calibrate().n_devices
        1
    """
    n = oneflow.distributed.get_world_size()
    a = oneflow.randn(512, 512)
    flops = 2.0 * 512**3 / _seconds(lambda: a @ a, n)
    big, small = oneflow.ones(1 << 22), oneflow.ones(16)
    bandwidth = 2.0 * 4 * (1 << 22) / _seconds(lambda: big.clone(), n)
    launch = _seconds(lambda: small + small, n)
    inside = Link(1e-6, 1e10)
    if n > 1:
        inside = _link(n)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / n
    numbers = oneflow.tensor([flops, bandwidth, launch, inside.latency, inside.bandwidth], dtype=oneflow.float64)
    if n > 1:
        oneflow.distributed.broadcast(numbers, 0)
    flops, bandwidth, launch, latency, speed = numbers.tolist()
    link = Link(latency, speed)
    return Cluster(name, 1, n, flops, bandwidth, memory, link, link, launch=launch)


def measure(graph: Any, *args: Any, runs: int = 5, **kwargs: Any) -> dict[str, float]:
    """Return measured seconds of a graph's instructions, for ``dry_run(seconds=)``. Nothing of the graph runs.

    The graph is compiled for these inputs, and each of its instructions is timed by itself in memory of its own. What
    talks with other ranks is left out. On several ranks all measure at the same time, as they would run.

    Args:
        graph: an ``nn.Graph``.
        args: its inputs, and ``kwargs``.
        runs: how often each instruction is timed.

    Example::

        >>> class Twice(oneflow.nn.Graph):
        ...     def build(self, x):
        ...         return x * 2
        >>> len(oneflow.dryrun.measure(Twice(), oneflow.ones(8)))
        1
    """
    if not isinstance(runs, int) or runs < 1:
        raise ValueError(f"measure(): runs must be a positive integer, got {runs!r}")
    tensors: list[Any] = []
    flatten_call(args, kwargs, tensors)
    program = graph._program(args, kwargs, [])
    if oneflow.distributed.get_world_size() > 1:
        oneflow.distributed.barrier()
    return _oneflow._measure_instructions(program.compiled, runs)


def _seconds(call: Callable[[], Any], n: int, times: int = 15) -> float:
    """The median time of a call, on all ranks at once."""
    call()
    if n > 1:
        oneflow.distributed.barrier()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def _link(n: int) -> Link:
    """Latency and bandwidth by the all-reduces of two sizes: a ring has 2 (n - 1) rounds."""
    times = {}
    for size in (1 << 10, 1 << 20):
        data = oneflow.zeros(size)

        def call(data: Any = data) -> None:
            oneflow.distributed.all_reduce(data)

        times[size] = _seconds(call, n)
    rounds, share = 2.0 * (n - 1), 2.0 * 4 * (n - 1) / n
    bandwidth = share * ((1 << 20) - (1 << 10)) / max(times[1 << 20] - times[1 << 10], 1e-9)
    latency = max(times[1 << 10] - share * (1 << 10) / bandwidth, 0.0) / rounds
    return Link(latency, bandwidth)
