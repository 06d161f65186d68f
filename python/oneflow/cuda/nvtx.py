"""Named ranges under NVTX's names. They appear in recordings of :mod:`oneflow.profiler`; no other tool sees them."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

from oneflow.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Open(threading.local):
    def __init__(self) -> None:
        self.stack: list[record_function] = []


_open = _Open()
_started: dict[int, record_function] = {}
_handles = itertools.count(1)


def range_push(msg: str) -> int:
    """Begin a range inside the one that this thread is in; return how many it was in before.

    Example::

        >>> oneflow.cuda.nvtx.range_push("forward"), oneflow.cuda.nvtx.range_pop()
        (0, 0)
    """
    region = record_function(msg)
    region.__enter__()
    _open.stack.append(region)
    return len(_open.stack) - 1


def range_pop() -> int:
    """End the innermost range of this thread; return its depth, below zero if there is none.

    Example::

        >>> oneflow.cuda.nvtx.range_pop()
        -1
    """
    if not _open.stack:
        return -1
    _open.stack.pop().__exit__(None, None, None)
    return len(_open.stack)


def range_start(msg: str) -> int:
    """Begin a range that may end in any order; return its handle for :func:`range_end`.

    Example::

        >>> oneflow.cuda.nvtx.range_end(oneflow.cuda.nvtx.range_start("copy"))
    """
    handle = next(_handles)
    _started[handle] = region = record_function(msg)
    region.__enter__()
    return handle


def range_end(range_id: int) -> None:
    """End the range of a handle.

    Raises:
        RuntimeError: no range with this handle is open.

    Example::

        >>> handle = oneflow.cuda.nvtx.range_start("copy")
        >>> oneflow.cuda.nvtx.range_end(handle)
    """
    region = _started.pop(range_id, None)
    if region is None:
        raise RuntimeError(f"nvtx.range_end(): no range with handle {range_id} is open")
    region.__exit__(None, None, None)


def mark(msg: str) -> None:
    """Record an instant.

    Example::

        >>> oneflow.cuda.nvtx.mark("epoch 1")
    """
    with record_function(msg):
        pass


@contextlib.contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A range for a ``with`` block or a function; ``msg`` is formatted with the arguments.

    Example::

        >>> with oneflow.cuda.nvtx.range("step {}", 3):
        ...     pass
    """
    with record_function(msg.format(*args, **kwargs)):
        yield
