"""The schedule under which the stages of a plan run: what a step takes and holds under each, by its table.

A cut is searched for one forward for one backward (``graph/src/solve/stages.rs``); here other schedules with one stage
a rank get the same stages. Moves no cut.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oneflow._schedules.generators import find, make_table
from oneflow._schedules.table import PipelineTable

__all__ = ["SCHEDULES", "Scheduled", "known_schedules", "least", "scheduled"]

#: The schedules that are tried by default; the first is that of the search.
SCHEDULES = ("1F1B", "ZB-H1", "GPipe")
# A tick in seconds.
_TICK = 1e-9


@dataclass
class Scheduled:
    """A schedule with the seconds of a step, and for each stage the bytes at its peak."""

    name: str
    seconds: float
    peaks: list[float]


def known_schedules(names: Iterable[str] | None) -> list[str]:
    """Return the schedules to try by their usual names.

    Raises:
        ValueError: there is none of a name, or it has several stages a rank.
    """
    if names is None:
        return list(SCHEDULES)
    found = list(dict.fromkeys(find(name) for name in ([names] if isinstance(names, str) else names)))
    if not found or any(name not in SCHEDULES for name in found):
        raise ValueError(
            f"auto_parallel.plan(): schedules with one stage a rank are searched, {', '.join(SCHEDULES)}; got {found}"
        )
    return found


def scheduled(cut: dict[str, Any], micro_batches: int, name: str) -> Scheduled:
    """Return what the stages of a cut cost under a schedule.

    Args:
        cut: from ``Problem.stages``.
        micro_batches: of a step.
        name: one of ``SCHEDULES``.
    """
    if name == SCHEDULES[0]:
        return Scheduled(name, cut["total"], cut["peaks"])
    n = len(cut["starts"])
    table, usual = _table(name, n, micro_batches), _table(SCHEDULES[0], n, micro_batches)
    return Scheduled(name, cut["total"] + _step(table, cut) - _step(usual, cut), _peaks(table, cut))


def least(cut: dict[str, Any], micro_batches: int) -> float:
    """Return seconds that no schedule goes below: those of the busiest stage."""
    return max(micro_batches * sum(own) + update for own, update in zip(cut["halves"], cut["updates"], strict=True))


def _step(table: PipelineTable, cut: dict[str, Any]) -> float:
    """Seconds from the first forward to the last update."""
    lasts = {kind: [round(own[k] / _TICK) for own in cut["halves"]] for k, kind in enumerate(("F", "B", "W"))}
    rows = zip(table.timed(lasts), cut["updates"], strict=True)
    return max(row[-1].end * _TICK + update for row, update in rows)


def _peaks(table: PipelineTable, cut: dict[str, Any]) -> list[float]:
    """Bytes of each stage at its peak, with what micro-batches hold until their backward, and until that of weights."""
    peaks = []
    for row, (fixed, saved, between) in zip(table.rows, cut["held"], strict=True):
        now = most = 0.0
        for a in row:
            if a.kind == "F":
                now += saved
            elif a.kind == "W":
                now -= between
            else:
                now += (between if table.splits(a.stage, a.micro_batch) else 0.0) - saved
            most = max(most, now)
        peaks.append(fixed + most)
    return peaks


@functools.lru_cache(maxsize=64)
def _table(name: str, n_stages: int, micro_batches: int) -> PipelineTable:
    return make_table(name, n_stages, micro_batches)
