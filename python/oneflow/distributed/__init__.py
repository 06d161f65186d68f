"""Process groups and collectives, under the names of ``torch.distributed``.

A job's processes meet through the environment that a launcher sets: torchrun's ``RANK``, ``WORLD_SIZE``,
``MASTER_ADDR`` and ``MASTER_PORT``, or what ``srun`` and ``mpirun`` set; ranks that are threads of one process come
from :func:`oneflow.testing.run_ranks`. Collectives take contiguous CPU tensors and change them in place.
"""

from __future__ import annotations

import atexit
import datetime
import enum
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._oneflow import Work
from oneflow.distributed._groups import (
    Backend,
    GroupMember,
    _group,
    _members_only,
    _world,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
)

__all__ = [
    "Backend",
    "GroupMember",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_local_rank",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reset_wire_counters",
    "scatter",
    "scatter_object_list",
    "send",
    "wire_bytes",
    "wire_calls",
]


class ReduceOp:
    """How elements of several ranks become one.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), float(oneflow.distributed.get_rank()))
        ...     oneflow.distributed.all_reduce(x, oneflow.distributed.ReduceOp.MAX)
        ...     return x.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 1.0]
    """

    class RedOpType(str, enum.Enum):
        """The operations, which are words."""

        SUM = "sum"
        AVG = "avg"
        PRODUCT = "product"
        MIN = "min"
        MAX = "max"
        BAND = "band"
        BOR = "bor"
        BXOR = "bxor"

        __str__ = str.__str__

    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR


_initialized = False
# Joined because a placement was made, before anybody asked for it.
_joined_unasked = False


def _seconds(timeout: datetime.timedelta | float | None) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout


def _peer(group: Any, rank: int) -> int:
    """The place in a group of a rank, which users name by its number in the world."""
    return rank if group is None else get_group_rank(group, rank)


def is_available() -> bool:
    """Whether process groups can be made: always.

    Example::

        >>> oneflow.distributed.is_available()
        True
    """
    return True


def is_initialized() -> bool:
    """Whether this process, or this thread's rank, has joined a group of its own.

    Example::

        >>> oneflow.distributed.is_initialized()
        False
    """
    return _initialized or _world().size() > 1


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
) -> None:
    """Join the job that the launcher's environment describes; without a launcher, a job of one process.

    The launcher is torchrun or this package's own, Open MPI, MVAPICH, MPICH, Intel MPI or Slurm's ``srun``. Under the
    latter ones ``MASTER_ADDR`` and ``MASTER_PORT`` say where ranks meet, where that does not follow from the launcher's
    own words.

    Args:
        backend: ``None``, ``"tcp"``, or ``"gloo"`` as an alias: CPU tensors over sockets.
        init_method: ``None`` or ``"env://"``.
        timeout: of every collective; thirty minutes by default. A number counts seconds.
        world_size, rank: checked against the environment where given.

    Raises:
        RuntimeError: joined already, or not all ranks came in time.
        ValueError: an incomplete environment.

    Example::

        >>> oneflow.distributed.init_process_group()  # Without a launcher: this process is the whole job.
        >>> oneflow.distributed.get_world_size()
        1
        >>> oneflow.distributed.destroy_process_group()
    """
    global _initialized, _joined_unasked
    if _joined_unasked:
        # A placement came first and has joined the job: this call finds it done.
        _joined_unasked = False
        _check_given(rank, world_size, (get_rank(), get_world_size()))
        return
    if is_initialized():
        raise RuntimeError("trying to initialize the default process group twice!")
    _check_backend("init_process_group", backend)
    if init_method not in (None, "env://"):
        raise ValueError(f"init_process_group: init_method {init_method!r} is not supported, only 'env://'")
    actual_rank, n_ranks, _ = _oneflow._init_process_group(timeout=_seconds(timeout))
    _initialized = True
    atexit.register(destroy_process_group)
    _check_given(rank, world_size, (actual_rank, n_ranks))


def _check_backend(what: str, backend: str | None) -> None:
    names = {part.split(":")[-1] for part in backend.lower().split(",")} if backend else set()
    if not names <= {"tcp", "gloo", "mpi"}:
        raise ValueError(f"{what}: backend {backend!r} is not available; use 'tcp' (alias 'gloo')")


def _check_given(rank: int, world_size: int, found: tuple[int, int]) -> None:
    for name, given, actual in (("rank", rank, found[0]), ("world_size", world_size, found[1])):
        if given not in (-1, actual):
            raise ValueError(f"init_process_group: {name} is {given}, but the environment says {actual}")


def _join_launched() -> None:
    """Join the job of a launcher, if there is one: placements and ``env`` do so before they count ranks."""
    global _joined_unasked
    if not is_initialized() and _oneflow._launch()[1] > 1:
        init_process_group()
        _joined_unasked = True


def destroy_process_group(group: Any = None) -> None:
    """Leave the job (or one group) in peace, so that other ranks can tell it from a death.

    Example::

        >>> oneflow.distributed.init_process_group()
        >>> oneflow.distributed.destroy_process_group()
        >>> oneflow.distributed.is_initialized()
        False
    """
    global _initialized, _joined_unasked
    if group is not None:
        if group != GroupMember.NON_GROUP_MEMBER:
            _group(group, "destroy_process_group").close()
    elif _initialized:
        _initialized = _joined_unasked = False
        _oneflow._destroy_process_group()


def get_local_rank() -> int:
    """Return this rank's number on its machine, 0 in a job of one: OneFlow's.

    Example::

        >>> oneflow.distributed.get_local_rank()
        0
    """
    return oneflow.env.get_local_rank()


def _finish(work: Any, async_op: bool) -> Any:
    if async_op:
        return work
    work.wait()
    return None


@_members_only
def all_reduce(tensor: Tensor, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce ``tensor`` over all ranks, in place.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     oneflow.distributed.all_reduce(x)
        ...     return x.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [3.0, 3.0]
    """
    return _finish(_group(group).issue("all_reduce", tensor, op=op), async_op)


@_members_only
def broadcast(tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Any:
    """Overwrite ``tensor`` with that of rank ``src``. Also with a group, ranks are named by their numbers in the world.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     oneflow.distributed.broadcast(x, src=1)
        ...     return x.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 2.0]
    """
    return _finish(_group(group).issue("broadcast", tensor, peer=_peer(group, src)), async_op)


@_members_only
def reduce(tensor: Tensor, dst: int = 0, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce into the ``tensor`` of rank ``dst``.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     oneflow.distributed.reduce(x, dst=0)
        ...     return x.item() if oneflow.distributed.get_rank() == 0 else None
        >>> oneflow.testing.run_ranks(2, rank)
        [3.0, None]
    """
    return _finish(_group(group).issue("reduce", tensor, op=op, peer=_peer(group, dst)), async_op)


@_members_only
def all_gather_into_tensor(output: Tensor, input: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """Fill ``output`` with every rank's ``input``, one after the other.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     y = oneflow.zeros(2)
        ...     oneflow.distributed.all_gather_into_tensor(y, x)
        ...     return y.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 2.0], [1.0, 2.0]]
    """
    return _finish(_group(group).issue("all_gather", output, input), async_op)


@_members_only
def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None) -> None:
    """Fill the list with every rank's ``tensor``; all of one shape.

    Example::

        >>> def rank():
        ...     got = [oneflow.zeros(1), oneflow.zeros(1)]
        ...     oneflow.comm.all_gather(got, oneflow.full((1,), float(oneflow.distributed.get_rank())))
        ...     return [t.item() for t in got]
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [0.0, 1.0]]
    """
    output = oneflow.empty((len(tensor_list), *tensor.shape), dtype=tensor.dtype)
    all_gather_into_tensor(output, tensor.contiguous(), group)
    for place, part in zip(tensor_list, output, strict=True):
        place.copy_(part)


@_members_only
def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce ``input`` over all ranks and leave this rank's piece in ``output``.

    Example::

        >>> def rank():
        ...     y = oneflow.zeros(1)
        ...     oneflow.distributed.reduce_scatter_tensor(y, oneflow.tensor([1.0, 2.0]))
        ...     return y.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 4.0]
    """
    return _finish(_group(group).issue("reduce_scatter", output, input, op=op), async_op)


@_members_only
def all_to_all_single(output: Tensor, input: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """Send piece ``i`` of ``input`` to rank ``i`` and receive its piece; equal pieces along dimension 0.

    Example::

        >>> def rank():
        ...     y = oneflow.zeros(2)
        ...     oneflow.distributed.all_to_all_single(y, oneflow.full((2,), float(oneflow.distributed.get_rank())))
        ...     return y.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [0.0, 1.0]]
    """
    size = get_world_size(group)
    if input.shape[0] % size or output.shape[0] % size:
        raise ValueError(f"all_to_all_single: dimension 0 of {list(input.shape)} is no multiple of {size} ranks")
    return _finish(_group(group).issue("all_to_all", output, input), async_op)


@_members_only
def gather(tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: Any = None) -> None:
    """Collect every rank's ``tensor`` in ``gather_list`` of rank ``dst``.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     got = [oneflow.zeros(1), oneflow.zeros(1)] if oneflow.distributed.get_rank() == 0 else None
        ...     oneflow.distributed.gather(x, got)
        ...     return got and [t.item() for t in got]
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 2.0], None]
    """
    peer = _peer(group, dst)
    if get_rank(group) != peer:
        _group(group).issue("gather", tensor, tensor, peer=peer).wait()
        return
    if gather_list is None:
        raise ValueError("gather: rank dst needs a gather_list")
    output = oneflow.empty((len(gather_list), *tensor.shape), dtype=tensor.dtype)
    _group(group).issue("gather", output, tensor, peer=peer).wait()
    for place, part in zip(gather_list, output, strict=True):
        place.copy_(part)


@_members_only
def scatter(tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: Any = None) -> None:
    """Give entry ``i`` of ``scatter_list`` of rank ``src`` to rank ``i``.

    Example::

        >>> def rank():
        ...     y = oneflow.zeros(1)
        ...     parts = [oneflow.ones(1), oneflow.full((1,), 2.0)]
        ...     oneflow.distributed.scatter(y, parts if oneflow.distributed.get_rank() == 0 else None)
        ...     return y.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 2.0]
    """
    peer = _peer(group, src)
    whole = oneflow.stack(scatter_list) if get_rank(group) == peer and scatter_list is not None else None
    _group(group).issue("scatter", tensor, whole, peer=peer).wait()


@_members_only
def send(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> None:
    """Send ``tensor`` to rank ``dst``.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.send(x, 1)
        ...     else:
        ...         oneflow.distributed.recv(x, 0)
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    isend(tensor, dst, group, tag).wait()


@_members_only
def recv(tensor: Tensor, src: int, group: Any = None, tag: int = 0) -> int:
    """Receive the next message of rank ``src`` with this tag into ``tensor``; return ``src``.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.send(x, 1)
        ...     else:
        ...         oneflow.distributed.recv(x, 0)
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    irecv(tensor, src, group, tag).wait()
    return src


@_members_only
def isend(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> Any:
    """Start sending and return the work.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.isend(x, 1).wait()
        ...     else:
        ...         oneflow.distributed.irecv(x, 0).wait()
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    return _group(group).issue("send", tensor, peer=_peer(group, dst), tag=tag)


@_members_only
def irecv(tensor: Tensor, src: int, group: Any = None, tag: int = 0) -> Any:
    """Start receiving and return the work.

    Example::

        >>> def rank():
        ...     x = oneflow.full((2,), float(oneflow.distributed.get_rank()))
        ...     if oneflow.distributed.get_rank() == 0:
        ...         oneflow.distributed.isend(x, 1).wait()
        ...     else:
        ...         oneflow.distributed.irecv(x, 0).wait()
        ...     return x.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 0.0], [0.0, 0.0]]
    """
    return _group(group).issue("recv", tensor, peer=_peer(group, src), tag=tag)


@_members_only
def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Return when every rank has called it. ``device_ids`` is accepted; with ``async_op`` there is a work to wait for.

    Example::

        >>> oneflow.testing.run_ranks(2, oneflow.distributed.barrier)
        [None, None]
    """
    if async_op:
        return _group(group).issue("barrier", oneflow.empty(0))
    _group(group).barrier()
    return None


def wire_bytes() -> dict[str, int]:
    """Payload bytes that this rank sent, by kind of collective; kinds without any are left out.

    Example::

        >>> def rank():
        ...     oneflow.distributed.reset_wire_counters()
        ...     oneflow.distributed.all_reduce(oneflow.ones(8))
        ...     return oneflow.distributed.wire_bytes()
        >>> oneflow.testing.run_ranks(2, rank)
        [{'all_reduce': 32}, {'all_reduce': 32}]
    """
    return {kind: n_bytes for kind, n_bytes, _ in _oneflow._wire_counters() if n_bytes}


def wire_calls() -> dict[str, int]:
    """Collectives that this rank took part in, by kind.

    Example::

        >>> def rank():
        ...     oneflow.distributed.reset_wire_counters()
        ...     oneflow.distributed.all_reduce(oneflow.ones(8))
        ...     return oneflow.distributed.wire_calls()
        >>> oneflow.testing.run_ranks(2, rank)
        [{'all_reduce': 1}, {'all_reduce': 1}]
    """
    return {kind: n_calls for kind, _, n_calls in _oneflow._wire_counters() if n_calls}


def reset_wire_counters() -> None:
    """Start counting anew.

    Example::

        >>> def rank():
        ...     oneflow.distributed.reset_wire_counters()
        ...     return oneflow.distributed.wire_bytes()
        >>> oneflow.testing.run_ranks(2, rank)
        [{}, {}]
    """
    _oneflow._reset_wire_counters()


# isort: off
# Made of the collectives above.
from oneflow.distributed._objects import (
    all_gather_object,
    all_to_all,
    broadcast_object_list,
    gather_object,
    monitored_barrier,
    reduce_scatter,
    scatter_object_list,
)
