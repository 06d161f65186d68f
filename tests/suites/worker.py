"""The child process: loads one file of a suite, runs the given cases, and writes a line of JSON at each event.

A case that crashes or hangs takes this process along; the parent sees by the last line which case it was, and starts
another process for the rest.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import resource
import signal
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from suites import kinds, placeholders, spawned
from suites.runner import evenly_spaced


class OutOfTime(BaseException):
    """A case took longer than it may."""


class Plugin:
    """Reports what pytest does, and selects cases."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.events = open(f"{order['events']}.{os.environ.get('RANK', '0')}", "a", buffering=1)
        self.cases: dict[str, dict[str, Any]] = {}
        self.name_of = getattr(kinds.KINDS[order["kind"]], "name_of", lambda name: name)
        self.is_usable = getattr(kinds.KINDS[order["kind"]], "is_usable", lambda: True)

    def id(self, node: str) -> str:
        """The name of a case, the same on both sides."""
        return str(self.name_of(node.partition("::")[2]))

    def write(self, **event: Any) -> None:
        self.events.write(json.dumps(event) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = evenly_spaced(items, self.order.get("n_cases", 0))
        self.write(event="collected", cases=[self.id(item.nodeid) for item in items])
        only, done = self.order["only"], set(self.order["done"])
        wanted = None if only is None else set(only)
        items[:] = [
            i for i in items if self.id(i.nodeid) not in done and (wanted is None or self.id(i.nodeid) in wanted)
        ]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write(event="unloadable", message=_last_line(str(report.longrepr)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        case = self.id(item.nodeid)
        self.cases[case] = {"outcome": "passed"}
        self.write(event="begin", case=case)
        signal.setitimer(signal.ITIMER_REAL, self.order["timeout"])
        try:
            result = yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.write(event="end", case=case, **self.cases[case])
        if self.cases[case]["outcome"] == "failed" and not self.is_usable():
            # The next cases would fail for the same reason: the parent starts another process for them.
            self.write(event="broken")
            os._exit(3)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        state = self.cases[self.id(item.nodeid)]
        if report.failed and state["outcome"] in ("passed", "skipped"):
            state.update(outcome="failed", **_reason(call.excinfo, report))
        elif report.skipped and state["outcome"] == "passed":
            text = str(call.excinfo.value) if call.excinfo else str(report.longrepr)
            state.update(outcome="skipped", message=text[:300])
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        state = self.cases[self.id(report.nodeid)]
        if report.failed and state["outcome"] == "passed":  # of a part of a case
            state.update(outcome="failed", type="Failed", message=_last_line(str(report.longrepr)), at="")


def _reason(info: Any, report: Any) -> dict[str, str]:
    if info is None:
        return {"type": "Failed", "message": _last_line(str(report.longrepr)), "at": ""}
    if issubclass(info.type, OutOfTime):
        return {"type": "Timeout", "message": "the case ran out of time", "at": ""}
    own = [entry for entry in info.traceback if Path(str(entry.path)).name == Path(str(report.fspath)).name]
    last = (own or info.traceback)[-1]
    # An error that a comparison wraps is more precise than the wrapper.
    error = info.value
    while error.__cause__ is not None:
        error = error.__cause__
    kind, text = _of_process(str(error)) or (type(error).__name__, str(error))
    return {
        "type": kind,
        "message": text[:2000],
        # An assertion may have no text but that it failed.
        "line": str(last.statement).strip().splitlines()[0][:200] if isinstance(error, AssertionError) else "",
        "at": f"{Path(str(last.path)).name}:{last.lineno + 1}",
    }


def _of_process(text: str) -> tuple[str, str] | None:
    """The exception of a process, where the error says that one has failed: its class, and its text."""
    if not re.match(r"Process \d+ exited with error code", text):
        return None
    found = re.findall(r"^(?:[\w.]+\.)?(\w+): (.*)$", text, re.MULTILINE)
    return (found[-1][0], f"{found[-1][1]}\n{text}") if found else None


def _last_line(text: str) -> str:
    lines = [line.removeprefix("E ").strip() for line in text.splitlines() if line.strip()]
    marked = [line.removeprefix("E ").strip() for line in text.splitlines() if line.startswith("E ")]
    return (marked or lines or [""])[-1][:2000]


def _out_of_time(signal_number: int, frame: FrameType | None) -> None:
    raise OutOfTime


def _place(path: Path) -> tuple[str, list[str]]:
    """The name under which pytest imports a file, and the folders that are on the path for it and its neighbours."""
    name, root = path.stem, path.parent
    while (root / "__init__.py").is_file():
        name, root = f"{root.name}.{name}", root.parent
    return name, list(dict.fromkeys((str(path.parent), str(root))))


def _load(path: Path, kind: str, known: list[str]) -> list[str]:
    """Import the file under its own name, as pytest will find it; return the names that were missing."""
    name, folders = _place(path)
    sys.path[:0] = folders

    def execute() -> ModuleType:
        for tool in getattr(kinds.KINDS[kind], "tools", ()):
            kinds.without_empty_lists(importlib.import_module(tool))
        if package := name.rpartition(".")[0]:
            importlib.import_module(package)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module

    if not getattr(kinds.KINDS[kind], "has_placeholders", True):
        execute()
        return []
    return placeholders.load(execute, known)[1]


def prepare(where: str, missing: list[str]) -> None:
    """Set up a process that a case starts, as the worker of the order in the file ``where`` was set up."""
    order = json.loads(Path(where).read_text())
    path = Path(order["file"])
    sys.argv[:] = [str(path)]
    kinds.KINDS[order["kind"]].prepare(Path(order["source"]), order["side"])
    _load(path, order["kind"], missing)


def main(where: str, missing: list[str] | None = None) -> None:
    """Carry out the order in the file ``where``; ``missing`` are the names that a process found missing in which the
    imports are done, None where they are not."""
    order = json.loads(Path(where).read_text())
    if order["memory"]:
        resource.setrlimit(resource.RLIMIT_AS, (order["memory"] << 30,) * 2)
    path = Path(order["file"])
    # Suites read the command line when they load.
    sys.argv[:] = [str(path)]
    plugin = Plugin(order)
    if missing is None:
        kinds.KINDS[order["kind"]].prepare(Path(order["source"]), order["side"])
    signal.signal(signal.SIGALRM, _out_of_time)
    try:
        missing = (missing or []) + _load(path, order["kind"], order.get("known_missing", []))
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, OutOfTime)):
            raise
        plugin.write(event="unloadable", message=f"{type(error).__name__}: {error}"[:2000])
        plugin.write(event="finished")
        return
    if missing:
        plugin.write(event="missing", names=missing)
    if getattr(kinds.KINDS[order["kind"]], "spawns", False):
        spawned.install(where, missing)
    arguments = [str(path), "-q", "--import-mode=prepend", "--assert=plain", "-c", "/dev/null"]
    arguments += getattr(kinds.KINDS[order["kind"]], "pytest", ["--noconftest"])
    arguments += [f"--rootdir={path.parent}", "-p", "no:cacheprovider", "-p", "no:timeout", "-p", "no:warnings"]
    arguments += ["--tb=short", "-o", "python_files=*.py", *order["arguments"]]
    pytest.main(arguments, plugins=[plugin])
    plugin.write(event="finished")


if __name__ == "__main__":
    main(sys.argv[1])
