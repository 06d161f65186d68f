"""Backends of third parties: process groups written in Python against PyTorch's interface, behind our functions.

They serve the functions of ``oneflow.distributed``. Placements, global tensors and graphs need a backend of this
package.
"""

from __future__ import annotations

import datetime
import enum
import os
from collections.abc import Callable
from typing import Any, ClassVar

from oneflow import Tensor, _oneflow

__all__ = ["Backend", "ForeignGroup", "ProcessGroup", "is_backend_available", "is_mpi_available"]

# The group of all ranks, where a third party's backend made it.
world: ForeignGroup | None = None


class Options:
    """Settings of a group: how long its collectives wait. Also as ``ProcessGroup.Options``.

    Args:
        backend: the name of the backend that they are for.
        timeout: half an hour by default.

    Example::

        >>> import datetime
        >>> oneflow.distributed.Backend.Options("gloo", datetime.timedelta(seconds=5))._timeout.seconds
        5
    """

    def __init__(self, backend: str = "gloo", timeout: datetime.timedelta = datetime.timedelta(minutes=30)) -> None:
        self.backend, self._timeout = backend, timeout


class Backend(str):
    """The name of a backend, in lower case.

    Example::

        >>> oneflow.distributed.Backend("GLOO") == oneflow.distributed.Backend.GLOO
        True
    """

    Options = Options

    GLOO = "gloo"
    MPI = "mpi"
    NCCL = "nccl"
    TCP = "tcp"
    UNDEFINED = "undefined"

    # A name in lower case to the function that makes groups, and whether it takes options.
    _plugins: ClassVar[dict[str, tuple[Callable[..., Any], bool]]] = {}
    backend_list: ClassVar[list[str]] = ["undefined", "gloo", "nccl", "mpi", "tcp"]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": "gloo", "cuda": "nccl"}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        **{name: ["cpu"] for name in ("gloo", "mpi", "tcp")},
        "nccl": ["cuda"],
    }

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: str | list[str] | None = None
    ) -> None:
        """Let :func:`init_process_group` make groups with ``func``.

        Args:
            name: of the backend.
            func: gets ``(store, rank, size, timeout)`` and returns a process group: an object with PyTorch's
            methods, such
                as ``allreduce(tensors, options)``, which return works. With ``extended_api`` it gets an object with
                ``store``, ``group_rank``, ``group_size``, ``timeout``, ``group_id`` and ``global_ranks_in_group``,
                and options.
            devices: kinds of devices that it serves; ``"cpu"`` by default.

        Raises:
            RuntimeError: there is a backend of this name.

        Example::

            >>> oneflow.distributed.Backend.register_backend("mine", lambda store, rank, size, timeout: None)
            >>> oneflow.distributed.is_backend_available("mine"), oneflow.distributed.Backend.MINE
            (True, 'mine')
        """
        key = name.lower()
        if key in cls.backend_list:
            raise RuntimeError(f"{name!r} c10d backend already exists")
        setattr(cls, name.upper(), key)
        cls.backend_list.append(key)
        cls.backend_capability[key] = [devices] if isinstance(devices, str) else list(devices or ["cpu"])
        for device in cls.backend_capability[key]:
            cls.default_device_backend_map.setdefault(device, key)
        cls._plugins[key] = (func, extended_api)


def is_started_by_mpirun() -> bool:
    """Whether a launcher of an MPI library has started this process."""
    return any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE"))


def is_mpi_available() -> bool:
    """Whether an MPI library can be loaded here, for the backend ``"mpi"``, and no other launcher has made the ranks.

    Open MPI and libraries with MPICH's binary interface (MPICH, Intel MPI, MVAPICH) serve. The environment variable
    ``ONEFLOW_MPI_LIBRARY`` names one that lies elsewhere. A rank of torchrun or of this package's launcher cannot use
    it: False there, so that programs which ask this to choose a backend choose another.

    Example::

        >>> oneflow.distributed.is_mpi_available() in (True, False)
        True
    """
    is_other_rank = {"RANK", "WORLD_SIZE"} <= os.environ.keys() and not is_started_by_mpirun()
    return not is_other_rank and _oneflow._is_mpi_available()


def is_backend_available(backend: str) -> bool:
    """Whether :func:`init_process_group` takes this backend.

    Example::

        >>> oneflow.distributed.is_backend_available("gloo")
        True
    """
    name = backend.lower()
    if name == "nccl":
        return _oneflow._nccl_unavailable_reason() is None
    return name in Backend.backend_list and (name != "mpi" or is_mpi_available())


class _Kinds(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is ProcessGroup and isinstance(instance, (_oneflow._ProcessGroup, ForeignGroup))
        )


class BackendType(enum.IntEnum):
    """PyTorch's kinds of backends; also as ``ProcessGroup.BackendType``."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    XCCL = 3
    UCC = 4
    MPI = 5
    CUSTOM = 6


class ProcessGroup(metaclass=_Kinds):
    """What third parties derive the groups of their backends from; groups of this package are instances, too.

    ``ProcessGroup(rank, size)`` is the base of such a class. ``ProcessGroup(store, rank, size)`` is a group made by
    hand: it has the backend that ``_register_backend`` gives it, such as a :class:`ProcessGroupGloo`, and stands
    wherever a group does.

    Example::

        >>> import oneflow.distributed as dist
        >>> store = dist.HashStore()
        >>> made = dist.ProcessGroup(store, 0, 1)
        >>> gloo = dist.ProcessGroupGloo(store, 0, 1)
        >>> made._register_backend(oneflow.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        >>> dist.get_world_size(made)
        1
        >>> gloo.shutdown()
    """

    Options = Options
    BackendType = BackendType

    _registered: Any = None

    def __init__(self, *place: Any) -> None:
        if len(place) not in (2, 3):
            raise TypeError(f"ProcessGroup: give rank and size, or store, rank and size; got {len(place)} arguments")
        *store, self._rank, self._size = place
        self._store = store[0] if store else None

    def _set_default_backend(self, backend_type: Any) -> None:
        """Accepted: the one backend serves all devices that it can."""
        BackendType(backend_type)

    def _register_backend(self, device: Any, backend_type: Any, backend: Any = None) -> None:
        """Let ``backend`` run the collectives of this group.

        Raises:
            NotImplementedError: the device is not the CPU.
            ValueError: ``backend`` has another rank or size than the group.
        """
        kind = getattr(device, "type", device)
        if kind != "cpu":
            raise NotImplementedError(
                f"ProcessGroup._register_backend: device {kind!r}; groups made by hand are for cpu"
            )
        if backend is None:
            raise TypeError("ProcessGroup._register_backend: backend is None")
        if (backend.rank(), backend.size()) != (self._rank, self._size):
            raise ValueError(
                f"ProcessGroup._register_backend: the group has rank {self._rank} of {self._size}, the backend "
                f"{backend.rank()} of {backend.size()}"
            )
        self._registered = backend

    def __getattr__(self, name: str) -> Any:
        backend = None if name.startswith("__") else self._registered
        if backend is None:
            raise AttributeError(
                f"{type(self).__name__} has no {name}; a group made by hand has what _register_backend gives it"
            )
        return getattr(backend, name)

    def rank(self) -> int:
        """This process's number in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return self._size


def unwrapped(group: Any) -> Any:
    """The backend of a group that was made by hand; any other group itself."""
    backend = getattr(group, "_registered", None) if type.__instancecheck__(ProcessGroup, group) else None
    return group if backend is None else backend


class _Options:
    """What a third party's method gets beside its tensors, by PyTorch's names."""

    def __init__(self, **values: Any) -> None:
        self.timeout = datetime.timedelta(seconds=-1)
        self.asyncOp = True
        self.__dict__.update(values)


class _ExtendedOptions(_Options):
    """What a factory with the extended interface gets."""


class ForeignGroup:
    """A third party's group under the methods that the functions of this package call."""

    def __init__(self, name: str, store: Any, rank: int, ranks: list[int], seconds: float, group_id: str) -> None:
        self._backend, self._store, self._rank, self._ranks = name, store, rank, ranks
        self._seconds, self._id, self._n_children = seconds, group_id, 0
        self._n_local: dict[tuple[int, ...], int] = {}
        make, is_extended = Backend._plugins[name]
        timeout = datetime.timedelta(seconds=seconds)
        if is_extended:
            given = {"store": store, "group_rank": rank, "group_size": len(ranks), "group_id": group_id}
            options = _ExtendedOptions(**given, timeout=timeout, global_ranks_in_group=ranks)
            self.group = make(options, None)
        else:
            self.group = make(store, rank, len(ranks), timeout)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self._ranks)

    def ranks(self) -> list[int]:
        return self._ranks

    def name(self) -> str:
        return self._id

    def backend(self) -> str:
        return self._backend

    def timeout(self) -> float:
        return self._seconds

    def set_timeout(self, seconds: float) -> None:
        self._seconds = seconds

    def new_group(self, ranks: list[int], timeout: float | None = None, by_all: bool = True) -> ForeignGroup | None:
        from oneflow.distributed._stores import PrefixStore

        if not ranks or len(set(ranks)) != len(ranks) or not all(0 <= rank < self.size() for rank in ranks):
            raise ValueError(f"new_group: {ranks} must be distinct ranks below {self.size()}")
        if by_all:
            self._n_children += 1
            number = f"{self._n_children}"
        else:
            self._n_local[tuple(ranks)] = self._n_local.get(tuple(ranks), 0) + 1
            number = f"local{self._n_local[tuple(ranks)]}"
        if self._rank not in ranks:
            return None
        name = f"{self._id}/{number}:{','.join(map(str, ranks))}"
        seconds = self._seconds if timeout is None else timeout
        members = [self._ranks[rank] for rank in ranks]
        return ForeignGroup(
            self._backend, PrefixStore(name, self._store), ranks.index(self._rank), members, seconds, name
        )

    def close(self) -> None:
        shutdown = getattr(self.group, "shutdown", None)
        if shutdown is not None:
            shutdown()

    def abort(self, reason: str) -> None:
        self._method("abort")()

    def _wait_barrier(self) -> None:
        self._method("barrier")(_Options(device_ids=[])).wait()

    def _method(self, name: str) -> Callable[..., Any]:
        found = getattr(self.group, name, None)
        if found is None:
            kind = type(self.group).__name__
            raise NotImplementedError(f"{name}: the backend {self._backend!r} ({kind}) does not have it")
        return found

    def issue(
        self, kind: str, output: Tensor, input: Tensor | None = None, *, wait: bool = False, **options: Any
    ) -> Any:
        work = getattr(self, f"_{kind}")(output, output if input is None else input, **options)
        if not wait:
            return work
        work.wait()
        return None

    def _all_reduce(self, output: Tensor, input: Tensor, op: Any = "sum") -> Any:
        return self._method("allreduce")([output], _Options(reduceOp=op))

    def _broadcast(self, output: Tensor, input: Tensor, peer: int = 0) -> Any:
        return self._method("broadcast")([output], _Options(rootRank=peer, rootTensor=0))

    def _reduce(self, output: Tensor, input: Tensor, op: Any = "sum", peer: int = 0) -> Any:
        return self._method("reduce")([output], _Options(reduceOp=op, rootRank=peer, rootTensor=0))

    def _pieces(self, whole: Tensor, counts: list[int] | None, like: Tensor) -> list[Tensor]:
        parts = list(whole.view(-1).split(counts or [like.numel()] * self.size()))
        return parts if counts else [part.view(like.shape) for part in parts]

    def _all_gather(self, output: Tensor, input: Tensor, counts: list[int] | None = None) -> Any:
        return self._method("allgather")([self._pieces(output, counts, input)], [input], _Options())

    def _reduce_scatter(self, output: Tensor, input: Tensor, op: Any = "sum", counts: list[int] | None = None) -> Any:
        return self._method("reduce_scatter")([output], [self._pieces(input, counts, output)], _Options(reduceOp=op))

    def _all_to_all(
        self, output: Tensor, input: Tensor, counts: list[int] | None = None, recv_counts: list[int] | None = None
    ) -> Any:
        flat = (output.view(-1), input.view(-1))
        return self._method("alltoall_base")(*flat, recv_counts or [], counts or [], _Options())

    def _gather(self, output: Tensor, input: Tensor, peer: int = 0) -> Any:
        parts = [self._pieces(output, None, input)] if self._rank == peer else []
        return self._method("gather")(parts, [input], _Options(rootRank=peer))

    def _scatter(self, output: Tensor, input: Tensor, peer: int = 0) -> Any:
        parts = [self._pieces(input, None, output)] if self._rank == peer else []
        return self._method("scatter")([output], parts, _Options(rootRank=peer))

    def _send(self, output: Tensor, input: Tensor, peer: int = 0, tag: int = 0) -> Any:
        return self._method("send")([output], peer, tag)

    def _recv(self, output: Tensor, input: Tensor, peer: int = 0, tag: int = 0) -> Any:
        if peer < 0:
            return self._method("recv_anysource")([output], tag)
        return _Received(self._method("recv")([output], peer, tag), peer)

    def _barrier(self, output: Tensor, input: Tensor) -> Any:
        return self._method("barrier")(_Options(device_ids=[]))


class _Received:
    """A third party's receive, which knows whom it is from."""

    def __init__(self, work: Any, peer: int) -> None:
        self._work, self._peer = work, peer

    def source_rank(self) -> int:
        return self._peer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def join(name: str, store: Any, rank: int, world_size: int, seconds: float) -> ForeignGroup:
    """Make the group of all ranks with a third party's backend."""
    global world
    from oneflow.distributed._stores import PrefixStore

    made = ForeignGroup(name, PrefixStore("default_pg", store), rank, list(range(world_size)), seconds, "world")
    world = made
    return made


def leave() -> None:
    """Close the group of all ranks, if a third party's backend made it."""
    global world
    if world is not None:
        gone = world
        world = None
        gone.close()
