"""Which rank of how many this process is, and what the machines of a job have."""

from __future__ import annotations

import oneflow
from oneflow import _oneflow, distributed
from oneflow._base.refusals import refuse

__all__ = [
    "all_device_placement",
    "get_local_rank",
    "get_node_size",
    "get_rank",
    "get_world_size",
    "init_rdma",
    "rdma_is_initialized",
]


def get_rank() -> int:
    """This process's number in its job, which it joins if a launcher started it.

    Example::

        >>> oneflow.env.get_rank()
        0
    """
    return distributed.get_rank()


def get_world_size() -> int:
    """The number of processes of the job, which this one joins if a launcher started it.

    Example::

        >>> oneflow.env.get_world_size()
        1
    """
    return distributed.get_world_size()


def get_local_rank() -> int:
    """Return this process's rank on its machine, as the launcher set it (torchrun in ``LOCAL_RANK``).

    Example::

        >>> oneflow.env.get_local_rank()
        0
    """
    return _oneflow._launch()[2]


def get_node_size() -> int:
    """The number of machines: the processes of the job by those of a machine (torchrun's ``LOCAL_WORLD_SIZE``).

    Example::

        >>> oneflow.env.get_node_size()
        1
    """
    _, n_launched, _, n_local, _ = _oneflow._launch()
    # Ranks that are threads of one process have no launcher.
    return -(-n_launched // max(n_local, 1))


def all_device_placement(type: str) -> oneflow.placement:
    """The placement over every rank's device of that type.

    >>> oneflow.env.all_device_placement("cpu")
    oneflow.placement(type="cpu", ranks=[0])
    """
    return oneflow.placement.all(type)


init_rdma = refuse("oneflow.env.init_rdma", "ranks are connected by TCP")


def rdma_is_initialized() -> bool:
    """False: ranks are connected by TCP.

    Example::

        >>> oneflow.env.rdma_is_initialized()
        False
    """
    return False
