"""The exception that ended a rank, left for its launcher: PyTorch's ``elastic.multiprocessing.errors``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from oneflow.distributed import _error_files

__all__ = ["record"]

F = TypeVar("F", bound=Callable[..., Any])


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
