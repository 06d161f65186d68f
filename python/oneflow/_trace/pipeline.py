"""The pipeline table of a graph: the stages that its modules name, checked against the schedule before any run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._schedules.generators import make_table
from oneflow._schedules.table import PipelineTable
from oneflow.nn.modules.module import Module
from oneflow.utils._pytree import tree_flatten

__all__ = ["row_of", "table_of", "watch_backward"]


def table_of(
    schedule: str | PipelineTable, modules: Iterable[Module], n_micro_batches: int, name: str
) -> PipelineTable:
    """Return the table of a graph's stages.

    Args:
        schedule: the name of a published schedule, or a table.
        modules: those of the graph, children included.
        n_micro_batches: of a call of the graph.
        name: of the graph, for errors.

    Raises:
        ValueError: stages are missing or on other placements than the schedule has them, or the table is for another
            number of micro-batches.
    """
    placements = _placements(modules, name)
    # Placements in the order of their first stages are the rows of a published schedule.
    order = list(dict.fromkeys(placements[stage] for stage in sorted(placements)))
    _refuse_overlap(order, name)
    n_stages = len(placements)
    if isinstance(schedule, str):
        if n_stages % len(order):
            raise ValueError(
                f"{name}: {n_stages} stages on {len(order)} placements: {schedule} has equally many on each"
            )
        table = make_table(schedule, len(order), n_micro_batches, n_stages // len(order))
    else:
        table = schedule
    if table.n_stages != n_stages:
        raise ValueError(f"{name}: the pipeline's table has {table.n_stages} stages, and modules name {n_stages}")
    if table.n_micro_batches != n_micro_batches:
        raise ValueError(
            f"{name}: the pipeline's table has {table.n_micro_batches} micro-batches, and a call of the graph "
            f"{n_micro_batches}: config.set_gradient_accumulation_steps({table.n_micro_batches})"
        )
    if not table.trains:
        raise ValueError(f"{name}: the pipeline's table has no backward")
    rows: dict[int, Any] = {}
    for stage, placement in placements.items():
        row = table.rank_of(stage)
        if rows.setdefault(row, placement) != placement:
            others = [s for s in table.stages_of(row) if s != stage]
            raise ValueError(
                f"{name}: {table.name} has stage {stage} where the stages {others} are, and modules name "
                f"the placements {placement} and {rows[row]}"
            )
    if len(set(rows.values())) != len(rows):
        raise ValueError(f"{name}: {table.name} has {table.n_ranks} rows, and modules name {len(order)} placements")
    return table


def row_of(table: PipelineTable, modules: Iterable[Module], name: str) -> list[tuple[int, int, str]]:
    """Return this rank's row; empty where it holds no stage."""
    here = oneflow.distributed.get_rank()
    for stage, placement in _placements(modules, name).items():
        if here in placement.ranks:
            return [(a.stage, a.micro_batch, a.kind) for a in table.rows[table.rank_of(stage)]]
    return []


def watch_backward(result: Any, stage: int, section: Callable[[int, bool], None]) -> None:
    """Say that the backward of a stage begins when gradients of its results arrive."""
    for t in tree_flatten(result)[0]:
        if isinstance(t, Tensor) and t.requires_grad:
            t.register_hook(lambda _: section(stage, True))


def _placements(modules: Iterable[Module], name: str) -> dict[int, Any]:
    """The placement of each stage."""
    found: dict[int, Any] = {}
    for module in modules:
        marks = module.__dict__.get("_in_graphs", {})
        stage, placement = marks.get("stage"), marks.get("placement")
        if stage is None:
            continue
        if placement is None:
            raise ValueError(f"{name}: stage {stage} has no placement: set_stage({stage}, placement)")
        if found.setdefault(stage, placement) != placement:
            raise ValueError(f"{name}: modules of stage {stage} name the placements {found[stage]} and {placement}")
    missing = sorted(set(range(max(found, default=0) + 1)) - set(found))
    if missing:
        raise ValueError(
            f"{name}: a pipeline schedule needs stages counted from 0, and no module is of stage {missing[0]}: "
            "module.to(nn.graph.GraphModule).set_stage(stage_id, placement)"
        )
    return found


def _refuse_overlap(placements: list[Any], name: str) -> None:
    seen: dict[int, Any] = {}
    for placement in placements:
        for rank in placement.ranks.flatten().tolist():
            if rank in seen:
                raise ValueError(f"{name}: rank {rank} is in the placements {seen[rank]} and {placement} of two stages")
            seen[rank] = placement
