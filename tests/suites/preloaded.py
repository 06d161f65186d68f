"""Child processes that begin with the imports done: one process imports what a suite's files need and forks for each.

A suite of hundreds of files spends most of its time on those imports otherwise. A group of ranks is started by the
launcher instead, and so is a suite whose kind names no module to import ahead.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

_own = threading.local()


class Forked:
    """A child of the process that has the imports; as much of ``subprocess.Popen`` as the runner uses."""

    def __init__(self, answers: IO[str], pid: int) -> None:
        self.pid = pid
        self._answers = answers
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None and select.select([self._answers], [], [], 0)[0]:
            return self.wait()
        return self._code

    def wait(self) -> int:
        if self._code is None:
            # Nothing is read when the process with the imports is gone, and its children with it.
            self._code = int(self._answers.readline() or -9)
        return self._code


def start(suite: dict[str, str], order: Path, log: Path, environment: dict[str, str]) -> Forked:
    """Run the worker on ``order`` in a new session, forked by a process of this thread that has the imports."""
    server = getattr(_own, "server", None)
    if server is None or server.poll() is not None or _own.suite != suite:
        command = [sys.executable, "-m", "suites.preloaded", json.dumps(suite)]
        pipe = subprocess.PIPE
        server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment)
        _own.server, _own.suite = server, suite
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps([str(order), str(log)]) + "\n")
    answer = server.stdout.readline()
    if not answer:
        raise RuntimeError(f"the process that imports for {suite['kind']} ended with {server.wait()}")
    return Forked(server.stdout, int(answer))


def serve(suite: dict[str, str]) -> None:
    """Import, then fork for each line of the input; answer with the child's id and later with how it ended."""
    from suites import kinds, placeholders, worker

    # Answers go to the runner alone: what a module prints while it is imported must not be among them.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    kind: Any = kinds.KINDS[suite["kind"]]
    kind.prepare(Path(suite["source"]), suite["side"])
    _, missing = placeholders.load(lambda: [importlib.import_module(n) for n in kind.preloaded if _exists(n)])
    for line in sys.stdin:
        order, log = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            _become_worker(order, log, functools.partial(worker.main, order, missing))
        answers.write(f"{child}\n")
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")


def _exists(name: str) -> bool:
    """Whether there is such a module here; a checkout may lack some of the tools."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _become_worker(order: str, log: str, main: Callable[[], None]) -> None:
    """What ``subprocess`` does between fork and exec; ends the process."""
    code = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, output), (2, output)):
            os.dup2(source, target)
        os.chdir(os.path.dirname(order))
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
