"""Groups of ranks: which ranks they have, and calls on groups that this rank is not part of.

A rank that is not in a group holds :attr:`GroupMember.NON_GROUP_MEMBER` in its place. Collectives called with that warn
and do nothing, as in PyTorch. It is never ``None``, which stands for all ranks.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import oneflow
from oneflow import _oneflow
from oneflow.distributed import _backends
from oneflow.distributed._backends import Backend

__all__ = [
    "SHRINK_ABORT",
    "SHRINK_DEFAULT",
    "GroupMember",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "is_gloo_available",
    "is_nccl_available",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "shrink_group",
    "split_group",
]

F = TypeVar("F", bound=Callable[..., Any])

_NOT_A_MEMBER = -100

# Names of the groups that this process has made and not destroyed, each with the backend's name that it was given.
_made: dict[str, str] = {}
_KINDS = (_oneflow._ProcessGroup, _backends.ForeignGroup)


class _World(type):
    @property
    def WORLD(cls) -> Any:
        return _world()


class group(metaclass=_World):
    """``group.WORLD`` is the group of all ranks, which calls without a group mean too.

    Example::

        >>> def rank():
        ...     return oneflow.distributed.get_world_size(oneflow.distributed.group.WORLD)
        >>> oneflow.testing.run_ranks(2, rank)
        [2, 2]
    """


class GroupMember(group):
    """``GroupMember.NON_GROUP_MEMBER`` is what :func:`new_group` gives to ranks that are no part of the group.

    Example::

        >>> def rank():
        ...     group = oneflow.distributed.new_group([0])
        ...     return group == oneflow.distributed.GroupMember.NON_GROUP_MEMBER
        >>> oneflow.testing.run_ranks(2, rank)
        [False, True]
    """

    NON_GROUP_MEMBER = _NOT_A_MEMBER


def _seconds(timeout: datetime.timedelta | float | None) -> float | None:
    return timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout


def _check_backend(what: str, backend: str | None) -> str | None:
    """The name of a third party's backend, ``None`` for those of this package."""
    names = {part.split(":")[-1] for part in backend.lower().split(",")} if backend else set()
    foreign = names & set(Backend._plugins)
    if foreign:
        if len(names) > 1:
            raise NotImplementedError(f"{what}: backend {backend!r}: one backend serves all devices")
        return foreign.pop()
    if not names <= {"tcp", "gloo", "mpi", "nccl"}:
        raise ValueError(
            f"{what}: backend {backend!r} is not available; use 'tcp' (alias 'gloo'), 'nccl', 'mpi' or "
            "Backend.register_backend"
        )
    if backend:
        _check_devices(what, backend.lower())
    names.discard("nccl")
    if "mpi" in names and len(names) > 1:
        raise NotImplementedError(f"{what}: backend {backend!r}: one backend serves the CPU")
    if what != "init_process_group" and names and ("mpi" in names) != (_world().backend() == "mpi"):
        raise NotImplementedError(
            f"{what}: backend {backend!r}, but the job was joined with {_world().backend()!r}, as its groups are"
        )
    return None


def _check_devices(what: str, backend: str) -> None:
    """Refuse a backend for devices that it does not serve, and ``"nccl"`` where it cannot be used.

    ``"gloo"`` serves GPUs, too: their tensors go by NCCL where that is to be had.
    """
    for part in backend.split(","):
        device, _, name = part.rpartition(":")
        if (name, device) == ("mpi", "cuda") or (name == "nccl" and device not in ("", "cuda")):
            raise ValueError(
                f"{what}: backend {backend!r}: {name!r} does not serve {device!r} (as 'cpu:gloo,cuda:nccl')"
            )
        if name == "nccl":
            reason = _oneflow._nccl_unavailable_reason()
            if reason is not None:
                raise RuntimeError(f"{what}: backend 'nccl' is not available: {reason}")


def _serves_devices(group: Any) -> bool:
    """Whether a group was made for tensors on GPUs in the first place."""
    return "nccl" in _made.get(group.name(), "")


def _world() -> Any:
    """All ranks. A process that a launcher started joins its job first."""
    if _backends.world is not None:
        return _backends.world
    world = _oneflow._world_group()
    if world.size() == 1:
        oneflow.distributed._join_launched()
        world = _oneflow._world_group()
    return world


def _is_member(group: Any) -> bool:
    return not (isinstance(group, int) and group == _NOT_A_MEMBER)


def _group(group: Any, what: str = "group") -> Any:
    if group is None:
        return _world()
    group = _backends.unwrapped(group)
    if isinstance(group, _KINDS):
        return group
    if not _is_member(group):
        raise ValueError(f"{what}: rank {_world().rank()} is not part of the group")
    raise TypeError(f"{what}: group must be a process group or None, got {type(group).__name__}")


def _members_only(function: F) -> F:
    """Wrap a collective: on a rank that is not part of its ``group``, it warns and returns ``None``."""
    name = function.__name__
    place = list(inspect.signature(function).parameters).index("group")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        group = args[place] if len(args) > place else kwargs.get("group")
        if group is None or isinstance(_backends.unwrapped(group), _KINDS):
            return function(*args, **kwargs)
        if _is_member(group):
            raise TypeError(f"{name}: group must be a process group or None, got {type(group).__name__}")
        rank = _world().rank()
        warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.", stacklevel=2)
        return None

    return call  # type: ignore[return-value]


def _root(name: str, what: str, group: Any, rank: int | None, group_rank: int | None) -> int:
    """The place in a group of a rank that users name by its number in the world, or in the group; 0 by default."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: give one of {what} and group_{what}")
    if group_rank is not None:
        n = _group(group, name).size()
        if not 0 <= group_rank < n:
            raise ValueError(f"{name}: group_{what} is {group_rank}, but the group has {n} ranks")
        return group_rank
    if rank is None:
        return 0
    return rank if group is None else get_group_rank(group, rank)


def get_rank(group: Any = None) -> int:
    """Return this rank's number: 0 in a job of one, -1 in a group that it is not part of.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_rank())
        [0, 1]
    """
    return _group(group, "get_rank").rank() if _is_member(group) else -1


def get_world_size(group: Any = None) -> int:
    """Return the number of ranks: 1 in a job of one, -1 for a group that this rank is not part of.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_world_size())
        [2, 2]
    """
    return _group(group, "get_world_size").size() if _is_member(group) else -1


def get_backend(group: Any = None) -> str:
    """Return the name that the group was made with, such as ``"gloo"``.

    Where none was given it is that of the backend: ``"tcp"`` or ``"mpi"`` between processes, ``"fake"`` between
    threads. A group has that of the job unless it was made with another.

    Raises:
        ValueError: this rank is not part of the group.

    Example::

        >>> oneflow.distributed.init_process_group("gloo")
        >>> oneflow.distributed.get_backend()
        'gloo'
        >>> oneflow.distributed.destroy_process_group()
        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_backend())
        ['fake', 'fake']
    """
    found = _group(group, "get_backend")
    return _made.get(found.name()) or found.backend()


def _remember(made: Any, backend: str | None) -> None:
    """Note the name that a new group's backend was given; that of the job if none was."""
    _made[made.name()] = backend.lower() if backend else _made.get("world", "")


def _check_options(what: str, options: Any, timeout: Any) -> Any:
    """The timeout of a new group: that of ``pg_options`` where no other is given."""
    if options is None:
        return timeout
    if not isinstance(options, _backends.Options):
        raise TypeError(f"{what}: pg_options must be a Backend.Options, got {type(options).__name__}")
    return options._timeout if timeout is None else timeout


def is_nccl_available() -> bool:
    """Whether there is a GPU here and NCCL can be loaded, for the backend ``"nccl"``.

    The extras ``cu12`` and ``cu13`` of this package bring the library. Release 2.18 or a later one is needed.

    Example::

        >>> oneflow.distributed.is_nccl_available() in (True, False)
        True
    """
    return _oneflow._nccl_unavailable_reason() is None


def is_gloo_available() -> bool:
    """True: "gloo" is another name of the backend of CPU tensors.

    Example::

        >>> oneflow.distributed.is_gloo_available()
        True
    """
    return True


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The ranks of a group, by their numbers in the world.

    Raises:
        ValueError: this rank is not part of the group.

    Example::

        >>> oneflow.testing.run_ranks(2, lambda: oneflow.distributed.get_process_group_ranks())
        [[0, 1], [0, 1]]
    """
    return list(_group(group, "get_process_group_ranks").ranks())


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


def new_group(
    ranks: list[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some ranks of the world. All ranks call it with the same list, also those that are not in it.

    With ``use_local_synchronization`` only the ranks of the list call it; others that do get ``NON_GROUP_MEMBER``.

    Within the group ranks are numbered in ascending order, whatever the order of the list, unless ``sort_ranks`` is
    false. A rank that is not in the list gets :attr:`GroupMember.NON_GROUP_MEMBER`.

    Args:
        ranks: numbers in the world; all by default.
        timeout: of every collective of the group; the world's by default.
        backend: as of :func:`init_process_group`.
        pg_options: a :class:`Backend.Options`, whose timeout counts where there is no other.
        group_desc: a name for people; it has no effect.

    Raises:
        TypeError: options of another backend.
        NotImplementedError: a third party's backend beside one of this package.

    Example::

        >>> def rank():
        ...     group = oneflow.distributed.new_group([0, 1])
        ...     x = oneflow.ones(1)
        ...     oneflow.distributed.all_reduce(x, group=group)
        ...     return x.item()
        >>> oneflow.testing.run_ranks(2, rank)
        [2.0, 2.0]
    """
    timeout = _check_options("new_group", pg_options, timeout)
    foreign = _check_backend("new_group", backend)
    world = _world()
    if foreign not in (None, getattr(world, "_backend", None)):
        raise NotImplementedError(
            f"new_group: backend {foreign!r} in a job whose backend is {world.backend()!r}; pass it to "
            "init_process_group"
        )
    members = list(range(world.size())) if ranks is None else list(ranks)
    found = world.new_group(
        sorted(members) if sort_ranks else members, _seconds(timeout), by_all=not use_local_synchronization
    )
    if found is None:
        return _NOT_A_MEMBER
    _remember(found, backend)
    return found


def split_group(
    parent_pg: Any = None,
    split_ranks: list[list[int]] | None = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """Cut a group into disjoint ones; return this rank's, or ``NON_GROUP_MEMBER``. All ranks of the group call it.

    Args:
        parent_pg: the group to cut; that of all ranks by default.
        split_ranks: lists of ranks by their numbers in ``parent_pg``; within each part they keep the list's order.
        timeout: of every collective of the new group; the parent's by default.
        backend: as of :func:`init_process_group`.
        pg_options: as of :func:`new_group`.
        group_desc: a name for people; it has no effect.

    Raises:
        ValueError: no lists, or a rank stands in two of them.
        TypeError: options of another backend.

    Example::

        >>> def rank():
        ...     half = oneflow.distributed.split_group(None, [[0, 2], [1, 3]])
        ...     return oneflow.distributed.get_process_group_ranks(half)
        >>> oneflow.testing.run_ranks(4, rank)
        [[0, 2], [1, 3], [0, 2], [1, 3]]
    """
    timeout = _check_options("split_group", pg_options, timeout)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    _check_backend("split_group", backend)
    parent = _group(parent_pg, "split_group")
    named = [rank for part in split_ranks for rank in part]
    if len(set(named)) != len(named):
        raise ValueError(f"split_group: a rank stands in two parts of {split_ranks}")
    found = [parent.new_group(list(part), _seconds(timeout)) for part in split_ranks]
    mine = next((group for group in found if group is not None), None)
    if mine is None:
        return _NOT_A_MEMBER
    _remember(mine, backend or _made.get(parent.name()))
    return mine


SHRINK_DEFAULT = 0
SHRINK_ABORT = 1


def shrink_group(ranks_to_exclude: list[int], group: Any = None, shrink_flags: int = 0, pg_options: Any = None) -> Any:
    """Make a group of the ranks that are left, also of a group that has failed. Only they call it.

    Args:
        ranks_to_exclude: by their numbers in ``group``.
        group: one that the program has made. The job's own group cannot be replaced: make one of all ranks
            (``new_group()``) for what shall go on without some of them.
        shrink_flags: ``SHRINK_ABORT`` ends what is under way in ``group`` first.

    Raises:
        ValueError: no rank, all ranks, one twice, or one that is not in ``group``.
        RuntimeError: this rank is to be excluded.
        NotImplementedError: the job's own group, or a third party's backend.

    Example::

        >>> def rank():
        ...     group = oneflow.distributed.new_group()
        ...     if oneflow.distributed.get_rank() == 1:
        ...         return None
        ...     return oneflow.distributed.get_process_group_ranks(oneflow.distributed.shrink_group([1], group))
        >>> oneflow.testing.run_ranks(3, rank)
        [[0, 2], None, [0, 2]]
    """
    found = _group(group, "shrink_group")
    n = found.size()
    timeout = _check_options("shrink_group", pg_options, None)
    if shrink_flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(f"shrink_group: shrink_flags is {shrink_flags}, expected SHRINK_DEFAULT or SHRINK_ABORT")
    excluded = list(ranks_to_exclude)
    if not excluded or len(set(excluded)) != len(excluded) or not all(0 <= rank < n for rank in excluded):
        raise ValueError(f"shrink_group: {excluded} must be distinct ranks of a group of {n}, and at least one")
    if len(excluded) == n:
        raise ValueError(f"shrink_group: {excluded} are all ranks of the group")
    if found.rank() in excluded:
        raise RuntimeError(f"shrink_group: rank {found.rank()} is to be excluded and must not call it")
    if found == _world():
        raise NotImplementedError("shrink_group: the job's own group; shrink one that new_group() has made")
    if shrink_flags == SHRINK_ABORT:
        found.abort("shrink_group")
    left = [rank for rank in range(n) if rank not in excluded]
    made = found.new_group(left, _seconds(timeout), by_all=False)
    _remember(made, _made.get(found.name()))
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Cut a group into neighbours of ``group_size`` ranks; return this rank's group and the list of all.

    Args:
        group_size: it divides the number of ranks; the ranks of one machine by default.

    Raises:
        ValueError: it does not.

    Example::

        >>> def rank():
        ...     mine, all_ = oneflow.distributed.new_subgroups(2)
        ...     return oneflow.distributed.get_process_group_ranks(mine), len(all_)
        >>> oneflow.testing.run_ranks(4, rank)
        [([0, 1], 2), ([0, 1], 2), ([2, 3], 2), ([2, 3], 2)]
    """
    ranks = get_process_group_ranks(group)
    if group_size is None:
        group_size = max(_oneflow._launch()[3], 1)
    if group_size < 1 or len(ranks) < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({len(ranks)})")
    if len(ranks) % group_size:
        raise ValueError(f"The world size ({len(ranks)}) must be divisible by '{group_size=}'")
    parts = [ranks[at : at + group_size] for at in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: list[list[int]],
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make disjoint groups; return this rank's group, or ``None`` if it is in none of them, and the list of all.

    Raises:
        ValueError: the list is empty, or a rank stands in two groups.

    Example::

        >>> def rank():
        ...     mine, _ = oneflow.distributed.new_subgroups_by_enumeration([[0, 2], [1, 3]])
        ...     return oneflow.distributed.get_process_group_ranks(mine)
        >>> oneflow.testing.run_ranks(4, rank)
        [[0, 2], [1, 3], [0, 2], [1, 3]]
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: set[int] = set()
    for rank in [r for ranks in ranks_per_subgroup_list for r in ranks]:
        if rank in seen:
            raise ValueError(f"Rank {rank} has appeared in more than one subgroup")
        seen.add(rank)
    groups = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list
    ]
    return next((g for g in groups if _is_member(g)), None), groups
