"""The parent's side of a child process: starts it, watches it, starts another where a case took one along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Limits:
    """Seconds for a case, seconds for a file, gigabytes of address space for a process (0: no limit)."""

    case: float = 60.0
    file: float = 3600.0
    memory: int = 0


@dataclass
class Result:
    """What became of the cases of a file on one side."""

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
) -> Result:
    """Run the cases of ``file`` that are in ``only`` (None: all) and not in ``done``."""
    result = Result(cases=dict(done or {}))
    deadline = time.monotonic() + limits.file
    with tempfile.TemporaryDirectory() as scratch:
        while True:
            order = {
                "kind": kind,
                "side": side,
                "source": str(source),
                "file": str(file),
                "arguments": arguments,
                "only": only,
                "done": list(result.cases),
                "timeout": limits.case,
                "memory": limits.memory,
                "events": str(Path(scratch) / "events"),
            }
            (Path(scratch) / "events").write_text("")
            (Path(scratch) / "order").write_text(json.dumps(order))
            if _one_process(Path(scratch), limits, deadline, result):
                return result
            result.n_restarts += 1


def _one_process(scratch: Path, limits: Limits, deadline: float, result: Result) -> bool:
    """Run one child to its end and read what it wrote. True when nothing is left to do."""
    with open(scratch / "log", "w+") as log, open(scratch / "events") as events:
        child = subprocess.Popen(
            [sys.executable, "-m", "suites.worker", str(scratch / "order")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            env=_environment(),
            start_new_session=True,
        )
        current: str | None = None
        since = time.monotonic()
        pending = ""
        ended = False
        reason = ""
        try:
            while True:
                alive = child.poll() is None
                pending += events.read()
                *lines, pending = pending.split("\n")
                for line in lines:
                    event = json.loads(line)
                    since = time.monotonic()
                    current, ended = _take(event, result, current, ended)
                now = time.monotonic()
                if not alive:
                    break
                # A file loads within the time that any three cases may take.
                allowed = limits.case + 15 if current else 120 + limits.case
                if ended and now - since > 20:
                    reason = "finished"
                elif now > deadline:
                    reason = "file"
                elif not ended and now - since > allowed:
                    reason = "case"
                if reason:
                    break
                time.sleep(0.05)
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            code = child.wait()
        if ended or reason == "finished":
            return True
        if reason == "file":
            for case in result.collected:
                result.cases.setdefault(case, _lost("TimeLimit", "not run: the file ran out of time"))
            return True
        if current is None:
            log.seek(0)
            tail = log.read()[-2000:].strip().splitlines()
            result.unloadable = f"no case ran: {_ending(code, reason)}: {tail[-1] if tail else ''}"
            return True
        kind = "Timeout" if reason == "case" else "Crash"
        result.cases[current] = _lost(kind, _ending(code, reason))
        return False


def _take(event: dict[str, Any], result: Result, current: str | None, ended: bool) -> tuple[str | None, bool]:
    match event.pop("event"):
        case "collected":
            result.collected = event["cases"]
        case "missing":
            result.missing = event["names"]
        case "unloadable":
            result.unloadable = event["message"]
        case "begin":
            current = event["case"]
        case "end":
            result.cases[event.pop("case")] = event
            current = None
        case "finished":
            ended = True
    return current, ended


def _lost(kind: str, message: str) -> dict[str, Any]:
    return {"outcome": "failed", "type": kind, "message": message, "at": ""}


def _ending(code: int, reason: str) -> str:
    if reason == "case":
        return "the case ran out of time and did not answer"
    return f"the process ended with {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"


def _environment() -> dict[str, str]:
    tests = str(Path(__file__).resolve().parents[1])
    package = str(Path(__file__).resolve().parents[2] / "python")
    path = [package, tests, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    # Relative entries would change their meaning with the folder.
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in path if os.path.isabs(p)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
