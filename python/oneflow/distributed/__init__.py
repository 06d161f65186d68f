"""Process groups and collectives, under the names of ``torch.distributed``.

A job's processes meet through the environment that a launcher sets: torchrun's ``RANK``, ``WORLD_SIZE``,
``MASTER_ADDR`` and ``MASTER_PORT``, or what ``srun`` and ``mpirun`` set; ranks that are threads of one process come
from :func:`oneflow.testing.run_ranks`. Collectives take contiguous tensors and change them in place. Those on GPUs go
by NCCL in the order of streams: a collective waits for what was issued to the current stream, and the current stream
waits for it; the host does not.
"""

from __future__ import annotations

import enum
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.lazy import LazyNames
from oneflow._oneflow import Work
from oneflow.distributed import _joining, _reductions
from oneflow.distributed import _process_group as _process_group
from oneflow.distributed._backends import Backend, ProcessGroup, is_backend_available, is_mpi_available
from oneflow.distributed._coalesced import _broadcast_coalesced, all_gather_coalesced, all_reduce_coalesced
from oneflow.distributed._groups import (
    SHRINK_ABORT,
    SHRINK_DEFAULT,
    GroupMember,
    _check_backend,
    _group,
    _members_only,
    _root,
    _seconds,
    _serves_devices,
    _world,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    is_gloo_available,
    is_nccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    shrink_group,
    split_group,
)
from oneflow.distributed._joining import (
    _join_launched,
    destroy_process_group,
    init_process_group,
    is_available,
    is_initialized,
)
from oneflow.distributed._names import (
    BackendConfig,
    BuiltinCommHookType,
    DebugLevel,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
    _all_gather_base,
    _rank_not_in_group,
    _reduce_scatter_base,
    default_pg_timeout,
    get_backend_config,
    get_debug_level,
    get_default_backend_for_device,
    get_node_local_rank,
    get_pg_count,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    set_debug_level,
    set_debug_level_from_env,
    set_timeout,
    supports_complex,
)
from oneflow.distributed._objects import (
    all_gather_object,
    all_to_all,
    broadcast_object_list,
    gather_object,
    monitored_barrier,
    recv_object_list,
    reduce_scatter,
    scatter_object_list,
    send_object_list,
)
from oneflow.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from oneflow.distributed._process_group_gloo import ProcessGroupGloo
from oneflow.distributed._process_group_nccl import ProcessGroupNCCL
from oneflow.distributed._process_group_options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from oneflow.distributed._single_tensors import (
    all_gather_single,
    gather_into_tensor,
    gather_single,
    reduce_scatter_single,
)
from oneflow.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from oneflow.distributed._work import _coalescing, _coalescing_manager, _Steps
from oneflow.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "BuiltinCommHookType",
    "GatherOptions",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "Backend",
    "BackendConfig",
    "DebugLevel",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "ProcessGroupNCCL",
    "QueueEmptyError",
    "ReduceOp",
    "Reducer",
    "SHRINK_ABORT",
    "SHRINK_DEFAULT",
    "Store",
    "TCPStore",
    "Work",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_into_tensor",
    "gather_object",
    "gather_single",
    "get_backend",
    "get_backend_config",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_local_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "register_rendezvous_handler",
    "rendezvous",
    "reset_wire_counters",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "set_timeout",
    "shrink_group",
    "split_group",
    "supports_complex",
    "wire_bytes",
    "wire_calls",
]


_lazy = LazyNames(
    "oneflow.distributed",
    (
        "_composable",
        "_tensor",
        "algorithms",
        "autograd",
        "checkpoint",
        "constants",
        "device_mesh",
        "distributed_c10d",
        "elastic",
        "fsdp",
        "launcher",
        "nn",
        "optim",
        "rpc",
        "run",
        "tensor",
    ),
    {
        "distributed.device_mesh": ("DeviceMesh", "init_device_mesh"),
        "nn._reducer": ("GradBucket", "Reducer", "_DEFAULT_FIRST_BUCKET_BYTES", "_compute_bucket_assignment_by_size"),
    },
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


def get_local_rank() -> int:
    """Return this rank's number on its machine, 0 in a job of one: OneFlow's.

    Example::

        >>> oneflow.distributed.get_local_rank()
        0
    """
    return oneflow.env.get_local_rank()


def _run(group: Any, async_op: bool, *what: Any, **options: Any) -> Any:
    """Run one operation of a group, or issue it: then there is a work."""
    found = _group(group)
    manager = _coalescing(found)
    if what[0] == "all_reduce" and what[1].is_sparse:
        from oneflow.distributed import _sparse

        work = _sparse.all_reduce(found, what[1], options["op"])
        if manager is not None:
            manager.append(work)
        elif async_op:
            return work
        else:
            work.wait()
        return None
    if what[1].is_cuda and _reductions.needs_gathering(*what, **options):
        return _reductions.by_gathering(found, manager, async_op, *what, **options)
    if manager is not None:
        if what[1].is_cuda:
            manager._issue_together(what, options)
        elif what[0] == "all_reduce":
            manager._reduce(what[1], options["op"])
        else:
            manager.append(found.issue(*what, **options))
        return None
    return found.issue(*what, **options, wait=not async_op)


def _run_then(group: Any, async_op: bool, then: Any, output: list[Tensor], *what: Any, **options: Any) -> Any:
    """As :func:`_run`, and then something with the result."""
    found = _group(group)
    manager = _coalescing(found)
    if manager is None and not async_op:
        _run(found, False, *what, **options)
        then()
        return None
    if what[1].is_cuda and _reductions.needs_gathering(*what, **options):
        issued = _reductions.by_gathering(found, None, True, *what, **options)
    else:
        issued = found.issue(*what, **options)
    work = _Steps([issued], then, output)
    if manager is None:
        return work
    manager.append(work)
    return None


@_members_only
def all_reduce(tensor: Tensor, op: str = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce ``tensor`` over all ranks, in place.

    Sparse tensors are summed or averaged; each rank may have elements of its own. The result is coalesced.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     oneflow.distributed.all_reduce(x)
        ...     return x.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [3.0, 3.0]
    """
    return _run(group, async_op, "all_reduce", tensor, op=op)


@_members_only
def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Overwrite ``tensor`` with that of rank ``src``. Also with a group, ranks are named by their numbers in the world.

    Args:
        src: a number in the world, ``group_src`` one in the group; rank 0 by default.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     oneflow.distributed.broadcast(x, src=1)
        ...     return x.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 2.0]
    """
    return _run(group, async_op, "broadcast", tensor, peer=_root("broadcast", "src", group, src, group_src))


@_members_only
def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: str = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Reduce into the ``tensor`` of rank ``dst``.

    Args:
        dst: a number in the world, ``group_dst`` one in the group; rank 0 by default.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     oneflow.distributed.reduce(x, dst=0)
        ...     return x.item() if oneflow.distributed.get_rank() == 0 else None
        >>> oneflow.testing.run_ranks(2, rank)
        [3.0, None]
    """
    peer = _root("reduce", "dst", group, dst, group_dst)
    return _run(group, async_op, "reduce", tensor, op=op, peer=peer)


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
    return _run(group, async_op, "all_gather", output, input)


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
    mine = tensor.detach().contiguous().view(-1)
    then = lambda: _hand_out(output, tensor_list)  # noqa: E731
    return _run_then(group, async_op, then, tensor_list, "all_gather", output, mine, counts=counts)


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
    return _run(group, async_op, "reduce_scatter", output, input, op=op)


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
    return _run(group, async_op, "all_to_all", output, input, counts=sent, recv_counts=received)


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
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Collect every rank's ``tensor`` in ``gather_list`` of rank ``dst``.

    Args:
        dst: a number in the world, ``group_dst`` one in the group; rank 0 by default.

    Example::

        >>> def rank():
        ...     x = oneflow.full((1,), oneflow.distributed.get_rank() + 1.0)
        ...     got = [oneflow.zeros(1), oneflow.zeros(1)] if oneflow.distributed.get_rank() == 0 else None
        ...     oneflow.distributed.gather(x, got)
        ...     return got and [t.item() for t in got]
        >>> oneflow.testing.run_ranks(2, rank)
        [[1.0, 2.0], None]
    """
    peer = _root("gather", "dst", group, dst, group_dst)
    if get_rank(group) != peer:
        return _run(group, async_op, "gather", tensor, tensor, peer=peer)
    if gather_list is None:
        raise ValueError("gather: rank dst needs a gather_list")
    _counts("gather", "gather_list", gather_list, tensor, group)
    output = tensor.new_empty((len(gather_list), *tensor.shape))
    then = lambda: _hand_out(output.view(-1), gather_list)  # noqa: E731
    return _run_then(group, async_op, then, gather_list, "gather", output, tensor, peer=peer)


@_members_only
def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Give entry ``i`` of ``scatter_list`` of rank ``src`` to rank ``i``.

    Args:
        src: a number in the world, ``group_src`` one in the group; rank 0 by default.

    Example::

        >>> def rank():
        ...     y = oneflow.zeros(1)
        ...     parts = [oneflow.ones(1), oneflow.full((1,), 2.0)]
        ...     oneflow.distributed.scatter(y, parts if oneflow.distributed.get_rank() == 0 else None)
        ...     return y.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [1.0, 2.0]
    """
    peer = _root("scatter", "src", group, src, group_src)
    whole = None
    if get_rank(group) == peer:
        if scatter_list is None:
            raise ValueError("scatter: rank src needs a scatter_list")
        _counts("scatter", "scatter_list", scatter_list, tensor, group)
        whole = _joined(scatter_list)
    return _run(group, async_op, "scatter", tensor, whole, peer=peer)


@_members_only
def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Return when every rank has called it; with ``async_op`` there is a work to wait for.

    In a group made with ``"nccl"`` it waits for what was issued to the current stream of a GPU, too: of the one in the
    list ``device_ids``, of that which :func:`init_process_group` was given, or of the current one.

    Example::

        >>> oneflow.testing.run_ranks(2, oneflow.distributed.barrier)
        [None, None]
    """
    found = _group(group)
    if device_ids or _serves_devices(found):
        device = oneflow.device("cuda", device_ids[0]) if device_ids else _joining._bound
        place = oneflow.empty(0, device=device or oneflow.device("cuda", oneflow.cuda.current_device()))
        return found.issue("barrier", place, wait=not async_op)
    if async_op:
        return found.issue("barrier", oneflow.empty(0))
    found._wait_barrier()
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
