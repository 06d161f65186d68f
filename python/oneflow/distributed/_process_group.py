"""Groups as objects: PyTorch's methods of process groups, and the options that they take.

They are the functions of the package under other names; works are always returned.
"""

from __future__ import annotations

import datetime
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow.distributed._work import _Steps

__all__ = [
    "AllToAllOptions",
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


def _list(tensors: Tensor | list[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _op(opts: Any) -> str:
    return getattr(opts, "reduceOp", opts) or "sum"


def _root(opts: Any) -> int:
    return int(getattr(opts, "rootRank", opts or 0))


def _one(name: str, tensors: Tensor | list[Tensor]) -> Tensor:
    found = _list(tensors)
    if len(found) != 1:
        raise ValueError(f"{name}: a rank brings one tensor, got {len(found)}")
    return found[0]


class _Methods:
    """What is attached to the compiled class of groups."""

    def allreduce(self: Any, tensors: Any, opts: Any = None) -> Any:
        """Start reducing tensors over all ranks, in place."""
        works = [self.issue("all_reduce", tensor, op=_op(opts)) for tensor in _list(tensors)]
        return works[0] if len(works) == 1 else _Steps(works)

    allreduce_coalesced = allreduce

    def broadcast(self: Any, tensors: Any, opts: Any = None) -> Any:
        """Start overwriting tensors with those of the root."""
        works = [self.issue("broadcast", tensor, peer=_root(opts)) for tensor in _list(tensors)]
        return works[0] if len(works) == 1 else _Steps(works)

    def reduce(self: Any, tensors: Any, opts: Any = None) -> Any:
        """Start reducing into the tensor of the root."""
        return self.issue("reduce", _one("reduce", tensors), op=_op(opts), peer=_root(opts))

    def allgather(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Start filling the first list with every rank's tensor."""
        from oneflow import distributed

        return distributed.all_gather(output_tensors[0], _one("allgather", input_tensors), self, async_op=True)

    def allgather_into_tensor_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Start filling each output with every rank's input, one after the other."""
        return _Steps(
            [self.issue("all_gather", o, i) for o, i in zip(outputs, inputs, strict=True)], None, list(outputs)
        )

    def reduce_scatter_tensor_coalesced(self: Any, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Start reducing each input over all ranks, of which each rank keeps its piece."""
        works = [self.issue("reduce_scatter", o, i, op=_op(opts)) for o, i in zip(outputs, inputs, strict=True)]
        return _Steps(works, None, list(outputs))

    def _get_backend(self: Any, device: Any) -> Any:
        return self

    def _allgather_base(self: Any, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        return self.issue("all_gather", output, input)

    def gather(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Start collecting every rank's tensor at the root."""
        from oneflow import distributed

        places, root = (output_tensors[0] if output_tensors else None), _root(opts)
        mine = _one("gather", input_tensors)
        return distributed.gather(mine, places, group=self, group_dst=root, async_op=True)

    def scatter(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Start giving each rank its tensor of the root's list."""
        from oneflow import distributed

        parts, root = (input_tensors[0] if input_tensors else None), _root(opts)
        mine = _one("scatter", output_tensors)
        return distributed.scatter(mine, parts, group=self, group_src=root, async_op=True)

    def reduce_scatter(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Start reducing lists over all ranks, of which each keeps its tensor."""
        from oneflow import distributed

        mine, parts = _one("reduce_scatter", output_tensors), input_tensors
        parts = parts[0] if parts and not isinstance(parts[0], Tensor) else parts
        return distributed.reduce_scatter(mine, parts, _op(opts), self, async_op=True)

    def _reduce_scatter_base(self: Any, output: Tensor, input: Tensor, opts: Any = None) -> Any:
        return self.issue("reduce_scatter", output, input, op=_op(opts))

    def alltoall_base(
        self: Any, output: Tensor, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None
    ) -> Any:
        """Start sending pieces of a tensor to all ranks."""
        from oneflow import distributed

        return distributed.all_to_all_single(output, input, output_split_sizes, input_split_sizes, self, async_op=True)

    def alltoall(self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """Start sending a tensor to each rank."""
        from oneflow import distributed

        return distributed.all_to_all(list(output_tensors), list(input_tensors), self, async_op=True)

    def send(self: Any, tensors: Any, dstRank: int, tag: int = 0) -> Any:
        """Start sending to a rank of the group."""
        return self.issue("send", _one("send", tensors), peer=dstRank, tag=tag)

    def recv(self: Any, tensors: Any, srcRank: int, tag: int = 0) -> Any:
        """Start receiving from a rank of the group."""
        return self.issue("recv", _one("recv", tensors), peer=srcRank, tag=tag)

    def recv_anysource(self: Any, tensors: Any, tag: int = 0) -> Any:
        """Start receiving from whichever rank sends first."""
        return self.issue("recv", _one("recv_anysource", tensors), peer=-1, tag=tag)

    def monitored_barrier(self: Any, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait for all ranks; the error names those that are missing."""
        from oneflow import distributed

        distributed.monitored_barrier(self, timeout, wait_all_ranks)

    def split_group(self: Any, ranks: list[int], timeout: Any = None, opts: Any = None, desc: Any = None) -> Any:
        """Make a group of some of this group's ranks; ``None`` on the others."""
        from oneflow.distributed._groups import _seconds

        return self.new_group(list(ranks), _seconds(timeout))

    def shutdown(self: Any) -> None:
        """Leave the group."""
        self.close()

    @property
    def group_name(self: Any) -> str:
        """The name of the group, the same on all of its ranks."""
        return self.name()

    @property
    def group_desc(self: Any) -> str:
        """A name for people."""
        return "default_pg" if self.name() == "world" else self.name()

    def _get_backend_name(self: Any) -> str:
        return self.backend()

    def getBackendName(self: Any) -> str:
        """The name of the backend."""
        return self.backend()


def _attach() -> None:
    for name, member in vars(_Methods).items():
        if not name.startswith("__") and name not in vars(_oneflow._ProcessGroup):
            setattr(_oneflow._ProcessGroup, name, member)


_attach()
