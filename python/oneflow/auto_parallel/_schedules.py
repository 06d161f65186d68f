"""The schedule under which the stages of a plan run: what a step takes and holds under each, by its table.

A cut of one stage a rank is searched for one forward for one backward (``graph/src/solve/stages.rs``), and other
schedules get the same stages. Schedules with several stages a rank have cuts of their own, one for each
:class:`Shape`. Moves no cut.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from oneflow._schedules.generators import find, make_table
from oneflow._schedules.table import PipelineTable

__all__ = ["SCHEDULES", "SHAPES", "Scheduled", "Shape", "known_schedules", "least", "scheduled", "shapes_of"]


@dataclass(frozen=True)
class Shape:
    """How many stages each rank of a pipeline has, and whether they have the form of a V (else ranks take turns)."""

    stages_per_rank: int = 1
    is_v: bool = False

    def rows(self, n_stages: int) -> list[int]:
        """Return by stage the rank that has it."""
        n = n_stages // self.stages_per_rank
        return [2 * n - 1 - s if self.is_v and s >= n else s % n for s in range(n_stages)]


_ONE, _TWO, _V = Shape(), Shape(2), Shape(2, True)
#: By schedule, the shapes that are tried; that of the search over cuts comes first.
SHAPES = {
    "1F1B": [_ONE],
    "ZB-H1": [_ONE],
    "GPipe": [_ONE],
    "Interleaved1F1B": [_TWO, Shape(4)],
    "InterleavedZeroBubble": [_TWO],
    "ZB-V": [_V],
    "DualPipeV": [_V],
}
#: The schedules that are tried by default.
SCHEDULES = tuple(SHAPES)


@dataclass
class Scheduled:
    """A schedule with the seconds of a step, and for each rank of the pipeline the bytes at its peak."""

    name: str
    seconds: float
    peaks: list[float]


def known_schedules(names: Iterable[str] | None) -> list[str]:
    """Return the schedules to try by their usual names.

    Raises:
        ValueError: there is none of a name, or it is not searched.
    """
    if names is None:
        return list(SCHEDULES)
    found = list(dict.fromkeys(find(name) for name in ([names] if isinstance(names, str) else names)))
    if not found or any(name not in SHAPES for name in found):
        raise ValueError(f"auto_parallel.plan(): schedules that are searched are {', '.join(SCHEDULES)}; got {found}")
    return found


def shapes_of(schedules: Iterable[str]) -> list[Shape]:
    """Return the shapes of these schedules, that of one stage a rank first."""
    found = {shape for name in schedules for shape in SHAPES[name]}
    return sorted(found, key=lambda shape: (shape.stages_per_rank, shape.is_v))


def scheduled(
    cut: dict[str, Any], micro_batches: int, name: str, shape: Shape = _ONE, usual: dict[str, Any] | None = None
) -> Scheduled | None:
    """Return what the stages of a cut cost under a schedule; None where there is no table for so many micro-batches.

    Args:
        cut: from ``Problem.stages``, for this shape.
        micro_batches: of a step.
        name: one of ``SCHEDULES`` that has the shape.
        shape: how many stages each rank has, and in which form.
        usual: with several stages a rank, the cut of one stage a rank; step times are compared with its own.
    """
    if name == SCHEDULES[0]:
        return Scheduled(name, cut["total"], cut["peaks"])
    base = usual or cut
    n = len(cut["starts"]) // shape.stages_per_rank
    table = _table(name, n, micro_batches, shape.stages_per_rank)
    if table is None:
        return None
    if "by_table" not in base:
        # The formula that stages are cut with knows no order of forwards and backwards.
        before = _table(SCHEDULES[0], len(base["starts"]), micro_batches, 1)
        assert before is not None
        base["by_table"] = _step(before, base)
    return Scheduled(name, base["total"] + _step(table, cut) - base["by_table"], _peaks(table, cut))


def least(cut: dict[str, Any], micro_batches: int, shape: Shape = _ONE) -> float:
    """Return seconds that no schedule goes below: those of the busiest rank, without what it may do beside its work."""
    own = [0.0] * (len(cut["starts"]) // shape.stages_per_rank)
    for stage, row in enumerate(shape.rows(len(cut["starts"]))):
        own[row] += micro_batches * sum(cut["halves"][stage]) + cut["updates"][stage] - cut["reductions"][stage]
    return max(own)


def _step(table: PipelineTable, cut: dict[str, Any]) -> float:
    """Seconds from the first forward to the last update.

    The gradients of a stage are reduced while the rank works on others, one stage after another.
    """
    ends, most = table.ends(cut["halves"]), 0.0
    for rank in range(table.n_ranks):
        stages = sorted(table.stages_of(rank), key=ends.__getitem__)
        reduced = 0.0
        for stage in stages:
            reduced = max(reduced, ends[stage]) + cut["reductions"][stage]
        most = max(most, reduced + sum(cut["updates"][stage] - cut["reductions"][stage] for stage in stages))
    return most


def _peaks(table: PipelineTable, cut: dict[str, Any]) -> list[float]:
    """Bytes of each rank at its peak, with what micro-batches hold until their backward, and until that of weights."""
    peaks = []
    for rank, row in enumerate(table.rows):
        held = {stage: cut["held"][stage] for stage in table.stages_of(rank)}
        now = most = 0.0
        for a in row:
            _, saved, between, _ = held[a.stage]
            if a.kind == "F":
                now += saved
            elif a.kind == "W":
                now -= between
            else:
                now += (between if table.splits(a.stage, a.micro_batch) else 0.0) - saved
            most = max(most, now)
        peaks.append(sum(own[0] for own in held.values()) + max(own[3] for own in held.values()) + most)
    return peaks


@functools.lru_cache(maxsize=128)
def _table(name: str, n_ranks: int, micro_batches: int, stages_per_rank: int) -> PipelineTable | None:
    try:
        return make_table(name, n_ranks, micro_batches, stages_per_rank)
    except ValueError:
        # Too few micro-batches, or rounds that do not divide them.
        return None
