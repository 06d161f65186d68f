"""The parent's side of the child processes: starts them, watches them, starts others where a case took them along."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from suites import kinds, preloaded

T = TypeVar("T")

# Seconds after which ranks that lag behind one that failed or finished are abandoned.
_PATIENCE = 20.0


@dataclass
class Limits:
    """Seconds for a case and for a file, gigabytes of address space for a process (0: no limit), processes a case.

    A case that does not end by itself when its time is over is killed ``grace`` seconds later.
    """

    case: float = 60.0
    file: float = 3600.0
    memory: int = 0
    ranks: int = 1
    grace: float = 15.0


@dataclass
class Result:
    """The outcome of the cases of a file on one side."""

    collected: list[str] = field(default_factory=list)
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unloadable: str | None = None
    n_restarts: int = 0


def run_file(
    kind: str,
    side: str,
    source: Path,
    file: Path,
    limits: Limits,
    arguments: list[str],
    only: list[str] | None = None,
    done: dict[str, dict[str, Any]] | None = None,
    missing: list[str] | None = None,
    n_cases: int = 0,
) -> Result:
    """Run the cases of ``file`` that are in ``only`` (None: all) and not in ``done``.

    Of all cases ``n_cases`` are taken, evenly spaced (0: all). ``missing`` are names that another run of it found
    missing while the file loaded.
    """
    result = Result(cases=dict(done or {}), missing=list(missing or []))
    deadline = time.monotonic() + limits.file
    is_forked = getattr(kinds.KINDS[kind], "preloaded", ())
    suite = {"kind": kind, "side": side, "source": str(source)} if is_forked else None
    while True:
        with tempfile.TemporaryDirectory() as scratch:
            order = {
                "kind": kind,
                "side": side,
                "source": str(source),
                "file": str(file),
                "arguments": arguments,
                "only": only,
                "n_cases": n_cases,
                "known_missing": result.missing,
                "done": list(result.cases),
                "timeout": limits.case,
                "memory": limits.memory,
                "events": str(Path(scratch) / "events"),
            }
            (Path(scratch) / "order").write_text(json.dumps(order))
            if _Start(Path(scratch), suite, limits, deadline, result).run():
                return result
        result.n_restarts += 1


def evenly_spaced(cases: list[T], count: int) -> list[T]:
    """Return ``count`` of ``cases``, evenly spaced; all of them if ``count`` is 0 or too large."""
    if not 0 < count < len(cases):
        return cases
    return [cases[i * len(cases) // count] for i in range(count)]


class _Rank:
    """The output of one child so far."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._events = path.open()
        self._pending = ""
        self.current: str | None = None
        self.ended = False
        self.broken = False
        self.ends: dict[str, dict[str, Any]] = {}

    def read(self, result: Result) -> int:
        """Take in what is new; how many events."""
        self._pending += self._events.read()
        *lines, self._pending = self._pending.split("\n")
        for line in lines:
            event = json.loads(line)
            match event.pop("event"):
                case "collected":
                    result.collected = event["cases"]
                case "missing":
                    result.missing = event["names"]
                case "unloadable":
                    result.unloadable = event["message"]
                case "begin":
                    self.current = event["case"]
                case "end":
                    self.ends[event.pop("case")] = event
                    self.current = None
                case "broken":
                    self.broken = True
                case "finished":
                    self.ended = True
        return len(lines)

    def close(self) -> None:
        self._events.close()


class _Start:
    """One start of the child, or of a group of ranks, to its end."""

    def __init__(
        self, scratch: Path, suite: dict[str, str] | None, limits: Limits, deadline: float, result: Result
    ) -> None:
        """``suite`` is what a process imports before it forks the child; None for a fresh process."""
        self.scratch = scratch
        self.suite = suite
        self.limits = limits
        self.deadline = deadline
        self.result = result
        self.ranks = [_Rank(scratch / f"events.{rank}") for rank in range(limits.ranks)]

    def run(self) -> bool:
        """Return whether nothing is left to do."""
        with open(self.scratch / "log", "w+") as log:
            child = self._child(log)
            try:
                reason = self._watch(child)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                code = child.wait()
            for rank in self.ranks:
                rank.read(self.result)
                rank.close()
            self._merge()
            log.seek(0)
            return self._conclude(code, reason, log.read()[-2000:].strip())

    def _child(self, log: IO[str]) -> subprocess.Popen[bytes] | preloaded.Forked:
        environment = _environment(self.limits.ranks)
        if self.limits.ranks == 1 and self.suite is not None:
            return preloaded.start(self.suite, self.scratch / "order", self.scratch / "log", environment)
        return subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.scratch,
            env=environment,
            start_new_session=True,
        )

    def _command(self) -> list[str]:
        worker = ["-m", "suites.worker", str(self.scratch / "order")]
        if self.limits.ranks == 1:
            return [sys.executable, *worker]
        count = str(self.limits.ranks)
        return [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", count, *worker]

    def _watch(self, child: subprocess.Popen[bytes] | preloaded.Forked) -> str:
        """Follow the children until they end or one limit is reached; which one, or nothing."""
        since = time.monotonic()
        while True:
            alive = child.poll() is None
            n_events = sum(rank.read(self.result) for rank in self.ranks)
            if n_events:
                since = time.monotonic()
            if not alive:
                return ""
            quiet = time.monotonic() - since
            if time.monotonic() > self.deadline:
                return "file"
            behind = any(r.ended for r in self.ranks) or self._failed() is not None
            if behind and quiet > _PATIENCE:
                return "behind"
            # A group of ranks of which one failed is out of step: it ends once all have reported.
            if len(self.ranks) > 1 and self._failed() is not None and all(r.current is None for r in self.ranks):
                return "behind"
            running = any(rank.current for rank in self.ranks)
            if not behind and quiet > (self.limits.case + self.limits.grace if running else self.limits.case + 120):
                return "case"
            time.sleep(0.05)

    def _failed(self) -> str | None:
        """A case that failed on some rank of a group."""
        if len(self.ranks) == 1:
            return None
        return next((c for rank in self.ranks for c, end in rank.ends.items() if end["outcome"] == "failed"), None)

    def _merge(self) -> None:
        """A case passes where it passes on every rank."""
        for case in {case for rank in self.ranks for case in rank.ends}:
            ends = [rank.ends[case] for rank in self.ranks if case in rank.ends]
            failed = [end for end in ends if end["outcome"] == "failed"]
            if failed or len(ends) == len(self.ranks):
                self.result.cases[case] = (failed or sorted(ends, key=lambda end: end["outcome"] != "skipped"))[0]

    def _conclude(self, code: int, reason: str, log: str) -> bool:
        if all(rank.ended for rank in self.ranks):
            return True
        if reason == "file":
            for case in self.result.collected:
                self.result.cases.setdefault(case, _lost("TimeLimit", "not run: the file ran out of time"))
            return True
        current = next((rank.current for rank in self.ranks if rank.current not in (None, *self.result.cases)), None)
        if current is not None:
            kind = "Crash" if not reason else "Timeout"
            self.result.cases[current] = _lost(kind, _ending(code, reason))
            return False
        if self._failed() is not None or any(rank.broken for rank in self.ranks):
            return False
        if reason != "behind":
            last = log.splitlines()[-1] if log else ""
            self.result.unloadable = f"no case ran: {_ending(code, reason)}: {last}"
        return True


def _lost(kind: str, message: str) -> dict[str, Any]:
    return {"outcome": "failed", "type": kind, "message": message, "at": ""}


def _ending(code: int, reason: str) -> str:
    if reason:
        return "the case ran out of time and did not answer"
    return f"the process ended with {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"


def _environment(n_ranks: int) -> dict[str, str]:
    tests = str(Path(__file__).resolve().parents[1])
    found = importlib.util.find_spec("oneflow")
    package = str(Path(found.origin).parents[1]) if found is not None and found.origin else ""
    path = [package, tests, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # Relative entries would change their meaning with the folder.
    path = [entry for entry in path if os.path.isabs(entry)]
    own = {"PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"}
    if n_ranks > 1:
        own["ONEFLOW_TEST_DEVICE_NUM"] = str(n_ranks)
    return {**os.environ, **own}
