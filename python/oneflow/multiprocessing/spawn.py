"""Starting processes that run one function with their rank, and waiting for all of them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any


class ProcessException(Exception):
    """A process failed: which one, and its process id.

    Example::

        >>> from oneflow.multiprocessing.spawn import ProcessException
        >>> ProcessException("it failed", error_index=1, pid=1234).error_index
        1
    """

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process raised; the text holds its traceback.

    Example::

        >>> context = oneflow.multiprocessing.start_processes(divmod, args=(0,), join=False, start_method="fork")
        >>> try:
        ...     context.join()
        ... except oneflow.multiprocessing.ProcessRaisedException as error:
        ...     "ZeroDivisionError" in str(error)
        True
    """


class ProcessExitedException(ProcessException):
    """A process ended by itself or by a signal.

    Example::

        >>> import os
        >>> context = oneflow.multiprocessing.start_processes(
        ...     lambda i: os._exit(3), join=False, start_method="fork")
        >>> try:
        ...     context.join()
        ... except oneflow.multiprocessing.ProcessExitedException as error:
        ...     error.exit_code
        3
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], error_file: str) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that were started together.

    Example::

        >>> context = oneflow.multiprocessing.start_processes(max, args=(0,), nprocs=2, join=False, start_method="fork")
        >>> len(context.pids())
        2
        >>> while not context.join():
        ...     pass
    """

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one ends; return True once all have ended without an error. A failure ends the others and raises.

        Raises:
            ProcessRaisedException: a process raised.
            ProcessExitedException: a process ended with a code or by a signal.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._stop_all(grace_period)
        self._raise(failed)
        return False

    def _stop_all(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        deadline = time.monotonic() + (30.0 if grace_period is None else grace_period)
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index: int) -> None:
        process, path = self.processes[index], self.error_files[index]
        if os.path.exists(path) and os.path.getsize(path) > 0:
            with open(path, "rb") as file:
                text = pickle.load(file)
            message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            raise ProcessExitedException(
                f"process {index} terminated with signal {name}", index, process.pid, code, name
            )
        raise ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)


class SpawnContext(ProcessContext):
    """Processes started by :func:`spawn`.

    Example::

        >>> context = oneflow.multiprocessing.spawn(print, nprocs=0, join=False)
        >>> isinstance(context, oneflow.multiprocessing.SpawnContext), context.join()
        (True, True)
    """


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start ``nprocs`` processes that call ``fn(i, *args)``.

    Args:
        fn: a function that can be pickled.
        args: its further arguments.
        nprocs: how many.
        join: wait for all, and return None; otherwise return a context to wait with.
        daemon: end them with this process.
        start_method: "spawn", "fork" or "forkserver".

    Example::

        >>> def work(i, x):
        ...     x[i] = i + 1
        >>> x = oneflow.zeros(2).share_memory_()
        >>> oneflow.multiprocessing.start_processes(work, args=(x,), nprocs=2, start_method="fork")
        >>> x
        tensor([1., 2.])
    """
    context = multiprocessing.get_context(start_method)
    processes, error_files = [], []
    for i in range(nprocs):
        handle, path = tempfile.mkstemp(prefix="oneflow-spawn-", suffix=".pickle")
        os.close(handle)
        process = context.Process(target=_run, args=(fn, i, args, path), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        error_files.append(path)
    started = SpawnContext(processes, error_files)
    if not join:
        return started
    try:
        while not started.join():
            pass
    finally:
        for path in error_files:
            if os.path.exists(path):
                os.unlink(path)
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As :func:`start_processes`, by spawning.

    Example::

        >>> oneflow.multiprocessing.spawn(print, nprocs=0, join=False) is not None
        True
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
