"""What each rank saves and loads unless somebody derives from these classes."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow.distributed.checkpoint._flatten import flatten, set_entry
from oneflow.distributed.checkpoint._parts import Box, part_of
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
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

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


class DefaultSavePlanner(SavePlanner):
    """Nested dictionaries are flattened; what several ranks hold is written once, by the rank with least to write.

    A class that derives from it may save under other names (``set_up_planner``), in another dtype (``resolve_data``),
    or let other ranks write (``create_global_plan``). ``state_dict`` is the flat dictionary, ``mappings`` has the path
    of each of its names.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> class Halves(dcp.DefaultSavePlanner):
        ...     def resolve_data(self, write_item):
        ...         found = super().resolve_data(write_item)
        ...         return found.half() if isinstance(found, oneflow.Tensor) else found
        >>> manifest = dcp.save({"w": oneflow.ones(2)}, checkpoint_id="checkpoint", planner=Halves())
        >>> manifest.tensors["w"].dtype
        'float16'
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
    ) -> None:
        if not flatten_state_dict:
            raise NotImplementedError("DefaultSavePlanner: state dictionaries are always flattened")
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Any] = {}
        self.is_coordinator = False
        self._parts: dict[str, tuple[Tensor, Box]] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        """Take and flatten the state dictionary of this rank."""
        self.state_dict, self.mappings = flatten(state_dict)
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        """An item for each part that this rank holds."""
        self._parts, items = {}, []
        for name, value in self.state_dict.items():
            if not isinstance(value, Tensor):
                items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
                continue
            found = part_of(name, value)
            if found is None:
                continue
            self._parts[name] = found
            part, (offsets, sizes) = found
            chunk = ChunkStorageMetadata(Size(offsets), Size(sizes))
            data = TensorWriteData(chunk, TensorProperties(part.dtype), Size(value.shape))
            kind = WriteItemType.SHARD if value.is_global else WriteItemType.TENSOR
            items.append(WriteItem(MetadataIndex(name, offsets), kind, tensor_data=data))
        return SavePlan(items)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Leave each part to one of the ranks that hold it."""
        holders: dict[Any, list[int]] = {}
        for rank, plan in enumerate(all_plans):
            for item in plan.items:
                holders.setdefault(_key(item), []).append(rank)
        loads, writers = [0] * len(all_plans), {}
        for plan in all_plans:
            for item in plan.items:
                if (key := _key(item)) not in writers:
                    lowest = self.dedup_save_to_lowest_rank
                    writers[key] = min(holders[key], key=lambda r: r if lowest else (loads[r], r))
                    loads[writers[key]] += item.tensor_storage_size() or 0
        chosen = [
            dataclasses.replace(plan, items=[item for item in plan.items if writers[_key(item)] == rank])
            for rank, plan in enumerate(all_plans)
        ]
        return chosen, metadata_of(chosen, self.mappings)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the plan of this rank."""
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The data of an item: a tensor, or bytes that ``oneflow.load`` reads."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """This rank's part of an entry, or the entry."""
        if index.fqn in self._parts:
            return self._parts[index.fqn][0]
        return self.state_dict[index.fqn]

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """The form in which an entry is written."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        data = io.BytesIO()
        oneflow.save(object, data)
        data.seek(0)
        return data


def _key(item: WriteItem) -> Any:
    sizes = None if item.tensor_data is None else tuple(item.tensor_data.chunk.sizes)
    return item.index.fqn, item.index.offset, sizes


def metadata_of(plans: list[SavePlan], mappings: Any) -> Metadata:
    """What a checkpoint holds that is written by these plans.

    Raises:
        CheckpointException: ranks differ about the dtype or size of an entry.
    """
    found: dict[str, Any] = {}
    for item in (item for plan in plans for item in plan.items):
        name, data = item.index.fqn, item.tensor_data
        if data is None:
            found[name] = BytesStorageMetadata()
            continue
        entry = found.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
        if not isinstance(entry, TensorStorageMetadata) or (entry.size, entry.properties) != (
            data.size,
            data.properties,
        ):
            raise CheckpointException(f"save: ranks differ about entry {name!r}: {entry} and {data}")
        entry.chunks.append(data.chunk)
    return Metadata(found, mappings)


class DefaultLoadPlanner(LoadPlanner):
    """Entries are read in place.

    A class that derives from it may read under other names (``set_up_planner`` and ``load_bytes``) or into other
    tensors (``resolve_tensor`` and ``commit_tensor``). ``state_dict`` is the flat dictionary, ``mappings`` has the path
    of each of its names in ``original_state_dict``, ``metadata`` says what the checkpoint holds.

    Args:
        allow_partial_load: entries that the checkpoint lacks stay as they are, in place of an error.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> dcp.DefaultLoadPlanner(allow_partial_load=True).allow_partial_load
        True
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        if not flatten_state_dict:
            raise NotImplementedError("DefaultLoadPlanner: state dictionaries are always flattened")
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: dict[str, Any] = {}
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Any] = {}
        self.metadata: Metadata | None = None
        self.is_coordinator = False

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Any = None, is_coordinator: bool = False) -> None:
        """Take and flatten the state dictionary to fill."""
        self.original_state_dict = state_dict
        self.state_dict, self.mappings = flatten(state_dict)
        self.metadata, self.is_coordinator = metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """What the parts that this rank holds need.

        Raises:
            RuntimeError: the checkpoint lacks an entry.
            ValueError: an entry has another shape.
        """
        assert self.metadata is not None
        items: list[ReadItem] = []
        for name, value in self.state_dict.items():
            entry = self.metadata.state_dict_metadata.get(name)
            if entry is None:
                if self.allow_partial_load or value == {}:
                    continue
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            if isinstance(entry, TensorStorageMetadata) and isinstance(value, Tensor):
                items += _reads(name, value, entry)
            elif isinstance(entry, TensorStorageMetadata):
                whole = oneflow.empty(entry.size, dtype=entry.properties.dtype)
                self.state_dict[name] = whole
                set_entry(self.original_state_dict, self.mappings[name], whole)
                items += _reads(name, whole, entry)
            else:
                at, none = MetadataIndex(name), Size([0])
                items.append(ReadItem(LoadItemType.BYTE_IO, at, none, at, none, none))
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Each rank reads what it needs."""
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the plan of this rank."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an entry that is no tensor in its place."""
        name = read_item.dest_index.fqn
        found = oneflow.load(value)
        self.state_dict[name] = found
        set_entry(self.original_state_dict, self.mappings[name], found)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The box of this rank's part where an item is put."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Nothing: it was put in place."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """This rank's part of an entry."""
        found = part_of(index.fqn, self.state_dict[index.fqn], loads=True)
        if found is None:
            raise CheckpointException(f"load: this rank has no part of entry {index.fqn!r}")
        return found[0]

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """A box of a tensor."""
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            tensor = tensor.narrow(dim, start, length)
        return tensor


def _reads(name: str, into: Tensor, entry: TensorStorageMetadata) -> list[ReadItem]:
    """The boxes that a part needs of the parts that were saved."""
    if tuple(into.shape) != tuple(entry.size):
        raise ValueError(f"Size mismatch between saved {tuple(entry.size)} and current: {tuple(into.shape)} for {name}")
    found = part_of(name, into, loads=True)
    if found is None:
        return []
    starts, sizes = found[1]
    items = []
    for i, chunk in enumerate(entry.chunks):
        boxes = [
            (max(have, want), min(have + n, want + size))
            for have, n, want, size in zip(chunk.offsets, chunk.sizes, starts, sizes, strict=True)
        ]
        if any(end <= first for first, end in boxes):
            continue
        items.append(
            ReadItem(
                LoadItemType.TENSOR,
                MetadataIndex(name, starts),
                Size([first - want for (first, _), want in zip(boxes, starts, strict=True)]),
                MetadataIndex(name, chunk.offsets, i),
                Size([first - have for (first, _), have in zip(boxes, chunk.offsets, strict=True)]),
                Size([end - first for first, end in boxes]),
            )
        )
    return items
