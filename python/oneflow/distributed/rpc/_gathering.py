"""Objects of all workers, gathered by calls; and functions that only workers may call."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from oneflow.distributed.rpc import _state
from oneflow.distributed.rpc.functions import async_execution
from oneflow.futures import Future

F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.Lock()
# On the first worker, by the number of the gathering: what has come, by name, and who waits for the rest.
_coming: dict[int, tuple[dict[str, Any], Future]] = {}


def require_initialized(func: F) -> F:
    """Let a function raise RuntimeError where this process is no worker."""

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _state.agent()
        return func(*args, **kwargs)

    return cast(F, checked)


@async_execution
def give(number: int, name: str, obj: Any) -> Future:
    """Take a worker's object; all objects by name once the last has come."""
    n_workers = len(_state.agent().workers)
    with _lock:
        found, done = _coming.setdefault(number, ({}, Future()))
        found[name] = obj
        is_whole = len(found) == n_workers
        if is_whole:
            del _coming[number]
    if is_whole:
        done.set_result(found)
    return done


def forget() -> None:
    """Forget what has come: this process is no worker any more."""
    with _lock:
        _coming.clear()
