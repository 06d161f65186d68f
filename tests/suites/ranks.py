"""PyTorch's cases of several ranks: what is changed in its tool for them.

Where its ranks are threads, the tool replaces private parts of PyTorch's process groups; here they are ranks of this
package's own in-process groups. What the tool does before and after a case, and how it reports errors, stays.
A case with as many processes as there are GPUs does nothing where there are none, and is skipped in place of passing.
"""

from __future__ import annotations

import functools
import sys
import threading
import unittest
from types import ModuleType
from typing import Any

SECONDS = 60.0


def change(tool: ModuleType) -> None:
    """Change ``torch.testing._internal.common_distributed`` once it is loaded, for both sides."""
    case: Any = tool.MultiProcessTestCase  # type: ignore[attr-defined]
    checks = case._check_return_codes

    @functools.wraps(checks)
    def check(self: Any, *args: Any, **kwargs: Any) -> None:
        if not self.processes:
            raise unittest.SkipTest("no process has run: one for each GPU")
        checks(self, *args, **kwargs)

    case._check_return_codes = check


def change_threads(tool: ModuleType) -> None:
    """Change it for this package."""
    change(tool)
    case: Any = tool.MultiThreadedTestCase  # type: ignore[attr-defined]
    case._spawn_threads = _spawn_threads
    case._join_threads = classmethod(_join_threads)


def _spawn_threads(self: Any) -> None:
    from oneflow import _oneflow

    groups = _oneflow._fake_groups(self.world_size, SECONDS)
    name = self._current_test_name

    def rank(place: int) -> None:
        groups[place].enter_thread()
        case = type(self)(name)
        case.rank = place
        if hasattr(case, "_tls"):
            # Each thread has its own.
            case._tls = threading.local()
            case._tls.precision, case._tls.rel_tol = type(self)._precision, type(self)._rel_tol
        try:
            case.perThreadSetUp()
            getattr(case, name)()
        except BaseException as error:
            self.exception_queue.put((place, sys.exc_info()))
            groups[place].give_up(f"{type(error).__name__}: {error}")
        finally:
            case.perThreadTearDown()
            groups[place].leave_thread()

    self.threads += [threading.Thread(target=rank, args=(place,)) for place in range(self.world_size)]
    for thread in self.threads:
        thread.start()


def _join_threads(cls: Any, threads: list[threading.Thread], fn: Any) -> None:
    for thread in threads:
        thread.join()
    failures = []
    while not cls.exception_queue.empty():
        failures.append(cls.exception_queue.get())
    # The others stop because of the first: its error is the one to report.
    cls._check_return_codes(failures[:1], SECONDS, fn)
