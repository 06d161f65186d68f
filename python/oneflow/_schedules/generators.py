"""The published pipeline schedules, as tables for any number of ranks and micro-batches.

Each function takes ranks and micro-batches (and stages a rank, where the schedule allows several) and returns a
:class:`PipelineTable`. To add one, write such a function and put it in ``SCHEDULES``; everything else reads tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from oneflow._schedules.table import Action, PipelineTable

__all__ = ["SCHEDULES", "find", "make_table"]


class _Row:
    """The work of a rank under construction: each stage takes its micro-batches in order."""

    def __init__(self, n_micro_batches: int) -> None:
        self.actions: list[Action] = []
        # Positions of actions that may overlap with the next one.
        self.pairs: set[int] = set()
        self._n = n_micro_batches
        self._done: Counter[tuple[int, str]] = Counter()

    def done(self, stage: int, kind: str) -> int:
        return self._done[stage, kind]

    def left(self, stage: int, kind: str) -> int:
        return self._n - self._done[stage, kind]

    def add(self, stage: int, kinds: str) -> None:
        """Append the next micro-batch of a stage, for each of these kinds; nothing where none is left."""
        for kind in kinds:
            if self.left(stage, kind):
                self.actions.append(Action(stage, self._done[stage, kind], kind))
                self._done[stage, kind] += 1

    def add_whole(self, stage: int) -> None:
        """Append the next backward of inputs and weights at once."""
        if self.left(stage, "B"):
            self.add(stage, "B")
            self._done[stage, "W"] += 1

    def add_pair(self, forward: int, backward: int, overlap: bool = True) -> None:
        """Append a forward of one stage and a whole backward of another, which may overlap."""
        if overlap and self.left(forward, "F") and self.left(backward, "B"):
            self.pairs.add(len(self.actions))
        self.add(forward, "F")
        self.add_whole(backward)

    def cells(self) -> list[Action | str]:
        """Return the row as a table takes it."""
        row: list[Action | str] = []
        for i, action in enumerate(self.actions):
            if i - 1 not in self.pairs:
                row.append(f"{action}+{self.actions[i + 1]}" if i in self.pairs else action)
        return row

    def add_owed_weights(self, stages: list[int], most: int) -> None:
        """Append up to ``most`` backwards of weights whose backward of inputs is done."""
        for stage in stages:
            while most and self.done(stage, "W") < self.done(stage, "B"):
                self.add(stage, "W")
                most -= 1

    def owed(self, stages: list[int]) -> int:
        return sum(self.done(s, "B") - self.done(s, "W") for s in stages)


def gpipe(n_ranks: int, n_micro_batches: int, stages_per_rank: int = 1) -> PipelineTable:
    """All forwards, then all backwards. With several stages a rank, in loops over the ranks, breadth first.

    Source: Huang et al., GPipe (arXiv:1811.06965); Lamy-Poirier, Breadth-First Pipeline Parallelism (arXiv:2211.05953).
    """
    rows = []
    for rank in range(n_ranks):
        row = _Row(n_micro_batches)
        stages = [rank + n_ranks * k for k in range(stages_per_rank)]
        for stage in stages:
            row.add(stage, "F" * n_micro_batches)
        for stage in reversed(stages):
            row.add(stage, "B" * n_micro_batches)
        rows.append(row.actions)
    return PipelineTable(rows, "GPipe" if stages_per_rank == 1 else "LoopedBFS")


def one_f_one_b(n_ranks: int, n_micro_batches: int) -> PipelineTable:
    """As many forwards ahead as there are stages behind, then one for each backward.

    Source: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training (arXiv:2006.09503).
    """
    rows = []
    for rank in range(n_ranks):
        row = _Row(n_micro_batches)
        row.add(rank, "F" * min(n_ranks - 1 - rank, n_micro_batches))
        for _ in range(n_micro_batches):
            row.add(rank, "FB")
        rows.append(row.actions)
    return PipelineTable(rows, "1F1B")


def zb_h1(n_ranks: int, n_micro_batches: int) -> PipelineTable:
    """1F1B whose backwards of weights wait, on later ranks for longer: the memory of 1F1B, a third of its bubble.

    Source: Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism (arXiv:2401.10241).
    """
    rows = []
    for rank in range(n_ranks):
        row = _Row(n_micro_batches)
        row.add(rank, "F" * min(n_ranks - rank, n_micro_batches))
        for i in range(n_micro_batches):
            row.add(rank, "B")
            if i >= rank:
                row.add(rank, "W")
            row.add(rank, "F")
        row.add_owed_weights([rank], n_micro_batches)
        rows.append(row.actions)
    return PipelineTable(rows, "ZB-H1")


def interleaved(n_ranks: int, n_micro_batches: int, stages_per_rank: int = 2) -> PipelineTable:
    """1F1B over several stages a rank, which take turns for as many micro-batches as there are ranks.

    Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters (arXiv:2104.04473).
    """
    return _interleaved("Interleaved1F1B", n_ranks, n_micro_batches, stages_per_rank, split=False)


def interleaved_zero_bubble(n_ranks: int, n_micro_batches: int, stages_per_rank: int = 2) -> PipelineTable:
    """Interleaved 1F1B whose backwards of weights wait, as in ZB-H1.

    Source: Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism (arXiv:2401.10241).
    """
    return _interleaved("InterleavedZeroBubble", n_ranks, n_micro_batches, stages_per_rank, split=True)


def _interleaved(name: str, n_ranks: int, n_micro_batches: int, stages_per_rank: int, split: bool) -> PipelineTable:
    n_rounds = max(1, n_micro_batches // n_ranks)
    if n_micro_batches % n_rounds:
        raise ValueError(
            f"{name}: {n_micro_batches} micro-batches over {n_ranks} ranks make {n_rounds} rounds, which do not divide "
            f"them; nearest: {n_micro_batches - n_micro_batches % n_rounds}"
        )
    turn = n_micro_batches // n_rounds
    total = n_micro_batches * stages_per_rank
    rows = []
    for rank in range(n_ranks):
        row = _Row(n_micro_batches)
        stages = [rank + n_ranks * k for k in range(stages_per_rank)]
        forwards = [stages[i // turn % stages_per_rank] for i in range(total)]
        backwards = [stages[-1 - i // turn % stages_per_rank] for i in range(total)]
        behind = n_ranks - 1 - rank
        ahead = min(total, (stages_per_rank - 1) * turn + (1 if split else 2) * behind)
        for stage in forwards[:ahead]:
            row.add(stage, "F")
        for i, stage in enumerate(backwards):
            if i + ahead < total:
                row.add(forwards[i + ahead], "F")
            row.add(stage, "B")
            if split and i >= rank:
                row.add_owed_weights(stages[::-1], 1)
        if split:
            row.add_owed_weights(stages[::-1], total)
        rows.append(row.actions)
    return PipelineTable(rows, name)


def zb_v(n_ranks: int, n_micro_batches: int) -> PipelineTable:
    """Two stages a rank in the form of a V: the first rank has the first stage and the last. No bubble, 1F1B's memory.

    Source: Qi, Wan, Huang and Lin, Pipeline Parallelism with Controllable Memory (arXiv:2405.15362).
    """
    rows = []
    for rank in range(n_ranks):
        row = _Row(n_micro_batches)
        down, up = rank, 2 * n_ranks - 1 - rank
        behind = n_ranks - 1 - rank
        row.add(down, "F" * min(2 * behind + 1, n_micro_batches))
        for _ in range(rank):
            row.add(up, "F")
            row.add(down, "F")
        for _ in range(behind + 1):
            row.add(up, "F")
            row.add(up, "BW")
        while row.left(up, "F") or row.left(down, "F"):
            row.add(down, "F")
            row.add(down, "BW")
            row.add(up, "F")
            row.add(up, "BW")
        for _ in range(rank):
            row.add(down, "B")
            row.add(up, "B")
        for _ in range(behind + 1):
            row.add(down, "B")
            row.add_owed_weights([down, up], 1)
        row.add(up, "B" * n_micro_batches)
        row.add(down, "B" * n_micro_batches)
        row.add_owed_weights([up, down], 2 * n_micro_batches)
        rows.append(row.actions)
    return PipelineTable(rows, "ZB-V")


def dual_pipe_v(n_ranks: int, n_micro_batches: int) -> PipelineTable:
    """Two stages a rank in the form of a V; in the steady phase a forward of one stands beside a backward of the other.

    Source: DeepSeek-AI, DualPipe (https://github.com/deepseek-ai/DualPipe), in its form for half the ranks.
    """
    if n_micro_batches < 2 * n_ranks:
        raise ValueError(
            f"DualPipeV: {n_micro_batches} micro-batches are too few for {n_ranks} ranks: give {2 * n_ranks} or more"
        )
    rows = []
    for rank in range(n_ranks):
        row = _Row(n_micro_batches)
        down, up = rank, 2 * n_ranks - 1 - rank
        behind = n_ranks - 1 - rank
        row.add(down, "F" * (2 * behind))
        for _ in range(rank + 1):
            row.add(down, "F")
            row.add(up, "F")
        for _ in range(behind):
            row.add(up, "BWF")
        for i in range(n_micro_batches - 2 * n_ranks + rank + 1):
            # On the last rank the first backward needs the forward beside it.
            row.add_pair(down, up, overlap=i > 0 or behind > 0)
            row.add_pair(up, down)
        for _ in range(behind):
            row.add_whole(up)
            row.add_pair(up, down)
        # Nothing overlaps the last backwards: the second half leaves its weights for later.
        for i in range(2 * (rank + 1)):
            stage = down if i % 2 else up
            if i <= rank:
                row.add_whole(stage)
            else:
                row.add(stage, "B")
        for _ in range(behind):
            row.add_owed_weights([up, down], 1)
            row.add(down, "B")
        row.add_owed_weights([up, down], 2 * n_micro_batches)
        rows.append(row.cells())
    return PipelineTable(rows, "DualPipeV")


SCHEDULES: dict[str, Callable[..., PipelineTable]] = {
    "GPipe": gpipe,
    "1F1B": one_f_one_b,
    "Interleaved1F1B": interleaved,
    "InterleavedZeroBubble": interleaved_zero_bubble,
    "LoopedBFS": gpipe,
    "ZB-H1": zb_h1,
    "ZB-V": zb_v,
    "DualPipeV": dual_pipe_v,
}
# Those whose ranks hold two stages in the form of a V.
_V_SHAPED = ("ZB-V", "DualPipeV")
_LOOPED = ("GPipe", "Interleaved1F1B", "InterleavedZeroBubble", "LoopedBFS")


def find(name: str) -> str:
    """Return a schedule's name as ``SCHEDULES`` has it: case, spaces and signs do not count, PyTorch's words neither.

    Raises:
        ValueError: there is none of this name.
    """

    def plain(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum()).removeprefix("schedule").replace("zbvzerobubble", "zbv")

    for known in SCHEDULES:
        if plain(known) == plain(name):
            return known
    raise ValueError(f"there is no pipeline schedule {name!r}: expected one of {', '.join(SCHEDULES)}")


def make_table(name: str, n_ranks: int, n_micro_batches: int, stages_per_rank: int | None = None) -> PipelineTable:
    """Return the table of a published schedule.

    Args:
        name: ``"GPipe"``, ``"1F1B"``, ``"Interleaved1F1B"``, ``"InterleavedZeroBubble"``, ``"LoopedBFS"``, ``"ZB-H1"``,
            ``"ZB-V"`` or ``"DualPipeV"``.
        n_ranks: rows of the table.
        n_micro_batches: in a step.
        stages_per_rank: by default what the schedule has: two where it is looped or in the form of a V, else one.

    Raises:
        ValueError: no schedule of this name, numbers that are not positive, or that the schedule cannot be made of.

    Example::

        >>> table = oneflow.distributed.pipelining.make_table("ZB-H1", 2, 4)
        >>> print(table.grid())
        0F0 0F1 .   0B0 0W0 0F2 0B1 0W1 0F3 0B2 0W2 0B3 0W3
        .   1F0 1B0 1F1 1B1 1W0 1F2 1B2 1W1 1F3 1B3 1W2 1W3
    """
    known = find(name)
    for what, number in (
        ("n_ranks", n_ranks),
        ("n_micro_batches", n_micro_batches),
        ("stages_per_rank", stages_per_rank),
    ):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise ValueError(f"make_table(): {what} must be a positive integer, got {number!r}")
    usual = 2 if known in _V_SHAPED or (known in _LOOPED and known != "GPipe") else 1
    n = usual if stages_per_rank is None else stages_per_rank
    if known in _LOOPED:
        return SCHEDULES[known](n_ranks, n_micro_batches, n)
    if n != usual:
        raise ValueError(f"make_table(): {known} has {usual} stage{'s' * (usual > 1)} a rank, got {n}")
    return SCHEDULES[known](n_ranks, n_micro_batches)
