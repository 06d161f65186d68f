"""Collectives of Python objects and of lists of tensors, over those of single tensors.

Objects travel as pickles: only ranks of one job, which trust each other, are to use them.
"""

from __future__ import annotations

import pickle
from typing import Any

import oneflow
from oneflow import Tensor, distributed

__all__ = [
    "Backend",
    "GroupMember",
    "all_gather_object",
    "all_to_all",
    "broadcast_object_list",
    "gather_object",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "group",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "monitored_barrier",
    "reduce_scatter",
    "scatter_object_list",
]


class Backend(str):
    """The name of a backend, in lower case.

    Example::

        >>> oneflow.distributed.Backend("GLOO") == oneflow.distributed.Backend.GLOO
        True
    """

    GLOO = "gloo"
    MPI = "mpi"
    NCCL = "nccl"
    TCP = "tcp"
    UNDEFINED = "undefined"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


class group:
    """The group of all ranks, which calls without a group mean too.

    Example::

        >>> def rank():
        ...     return oneflow.distributed.get_world_size(oneflow.distributed.group.WORLD)
        >>> oneflow.testing.run_ranks(2, rank)
        [2, 2]
    """

    WORLD = None


class GroupMember(group):
    """What :func:`new_group` gives to ranks that are no part of the group.

    Example::

        >>> issubclass(oneflow.distributed.GroupMember, oneflow.distributed.group)
        True
    """

    NON_GROUP_MEMBER = None


def is_nccl_available() -> bool:
    """False: ranks are connected by TCP.

    Example::

        >>> oneflow.distributed.is_nccl_available()
        False
    """
    return False


def is_mpi_available() -> bool:
    """False: ranks are connected by TCP.

    Example::

        >>> oneflow.distributed.is_mpi_available()
        False
    """
    return False


def is_gloo_available() -> bool:
    """True: "gloo" is another name of the backend of CPU tensors.

    Example::

        >>> oneflow.distributed.is_gloo_available()
        True
    """
    return True


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group, by their numbers in the world.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_process_group_ranks())
        [[0, 1], [0, 1]]
    """
    return list(range(distributed.get_world_size())) if group is None else list(group.ranks())


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number in the world of a group's rank.

    Raises:
        ValueError: the group has no such rank.

    Example::

        >>> def rank():
        ...     return oneflow.distributed.get_global_rank(oneflow.distributed.new_group([0, 1]), 1)
        >>> oneflow.testing.run_ranks(2, rank)
        [1, 1]
    """
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of a rank of the world.

    Raises:
        ValueError: it is no member.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_group_rank(None, 1))
        [1, 1]
    """
    ranks = get_process_group_ranks(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def _pack(value: Any) -> Tensor:
    return oneflow.frombuffer(bytearray(pickle.dumps(value)), dtype=oneflow.uint8)


def _unpack(bytes_: Tensor, size: int) -> Any:
    return pickle.loads(bytes_[:size].numpy().tobytes())


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill the list with every rank's object.

    Example::

        >>> def rank():
        ...     got = [None, None]
        ...     oneflow.distributed.all_gather_object(got, "x" * (1 + oneflow.distributed.get_rank()))
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [['x', 'xx'], ['x', 'xx']]
    """
    n = distributed.get_world_size(group)
    mine = _pack(obj)
    sizes = oneflow.empty(n, dtype=oneflow.int64)
    distributed.all_gather_into_tensor(sizes, oneflow.tensor([mine.numel()]), group)
    lengths = sizes.tolist()
    # Collectives are of one shape: all are as long as the longest.
    padded = oneflow.nn.functional.pad(mine, (0, max(lengths) - mine.numel()))
    together = oneflow.empty((n, max(lengths)), dtype=oneflow.uint8)
    distributed.all_gather_into_tensor(together, padded, group)
    object_list[:] = [_unpack(row, length) for row, length in zip(together, lengths, strict=True)]


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Fill the list of rank ``dst`` with every rank's object.

    Raises:
        ValueError: rank ``dst`` gave no list.

    Example::

        >>> def rank():
        ...     got = [None, None] if oneflow.distributed.get_rank() == 0 else None
        ...     oneflow.distributed.gather_object(oneflow.distributed.get_rank(), got)
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [[0, 1], None]
    """
    here = distributed.get_rank() == dst
    if here and object_gather_list is None:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    got: list[Any] = []
    all_gather_object(got, obj, group)
    if here and object_gather_list is not None:
        object_gather_list[:] = got


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """Overwrite the objects of the list with those of rank ``src``.

    Example::

        >>> def rank():
        ...     got = [{"rank": oneflow.distributed.get_rank()}]
        ...     oneflow.distributed.broadcast_object_list(got, src=1)
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [[{'rank': 1}], [{'rank': 1}]]
    """
    mine = _pack(object_list)
    size = oneflow.tensor([mine.numel()])
    distributed.broadcast(size, src, group)
    here = distributed.get_rank() == src
    packed = mine if here else oneflow.empty(int(size), dtype=oneflow.uint8)
    distributed.broadcast(packed, src, group)
    if not here:
        object_list[:] = _unpack(packed, packed.numel())


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None, src: int = 0, group: Any = None
) -> None:
    """Give each rank its object of the list that rank ``src`` has; it becomes the first of the output list.

    Raises:
        ValueError: the output list is empty.

    Example::

        >>> def rank():
        ...     got = [None]
        ...     oneflow.distributed.scatter_object_list(got, ["a", "b"])
        ...     return got
        >>> oneflow.testing.run_ranks(2, rank)
        [['a'], ['b']]
    """
    if not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    all_ = [scatter_object_input_list if distributed.get_rank() == src else None]
    broadcast_object_list(all_, src, group)
    scatter_object_output_list[0] = all_[0][distributed.get_rank(group)]  # type: ignore[index]


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: str = "sum", group: Any = None) -> None:
    """Reduce the lists of all ranks element by element and leave this rank's in ``output``; all of one shape.

    Example::

        >>> def rank():
        ...     output = oneflow.zeros(1)
        ...     oneflow.distributed.reduce_scatter(output, [oneflow.ones(1), oneflow.full((1,), 2.0)])
        ...     return output.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 4.0]
    """
    result = output.new_empty((1, *output.shape))
    distributed.reduce_scatter_tensor(result, oneflow.stack(input_list), op, group)
    output.copy_(result[0])


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> None:
    """Send tensor ``i`` of the input list to rank ``i`` and receive its in the output list; all of one shape.

    Example::

        >>> def rank():
        ...     got = [oneflow.zeros(1), oneflow.zeros(1)]
        ...     mine = 10.0 * oneflow.distributed.get_rank()
        ...     oneflow.distributed.all_to_all(got, [oneflow.full((1,), mine), oneflow.full((1,), mine + 1)])
        ...     return [t.item() for t in got]
        >>> oneflow.testing.run_ranks(2, rank)
        [[0.0, 10.0], [1.0, 11.0]]
    """
    together = oneflow.stack(input_tensor_list)
    received = oneflow.empty_like(together)
    distributed.all_to_all_single(received, together, group)
    for place, part in zip(output_tensor_list, received, strict=True):
        place.copy_(part)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait for all ranks; the error of one that does not come names it, as in every collective.

    Example::

        >>> oneflow.testing.run_ranks(2, oneflow.distributed.monitored_barrier)
        [None, None]
    """
    distributed.barrier(group)
