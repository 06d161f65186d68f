"""Functions that return their result to the caller later."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["async_execution"]

F = TypeVar("F", bound=Callable[..., Any])


def async_execution(fn: F) -> F:
    """Let a function return a :class:`~oneflow.futures.Future` whose value is the result of a remote call.

    The worker's thread is free as soon as the future is there; the caller gets its value, or its exception, when it has
    one. A static or class method is decorated with this first.

    Example::

        >>> from oneflow.distributed import rpc
        >>> @rpc.functions.async_execution
        ... def double(x):
        ...     future = oneflow.futures.Future()
        ...     future.set_result(2 * x)
        ...     return future
        >>> double(3).wait()
        6
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    call._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]
