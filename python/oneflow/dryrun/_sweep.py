"""Dry runs of one job under many layouts, ranked."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneflow.auto_parallel.cluster import Cluster
from oneflow.dryrun._job import dry_run
from oneflow.dryrun._report import Report, columns, size
from oneflow.dryrun._world import cluster_of

__all__ = ["Sweep", "sweep"]

_AXES = ("dp", "tp", "pp", "cp", "ep")
_CHOICES = {"zero": (0, 1, 2, 3), "recompute": (False, True)}


@dataclass
class Sweep:
    """Layouts of a job, the fastest that runs first; behind them those that do not run, each with the reason.

    Attributes:
        rows: for each layout its ``layout``, the ``report`` of its dry run, or the ``error`` that kept it from one.

    Example::

        >>> sweep = oneflow.dryrun.Sweep([{"layout": {"dp": 3}, "report": None, "error": "8 rows do not divide by 3"}])
        >>> sweep.best is None
        True
    """

    rows: list[dict[str, Any]]

    @property
    def nearest(self) -> dict[str, Any] | None:
        """The layout whose ranks need the least memory, whether they have it or not."""
        ran = [row for row in self.rows if row["report"] is not None]
        return min(ran, key=lambda row: row["report"].peak)["layout"] if ran else None

    @property
    def best(self) -> dict[str, Any] | None:
        """The layout of the fastest step that runs; None where no layout does."""
        first = self.rows[0] if self.rows else {"report": None}
        return first["layout"] if first["report"] is not None and first["report"].fits else None

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Return the ranking as text."""
        rows: list[tuple[str, ...]] = []
        for row in self.rows:
            name = " ".join(f"{key}={value}" for key, value in row["layout"].items())
            r: Report | None = row["report"]
            if r is None:
                rows.append((name, "-", "-", "-", "-", "-", row["error"]))
                continue
            parts = (r.mfu, r.exposed_communication, r.bubble)
            percents = [f"{100 * part:.1f} %" for part in parts]
            problem = next(iter([*r.out_of_memory, *r.stuck]), "")
            rows.append((name, f"{1e3 * r.step_seconds:,.3f}", *percents, size(r.peak), problem))
        heads = ("layout", "ms a step", "MFU", "exposed communication", "bubble", "peak", "")
        return "\n".join(line.rstrip() for line in columns(heads, rows))

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain data."""
        return [{**row, "report": None if row["report"] is None else row["report"].to_dict()} for row in self.rows]


def sweep(
    job: Callable[..., Any],
    *,
    cluster: Cluster | str | Path,
    layouts: Iterable[Mapping[str, Any]] | None = None,
    **options: Any,
) -> Sweep:
    """Dry-run a job under each layout, and rank them.

    Args:
        job: a function as :func:`dry_run` takes; a layout is given to it as keyword arguments.
        cluster: a ``Cluster``, the name of one that the package describes, or a toml file.
        layouts: the keyword arguments of each run. By default all ways to cut the cluster's devices in as many factors
            as ``job`` has parameters named dp, tp, pp, cp or ep; each with ``zero`` from 0 to 3 and ``recompute``
            False and True, where ``job`` has such parameters.
        options: further arguments of :func:`dry_run`.

    Raises:
        ValueError: no layout is given, and ``job`` has no such parameter.

    Example::

        >>> class Twice(oneflow.nn.Graph):
        ...     def build(self, x):
        ...         return x * 2
        >>> def job(dp, tp):
        ...     place = oneflow.placement("cpu", oneflow.arange(dp * tp).reshape(dp, tp).tolist())
        ...     layout = [oneflow.sbp.split(0), oneflow.sbp.split(1)]
        ...     return Twice(), oneflow.ones(4096, 64, placement=place, sbp=layout)
        >>> len(oneflow.dryrun.sweep(job, cluster="4xcpu").rows)
        3
    """
    cluster = cluster_of(cluster)
    if layouts is None:
        names = [name for name in inspect.signature(job).parameters if name in _AXES]
        if not names:
            raise ValueError(f"sweep(): the job has no parameter of {', '.join(_AXES)}: give layouts")
        others = {name: values for name, values in _CHOICES.items() if name in inspect.signature(job).parameters}
        layouts = [
            {**dict(zip(names, sizes, strict=True)), **dict(zip(others, choice, strict=True))}
            for sizes in _factors(cluster.n_devices, len(names))
            for choice in itertools.product(*others.values())
        ]
    rows: list[dict[str, Any]] = []
    for layout in layouts:
        report, error = None, ""
        try:
            report = dry_run(job, cluster=cluster, **layout, **options)
        except (ValueError, RuntimeError, NotImplementedError) as e:
            error = str(e).partition("\n")[0]
        rows.append({"layout": dict(layout), "report": report, "error": error})

    def key(row: dict[str, Any]) -> tuple[int, float]:
        report = row["report"]
        return (2, 0.0) if report is None else (0 if report.fits else 1, report.step_seconds)

    return Sweep(sorted(rows, key=key))


def _factors(n: int, count: int) -> list[tuple[int, ...]]:
    """All ways to write a number as a product of so many factors."""
    divisors = [k for k in range(1, n + 1) if n % k == 0]
    found = []
    for head in itertools.product(divisors, repeat=count - 1):
        size = 1
        for k in head:
            size *= k
        if n % size == 0:
            found.append((*head, n // size))
    return found
