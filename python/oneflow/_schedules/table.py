"""The table of a pipeline: which rank works on which stage and micro-batch, and in which order.

A table is data: it can be generated (`generators.py`), written by hand, read and saved as text. It is checked as a
whole before
anything runs. Times are ticks: a forward, a backward of inputs and a backward of weights take one each, so a whole
backward takes two. Runs nothing; `distributed.pipelining` and `nn.Graph` do.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Action", "PipelineTable", "Timed"]

_CELL = re.compile(r"(\d+)([FBIW])(\d+)")
_KINDS = ("F", "B", "W")


class Action(NamedTuple):
    """One piece of work: ``kind`` of a micro-batch on a stage.

    ``"F"`` is the forward, ``"B"`` the backward. Where the table also has a ``"W"`` of the same stage and
    micro-batch, ``"B"`` computes the gradients of the stage's inputs alone and ``"W"`` those of its parameters.

    Example::

        >>> oneflow.distributed.pipelining.Action(0, 3, "F")
        Action(stage=0, micro_batch=3, kind='F')
    """

    stage: int
    micro_batch: int
    kind: str

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


_Cell = Action | tuple[int, int, str] | str | None
# The ticks of a kind of work: on all stages, or one number for each.
_Ticks = int | Sequence[int]


class Timed(NamedTuple):
    """An action with the ticks at which it starts and has ended."""

    action: Action
    start: int
    end: int


class PipelineTable:
    """The order of work of every rank of a pipeline.

    Args:
        rows: for each rank its actions, as :class:`Action`, tuples ``(stage, micro_batch, kind)`` or texts such as
            ``"0F3"``.
            ``"0F3+7B1"`` are two actions that a device may overlap: they start once both can. None stands for an
            idle tick, which changes nothing: a rank never waits for a tick, only for what it needs.
        name: of the schedule.

    A row may be a rank, or the ranks of one placement.

    Raises:
        ValueError: an entry is no action; a stage is in two rows or in none; a micro-batch is missing, comes twice
            or has its backward before its forward; or the ranks would wait for each other (the stages are named).

    Example::

        >>> rows = [["0F0", "0F1", None, "0B0", "0B1"], [None, "1F0", "1B0", "1F1", "1B1"]]
        >>> table = oneflow.distributed.pipelining.PipelineTable(rows)
        >>> table.n_stages, table.n_micro_batches, table.bubble()
        (2, 2, 3)
    """

    def __init__(self, rows: Iterable[Iterable[_Cell]], name: str = "custom") -> None:
        self.name = name
        self.rows, self._pairs = _read(rows)
        self._ranks = self._find_ranks()
        self._check_work()
        self._timed = self._run()

    # ---- reading

    @property
    def n_ranks(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def n_stages(self) -> int:
        """The number of stages of the model."""
        return len(self._ranks)

    @property
    def n_micro_batches(self) -> int:
        """The number of micro-batches in a step."""
        return 1 + max(a.micro_batch for row in self.rows for a in row)

    @property
    def trains(self) -> bool:
        """Whether the table has backwards."""
        return any(a.kind == "B" for row in self.rows for a in row)

    def rank_of(self, stage: int) -> int:
        """Return the row that a stage belongs to."""
        return self._ranks[stage]

    def stages_of(self, rank: int) -> list[int]:
        """Return the stages of a row, the lowest first."""
        return sorted(stage for stage, r in self._ranks.items() if r == rank)

    def splits(self, stage: int, micro_batch: int) -> bool:
        """Return whether weights have a backward of their own there."""
        return Action(stage, micro_batch, "W") in self._work

    # ---- time

    def timed(self, lasts: Mapping[str, _Ticks] | None = None, transfer: int = 0) -> list[list[Timed]]:
        """Return for each rank when its actions run, in ticks.

        Args:
            lasts: ticks of an ``"F"``, a ``"B"`` (of inputs) and a ``"W"``, a number or one for each stage; one each by
                default. A whole backward takes ``"B"`` and ``"W"``.
            transfer: ticks from a result on one rank to its arrival on another.
        """
        return self._run(lasts, transfer)

    def ends(self, lasts: Sequence[Sequence[float]]) -> list[float]:
        """Return for each stage when its last action ends; by stage ``lasts`` has the times of an F, a B and a W.

        The same as the ends of :meth:`timed`, for any numbers, and faster where one table is asked for many.
        """
        done, now, ends = [0.0] * len(self._steps), [0.0] * self.n_ranks, [0.0] * self.n_stages
        for at, (rank, stage, parts, needs, first) in enumerate(self._steps):
            start = now[rank]
            for need in needs:
                start = max(start, done[need])
            own = lasts[stage]
            now[rank] = done[at] = ends[stage] = start + sum(own[part] for part in parts)
            if first is not None:
                # What a pair makes is there when both have ended.
                done[first] = now[rank]
        return ends

    @functools.cached_property
    def _steps(self) -> list[tuple[int, int, tuple[int, ...], list[int], int | None]]:
        """Actions in an order in which each comes behind what it needs.

        For each its rank, its stage, what it takes (F, B or W by number), the actions that it needs by their places
        here, and of the second one of a pair the place of the first.
        """
        order = sorted((t.start, rank, at) for rank, row in enumerate(self._timed) for at, t in enumerate(row))
        places = {self.rows[rank][at]: k for k, (_, rank, at) in enumerate(order)}
        steps = []
        for _, rank, at in order:
            action = self.rows[rank][at]
            second = at > 0 and self.rows[rank][at - 1] in self._pairs
            unit = () if second else self._unit(rank, at)
            needs = [places[need] for one in unit for need in self._needs(one)]
            whole = action.kind == "B" and not self.splits(action.stage, action.micro_batch)
            parts: tuple[int, ...] = (1, 2) if whole else ("FBW".index(action.kind),)
            steps.append((rank, action.stage, parts, needs, places[self.rows[rank][at - 1]] if second else None))
        return steps

    def makespan(self, lasts: Mapping[str, _Ticks] | None = None) -> int:
        """Return the ticks from the first start to the last end."""
        timed = self._timed if lasts is None else self._run(lasts)
        return max(t.end for row in timed for t in row)

    def bubble(self, lasts: Mapping[str, _Ticks] | None = None) -> int:
        """Return the idle ticks of the rank that idles most between its first action and its last.

        This is how the papers of zero-bubble schedules count: steps follow each other without a barrier, so what a rank
        waits before its first action belongs to the step before.
        """
        timed = self._timed if lasts is None else self._run(lasts)
        return max(row[-1].end - row[0].start - sum(t.end - t.start for t in row) for row in timed)

    def in_flight(self) -> list[int]:
        """Return for each rank the most forwards whose activations it holds, until ``"W"`` where there is one."""
        most = []
        for row in self.rows:
            now = peak = 0
            for a in row:
                now += a.kind == "F"
                peak = max(peak, now)
                now -= a.kind == "W" or (a.kind == "B" and not self.splits(a.stage, a.micro_batch))
            most.append(peak)
        return most

    # ---- text

    def grid(self) -> str:
        """Return a drawing: a line for each rank, a column for each tick. A whole backward fills two."""
        width = max(len(str(a)) for row in self.rows for a in row)
        lines = []
        for row in self._timed:
            cells = ["."] * self.makespan()
            for t in row:
                cells[t.start : t.end] = [str(t.action)] + ["="] * (t.end - t.start - 1)
            lines.append(" ".join(cell.ljust(width) for cell in cells).rstrip())
        return "\n".join(lines)

    def to_csv(self) -> str:
        """Return a line a rank in PyTorch's letters: ``F``, ``B`` (whole), ``I`` (of inputs), ``W``, as in ``0F3``."""
        return "".join(",".join(self._cells(rank)) + "\n" for rank in range(self.n_ranks))

    @classmethod
    def from_csv(cls, text: str, name: str = "csv") -> PipelineTable:
        """Return the table of a text as :meth:`to_csv` writes it; empty cells are idle ticks.

        Raises:
            ValueError: as the class does.

        Example::

            >>> oneflow.distributed.pipelining.PipelineTable.from_csv("0F0,0I0,0W0").splits(0, 0)
            True
        """
        return cls([[cell.strip() for cell in line.split(",")] for line in text.strip().splitlines()], name)

    def _cells(self, rank: int) -> list[str]:
        cells, at = [], 0
        while at < len(self.rows[rank]):
            unit = self._unit(rank, at)
            cells.append("+".join(map(self._cell, unit)))
            at += len(unit)
        return cells

    def _cell(self, action: Action) -> str:
        inputs_alone = action.kind == "B" and self.splits(action.stage, action.micro_batch)
        return str(action._replace(kind="I") if inputs_alone else action)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.n_ranks} ranks, {self.n_stages} stages, {self.n_micro_batches} micro-batches>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PipelineTable) and (self.rows, self._pairs) == (other.rows, other._pairs)

    def __hash__(self) -> int:
        return hash(self.rows)

    # ---- checks

    def _find_ranks(self) -> dict[int, int]:
        ranks: dict[int, int] = {}
        for rank, row in enumerate(self.rows):
            if not row:
                raise ValueError(f"pipeline table: rank {rank} has no work")
            for a in row:
                if ranks.setdefault(a.stage, rank) != rank:
                    raise ValueError(f"pipeline table: stage {a.stage} is on rank {ranks[a.stage]} and on rank {rank}")
        if not ranks:
            raise ValueError("pipeline table: there are no ranks")
        missing = sorted(set(range(max(ranks) + 1)) - set(ranks))
        if missing:
            raise ValueError(f"pipeline table: stages {missing} are on no rank")
        return ranks

    def _check_work(self) -> None:
        counts = Counter(a for row in self.rows for a in row)
        self._work = frozenset(counts)
        for action, n in counts.items():
            if n > 1:
                raise ValueError(f"pipeline table: {_words(action)} comes {n} times")
        for stage, rank in self._ranks.items():
            for m in range(self.n_micro_batches):
                for kind in ("F", "B") if self.trains else ("F",):
                    if Action(stage, m, kind) not in self._work:
                        raise ValueError(f"pipeline table: {_words(Action(stage, m, kind))} is missing (rank {rank})")
                if Action(stage, m, "W") in self._work and not self.trains:
                    raise ValueError(f"pipeline table: {_words(Action(stage, m, 'W'))} without a backward of inputs")

    def _needs(self, action: Action) -> list[Action]:
        """What an action waits for."""
        stage, m, kind = action
        if kind == "F":
            return [Action(stage - 1, m, "F")] if stage else []
        if kind == "W":
            return [Action(stage, m, "B")]
        after = [Action(stage + 1, m, "B")] if stage + 1 < len(self._ranks) else []
        return [Action(stage, m, "F"), *after]

    def _run(self, lasts: Mapping[str, _Ticks] | None = None, transfer: int = 0) -> list[list[Timed]]:
        """Let every rank do its next action as soon as it can; raise where they wait for each other."""
        given = {"F": 1, "B": 1, "W": 1, **(lasts or {})}
        ticks = {kind: [n] * self.n_stages if isinstance(n, int) else n for kind, n in given.items()}
        ends: dict[Action, int] = {}
        timed: list[list[Timed]] = [[] for _ in self.rows]
        moved = True
        while moved:
            moved = False
            for rank, row in enumerate(self.rows):
                while len(timed[rank]) < len(row):
                    unit = self._unit(rank, len(timed[rank]))
                    needs = [need for action in unit for need in self._needs(action)]
                    if any(need not in ends for need in needs):
                        break
                    arrivals = [ends[n] + (transfer if self._ranks[n.stage] != rank else 0) for n in needs]
                    end = max([timed[rank][-1].end if timed[rank] else 0, *arrivals])
                    for action in unit:
                        whole = action.kind == "B" and not self.splits(action.stage, action.micro_batch)
                        start, stage = end, action.stage
                        end += ticks[action.kind][stage] + (ticks["W"][stage] if whole else 0)
                        timed[rank].append(Timed(action, start, end))
                    # What a pair makes is there when both have ended.
                    ends.update((action, end) for action in unit)
                    moved = True
        if any(len(done) < len(row) for done, row in zip(timed, self.rows, strict=True)):
            raise ValueError(self._deadlock([len(row) for row in timed], ends))
        return timed

    def _unit(self, rank: int, at: int) -> tuple[Action, ...]:
        """The action at a position of a row, with the one that it may overlap."""
        row = self.rows[rank]
        return row[at : at + 2] if row[at] in self._pairs else row[at : at + 1]

    def _deadlock(self, done: Sequence[int], ends: Mapping[Action, int]) -> str:
        """Follow who waits for whom until a rank comes twice."""
        rank = next(r for r, row in enumerate(self.rows) if done[r] < len(row))
        seen: dict[int, str] = {}
        while rank not in seen:
            waiting = [(a, n) for a in self._unit(rank, done[rank]) for n in self._needs(a) if n not in ends]
            action, need = waiting[0]
            holder = self._ranks[need.stage]
            seen[rank] = f"rank {rank} waits with {_words(action)} for {_words(need)} on rank {holder}"
            rank = holder
        circle = list(seen)[list(seen).index(rank) :]
        return "pipeline table: the ranks wait for each other: " + "; ".join(seen[r] for r in circle)


def _read(rows: Iterable[Iterable[_Cell]]) -> tuple[tuple[tuple[Action, ...], ...], frozenset[Action]]:
    """Return the actions of every row, and those that may overlap with the next one."""
    read, pairs = [], set()
    for rank, row in enumerate(rows):
        actions: list[Action] = []
        for cell in row:
            if cell is None or cell == "":
                continue
            parts: list[Any] = list(cell.split("+")) if isinstance(cell, str) else [cell]
            if len(parts) > 2:
                raise ValueError(f"pipeline table: rank {rank} has {cell!r}: two actions may overlap, not {len(parts)}")
            actions += [_action(part, rank) for part in parts]
            if len(parts) == 2:
                pairs.add(actions[-2])
        read.append(tuple(actions))
    return tuple(read), frozenset(pairs)


def _words(action: Action) -> str:
    what = {"F": "the forward", "B": "the backward", "W": "the backward of weights"}[action.kind]
    return f"{what} of micro-batch {action.micro_batch} on stage {action.stage}"


def _action(cell: object, rank: int) -> Action:
    if isinstance(cell, str):
        match = _CELL.fullmatch(cell.strip())
        if match:
            kind = "B" if match[2] == "I" else match[2]
            return Action(int(match[1]), int(match[3]), kind)
    elif isinstance(cell, tuple) and len(cell) == 3:
        stage, micro_batch, kind = cell
        numbers = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (stage, micro_batch))
        if numbers and kind in _KINDS:
            return Action(stage, micro_batch, kind)
    raise ValueError(
        f"pipeline table: rank {rank} has {cell!r}, which is no action: expected (stage, micro_batch, 'F', 'B' or 'W') "
        "or a text such as '0F3'"
    )
