"""Joining the job: what a launcher, the program or a store says of its ranks."""

from __future__ import annotations

import atexit
import datetime
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import oneflow
from oneflow import _oneflow
from oneflow.distributed import _backends, _error_files
from oneflow.distributed._groups import (
    GroupMember,
    _check_backend,
    _check_options,
    _group,
    _made,
    _remember,
    _seconds,
    _world,
)
from oneflow.distributed._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from oneflow.distributed.rendezvous import _handlers, rendezvous

__all__ = ["destroy_process_group", "init_process_group", "is_available", "is_initialized"]

_initialized = False
# Joined because a placement or a collective came, before anybody asked for it.
_joined_unasked = False
# Left in peace: nobody joins again unless asked to.
_has_left = False

# Which process has taken the launcher's words for itself, and what they were: its children inherit them with the
# environment, and are no ranks.
_TAKEN = "ONEFLOW_RANK_OF_PROCESS"


# The GPU that the program has named for this rank.
_bound: Any = None


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
    return _initialized or _oneflow._world_group().size() > 1


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: datetime.timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the job that the launcher's environment describes; without a launcher, a job of one process.

    The launcher is torchrun or this package's own, Open MPI, MVAPICH, MPICH, Intel MPI, Slurm's ``srun``, an indexed
    job of Kubernetes, or whoever sets ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``. Rank 0 says on
    standard error which it was. A program may name its rank and the number of ranks itself.

    Args:
        backend: ``None``, ``"tcp"``, or ``"gloo"`` as an alias: CPU tensors over sockets and shared memory; ``"nccl"``
            or ``"cpu:gloo,cuda:nccl"``: also tensors on GPUs, by NCCL; ``"mpi"``: over the MPI library whose
            ``mpirun`` has started the program; or a name that was given to :meth:`Backend.register_backend`.
            CPU tensors are served in any case, and so are those on GPUs where NCCL can be loaded.
        init_method: ``"env://"``; ``"tcp://host:port"``, where rank 0 listens; or ``"file:///path"``, a file that all
            ranks can open. The latter two need ``rank`` and ``world_size``, here or as ``?rank=0&world_size=2``.
        timeout: of every collective; thirty minutes by default. A number counts seconds.
        world_size, rank: this process's place, where the environment does not say it; checked where it does.
        store: where the ranks meet, in place of ``init_method``.
        device_id: a GPU: with ``"nccl"`` its ranks are connected at once rather than at the first collective, and
            barriers use it.
        group_name: accepted; groups have names of their own.
        pg_options: a :class:`Backend.Options`, whose timeout counts where there is no other.

    Raises:
        RuntimeError: not all ranks came in time, or NCCL was asked for and is not there.
        ValueError: joined already, an incomplete environment, or arguments that contradict it or each other.
        TypeError: options of another backend.

    Example::

        >>> oneflow.distributed.init_process_group()  # Without a launcher: this process is the whole job.
        >>> oneflow.distributed.get_world_size()
        1
        >>> oneflow.distributed.destroy_process_group()
    """
    global _initialized, _joined_unasked
    foreign = _check_backend("init_process_group", backend)
    timeout = _check_options("init_process_group", pg_options, timeout)
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    by_mpi = "mpi" in {part.rpartition(":")[2] for part in (backend or "").lower().split(",")}
    device = _gpu(backend, device_id)
    if by_mpi and _joined_unasked:
        raise RuntimeError(
            "init_process_group: this process has joined the launcher's job over TCP already, when it first asked for "
            "a placement, its rank or a collective; call init_process_group('mpi') before that"
        )
    if _joined_unasked:
        # A placement came first and has joined the job: this call finds it done.
        world = _oneflow._world_group()
        _check_given(rank, world_size, (world.rank(), world.size()))
        if store is not None or init_method not in (None, "env://"):
            raise RuntimeError(
                "init_process_group: this process has joined the launcher's job already, when it first asked for a "
                "placement, its rank or a collective; call init_process_group before that"
            )
        _joined_unasked = False
        _remember(world, backend)
        if timeout is not None:
            world.set_timeout(_seconds(timeout) or 0.0)
        _connect(device)
        return
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    _made.pop("world", None)
    _join(foreign, by_mpi, init_method, _seconds(timeout), world_size, rank, store)
    _remember(_world(), backend)
    _connect(device)


def _gpu(backend: str | None, device_id: Any) -> Any:
    """The GPU that a program names for a backend that serves it."""
    if device_id is None or "nccl" not in (backend or "").lower():
        return None
    device = oneflow.device("cuda", device_id) if isinstance(device_id, int) else oneflow.device(device_id)
    if device.type != "cuda" or device.index is None:
        raise ValueError(f"init_process_group: device_id must be a GPU with an index for 'nccl', got {device_id!r}")
    return device


def _connect(device: Any) -> None:
    """Connect the ranks' GPUs now rather than at the first collective."""
    global _bound
    _bound = device
    if device is not None:
        _world().issue("barrier", oneflow.empty(0, device=device), wait=True)


def _join(
    foreign: str | None,
    by_mpi: bool,
    init_method: str | None,
    seconds: float | None,
    world_size: int,
    rank: int,
    store: Store | None,
) -> None:
    """Join over a third party's backend, MPI, a store, or what the environment or an address say."""
    if foreign is not None:
        _join_foreign(foreign, init_method, seconds, rank, world_size, store)
        return
    if by_mpi:
        if store is not None or init_method not in (None, "env://"):
            raise ValueError("init_process_group: backend 'mpi' has mpirun's ranks; leave out store and init_method")
        _join_mpi(seconds, rank, world_size)
        return
    if store is not None or (init_method or "").startswith("file://"):
        if store is None:
            path, rank, world_size = _parse(init_method or "", rank, world_size)
            store = FileStore(path, world_size)
        if not isinstance(store, Store):
            raise TypeError(f"init_process_group: store must be a Store, got {type(store).__name__}")
        if not isinstance(store._store, _oneflow._Store):
            raise TypeError(
                f"init_process_group: ranks meet in a TCPStore, FileStore or HashStore, got {type(store).__name__}"
            )
        _require(rank, world_size, "a store")
        _oneflow._init_over_store(store._store, rank, world_size, seconds)
        _joined("a store of the program", world_size, None, store=store)
        return
    if init_method is None or init_method == "env://":
        place = None if rank < 0 and world_size < 0 else _place(rank, world_size)
        found = _oneflow._init_process_group(seconds, place)
    elif init_method.startswith("tcp://"):
        url, rank, world_size = _parse(init_method, rank, world_size)
        host, _, port = url.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(
                f"init_process_group: init_method {init_method!r} needs a host and a port: tcp://host:port"
            )
        _require(rank, world_size, "tcp://")
        found = _oneflow._init_process_group(seconds, (rank, world_size), (host.strip("[]"), int(port)))
    else:
        store, rank, world_size = _met(init_method, rank, world_size, seconds)
        _oneflow._init_over_store(store._store, rank, world_size, seconds)
        _joined("a rendezvous of the program", world_size, None, store=store)
        return
    actual_rank, n_ranks, source, master = found
    _joined(source, n_ranks, master)
    _check_given(rank, world_size, (actual_rank, n_ranks))


def _met(init_method: str, rank: int, world_size: int, seconds: float | None) -> tuple[Store, int, int]:
    """What a rendezvous of the program's own says."""
    scheme = init_method.partition("://")[0]
    if scheme not in _handlers:
        raise ValueError(
            f"init_process_group: init_method {init_method!r} is not supported; use env://, tcp://host:port, "
            "file://path or distributed.register_rendezvous_handler"
        )
    timeout = datetime.timedelta(seconds=300.0 if seconds is None else seconds)
    store, rank, world_size = next(iter(rendezvous(init_method, rank, world_size, timeout=timeout)))
    if not isinstance(store, Store):
        raise TypeError(f"init_process_group: the rendezvous {scheme}:// gave no Store, but {type(store).__name__}")
    return store, rank, world_size


def _join_mpi(seconds: float | None, rank: int, world_size: int) -> None:
    """Join the job that ``mpirun`` has started, through its library."""
    if not _backends.is_started_by_mpirun():
        raise RuntimeError("init_process_group: backend 'mpi': mpirun has not started this process")
    found = _oneflow._launch()[:2]
    _check_given(rank, world_size, found)
    version = _oneflow._init_mpi(found[1], seconds)
    _joined(f"{version}, whose messages are used", found[1], None)


def _join_foreign(
    backend: str, init_method: str | None, seconds: float | None, rank: int, world_size: int, store: Store | None
) -> None:
    """Join with a third party's backend, whose groups meet in a store of ours."""
    if init_method is None or init_method == "env://":
        if store is None or rank < 0 or world_size < 0:
            rank, world_size = _place(rank, world_size) or _oneflow._launch()[:2]
        if store is None and world_size == 1:
            store = HashStore()
        elif store is None:
            missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
            if missing:
                raise ValueError(f"init_process_group: backend {backend!r} needs {missing[0]}, or a store")
            is_server = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
            store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world_size, is_server)
    else:
        url, rank, world_size = _parse(init_method, rank, world_size)
        _require(rank, world_size, init_method)
        if init_method.startswith("file://"):
            store = FileStore(url, world_size)
        else:
            host, _, port = url.rpartition(":")
            if not init_method.startswith("tcp://") or not host or not port.isdecimal():
                raise ValueError(f"init_process_group: init_method {init_method!r} is not supported")
            store = TCPStore(host.strip("[]"), int(port), world_size, rank == 0)
    _backends.join(backend, store, rank, world_size, 1800.0 if seconds is None else seconds)
    _joined(f"the program, with the backend {backend!r}", world_size, None, rank, store)


# A store of the program in which the ranks have met, or the host and port of one.
_meeting: Store | tuple[str, int] | None = None


def _default_store(timeout: float) -> Store:
    """A store that all ranks of the job share, under keys of its own."""
    global _meeting
    if not _initialized:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    if _meeting is None:
        if _world().size() > 1:
            raise NotImplementedError("this job was joined without a store: its ranks met through MPI or as threads")
        _meeting = HashStore()
    if isinstance(_meeting, tuple):
        host, port = _meeting
        _meeting = TCPStore(host, port, is_master=False, timeout=datetime.timedelta(seconds=timeout))
    found = PrefixStore("default_pg", _meeting)
    found.set_timeout(datetime.timedelta(seconds=timeout))
    return found


def _joined(
    source: str,
    n_ranks: int,
    master: tuple[str, int] | None,
    rank: int | None = None,
    store: Store | None = None,
) -> None:
    global _initialized, _has_left, _meeting
    _initialized, _has_left = True, False
    _meeting = store if store is not None else (master if n_ranks > 1 else None)
    _error_files.install()
    atexit.register(destroy_process_group)
    if n_ranks > 1:
        os.environ[_TAKEN] = f"{os.getpid()} {_words()}"
        if (_oneflow._world_group().rank() if rank is None else rank) == 0:
            where = f", met at {master[0]}:{master[1]}" if master else ""
            sys.stderr.write(f"oneflow.distributed: {n_ranks} ranks, found by {source}{where}\n")


def _words() -> str:
    """The launcher's words for this process."""
    try:
        return " ".join(map(str, _oneflow._launch()))
    except ValueError:
        return ""


def _place(rank: int, world_size: int) -> tuple[int, int] | None:
    """A place that the program names, unless it is the one that its launcher has told."""
    try:
        found = _oneflow._launch()[:2]
    except ValueError:
        # The environment alone is incomplete: the program may say the rest.
        found = None
    if found is not None and found[1] > 1:
        _check_given(rank, world_size, found)
        return None
    name = {"RANK": rank, "WORLD_SIZE": world_size}
    missing = [key for key, value in name.items() if value < 0 and not os.environ.get(key)]
    if missing:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: {missing[0]} expected, but not set"
        )
    if rank < 0:
        rank = int(os.environ["RANK"])
    if world_size < 0:
        world_size = int(os.environ["WORLD_SIZE"])
    if world_size == 1 and rank == 0 and not os.environ.get("MASTER_ADDR"):
        return None
    return rank, world_size


def _parse(init_method: str, rank: int, world_size: int) -> tuple[str, int, int]:
    """The place in an address, and the rank and size that it may carry."""
    parts = urlsplit(init_method)
    said = {name: values[0] for name, values in parse_qs(parts.query).items()}
    for name, given in (("rank", rank), ("world_size", world_size)):
        if name in said and (not said[name].isdecimal() or given not in (-1, int(said[name]))):
            raise ValueError(f"init_process_group: {name} is {given}, but init_method says {said[name]!r}")
    return (
        parts.netloc + parts.path if parts.scheme == "file" else parts.netloc,
        int(said.get("rank", rank)),
        int(said.get("world_size", world_size)),
    )


def _require(rank: int, world_size: int, what: str) -> None:
    if world_size < 1 or rank < 0:
        raise ValueError(
            f"init_process_group: {what} says nothing of ranks; give rank and world_size (got {rank} and {world_size})"
        )


def _check_given(rank: int, world_size: int, found: tuple[int, int]) -> None:
    for name, given, actual in (("rank", rank, found[0]), ("world_size", world_size, found[1])):
        if given not in (-1, actual):
            raise ValueError(f"init_process_group: {name} is {given}, but the environment says {actual}")


def _join_launched() -> None:
    """Join the job of a launcher, if there is one.

    Whoever asks first does so: placements, ``env``, groups and collectives, ``DistributedDataParallel``, ``nn.Graph``.
    """
    global _joined_unasked
    if _backends.world is not None and _backends.world.size() > 1:
        raise NotImplementedError(
            "placements and graphs need a backend of this package; the job was joined with "
            f"{_backends.world.backend()!r}"
        )
    if _initialized or _has_left or not _oneflow._is_launched() or _oneflow._world_group().size() > 1:
        return
    if _oneflow._launch()[1] > 1:
        pid, _, words = os.environ.get(_TAKEN, "").partition(" ")
        if pid not in ("", str(os.getpid())) and words == _words():
            # A process that a rank has started: a reader of its data, say.
            return
        init_process_group()
        _joined_unasked = True
    elif (note := _oneflow._launch_note()) is not None and note not in _said:
        _said.add(note)
        sys.stderr.write(f"oneflow.distributed: {note}\n")


_said: set[str] = set()


def destroy_process_group(group: Any = None) -> None:
    """Leave the job (or one group) in peace, so that other ranks can tell it from a death.

    Example::

        >>> oneflow.distributed.init_process_group()
        >>> oneflow.distributed.destroy_process_group()
        >>> oneflow.distributed.is_initialized()
        False
    """
    global _initialized, _joined_unasked, _has_left
    if _backends.world is not None and group in (None, _backends.world):
        _backends.leave()
        _made.clear()
        _initialized, _joined_unasked, _has_left = False, False, True
    elif group is not None and group != _oneflow._world_group():
        if group != GroupMember.NON_GROUP_MEMBER:
            _made.pop(_group(group, "destroy_process_group").name(), None)
            _group(group, "destroy_process_group").close()
    elif _initialized:
        _initialized, _joined_unasked, _has_left = False, False, True
        _made.clear()
        _oneflow._destroy_process_group()
