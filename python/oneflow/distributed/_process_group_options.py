"""The options that PyTorch's methods of process groups take."""

from __future__ import annotations

import datetime
from typing import Any

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
]


class _Options:
    """``timeout`` of the one operation; a negative one stands for the group's."""

    def __init__(self) -> None:
        self.timeout = datetime.timedelta(seconds=-1)
        self.asyncOp = True


class AllreduceOptions(_Options):
    """Options of ``ProcessGroup.allreduce``: ``reduceOp``.

    Example::

        >>> oneflow.distributed.AllreduceOptions().reduceOp
        'sum'
    """

    reduceOp: Any = "sum"


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of ``ProcessGroup.allreduce_coalesced``: ``reduceOp``.

    Example::

        >>> oneflow.distributed.AllreduceCoalescedOptions().reduceOp
        'sum'
    """


class ReduceScatterOptions(AllreduceOptions):
    """Options of ``ProcessGroup.reduce_scatter``: ``reduceOp``.

    Example::

        >>> oneflow.distributed.ReduceScatterOptions().reduceOp
        'sum'
    """


class BroadcastOptions(_Options):
    """Options of ``ProcessGroup.broadcast``: ``rootRank``, a number in the group.

    Example::

        >>> oneflow.distributed.BroadcastOptions().rootRank
        0
    """

    rootRank = 0
    rootTensor = 0


class ReduceOptions(AllreduceOptions):
    """Options of ``ProcessGroup.reduce``: ``reduceOp`` and ``rootRank``, a number in the group.

    Example::

        >>> oneflow.distributed.ReduceOptions().rootRank
        0
    """

    rootRank = 0
    rootTensor = 0


class GatherOptions(_Options):
    """Options of ``ProcessGroup.gather``: ``rootRank``, a number in the group.

    Example::

        >>> oneflow.distributed.GatherOptions().rootRank
        0
    """

    rootRank = 0


class ScatterOptions(GatherOptions):
    """Options of ``ProcessGroup.scatter``: ``rootRank``, a number in the group.

    Example::

        >>> oneflow.distributed.ScatterOptions().rootRank
        0
    """


class AllgatherOptions(_Options):
    """Options of ``ProcessGroup.allgather``.

    Example::

        >>> oneflow.distributed.AllgatherOptions().asyncOp
        True
    """


class AllToAllOptions(_Options):
    """Options of ``ProcessGroup.alltoall``.

    Example::

        >>> oneflow.distributed.AllToAllOptions().asyncOp
        True
    """


class BarrierOptions(_Options):
    """Options of ``ProcessGroup.barrier``.

    Example::

        >>> oneflow.distributed.BarrierOptions().asyncOp
        True
    """
