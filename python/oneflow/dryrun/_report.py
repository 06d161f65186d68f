"""What a dry run found: as a table, as a page, as a trace for Perfetto, as plain data."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oneflow.auto_parallel.cluster import Cluster
from oneflow.dryrun import _page

__all__ = ["Report"]


@dataclass(repr=False)
class Report:
    """What a step of a job takes on a described cluster.

    Attributes:
        name: the graph, and ``cluster`` the name of the description.
        n_ranks: the number of ranks; they are of the classes ``classes``, whose ranks hold equal shards.
        step_seconds: the time from one step to the next when all are under way, and ``first_step_seconds``.
        ranks: by rank, of the last step: seconds of ``compute``, of ``communication`` (bytes are under way and no work
            hides that) and of ``hidden`` communication,
            ``wait_collective`` and ``wait_message`` (for ranks that have not come), ``bubble`` (waits between its first
            and its last work), ``start`` and ``end``, and the bytes that it has ``sent``.
        classes: for each class its ``ranks``, its ``memory`` in bytes by what holds it, the bytes that lie on a disk or
            on the host (``offloaded``, and ``on_host``), the ``peak``, the instruction at which most is alive
            (``peak_at``), the largest that are alive then (``holders``), and its operations.
        links: the bytes that passed each used link in the step, those between devices and their hosts among them
            ("offload").
        spans: of one rank of each class: rank, stream, start, end, kind and the line that each comes from.
        out_of_memory: a sentence for each class that does not fit, with its ranks and the layer.
        stuck: a sentence for each rank that never ends, with what it waits for: a deadlock, or the loss of a rank.
        mfu: operations of the model, without those that are computed again, over what the devices could have done.
        events: how much was simulated; ``trace_seconds`` are what the dry run itself took for traces and plans, one for
            each class, and ``simulate_seconds`` what it took for the rest.

    Example::

        >>> class Twice(oneflow.nn.Graph):
        ...     def build(self, x):
        ...         return x * 2
        >>> report = oneflow.dryrun.dry_run(Twice(), oneflow.ones(1024, 8), cluster="4xcpu")
        >>> report.fits, "on 4xcpu, 1 of 4 devices: " in report.table()
        (True, True)
    """

    name: str
    cluster: str
    n_ranks: int
    n_devices: int
    memory: float
    step_seconds: float
    first_step_seconds: float
    mfu: float
    ranks: list[dict[str, Any]]
    classes: list[dict[str, Any]]
    links: list[Any]
    spans: list[Any]
    out_of_memory: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    events: int = 0
    trace_seconds: float = 0.0
    simulate_seconds: float = 0.0

    @classmethod
    def of(
        cls,
        name: str,
        cluster: Cluster,
        classes: list[list[int]],
        programs: list[dict[str, Any]],
        found: dict[str, Any],
        kinds: dict[str, str],
        took: dict[str, float],
    ) -> Report:
        """Return the report of a simulation of classes of ranks; ``kinds``: what variables are, by name."""
        ranks = []
        for start, end, compute, (communication, hidden), (collective, message, bubble), sent in found["ranks"]:
            ranks.append(
                {
                    "start": start,
                    "end": end,
                    "compute": compute,
                    "communication": communication,
                    "hidden": hidden,
                    "wait_collective": collective,
                    "wait_message": message,
                    "bubble": bubble,
                    "sent": sent,
                }
            )
        described = [_class(members, p, kinds) for members, p in zip(classes, programs, strict=True)]
        flops = sum(len(c["ranks"]) * c["model_flops"] for c in described)
        could = len(ranks) * (cluster.peak_flops or cluster.flops) * found["step"]
        return cls(
            name=name,
            cluster=cluster.name,
            n_ranks=len(ranks),
            n_devices=cluster.n_devices,
            memory=float(cluster.memory),
            step_seconds=found["step"],
            first_step_seconds=found["first_step"],
            mfu=flops / could if could > 0 else 0.0,
            ranks=ranks,
            classes=described,
            links=[list(link) for link in found["links"]],
            spans=[list(span) for span in found["spans"]],
            out_of_memory=[
                _over(c, p, cluster) for c, p in zip(described, programs, strict=True) if _is_over(c, cluster)
            ],
            stuck=[_waits(*stuck) for stuck in found["stuck"]],
            events=found["n_events"],
            **took,
        )

    # ---- numbers

    @property
    def bubble(self) -> float:
        """The largest part of a step that a rank waits between its first and its last work."""
        return self._share("bubble")

    @property
    def exposed_communication(self) -> float:
        """The largest part of a step in which bytes are under way and a rank has no work meanwhile."""
        return self._share("communication")

    @property
    def peak(self) -> int:
        """The most bytes that a rank holds."""
        return max(c["peak"] for c in self.classes)

    @property
    def fits(self) -> bool:
        """Whether every rank has the memory that it needs, and every rank ends."""
        return not self.out_of_memory and not self.stuck

    def _share(self, key: str) -> float:
        return max((r[key] for r in self.ranks), default=0.0) / self.step_seconds if self.step_seconds > 0 else 0.0

    # ---- output

    def __repr__(self) -> str:
        return f"<Report of {self._head()}>"

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Return the report as text: the step, what each class of ranks does and holds, links, and what goes wrong."""
        lines = [self._head(), *self.out_of_memory, *self.stuck[:16]]
        if len(self.stuck) > 16:
            lines.append(f"and {len(self.stuck) - 16} more ranks never end")
        lines += ["", *columns(*self._time_rows())]
        lines += ["", *columns(*self._memory_rows())]
        lines += ["", *columns(*self._link_rows())]
        return "\n".join(line.rstrip() for line in lines)

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write the report with its timeline as a page for a browser; it needs no other file and no network."""
        tables = [self._time_rows(), self._memory_rows(), self._link_rows()]
        notes = [*self.out_of_memory, *self.stuck]
        Path(path).write_text(_page.page(self._head(), notes, tables, self.spans), encoding="utf-8")

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline in Chrome's format, which Perfetto opens."""
        events: list[dict[str, Any]] = []
        for rank, stream, start, end, kind, origin in self.spans:
            name, _, place = origin.partition(" (traced at ")
            event = {"name": name, "cat": kind, "ph": "X", "ts": 1e6 * start, "dur": 1e6 * (end - start)}
            events.append({**event, "pid": rank, "tid": stream, "args": {"where": place.rstrip(")")}})
        for rank in sorted({span[0] for span in self.spans}):
            events.append({"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}})
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with ``bubble``, ``exposed_communication``, ``peak`` and ``fits``."""
        numbers = {key: getattr(self, key) for key in ("bubble", "exposed_communication", "peak", "fits")}
        return {**asdict(self), **numbers}

    def _head(self) -> str:
        fits = "" if self.fits else ", DOES NOT RUN"
        offloaded = max((c["offloaded"] for c in self.classes), default=0)
        where = "on the host" if any(c["on_host"] for c in self.classes) else "on disk"
        elsewhere = f", {size(offloaded)} {where}" if offloaded else ""
        return (
            f"{self.name} on {self.cluster}, {self.n_ranks} of {self.n_devices} devices: "
            f"{1e3 * self.step_seconds:,.3f} ms a step, MFU {100 * self.mfu:.1f} %, "
            f"exposed communication {100 * self.exposed_communication:.1f} %, bubble {100 * self.bubble:.1f} %, "
            f"peak {size(self.peak)} of {size(self.memory)}{elsewhere}{fits}"
        )

    def _time_rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        heads = ("ranks", "compute ms", "communication ms", "hidden ms", "waits ms", "bubble ms", "sent MB", "GFLOP")
        rows = []
        for c in self.classes:
            # Of a class the rank that is last.
            r = max((self.ranks[rank] for rank in c["ranks"]), key=lambda r: r["end"])
            waits = r["wait_collective"] + r["wait_message"]
            seconds = (r["compute"], r["communication"], r["hidden"], waits, r["bubble"])
            rest = (f"{r['sent'] / 1e6:,.3f}", f"{c['flops'] / 1e9:,.3f}")
            rows.append((ranges(c["ranks"]), *[f"{1e3 * s:,.3f}" for s in seconds], *rest))
        return heads, rows

    def _memory_rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        kinds = list(self.classes[0]["memory"]) if self.classes else []
        rows = [
            (
                ranges(c["ranks"]),
                f"{c['peak'] / 1e6:,.3f}",
                *[f"{c['memory'][k] / 1e6:,.3f}" for k in kinds],
                _short(c["peak_at"]),
            )
            for c in self.classes
        ]
        return ("ranks", "peak MB", *kinds, "most is alive at"), rows

    def _link_rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        groups: dict[str, list[int]] = {}
        for name, n in self.links:
            words = name.split()
            groups.setdefault(" ".join([words[0], words[1], words[3]]), []).append(n)
        rows: list[tuple[str, ...]] = [
            (name, str(len(sizes)), f"{max(sizes) / 1e6:,.3f}", f"{sum(sizes) / 1e6:,.3f}")
            for name, sizes in groups.items()
        ]
        return ("links", "used", "MB over the busiest", "MB over all"), rows


# ---- parts


def _class(members: list[int], p: dict[str, Any], kinds: dict[str, str]) -> dict[str, Any]:
    held = dict.fromkeys(("parameters", "gradients", "optimizer states", "activations", "communication", "others"), 0)
    for name, n in p["variables"]:
        kind = "optimizer states" if name.startswith("optimizer_") else kinds.get(name, "others")
        held["others" if kind == "buffers" else kind] += n
    held["gradients"] += p["gradients"]
    held["activations"] += p["activations"]
    held["communication"] += p["communication"]
    # Inputs, results, registers of readers, and gaps between what lies in the arena.
    gaps = p["arena"] - p["gradients"] - p["activations"]
    held["others"] += p["inputs"] + p["outputs"] + p["registers"] + p["window"] + gaps
    keys = ("offloaded", "on_host", "peak", "peak_at", "holders", "curve", "flops", "model_flops", "instructions")
    return {"ranks": members, "memory": held, **{key: p[key] for key in keys}}


def _is_over(c: dict[str, Any], cluster: Cluster) -> bool:
    return bool(c["peak"] > cluster.memory)


def _over(c: dict[str, Any], p: dict[str, Any], cluster: Cluster) -> str:
    kind, n = max(c["memory"].items(), key=lambda item: item[1])
    where = f"first over at {_short(p['over_at'])}" if p["over_at"] else "before the step"
    sizes = f"{size(c['peak'])} of {size(cluster.memory)}"
    most = f"most of it are {kind} ({size(n)})"
    return f"out of memory on rank {ranges(c['ranks'])}: {sizes}, {where}; {most}"


def _waits(rank: int, task: str, origin: str, reason: str, since: float) -> str:
    where = f" at {origin}" if origin else ""
    return f"rank {rank} never ends: actor {task!r}{where} {reason}, from {1e3 * since:,.3f} ms on"


def _short(origin: str) -> str:
    """An op and its line without folders."""
    name, _, place = origin.partition(" (traced at ")
    place = place.removesuffix(")")
    line, _, module = place.partition(", module ")
    file = line.rpartition("/")[2]
    return " ".join(part for part in (name, file, module) if part)


def size(n: float) -> str:
    """Bytes in a unit that leaves few digits."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n >= one:
            return f"{n / one:,.2f} {unit}"
    return f"{n:.0f} bytes"


def ranges(numbers: list[int]) -> str:
    """Ranks as "0-3, 8"; long lists are cut."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and parts[-1][1] + 1 == n:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in parts]
    return ", ".join(texts) if len(texts) <= 4 else f"{', '.join(texts[:3])} .. {texts[-1]}"


def columns(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Rows with columns of equal width."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in [heads, *rows]]
