"""Process groups and collectives, under the names of ``torch.distributed``.

A job's processes meet through the environment that a launcher sets: torchrun's ``RANK``, ``WORLD_SIZE``,
``MASTER_ADDR`` and ``MASTER_PORT``, or what ``srun`` and ``mpirun`` set; ranks that are threads of one process come
from :func:`oneflow.testing.run_ranks`. Collectives take contiguous CPU tensors and change them in place.
"""

from __future__ import annotations

import enum
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.lazy import LazyNames
from oneflow._oneflow import Work
from oneflow.distributed._groups import (
    Backend,
    GroupMember,
    _check_backend,
    _group,
    _members_only,
    _seconds,
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
from oneflow.distributed._joining import (
    _join_launched,
    destroy_process_group,
    init_process_group,
    is_available,
    is_initialized,
)
from oneflow.distributed._objects import (
    all_gather_object,
    all_to_all,
    broadcast_object_list,
    gather_object,
    monitored_barrier,
    reduce_scatter,
    scatter_object_list,
)
from oneflow.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from oneflow.distributed._work import P2POp, _Steps, batch_isend_irecv

__all__ = [
    "Backend",
    "DeviceMesh",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
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
    "init_device_mesh",
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


_lazy = LazyNames(
    "oneflow.distributed",
    ("_composable", "_tensor", "algorithms", "checkpoint", "device_mesh", "fsdp", "optim", "tensor"),
    {"distributed.device_mesh": ("DeviceMesh", "init_device_mesh"), "nn._ddp": ("GradBucket",)},
)


def __getattr__(name: str) -> Any:
    """Return a sub-package, imported on first use."""
    return _lazy.find(name)


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


def _peer(group: Any, rank: int) -> int:
    """The place in a group of a rank, which users name by its number in the world."""
    return rank if group is None else get_group_rank(group, rank)


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
def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Any:
    """Fill the list with every rank's ``tensor``; they may differ in shape if each place has that of its rank.

    Example::

        >>> def rank():
        ...     got = [oneflow.zeros(1), oneflow.zeros(2)]
        ...     here = oneflow.distributed.get_rank()
        ...     oneflow.distributed.all_gather(got, oneflow.full((here + 1,), float(here)))
        ...     return [t.tolist() for t in got]
        >>> oneflow.testing.run_ranks(2, rank)
        [[[0.0], [1.0, 1.0]], [[0.0], [1.0, 1.0]]]
    """
    counts = _counts("all_gather", "tensor_list", tensor_list, tensor, group)
    output = tensor.new_empty(sum(counts))
    work = _group(group).issue("all_gather", output, tensor.detach().contiguous().view(-1), counts=counts)
    return _finish(_Steps([work], lambda: _hand_out(output, tensor_list)), async_op)


def _counts(name: str, argument: str, tensors: list[Tensor], other: Tensor, group: Any) -> list[int]:
    """Elements of a list with a tensor for each rank, all of the dtype of ``other``."""
    n = get_world_size(group)
    if len(tensors) != n:
        raise ValueError(f"{name}: {argument} has {len(tensors)} tensors for {n} ranks")
    for i, t in enumerate(tensors):
        if t.dtype != other.dtype:
            raise TypeError(f"{name}: {argument}[{i}] has dtype {t.dtype}, the other tensor {other.dtype}")
    return [t.numel() for t in tensors]


def _hand_out(flat: Tensor, places: list[Tensor]) -> None:
    with oneflow.no_grad():
        for place, part in zip(places, flat.split([t.numel() for t in places]), strict=True):
            place.copy_(part.view(place.shape))


def _joined(tensors: list[Tensor]) -> Tensor:
    with oneflow.no_grad():
        return oneflow.cat([t.reshape(-1) for t in tensors])


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
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send piece ``i`` of ``input`` to rank ``i`` and receive its piece; pieces are cut along dimension 0.

    Args:
        output_split_sizes: rows that each rank sends here; equal pieces if left out.
        input_split_sizes: rows that go to each rank.

    Raises:
        ValueError: the sizes do not add up to the rows that there are, or rows do not divide.

    Example::

        >>> def rank():
        ...     y = oneflow.zeros(2)
        ...     oneflow.distributed.all_to_all_single(y, oneflow.full((2,), float(oneflow.distributed.get_rank())))
        ...     return y.tolist()
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 1.0], [0.0, 1.0]]
    """
    sent = _split("input", input, input_split_sizes, group)
    received = _split("output", output, output_split_sizes, group)
    return _finish(_group(group).issue("all_to_all", output, input, counts=sent, recv_counts=received), async_op)


def _split(what: str, tensor: Tensor, sizes: list[int] | None, group: Any) -> list[int]:
    """Elements of the pieces of an all-to-all."""
    n, n_rows = get_world_size(group), tensor.shape[0] if tensor.dim() else 1
    a_row = tensor.numel() // max(n_rows, 1)
    if not sizes:
        if n_rows % n:
            raise ValueError(
                f"all_to_all_single: dimension 0 of {what} {list(tensor.shape)} is no multiple of {n} ranks"
            )
        return [n_rows // n * a_row] * n
    if len(sizes) != n or min(sizes) < 0 or sum(sizes) != n_rows:
        raise ValueError(
            f"all_to_all_single: {what}_split_sizes {list(sizes)} must be {n} sizes that add up to dimension 0 of "
            f"{list(tensor.shape)}"
        )
    return [size * a_row for size in sizes]


@_members_only
def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: Any = None, async_op: bool = False
) -> Any:
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
        return _finish(_group(group).issue("gather", tensor, tensor, peer=peer), async_op)
    if gather_list is None:
        raise ValueError("gather: rank dst needs a gather_list")
    _counts("gather", "gather_list", gather_list, tensor, group)
    output = oneflow.empty((len(gather_list), *tensor.shape), dtype=tensor.dtype)
    work = _group(group).issue("gather", output, tensor, peer=peer)
    return _finish(_Steps([work], lambda: _hand_out(output.view(-1), gather_list)), async_op)


@_members_only
def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: Any = None, async_op: bool = False
) -> Any:
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
    whole = None
    if get_rank(group) == peer:
        if scatter_list is None:
            raise ValueError("scatter: rank src needs a scatter_list")
        _counts("scatter", "scatter_list", scatter_list, tensor, group)
        whole = _joined(scatter_list)
    return _finish(_group(group).issue("scatter", tensor, whole, peer=peer), async_op)


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
