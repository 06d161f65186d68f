"""Python's multiprocessing, with tensors that travel through shared memory instead of being copied.

A tensor put into a queue or a pipe, or passed to a process, moves to shared memory in place and is opened again on the
other side: both see the same numbers from then on. Only CPU tensors without gradient history travel so.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import sys as _sys
from multiprocessing import *  # noqa: F403
from typing import Any

from oneflow.multiprocessing.reductions import init_reductions
from oneflow.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

init_reductions()


def get_all_sharing_strategies() -> set[str]:
    """The ways tensors can be shared.

    Example::

        >>> isinstance(oneflow.multiprocessing.get_all_sharing_strategies(), set)
        True
    """
    return {"file_descriptor"} if _sys.platform != "darwin" else {"file_system"}


def get_sharing_strategy() -> str:
    """The way tensors are shared: descriptors of anonymous memory, which leave nothing behind when a process dies.

    Example::

        >>> isinstance(oneflow.multiprocessing.get_sharing_strategy(), str)
        True
    """
    return next(iter(get_all_sharing_strategies()))


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept the one strategy there is.

    Raises:
        RuntimeError: another one.

    Example::

        >>> oneflow.multiprocessing.set_sharing_strategy(oneflow.multiprocessing.get_sharing_strategy())
    """
    if new_strategy not in {*get_all_sharing_strategies(), "file_system"}:
        raise RuntimeError(f"set_sharing_strategy(): unknown strategy {new_strategy!r}")


def __getattr__(name: str) -> Any:
    return getattr(_multiprocessing, name)
