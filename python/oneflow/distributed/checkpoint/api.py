"""The error of checkpoints."""

from __future__ import annotations

from typing import Any

__all__ = ["CheckpointException"]


class CheckpointException(RuntimeError):
    """A checkpoint could not be written or read; the text names the file, and the ranks that failed.

    Attributes:
        failures: by rank the exception and the lines of code that it passed through. Of other ranks there are no lines,
            and an exception of a class that is not Python's own is a ``RuntimeError`` with its text.

    Example::

        >>> from oneflow.distributed.checkpoint import CheckpointException
        >>> CheckpointException("rank 1: no room", {1: (OSError("no room"), None)}).failures[1][0]
        OSError('no room')
    """

    def __init__(self, msg: str = "", failures: dict[int, tuple[BaseException, Any]] | None = None) -> None:
        super().__init__(msg)
        self.failures = dict(failures or {})
