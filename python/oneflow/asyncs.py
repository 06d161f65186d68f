"""OneFlow's worker threads of eager ops.

An op of this package runs on the thread that calls it, with a pool for its loops. So a worker thread is only a name,
and the context that picks one changes nothing: programs that use it compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

__all__ = ["Thread", "thread"]


class Thread:
    """A worker thread: a name, since ops run on the thread that calls them.

    Example::

        >>> worker = oneflow.asyncs.Thread()
    """


class thread:
    """A context, or a decorator, whose ops a worker thread would run in OneFlow. Here they run as all others do.

    Example::

        >>> with oneflow.asyncs.thread(oneflow.asyncs.Thread()):
        ...     print(oneflow.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, worker_thread: Thread) -> None:
        if not isinstance(worker_thread, Thread):
            raise TypeError(f"thread: expected an oneflow.asyncs.Thread, not {type(worker_thread).__name__}")
        self.worker_thread = worker_thread

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run
