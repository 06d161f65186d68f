"""Saves and loads that a planner of the program decides about: ranks exchange plans, the first one settles them.

Plans travel as plain values, since objects of a program's classes are not unpickled from other ranks.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Size, Tensor, distributed
from oneflow.distributed.checkpoint._agreement import gathered, ranks_of, settled
from oneflow.distributed.checkpoint._manifest import dtype_name, dtype_of
from oneflow.distributed.checkpoint._parts import Box
from oneflow.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties
from oneflow.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = ["agreed", "as_index", "data_to_save", "index_of", "plan_to_load"]


def data_to_save(
    planner: SavePlanner, entries: Callable[[], dict[str, Any]], group: Any, no_dist: bool
) -> tuple[dict[tuple[str, Box], Tensor], dict[tuple[str, Box], Any], dict[str, Any]]:
    """What a planner lets this rank write: parts of tensors, the sizes of the tensors, and other entries by name."""
    is_first = no_dist or distributed.get_rank(group) == 0

    def local() -> SavePlan:
        planner.set_up_planner(entries(), None, is_first)
        return planner.create_local_plan()

    plan = agreed("save", local, lambda plans: planner.create_global_plan(plans)[0], group, no_dist)
    plan = planner.finish_plan(plan)
    parts: dict[tuple[str, Box], Tensor] = {}
    wholes: dict[tuple[str, Box], Any] = {}
    objects: dict[str, Any] = {}
    for item in plan.items:
        name, found = item.index.fqn, planner.resolve_data(item)
        if item.type is WriteItemType.BYTE_IO:
            objects[name] = _object(name, found)
            continue
        if item.tensor_data is None or not isinstance(found, Tensor):
            raise TypeError(f"save: resolve_data gave {type(found).__name__} for the tensor {name!r}")
        chunk = item.tensor_data.chunk
        box = (tuple(chunk.offsets), tuple(chunk.sizes))
        if tuple(found.shape) != box[1]:
            raise ValueError(f"save: resolve_data gave {tuple(found.shape)} for a part of sizes {box[1]} of {name!r}")
        parts[name, box], wholes[name, box] = found.detach(), tuple(item.tensor_data.size)
    return parts, wholes, objects


def _object(name: str, found: Any) -> Any:
    if not isinstance(found, io.BytesIO):
        raise TypeError(f"save: resolve_data gave {type(found).__name__} for {name!r}, expected bytes in an io.BytesIO")
    found.seek(0)
    return oneflow.load(found)


def plan_to_load(
    planner: LoadPlanner,
    entries: Callable[[], dict[str, Any]],
    metadata: Callable[[], Any],
    group: Any,
    no_dist: bool,
) -> LoadPlan:
    """What a planner lets this rank read. All ranks hear of a state dictionary or a checkpoint that one cannot read."""
    is_first = no_dist or distributed.get_rank(group) == 0

    def local() -> LoadPlan:
        planner.set_up_planner(entries(), metadata(), is_first)
        return planner.create_local_plan()

    return planner.finish_plan(agreed("load", local, planner.create_global_plan, group, no_dist))


def agreed(
    what: str,
    local: Callable[[], Any],
    settle: Callable[[list[Any]], list[Any]],
    group: Any,
    no_dist: bool,
    wraps: bool = False,
) -> Any:
    """This rank's plan, once the first rank has seen those of all. All ranks raise if one does."""
    ranks = ranks_of(group, no_dist)
    if ranks is None:
        (plan,) = gathered(what, local, None, wraps)
        return settled(what, lambda: _checked(what, settle([plan]), 1)[0], None, wraps)
    told = gathered(what, lambda: _plain(local()), ranks, wraps)

    def plans() -> list[Any]:
        return [_plain(plan) for plan in _checked(what, settle([_plan(plan) for plan in told]), len(told))]

    return _plan(settled(what, plans, ranks, wraps)[distributed.get_rank(ranks)])


def _checked(what: str, plans: Any, n: int) -> list[Any]:
    if not isinstance(plans, list) or len(plans) != n:
        raise ValueError(f"{what}: create_global_plan must give a plan for each of {n} ranks")
    return plans


# ---- plans as plain values, and back


def index_of(index: MetadataIndex) -> Any:
    """Plain values."""
    return index.fqn, None if index.offset is None else tuple(index.offset), index.index


def as_index(told: Any) -> MetadataIndex:
    """What :func:`index_of` was given."""
    return MetadataIndex(*told)


def _plain(plan: Any) -> Any:
    extra = (plan.storage_data, plan.planner_data)
    if isinstance(plan, LoadPlan):
        return (
            "load",
            extra,
            [
                (
                    i.type.name,
                    index_of(i.dest_index),
                    tuple(i.dest_offsets),
                    index_of(i.storage_index),
                    tuple(i.storage_offsets),
                    tuple(i.lengths),
                )
                for i in plan.items
            ],
        )
    items = []
    for item in plan.items:
        data = item.tensor_data
        tensor = data and (
            tuple(data.chunk.offsets),
            tuple(data.chunk.sizes),
            dtype_name(data.properties.dtype),
            tuple(data.size),
        )
        items.append((item.type.name, index_of(item.index), tensor))
    return "save", extra, items


def _plan(told: Any) -> Any:
    kind, (storage_data, planner_data), rows = told
    if kind == "load":
        reads = [
            ReadItem(LoadItemType[t], MetadataIndex(*to), Size(at), MetadataIndex(*of), Size(start), Size(n))
            for t, to, at, of, start, n in rows
        ]
        return LoadPlan(reads, storage_data, planner_data)
    items = []
    for t, index, tensor in rows:
        data = None
        if tensor is not None:
            offsets, sizes, dtype, size = tensor
            chunk = ChunkStorageMetadata(Size(offsets), Size(sizes))
            data = TensorWriteData(chunk, TensorProperties(dtype_of(dtype)), Size(size))
        items.append(WriteItem(MetadataIndex(*index), WriteItemType[t], tensor_data=data))
    return SavePlan(items, storage_data, planner_data)
