"""The exception that ended a rank, left for its launcher: PyTorch's ``elastic.multiprocessing.errors``."""

from __future__ import annotations

import datetime
import faulthandler
import functools
import json
import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from oneflow.distributed import _error_files

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_NOT_AVAILABLE = "<N/A>"

F = TypeVar("F", bound=Callable[..., Any])


class ErrorHandler:
    """Writes the exception of a rank to the file that the launcher names; derive from it to do more.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing.errors import ErrorHandler, record
        >>> class Shown(ErrorHandler):
        ...     def record_exception(self, e):
        ...         print("failed:", e)
        ...         super().record_exception(e)
        >>> def main():
        ...     raise ValueError("no data")
        >>> record(main, Shown())()
        Traceback (most recent call last):
        ...
        ValueError: no data
    """

    def initialize(self) -> None:
        """Before the program: have Python print the stacks of all threads if the process crashes."""
        faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception to the file, if there is one and nobody has written it yet."""
        _error_files.write(e)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Copy the file that another process has left to that of this one, which its own launcher names.

        Args:
            error_code: how that process ended, which the copy then says.
        """
        with open(rootcause_error_file) as file:
            found = json.load(file)
        if error_code and isinstance(found.get("message"), dict):
            found["message"]["errorCode"] = error_code
        _error_files.replace(found)


def get_error_handler() -> ErrorHandler:
    """Return the handler of a rank.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing.errors import get_error_handler
        >>> type(get_error_handler()).__name__
        'ErrorHandler'
    """
    return ErrorHandler()


def record(fn: F, error_handler: Any = None) -> F:
    """Write the exception that leaves ``fn`` to the file that the launcher names, and raise it further.

    A rank that has joined a job leaves such a file without it; with it also one that fails before.

    Args:
        error_handler: an object whose ``initialize()`` is called first, and whose ``record_exception(error)`` takes the
            exception in place of the file.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return "trained"
        >>> main()
        'trained'
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if error_handler is not None:
            error_handler.initialize()
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            if error_handler is None:
                _error_files.write(error)
            else:
                error_handler.record_exception(error)
            raise

    return call  # type: ignore[return-value]


@dataclass
class ProcessFailure:
    """How the process of a rank failed.

    Args:
        local_rank: the rank's number on its machine.
        pid: its process.
        exitcode: negative for a signal.
        error_file: where it may have left its exception.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing.errors import ProcessFailure
        >>> failure = ProcessFailure(local_rank=0, pid=1234, exitcode=-9, error_file="")
        >>> failure.signal_name(), failure.message
        ('SIGKILL', 'Signal 9 (SIGKILL) received by PID 1234')
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.message, self.timestamp = {"message": "<NONE>"}, "", int(time.time())
        # Of the file, which tells failures of one second apart.
        self._written = math.inf
        found = _error_files.read(self.error_file)
        if found is None or not os.path.isfile(self.error_file):
            self.error_file = _NOT_AVAILABLE
        else:
            self._written = os.stat(self.error_file).st_mtime_ns
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message, self.timestamp = self.error_file_data["message"], found["timestamp"]
        if not self.message and self.exitcode < 0:
            self.message = f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
        elif not self.message:
            self.message = f"the process ended with {self.exitcode} and left no exception"

    def signal_name(self) -> str:
        """The signal that ended it, or ``"<N/A>"``."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _NOT_AVAILABLE
        except ValueError:
            return _NOT_AVAILABLE

    def timestamp_isoformat(self) -> str:
        """When it failed, as ``YYYY-MM-DD_HH:MM:SS``."""
        return datetime.datetime.fromtimestamp(self.timestamp).isoformat(sep="_")

    def _told(self) -> str:
        """The traceback that it left, or what is known besides."""
        if not isinstance(self.message, dict):
            return str(self.message)
        return str(self.message.get("extraInfo", {}).get("py_callstack") or self.message.get("message"))


class ChildFailedError(Exception):
    """Ranks of a job failed: ``failures`` has a :class:`ProcessFailure` for each, by rank.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
        >>> error = ChildFailedError("train", {1: ProcessFailure(1, 1234, -9, "")})
        >>> error.get_first_failure()[0]
        1
        >>> str(error).splitlines()[0]
        'train FAILED: rank 1 (local_rank 1, pid 1234, exitcode -9, SIGKILL) failed first'
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError: failures must not be empty")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def __reduce__(self) -> Any:
        return type(self), (self.name, self.failures)

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda r: (self.failures[r].timestamp, self.failures[r]._written))
        return rank, self.failures[rank]

    def format_msg(self) -> str:
        """All failures in words, the first one at the top."""
        first, failure = self.get_first_failure()
        others = [(rank, found) for rank, found in self.failures.items() if rank != first]
        lines = [f"{self.name} FAILED: {_named(first, failure)} failed first", failure._told().rstrip()]
        lines += [f"{_named(rank, found)} failed, too:\n{found._told().rstrip()}" for rank, found in others]
        return "\n".join(lines)


def _named(rank: int, failure: ProcessFailure) -> str:
    how = "" if failure.signal_name() == _NOT_AVAILABLE else f", {failure.signal_name()}"
    return f"rank {rank} (local_rank {failure.local_rank}, pid {failure.pid}, exitcode {failure.exitcode}{how})"
