"""Recordings as files: traces for browsers, stacks for flame graphs, memory over time."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from oneflow.profiler._events import FunctionEvent

CATEGORIES = ("forward", "backward", "optimizer", "data", "before")


class MemoryEvent(NamedTuple):
    """Memory allocated (positive) or freed (negative)."""

    time_us: float
    n_bytes: int
    address: int
    device: str
    category: str
    thread: int


def memory_events(threads: list[Any], origin: int) -> list[MemoryEvent]:
    """Pick the memory events, each with what it was for, in order of time."""
    found = []
    for thread, raws in threads:
        categories: list[str | None] = []
        for raw in raws:
            outer = categories[raw.parent] if raw.parent >= 0 else None
            categories.append(outer or _category(raw))
            if raw.kind == "memory":
                at = (raw.start - origin) / 1000
                found.append(MemoryEvent(at, raw.bytes, raw.address, raw.device, outer or "forward", thread))
    found.sort()
    return found


def _category(raw: Any) -> str | None:
    if raw.kind == "backward":
        return "backward"
    if raw.name.startswith("Optimizer."):
        return "optimizer"
    return "data" if raw.name.startswith("enumerate(DataLoader)") else None


def _write(path: str, text: str) -> None:
    if path.endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


_CHROME_KINDS = {"user": "user_annotation", "module": "python_function", "actor": "runtime"}


def chrome_trace(path: str, info: dict[str, Any], events: list[FunctionEvent], memory: list[MemoryEvent]) -> None:
    """Write complete events, arrows from forward to backward, and memory as moments and a curve."""
    pid = os.getpid()
    trace: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "oneflow"}}
    ]
    for tid in sorted({event.thread for event in events}):
        name = f"thread {tid}" + (" (main)" if tid == pid else "")
        trace.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}})
    forward: dict[int, FunctionEvent] = {}
    for event in events:
        place = {"pid": pid, "tid": event.thread, "ts": round(event.time_range.start, 3)}
        args: dict[str, Any] = {"External id": event.id}
        if event.input_shapes:
            args |= {"Input Dims": event.input_shapes, "Input type": event.input_dtypes}
        if event.sequence_nr >= 0:
            args["Sequence number"] = event.sequence_nr
        if event.stack:
            args["Call stack"] = ";".join(event.stack)
        if event.flops:
            args["Flops"] = event.flops
        kind = _CHROME_KINDS.get(event.kind, "cpu_op")
        trace.append(
            {"ph": "X", "cat": kind, "name": event.name, **place, "dur": round(event.cpu_time_total, 3), "args": args}
        )
        if event.sequence_nr < 0:
            continue
        if event.kind == "op":
            forward.setdefault(event.sequence_nr, event)
        elif event.kind == "backward" and event.sequence_nr in forward:
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.sequence_nr, "pid": pid}
            source = forward[event.sequence_nr]
            trace.append({"ph": "s", **arrow, "tid": source.thread, "ts": round(source.time_range.start, 3)})
            trace.append({"ph": "f", **arrow, **place, "bp": "e"})
    in_use: dict[str, int] = {}
    for moment in memory:
        in_use[moment.device] = in_use.get(moment.device, 0) + moment.n_bytes
        sums = {"Bytes": moment.n_bytes, "Addr": moment.address, "Total Allocated": in_use[moment.device]}
        place = {"pid": pid, "tid": moment.thread, "ts": round(moment.time_us, 3)}
        trace.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", **place, "args": sums})
        curve = {"ph": "C", "name": f"memory {moment.device}", **place}
        trace.append({**curve, "args": {"bytes since the start": in_use[moment.device]}})
    _write(path, json.dumps({**info, "traceEvents": trace, "traceName": path}))


def stacks(path: str, metric: str, events: Iterable[FunctionEvent]) -> None:
    """Write a line for each stack: frames from the outside in, and whole microseconds."""
    if metric not in ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total"):
        raise ValueError(f"export_stacks(): metric must be self_cpu_time_total or self_cuda_time_total, not {metric!r}")
    sums: dict[str, float] = {}
    for event in events:
        if event.stack:
            names = [*reversed(event.stack), event.name]
            line = ";".join(name.translate(_FLAME).replace(" ", "_") for name in names)
            sums[line] = sums.get(line, 0.0) + getattr(event, metric.replace("cuda", "device"))
    _write(path, "".join(f"{line} {int(us)}\n" for line, us in sums.items() if int(us) > 0))


_FLAME = str.maketrans(";\t\n", "___")


def memory_timeline(path: str, memory: list[MemoryEvent], device: str) -> None:
    """Write memory over time in the form that the file's suffix selects."""
    chosen = [event for event in memory if event.device in (device, device.split(":")[0])]
    if path.endswith((".raw.json", ".raw.json.gz")):
        raw = [[e.time_us, "create" if e.n_bytes > 0 else "destroy", abs(e.n_bytes), e.category] for e in chosen]
        _write(path, json.dumps(raw))
        return
    times, rows = _timeline(chosen)
    if path.endswith((".json", ".json.gz")):
        _write(path, json.dumps({"categories": CATEGORIES, "times_us": times, "bytes": rows}))
    elif path.endswith(".html"):
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "_timeline.html"), encoding="utf-8") as file:
            page = file.read()
        data = json.dumps({"device": device, "categories": CATEGORIES, "times": times, "rows": rows})
        _write(path, page.replace("__DATA__", data.replace("</", "<\\/")))
    else:
        raise ValueError(f"export_memory_timeline(): {path!r} ends in none of .html, .json, .json.gz, .raw.json.gz")


def _timeline(memory: list[MemoryEvent]) -> tuple[list[float], list[list[int]]]:
    """Return the bytes in use of each category after every event. Memory from before recording starts at zero."""
    place = {name: i for i, name in enumerate(CATEGORIES)}
    made: dict[int, str] = {}
    early = 0
    for event in memory:
        if event.n_bytes > 0:
            made[event.address] = event.category
        elif made.pop(event.address, None) is None:
            early -= event.n_bytes
    now = [0] * len(CATEGORIES)
    now[place["before"]] = early
    made.clear()
    times, rows = [], []
    for event in memory:
        if event.n_bytes > 0:
            made[event.address] = event.category
        category = event.category if event.n_bytes > 0 else made.pop(event.address, "before")
        now[place[category]] += event.n_bytes
        times.append(round(event.time_us, 3))
        rows.append(list(now))
    return times, rows
