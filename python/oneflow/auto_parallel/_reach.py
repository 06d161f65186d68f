"""How ranks reach each other along the axes of a mesh: what a byte costs where all of them send, and share links."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

from oneflow.auto_parallel.cluster import Cluster

__all__ = ["Reach", "reaches_of"]


@dataclass(frozen=True)
class Reach:
    """What the ranks along an axis of a mesh send each other through: seconds, and bytes a second of a rank.

    Args:
        ring: where each rank sends to the next one.
        exchange: where each rank sends to every other one.
    """

    latency: float
    ring: float
    exchange: float


def reaches_of(mesh: tuple[int, ...], cluster: Cluster) -> list[Reach]:
    """Return how the ranks along each axis reach each other when all ranks of the cluster's meshes send along it.

    A cluster of more devices has a mesh for each rank of a pipeline. Those of a host share its links.
    Ranks of a host follow each other, the last axis first. As in a dry run (``simulate/src/engine.rs``), between hosts
    there are as many rings as a host has ranks of a line, in each of which another of them sends to the next host, so
    that all links of a host are used.
    """
    reaches, size = [], math.prod(mesh)
    stride = size
    n_ranks = size * max(1, min(cluster.n_devices, cluster.devices_per_host) // size)
    for n in mesh:
        block, stride = stride, stride // n
        firsts = (first + k for first in range(0, n_ranks, block) for k in range(stride))
        lines = [range(first, first + block, stride) for first in firsts]
        across = any(_host(line[0], cluster) != _host(line[-1], cluster) for line in lines)
        ring, exchange = (_bandwidth(lines, cluster, is_ring) for is_ring in (True, False))
        reaches.append(Reach((cluster.between if across else cluster.inside).latency, ring, exchange))
    return reaches


def _host(rank: int, cluster: Cluster) -> int:
    return rank // cluster.devices_per_host


def _bandwidth(lines: list[range], cluster: Cluster, is_ring: bool) -> float:
    """Bytes a second of a rank of the slowest line, by how many ranks use each link."""
    loads: defaultdict[tuple[bool, int], float] = defaultdict(float)
    for line in lines:
        of_host = Counter(_host(rank, cluster) for rank in line)
        for rank in line:
            host = _host(rank, cluster)
            leaving = 0.0 if len(of_host) == 1 else 1 / of_host[host] if is_ring else 1.0
            for link, leaves, share in ((cluster.between, True, leaving), (cluster.inside, False, 1 - leaving)):
                if share:
                    loads[leaves, host if link.shared else rank] += share
    links = ((cluster.between if leaves else cluster.inside, load) for (leaves, _), load in loads.items())
    return min(link.bandwidth / load for link, load in links)
