"""What a case starts by ``multiprocessing``'s method "spawn": processes forked by a server that has the imports.

PyTorch's tests of several processes start two to four fresh interpreters a case, which spend nearly all of its time on
imports. Here one server a file prepares the suite and loads the file, and forks for each process, which gets the
environment that its parent has when it starts, as a spawned one does.
"""

from __future__ import annotations

import json
import multiprocessing.context
import os
import sys
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

# The order of the worker that the server belongs to, and the names that it found missing.
_ORDER = "SUITES_SPAWNED_ORDER"
_MISSING = "SUITES_SPAWNED_MISSING"


class _Process(ForkServerProcess):
    """A process that takes over its parent's environment before anything else."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._environment: dict[str, str] = {}

    def start(self) -> None:
        self._environment = dict(os.environ)
        super().start()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self._environment)
        super().run()


class _Context(ForkServerContext):
    _name = "spawn"
    Process = _Process


def install(where: str, missing: list[str]) -> None:
    """Let the method "spawn" of this process fork from a server that carries out the start of the order ``where``."""
    os.environ[_ORDER] = where
    os.environ[_MISSING] = json.dumps(missing)
    context = _Context()
    context.set_forkserver_preload(["suites.spawned"])
    contexts: dict[str, Any] = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]
    contexts["spawn"] = context


def _prepare() -> None:
    """In the server: what the worker did before its first case."""
    from suites import worker

    worker.prepare(os.environ.pop(_ORDER), json.loads(os.environ.pop(_MISSING)))


if _ORDER in os.environ and "multiprocessing.forkserver" in sys.modules and __name__ == "suites.spawned":
    _prepare()
