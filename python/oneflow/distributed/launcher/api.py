"""``elastic_launch``: run a function or a command once for each rank, and return what the ranks return.

Ranks get the environment that :mod:`oneflow.distributed.launch` gives its scripts. Machines do not come and go during a
job: ``min_nodes`` is ``max_nodes``, and with several machines the program names the first one and says which this is.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from oneflow.distributed import launch
from oneflow.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, SignalException
from oneflow.distributed.elastic.multiprocessing.errors import ChildFailedError
from oneflow.distributed.launcher import _workers

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

log = logging.getLogger(__name__)


@dataclass
class LaunchConfig:
    """How a job is started.

    Args:
        min_nodes, max_nodes: machines in the job; the same number.
        nproc_per_node: processes on this machine.
        logs_specs: where the output of ranks goes; to this process's by default.
        run_id: a name of the job, drawn where there is none.
        role: what the ranks are to be called, the same on all machines: ``ROLE_NAME`` in their environment.
        rdzv_endpoint: with ``rdzv_backend="static"`` the ``host:port`` on which rank 0 listens, a free port of this
            machine otherwise.
        rdzv_backend: ``"static"`` for jobs of several machines; on one machine nobody has to be found.
        rdzv_configs: ``rank`` is this machine's place among several.
        rdzv_timeout: accepted; :func:`~oneflow.distributed.init_process_group` says how long ranks wait.
        max_restarts: how often all ranks start anew after a failure.
        monitor_interval: seconds between two looks at the processes.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``, for functions.
        log_line_prefix_template: what stands before each line that ``logs_specs`` has shown (``tee``): text with
            ``${role_name}``, ``${rank}``, ``${local_rank}`` and ``${hostname}``; by default
            ``[${role_name}${local_rank}]:``.
        local_addr: the address that ranks of one machine meet at, loopback by default.
        signals_to_handle: signals to this process that end the ranks and raise ``SignalException``.
        shutdown_timeout: seconds that a rank has to end after SIGTERM; 30 by default.

    Raises:
        ValueError: a negative ``shutdown_timeout``.

    Example::

        >>> from oneflow.distributed.launcher import LaunchConfig
        >>> LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2).max_restarts
        3
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self) -> None:
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        elif self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")


class elastic_launch:
    """Start ``entrypoint`` once for each rank when called, and return each rank's result by its number.

    Args:
        config: how the job is started.
        entrypoint: a function, which gets the arguments of the call; or a command, whose ranks return nothing.

    Raises:
        ChildFailedError: a rank failed, also at its last restart; it tells which and why.

    Example::

        >>> from oneflow.distributed.launcher import LaunchConfig, elastic_launch
        >>> config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, start_method="fork")
        >>> def train(lr):
        ...     return int(os.environ["RANK"]), lr
        >>> import os
        >>> elastic_launch(config, train)(0.1)
        {0: (0, 0.1), 1: (1, 0.1)}
    """

    def __init__(
        self, config: LaunchConfig, entrypoint: Callable[..., Any] | str | None, health_check_server: Any = None
    ) -> None:
        if health_check_server is not None:
            raise NotImplementedError(
                "elastic_launch: there are no health check servers; leave health_check_server out"
            )
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args: Any) -> dict[int, Any]:
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(
    config: LaunchConfig,
    entrypoint: Callable[..., Any] | str | None,
    args: list[Any],
    health_check_server: Any = None,
) -> dict[int, Any]:
    """Do what :class:`elastic_launch` does, in one call.

    Example::

        >>> from oneflow.distributed.launcher import LaunchConfig, launch_agent
        >>> launch_agent(LaunchConfig(1, 1, 2, start_method="fork"), max, [3, 4])
        {0: 4, 1: 4}
    """
    if health_check_server is not None:
        raise NotImplementedError("launch_agent: there are no health check servers; leave health_check_server out")
    if entrypoint is None or not (callable(entrypoint) or isinstance(entrypoint, str)):
        raise TypeError(f"launch_agent: entrypoint must be a function or a command, got {type(entrypoint).__name__}")
    _check(config)
    assert config.logs_specs is not None
    config.run_id = config.run_id or uuid.uuid4().hex
    name = entrypoint if isinstance(entrypoint, str) else getattr(entrypoint, "__name__", type(entrypoint).__name__)
    folder = config.logs_specs.root_log_dir or tempfile.mkdtemp(prefix="oneflow-launch-")
    job = _job(config, folder)
    with _raising(config.signals_to_handle):
        for restart in range(config.max_restarts + 1):
            run = _workers.Run(config, job, restart, folder)
            values, failures = run.to_end(entrypoint, args)
            if not failures:
                if not config.logs_specs.root_log_dir:
                    shutil.rmtree(folder, ignore_errors=True)
                return values
            if restart < config.max_restarts:
                log.warning("%s: rank %d failed; start %d of all ranks", name, min(failures), restart + 2)
                if config.max_nodes == 1:
                    # The old port may still be held for a while.
                    job.master_port = launch._free_port(job.master_addr)
    raise ChildFailedError(name, failures)


def _check(config: LaunchConfig) -> None:
    """Refuse what would change nothing."""

    def refuse(what: str) -> None:
        raise NotImplementedError(f"LaunchConfig: {what}")

    if config.nproc_per_node < 1 or config.max_nodes < 1:
        raise ValueError(
            f"LaunchConfig: nproc_per_node and max_nodes must be positive, got {config.nproc_per_node} and "
            f"{config.max_nodes}"
        )
    if config.min_nodes != config.max_nodes:
        refuse(f"machines do not come and go: min_nodes {config.min_nodes} must be max_nodes {config.max_nodes}")
    if config.max_nodes > 1 and config.rdzv_backend != "static":
        refuse(
            f"rdzv_backend {config.rdzv_backend!r} with several machines; use 'static', with rdzv_endpoint "
            "'host:port' of the first and rdzv_configs {'rank': this machine's number}"
        )
    for name in ("metrics_cfg", "numa_options", "duplicate_stdout_filters", "duplicate_stderr_filters"):
        if getattr(config, name):
            refuse(f"{name} is not supported")
    if config.virtual_local_rank:
        refuse("virtual_local_rank is not supported")
    if config.event_log_handler not in ("null", ""):
        refuse(f"event_log_handler {config.event_log_handler!r} is not supported, only 'null'")


def _job(config: LaunchConfig, folder: str) -> argparse.Namespace:
    """The job in the words of :func:`oneflow.distributed.launch.environment`."""
    address, port, rank = config.local_addr or "127.0.0.1", None, 0
    if config.rdzv_backend == "static":
        host, _, number = config.rdzv_endpoint.strip().rpartition(":")
        if not host or not number.isdecimal():
            raise ValueError(
                f"LaunchConfig: rdzv_backend 'static' needs an rdzv_endpoint of host:port, got {config.rdzv_endpoint!r}"
            )
        address, port, rank = host.strip("[]"), int(number), int(config.rdzv_configs.get("rank", 0))
    if not 0 <= rank < config.max_nodes:
        raise ValueError(f"LaunchConfig: rdzv_configs has rank {rank} of {config.max_nodes} machines")
    return argparse.Namespace(
        nnodes=config.max_nodes,
        node_rank=rank,
        nproc_per_node=config.nproc_per_node,
        role=config.role,
        master_addr=address,
        master_port=port or launch._free_port(address),
        max_restarts=config.max_restarts,
        # Inherited by the ranks and seen by nobody else.
        secret=secrets.token_hex(32),
        tls=os.environ.get("ONEFLOW_TLS") == "1",
        records=folder,
    )


@contextmanager
def _raising(names: str) -> Iterator[None]:
    """Signals to this process raise, so that the ranks are ended."""
    if threading.current_thread() is not threading.main_thread():
        # Python lets only the main thread handle signals.
        yield
        return

    def handle(number: int, _: Any) -> None:
        raise SignalException(f"Process {os.getpid()} got signal: {number}", signal.Signals(number))

    before = {}
    for name in filter(None, map(str.strip, names.split(","))):
        found = getattr(signal, name, None)
        if not isinstance(found, signal.Signals):
            raise ValueError(f"LaunchConfig: signals_to_handle names {name!r}, which is no signal")
        before[found] = signal.signal(found, handle)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
