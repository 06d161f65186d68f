"""Descriptions of the machine that this runs on, by measuring it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import oneflow
from oneflow import _oneflow
from oneflow._trace.structure import flatten_call
from oneflow.auto_parallel.cluster import Cluster, Link

__all__ = ["calibrate", "measure"]


def calibrate(name: str = "here") -> Cluster:
    """Return a description of this machine with a device for each rank of the job. A collective call of all its ranks.

    Products, copies and the call of a graph are timed on as many ranks at once as there are cores, then all-reduces of
    two sizes on all, whose times give the latency and the bandwidth of the links. All ranks return the same numbers.

    Example::

        >>> oneflow.dryrun.calibrate().n_devices
        1
    """
    n = oneflow.distributed.get_world_size()
    a, big, small = oneflow.randn(512, 512), oneflow.ones(1 << 22), oneflow.ones(16)
    for _ in _turns(n):
        flops = 2.0 * 512**3 / _seconds(lambda: a @ a)
        bandwidth = 2.0 * 4 * (1 << 22) / _seconds(lambda: big.clone())
        launch = _seconds(lambda: small + small)
        call = _call(small, launch)
    inside = Link(1e-6, 1e10)
    if n > 1:
        inside = _link(n)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / n
    found = [flops, bandwidth, launch, call, inside.latency, inside.bandwidth]
    numbers = oneflow.tensor(found, dtype=oneflow.float64)
    if n > 1:
        oneflow.distributed.broadcast(numbers, 0)
    flops, bandwidth, launch, call, latency, speed = numbers.tolist()
    link = Link(latency, speed)
    return Cluster(name, 1, n, flops, bandwidth, memory, link, link, launch=launch, call=call, cores=_n_cores())


def _call(small: Any, launch: float) -> float:
    """What a graph takes beside its instructions."""

    class One(oneflow.nn.Graph):
        def build(self, x: Any) -> Any:
            return x + x

    graph = One()
    return max(_seconds(lambda: graph(small)) - launch, 0.0)


def measure(graph: Any, *args: Any, runs: int = 5, **kwargs: Any) -> dict[str, float]:
    """Return measured seconds of a graph's instructions, for ``dry_run(seconds=)``. Nothing of the graph runs.

    The graph is compiled for these inputs, and each of its instructions is timed by itself in memory of its own. What
    talks with other ranks is left out. On several ranks as many measure at the same time as there are cores.

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
    found: dict[str, float] = {}
    for _ in _turns(oneflow.distributed.get_world_size()):
        found = _oneflow._measure_instructions(program.compiled, runs)
    return found


def _n_cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _turns(n: int) -> Iterator[None]:
    """Yield once, on as many of the ``n`` ranks at the same time as there are cores; the others wait for their turn."""
    here = oneflow.distributed.get_rank() if n > 1 else 0
    at_once = _n_cores()
    for first in range(0, n, at_once):
        if n > 1:
            oneflow.distributed.barrier()
        if first <= here < first + at_once:
            yield


def _seconds(call: Callable[[], Any], times: int = 15) -> float:
    """The median time of a call."""
    call()
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

        oneflow.distributed.barrier()
        times[size] = _seconds(call)
    rounds, share = 2.0 * (n - 1), 2.0 * 4 * (n - 1) / n
    bandwidth = share * ((1 << 20) - (1 << 10)) / max(times[1 << 20] - times[1 << 10], 1e-9)
    latency = max(times[1 << 10] - share * (1 << 10) / bandwidth, 0.0) / rounds
    return Link(latency, bandwidth)
