"""The calls: ``init_rpc``, ``rpc_sync``, ``rpc_async``, ``remote`` and ``shutdown``."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from oneflow import futures
from oneflow.distributed import _objects
from oneflow.distributed.autograd import _contexts
from oneflow.distributed.rpc import _gathering, _meeting, _state
from oneflow.distributed.rpc._agent import Agent, WorkerInfo
from oneflow.distributed.rpc._references import RRef
from oneflow.distributed.rpc.backend_registry import BackendType
from oneflow.distributed.rpc.constants import DEFAULT_SHUTDOWN_TIMEOUT, UNSET_RPC_TIMEOUT
from oneflow.distributed.rpc.options import RpcBackendOptions, TensorPipeRpcBackendOptions
from oneflow.futures import Future

__all__ = [
    "RRef",
    "WorkerInfo",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]

_NAME = re.compile(r"[A-Za-z0-9_:-]{1,127}")
_thread = threading.local()


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Make this process a worker: others may call functions in it by its name, and it in others.

    Returns when all workers have come. Workers may run anything in each other, so each proves who it is: with the job's
    secret, which ``python -m oneflow.distributed.launch`` makes on one machine, or its certificates; without either all
    workers run on one machine as one user. They listen where the meeting point is, on loopback by default.

    Args:
        name: letters, digits, ``_``, ``:`` and ``-``, fewer than 128; no two workers have the same.
        backend: ``BackendType.TENSORPIPE``, the only one.
        rank, world_size: this worker's place; ``RANK`` and ``WORLD_SIZE`` of the environment by default.
        rpc_backend_options: the meeting point, timeouts and threads; see :class:`TensorPipeRpcBackendOptions`.

    Raises:
        RuntimeError: it is a worker already, not all came in time, two have one name, or nothing proves who they are.
        NotImplementedError: no number of workers is known: they do not come and go.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> rpc.rpc_sync("worker0", oneflow.add, args=(oneflow.ones(2), 3))
        tensor([4., 4.])
        >>> rpc.shutdown()
    """
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError("Argument backend must be a member of BackendType")
    if rpc_backend_options is not None and not isinstance(rpc_backend_options, RpcBackendOptions):
        raise TypeError("Argument rpc_backend_options must be an instance of RpcBackendOptions")
    if _state.running() is not None:
        raise RuntimeError("RPC is already initialized")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RuntimeError(
            f"Worker name must match {_NAME.pattern}: letters, digits, '_', ':' and '-', fewer than 128, got {name!r}"
        )
    rank = int(os.environ.get("RANK", -1)) if rank < 0 else int(rank)
    world_size = int(world_size or os.environ.get("WORLD_SIZE") or 0)
    if world_size < 1 or rank < 0:
        raise NotImplementedError(
            f"init_rpc: workers do not come and go: give rank and world_size (got {rank} and {world_size or None})"
        )
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    group = _meeting.meet(options.init_method, rank, world_size, options.rpc_timeout or 300.0)
    try:
        _state.become(_made(name, group, options))
    except BaseException:
        group.close()
        raise
    _state.agent().start()


def _made(name: str, group: Any, options: RpcBackendOptions) -> Agent:
    maps = {
        to: {str(source): str(target) for source, target in pairs.items()}
        for to, pairs in getattr(options, "device_maps", {}).items()
    }
    found: list[Any] = [None] * group.size()
    _objects.all_gather_object(found, (name, maps), group)
    names = [name for name, _ in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RuntimeError(f"init_rpc: names of workers must differ: several are called {', '.join(twice)}")
    for owner, device_maps in found:
        if strangers := sorted(set(device_maps) - set(names)):
            raise ValueError(
                f"Node {owner} has invalid target node names in its device maps: {', '.join(strangers)}; there are "
                f"{', '.join(names)}"
            )
    n_threads = getattr(options, "num_worker_threads", 16)
    return Agent(group, names, [device_maps for _, device_maps in found], options.rpc_timeout, n_threads)


def shutdown(graceful: bool = True, timeout: float = DEFAULT_SHUTDOWN_TIMEOUT) -> None:
    """End being a worker.

    Args:
        graceful: wait until all workers have called this and no call is under way; otherwise leave at once, and calls
            of others to this worker fail.
        timeout: seconds to wait; 0 for no limit.

    Raises:
        RuntimeError: this process is no worker, a worker is gone, or it took longer.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> rpc.shutdown()
    """
    agent = _state.agent()
    try:
        if graceful:
            agent.join(timeout or None)
    finally:
        _state.become(None)
        agent.close()
        _contexts.forget_all()
        _gathering.forget()


def get_worker_info(worker_name: str | int | None = None) -> WorkerInfo:
    """Return what describes a worker, this one by default; it serves in the place of the name.

    Raises:
        RuntimeError: there is no such worker.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> rpc.get_worker_info()
        WorkerInfo(id=0, name=worker0)
        >>> rpc.shutdown()
    """
    agent = _state.agent()
    return agent.worker(agent.rank if worker_name is None else worker_name)


def get_rpc_timeout() -> float:
    """Return the seconds that a call may take where it says nothing itself; 0 for no limit.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> rpc.get_rpc_timeout()
        60.0
        >>> rpc.shutdown()
    """
    return _state.agent().timeout


def _set_rpc_timeout(timeout: float) -> None:
    if timeout < 0:
        raise ValueError(f"rpc: timeout must be positive, or 0 for no limit, got {timeout}")
    _state.agent().timeout = float(timeout)


def _start(to: Any, func: Any, args: Sequence[Any] | None, kwargs: dict[str, Any] | None, timeout: float) -> Future:
    agent = _state.agent()
    if not callable(func):
        raise TypeError("function should be callable.")
    return agent.call(agent.worker(to), func, tuple(args or ()), dict(kwargs or {}), timeout)


def rpc_sync(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Run a function on a worker and return its result.

    Args:
        to: the worker: its name, its rank or its :class:`WorkerInfo`.
        func: a function that the worker finds by its name, or anything else that can be called and pickled.
        args, kwargs: its arguments, which are copied; references stay references.
        timeout: seconds; 0 for no limit, the worker's own by default.

    Raises:
        RuntimeError: it took longer, or the worker is gone.
        Exception: what the function has raised, of the same class, with the worker's traceback in its text.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> rpc.rpc_sync("worker0", max, args=(3, 4))
        4
        >>> rpc.shutdown()
    """
    return _start(to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future:
    """Begin to run a function on a worker; return a :class:`~oneflow.futures.Future` of its result.

    The arguments are those of :func:`rpc_sync`, and are copied before this returns.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> rpc.rpc_async("worker0", max, args=(3, 4)).wait()
        4
        >>> rpc.shutdown()
    """
    future = _start(to, func, args, kwargs, timeout)
    if hasattr(_thread, "futures"):
        _thread.futures.append(future)
    return future


def remote(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> RRef[Any]:
    """Begin to run a function on a worker, which keeps the result; return an :class:`RRef` to it.

    The arguments are those of :func:`rpc_sync`, and are copied before this returns. What the function raises is raised
    where the reference is used.

    Example::

        >>> from oneflow.distributed import rpc
        >>> rpc.init_rpc("worker0", rank=0, world_size=1)
        >>> table = rpc.remote("worker0", oneflow.nn.Embedding, args=(10, 2))
        >>> table.rpc_sync().forward(oneflow.tensor([3])).shape
        oneflow.Size([1, 2])
        >>> rpc.shutdown()
    """
    agent = _state.agent()
    if not callable(func):
        raise TypeError("function should be callable.")
    return agent.remote(agent.worker(to), func, tuple(args or ()), dict(kwargs or {}), timeout)


@contextmanager
def _wait_all() -> Iterator[None]:
    """At the end of the block wait for the futures of all :func:`rpc_async` in it."""
    _thread.futures = []
    try:
        yield
    finally:
        waiting = _thread.futures
        del _thread.futures
        futures.wait_all(waiting)


def _is_current_rpc_agent_set() -> bool:
    return _state.running() is not None


def _get_current_rpc_agent() -> Agent:
    return _state.agent()


# A private name of PyTorch that packages use, as the next.
_require_initialized = _gathering.require_initialized


def _all_gather(obj: Any, worker_names: set[str] | None = None, timeout: float = UNSET_RPC_TIMEOUT) -> dict[str, Any]:
    """Return an object of each worker by name; all workers call this, and in one order."""
    agent = _state.agent()
    names = {worker.name for worker in agent.workers}
    if worker_names is not None and set(worker_names) != names:
        raise NotImplementedError(
            f"_all_gather: gathers of all workers ({', '.join(sorted(names))}), not of "
            f"{', '.join(sorted(worker_names)) or 'none'}"
        )
    agent.n_gathered += 1
    args = (agent.n_gathered, agent.workers[agent.rank].name, obj)
    return dict(rpc_sync(agent.workers[0], _gathering.give, args=args, timeout=timeout))
