"""Names of PyTorch's ``elastic.multiprocessing`` that programs use which start ranks themselves.

See :mod:`oneflow.distributed.elastic.multiprocessing.errors` and :mod:`oneflow.distributed.launcher`.
"""

from __future__ import annotations

import enum
import os
import signal
import tempfile
from collections.abc import Iterable, Mapping

from oneflow.distributed.elastic.multiprocessing.errors import ProcessFailure

__all__ = ["DefaultLogsSpecs", "LogsSpecs", "ProcessFailure", "SignalException", "Std"]


class SignalException(Exception):
    """A signal has ended the launcher: its words and which it was.

    Example::

        >>> import signal
        >>> from oneflow.distributed.elastic.multiprocessing import SignalException
        >>> SignalException("stopped", signal.SIGTERM).sigval.name
        'SIGTERM'
    """

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class Std(enum.IntFlag):
    """The output streams of a rank that go to files.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing import Std
        >>> Std.from_str("0:3,1:1")
        {0: <Std.ALL: 3>, 1: <Std.OUT: 1>}
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """One number for all ranks, or ``local_rank:number`` with commas between.

        Raises:
            ValueError: something else, or a number above 3.
        """
        try:
            if ":" not in vm:
                return cls._of(vm)
            pairs = [part.split(":") for part in vm.split(",")]
            return {int(rank): cls._of(value) for rank, value in pairs}
        except ValueError:
            raise ValueError(f"Std.from_str: expected a number from 0 to 3 or rank:number pairs, got {vm!r}") from None

    @classmethod
    def _of(cls, text: str) -> Std:
        if int(text) not in range(4):
            raise ValueError(text)
        return cls(int(text))


class LogsSpecs:
    """Where the output of ranks goes.

    Args:
        log_dir: a folder for files, which is made if need be; a new one in the system's temporary folder where streams
            are redirected and there is none. Files are ``rank<rank>.<restart>.stdout`` and ``.stderr``.
        redirects: the streams that go there, of all ranks or by local rank.
        tee: the streams that go there and are shown by the launcher as well, each line with the prefix that
            ``LaunchConfig.log_line_prefix_template`` says.
        local_ranks_filter: the ranks whose output is shown, all by default. What others write goes to their files
            alone.

    Raises:
        NotADirectoryError: ``log_dir`` is a file.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
        >>> DefaultLogsSpecs("logs", redirects={1: Std.ALL}).redirects_of(0)
        <Std.NONE: 0>
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | Mapping[int, Std] = Std.NONE,
        tee: Std | Mapping[int, Std] = Std.NONE,
        local_ranks_filter: Iterable[int] | None = None,
    ) -> None:
        if log_dir == os.devnull or not (log_dir or redirects or tee):
            log_dir = None
        elif not log_dir:
            log_dir = tempfile.mkdtemp(prefix="oneflow-logs-")
        elif os.path.isfile(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        else:
            os.makedirs(log_dir, exist_ok=True)
        self._root_log_dir, self._redirects, self._tee = log_dir, redirects, tee
        self._shown = frozenset(local_ranks_filter or ())

    @property
    def root_log_dir(self) -> str:
        """The folder, empty for none."""
        return self._root_log_dir or ""

    def redirects_of(self, local_rank: int) -> Std:
        """The streams of one rank that go to files."""
        return self._redirects if isinstance(self._redirects, Std) else self._redirects.get(local_rank, Std.NONE)

    def tee_of(self, local_rank: int) -> Std:
        """The streams of one rank that go to files and are shown."""
        return self._tee if isinstance(self._tee, Std) else self._tee.get(local_rank, Std.NONE)

    def is_shown(self, local_rank: int) -> bool:
        """Whether anything that a rank writes is shown."""
        return not self._shown or local_rank in self._shown


class DefaultLogsSpecs(LogsSpecs):
    """The logs that there are: see :class:`LogsSpecs`.

    Example::

        >>> from oneflow.distributed.elastic.multiprocessing import DefaultLogsSpecs
        >>> DefaultLogsSpecs().root_log_dir
        ''
    """
