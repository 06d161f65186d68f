"""Ranks as threads: a distributed program in one process, for tests and for looking at it in a debugger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from oneflow import _oneflow


def run_ranks(n: int, fn: Callable[..., Any], *args: Any, timeout: float = 300.0) -> list[Any]:
    """Run ``fn(*args)`` once a rank, each on its own thread, and return the results in rank order.

    Inside, ``oneflow.distributed.get_rank()`` is the thread's rank, the world has ``n`` ranks, and every rank has a
    default generator of its own, all in the same state. When a rank raises, the others stop, and the exception of
    the first one that failed is raised here. A rank that returns has left the world: one that waits for it there gets
    an error.

    Args:
        n: number of ranks.
        fn: the program of every rank.
        args: what it is called with.
        timeout: seconds that a collective may take.

    Example::

        >>> import oneflow
        >>> oneflow.testing.run_ranks(2, oneflow.distributed.get_rank)
        [0, 1]
    """
    groups = _oneflow._fake_groups(n, timeout)
    results: list[Any] = [None] * n
    failures: list[BaseException] = []

    def rank(i: int) -> None:
        groups[i].enter_thread()
        try:
            results[i] = fn(*args)
            # Who still waits for this rank hears that it is gone.
            groups[i].close()
        except BaseException as e:
            failures.append(e)
            groups[i].give_up(f"{type(e).__name__}: {e}")
        finally:
            groups[i].leave_thread()

    threads = [threading.Thread(target=rank, args=(i,), name=f"rank {i}") for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
