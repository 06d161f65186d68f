"""The error of checkpoints."""

from __future__ import annotations

__all__ = ["CheckpointException"]


class CheckpointException(RuntimeError):
    """A checkpoint could not be written or read; the text names the file, and the ranks that failed.

    Example::

        >>> from oneflow.distributed.checkpoint import CheckpointException
        >>> issubclass(CheckpointException, RuntimeError)
        True
    """
