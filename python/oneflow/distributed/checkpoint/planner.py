"""Planners: who writes and reads which parts of which entries. Their base classes, and the plans that they make.

A planner is asked in this order: ``set_up_planner``, ``create_local_plan`` on each rank, ``create_global_plan`` on the
first, ``finish_plan`` on each, and then for the data of each item. Derive from :class:`DefaultSavePlanner` or
:class:`DefaultLoadPlanner` to change a part of that.
"""

from __future__ import annotations

import enum
import io
from dataclasses import dataclass, field
from typing import Any

from oneflow import Tensor
from oneflow.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = [
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(enum.Enum):
    """A whole tensor, a part of one, or an entry that is no tensor.

    Example::

        >>> from oneflow.distributed.checkpoint.planner import WriteItemType
        >>> WriteItemType.BYTE_IO.name
        'BYTE_IO'
    """

    TENSOR = enum.auto()
    SHARD = enum.auto()
    BYTE_IO = enum.auto()


class LoadItemType(enum.Enum):
    """A part of a tensor, or an entry that is no tensor.

    Example::

        >>> from oneflow.distributed.checkpoint.planner import LoadItemType
        >>> [kind.name for kind in LoadItemType]
        ['TENSOR', 'BYTE_IO']
    """

    TENSOR = enum.auto()
    BYTE_IO = enum.auto()


@dataclass
class TensorWriteData:
    """The part that an item writes, of a tensor of ``size``.

    Example::

        >>> from oneflow.distributed.checkpoint.planner import TensorWriteData
        >>> TensorWriteData.__dataclass_fields__.keys()
        dict_keys(['chunk', 'properties', 'size'])
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass
class WriteItem:
    """What one rank writes as a piece: ``tensor_data`` is ``None`` for an entry that is no tensor.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> planner = dcp.DefaultSavePlanner()
        >>> planner.set_up_planner({"w": oneflow.ones(2)}, None, True)
        >>> [item.index.fqn for item in planner.create_local_plan().items]
        ['w']
    """

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: Any = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Bytes of the part; ``None`` for an entry that is no tensor."""
        if self.tensor_data is None:
            return None
        n = self.tensor_data.properties.dtype.itemsize
        for size in self.tensor_data.chunk.sizes:
            n *= size
        return n


@dataclass
class ReadItem:
    """A box of an entry: where it lies in the checkpoint's part ``storage_index``, and where in this rank's.

    Example::

        >>> from oneflow.distributed.checkpoint.planner import ReadItem
        >>> list(ReadItem.__dataclass_fields__)
        ['type', 'dest_index', 'dest_offsets', 'storage_index', 'storage_offsets', 'lengths']
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass
class SavePlan:
    """The items of a rank. What a planner adds must be plain: numbers, strings, lists, tuples and dictionaries of them.

    Example::

        >>> from oneflow.distributed.checkpoint.planner import SavePlan
        >>> SavePlan([]).items
        []
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = field(default=True)


@dataclass
class LoadPlan:
    """The items of a rank.

    Example::

        >>> from oneflow.distributed.checkpoint.planner import LoadPlan
        >>> LoadPlan([]).items
        []
    """

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner:
    """Base class of planners of saves; see :class:`DefaultSavePlanner`.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> isinstance(dcp.DefaultSavePlanner(), dcp.SavePlanner)
        True
    """

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dictionary of this rank."""
        raise _missing(self, "set_up_planner")

    def create_local_plan(self) -> SavePlan:
        """What this rank could write."""
        raise _missing(self, "create_local_plan")

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Any]:
        """On the first rank: what each rank writes, and what the checkpoint then holds."""
        raise _missing(self, "create_global_plan")

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Take the plan of this rank."""
        raise _missing(self, "finish_plan")

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The data of an item."""
        raise _missing(self, "resolve_data")


class LoadPlanner:
    """Base class of planners of loads; see :class:`DefaultLoadPlanner`.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> isinstance(dcp.DefaultLoadPlanner(), dcp.LoadPlanner)
        True
    """

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Any = None, is_coordinator: bool = False) -> None:
        """Take the state dictionary to fill, and what the checkpoint holds."""
        raise _missing(self, "set_up_planner")

    def create_local_plan(self) -> LoadPlan:
        """What this rank reads."""
        raise _missing(self, "create_local_plan")

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """On the first rank: what each rank reads."""
        raise _missing(self, "create_global_plan")

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Take the plan of this rank."""
        raise _missing(self, "finish_plan")

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take an entry that is no tensor, as ``oneflow.save`` wrote it."""
        raise _missing(self, "load_bytes")

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Where to put a part of a tensor."""
        raise _missing(self, "resolve_tensor")

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Hear that a part was put there."""
        raise _missing(self, "commit_tensor")


def _missing(planner: object, name: str) -> NotImplementedError:
    return NotImplementedError(f"{type(planner).__name__}.{name}: derive from the default planner, or write it")
