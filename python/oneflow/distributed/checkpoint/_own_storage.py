"""Saves to and loads from storages of a program: the calls of their methods, and what ranks tell each other between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow import distributed
from oneflow.distributed.checkpoint._agreement import gathered, ranks_of, settled
from oneflow.distributed.checkpoint._planned import agreed, as_index, index_of
from oneflow.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from oneflow.distributed.checkpoint.metadata import Metadata
from oneflow.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from oneflow.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult

__all__ = ["read_from", "write_to"]


def write_to(
    writer: StorageWriter,
    checkpoint_id: Any,
    entries: Callable[[], dict[str, Any]],
    planner: SavePlanner | None,
    group: Any,
    no_dist: bool,
) -> Metadata | None:
    """Let a storage write what a planner says; what it holds then, on the first rank."""
    planner = planner or DefaultSavePlanner()
    ranks, found = ranks_of(group, no_dist), []
    is_first = ranks is None or distributed.get_rank(ranks) == 0

    def local() -> SavePlan:
        writer.reset(checkpoint_id)
        planner.set_up_planner(entries(), writer.storage_meta(), is_first)
        writer.set_up_storage_writer(is_first)
        return writer.prepare_local_plan(planner.create_local_plan())

    def settle(plans: list[SavePlan]) -> list[SavePlan]:
        plans, metadata = planner.create_global_plan(plans)
        found.append(metadata)
        return writer.prepare_global_plan(plans)

    plan = agreed("save", local, settle, group, no_dist, wraps=True)

    def write() -> list[Any]:
        results = writer.write_data(planner.finish_plan(plan), planner).wait()
        return [(index_of(result.index), result.size_in_bytes, result.storage_data) for result in results]

    told = gathered(f"save: {type(writer).__name__} could not write", write, ranks, wraps=True)

    def finish() -> None:
        results = [[WriteResult(as_index(index), size, data) for index, size, data in rows] for rows in told]
        writer.finish(found[0], results)

    settled(f"save: {type(writer).__name__} could not finish", finish, ranks, wraps=True)
    return found[0] if found else None


def read_from(
    reader: StorageReader,
    checkpoint_id: Any,
    entries: Callable[[], dict[str, Any]],
    planner: LoadPlanner | None,
    group: Any,
    no_dist: bool,
) -> dict[str, Any]:
    """Fill the state dictionary that ``entries`` returns from a storage, as a planner says."""
    planner = planner or DefaultLoadPlanner()
    ranks, found = ranks_of(group, no_dist), []
    is_first = ranks is None or distributed.get_rank(ranks) == 0

    def local() -> LoadPlan:
        found.append(entries())
        reader.reset(checkpoint_id)
        metadata = reader.read_metadata()
        planner.set_up_planner(found[0], metadata, is_first)
        reader.set_up_storage_reader(metadata, is_first)
        return reader.prepare_local_plan(planner.create_local_plan())

    def settle(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(planner.create_global_plan(plans))

    plan = agreed("load", local, settle, group, no_dist, wraps=True)

    def read() -> None:
        reader.read_data(planner.finish_plan(plan), planner).wait()

    gathered(f"load: {type(reader).__name__} could not read", read, ranks, wraps=True)
    return found[0]
