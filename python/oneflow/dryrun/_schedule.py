"""A pipeline's table on described devices: every action takes its time, every result between ranks is a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oneflow import _oneflow
from oneflow._schedules.table import Action, PipelineTable
from oneflow.auto_parallel.cluster import Cluster, Link
from oneflow.dryrun._world import cluster_numbers, cluster_of

__all__ = ["ScheduleReport", "simulate_schedule"]


@dataclass
class ScheduleReport:
    """What a table takes.

    Attributes:
        seconds: from the first start to the last end.
        bubble: by rank, the seconds without work between its first action and its last.
        compute: by rank, the seconds of its work.
        sent: by rank, the bytes of its messages.
        spans: rank, start, end and name of each action.

    Example::

        >>> table = oneflow.distributed.pipelining.make_table("1F1B", 2, 4)
        >>> max(oneflow.dryrun.simulate_schedule(table).bubble) == table.bubble()
        True
    """

    seconds: float
    bubble: list[float]
    compute: list[float]
    sent: list[int]
    spans: list[Any] = field(repr=False)


def simulate_schedule(
    table: PipelineTable,
    cluster: Cluster | str | None = None,
    seconds: Mapping[str, float] | None = None,
    message_bytes: int = 0,
    slow: Mapping[int, float] | None = None,
) -> ScheduleReport:
    """Run a table of a pipeline, a device a row, on the simulator.

    Args:
        table: of ``oneflow.distributed.pipelining``.
        cluster: the devices; by default links that take no time.
        seconds: of an ``"F"``, a ``"B"`` (of inputs) and a ``"W"``; one each by default. A whole backward takes ``"B"``
            and ``"W"``.
        message_bytes: of each result that goes to another rank.
        slow: ranks that take so many times as long.

    Raises:
        ValueError: the cluster has fewer devices than the table rows.

    Example::

        >>> table = oneflow.distributed.pipelining.make_table("ZB-H1", 4, 8)
        >>> oneflow.dryrun.simulate_schedule(table).seconds == table.makespan()
        True
    """
    if cluster is None:
        free = Link(0.0, 1e30)
        cluster = Cluster("free", 1, table.n_ranks, 1.0, 1.0, 1.0, free, free)
    cluster = cluster_of(cluster)
    if table.n_ranks > cluster.n_devices:
        raise ValueError(f"simulate_schedule(): {table.n_ranks} ranks on {cluster.n_devices} devices of {cluster.name}")
    lasts = {"F": 1.0, "B": 1.0, "W": 1.0, **(seconds or {})}
    rows = [_row(table, rank, lasts, message_bytes) for rank in range(table.n_ranks)]
    options = {"steps": 1, "slow": sorted((slow or {}).items()), "watch": list(range(table.n_ranks))}
    found = _oneflow._simulate_rows(rows, cluster_numbers(cluster), options)
    ranks = found["ranks"]
    return ScheduleReport(
        seconds=found["step"],
        bubble=[r[4][2] for r in ranks],
        compute=[r[2] for r in ranks],
        sent=[r[5] for r in ranks],
        spans=[(rank, start, end, name) for rank, _, start, end, kind, name in found["spans"] if kind == "compute"],
    )


def _row(table: PipelineTable, rank: int, lasts: Mapping[str, float], n: int) -> list[Any]:
    items: list[Any] = []
    at = 0
    while at < len(table.rows[rank]):
        # What may overlap starts when all of it can, and is there when all has ended.
        unit = table._unit(rank, at)
        at += len(unit)
        for action in unit:
            made = [Action(action.stage - 1, action.micro_batch, "F")] if action.kind == "F" and action.stage else []
            if action.kind == "B" and action.stage + 1 < table.n_stages:
                made = [Action(action.stage + 1, action.micro_batch, "B")]
            items += [
                (f"receive {a}", 0.0, (_number(table, a), rank, 0)) for a in made if table.rank_of(a.stage) != rank
            ]
        for action in unit:
            whole = action.kind == "B" and not table.splits(action.stage, action.micro_batch)
            items.append((str(action), lasts[action.kind] + (lasts["W"] if whole else 0.0), None))
        for action in unit:
            after = {"F": action.stage + 1, "B": action.stage - 1}.get(action.kind, -1)
            if 0 <= after < table.n_stages and table.rank_of(after) != rank:
                items.append((f"send {action}", 0.0, (_number(table, action), table.rank_of(after), n)))
    return items


def _number(table: PipelineTable, action: Action) -> int:
    return 2 * (action.stage * table.n_micro_batches + action.micro_batch) + (action.kind == "B")
