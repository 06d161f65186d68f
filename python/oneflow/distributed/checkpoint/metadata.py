"""What a checkpoint holds, in the words of planners: names, parts, dtypes and sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import oneflow

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
]


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and how large it is.

    Example::

        >>> from oneflow.distributed.checkpoint.metadata import ChunkStorageMetadata
        >>> ChunkStorageMetadata(oneflow.Size([0, 2]), oneflow.Size([4, 2])).sizes
        oneflow.Size([4, 2])
    """

    offsets: Any
    sizes: Any


@dataclass
class TensorProperties:
    """What parts of one tensor share.

    Example::

        >>> from oneflow.distributed.checkpoint.metadata import TensorProperties
        >>> TensorProperties(oneflow.float16).dtype
        oneflow.float16
    """

    dtype: Any = field(default_factory=oneflow.get_default_dtype)

    @staticmethod
    def create_from_tensor(tensor: Any) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype)


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint, and the parts in which it was saved.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> _ = dcp.save({"w": oneflow.ones(2)}, checkpoint_id="checkpoint")
        >>> dcp.FileSystemReader("checkpoint").read_metadata().state_dict_metadata["w"].size
        oneflow.Size([2])
    """

    properties: TensorProperties
    size: Any
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """An entry that is no tensor.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> _ = dcp.save({"step": 1}, checkpoint_id="checkpoint")
        >>> dcp.FileSystemReader("checkpoint").read_metadata().state_dict_metadata
        {'step': BytesStorageMetadata()}
    """


@dataclass
class StorageMeta:
    """What a storage tells planners about itself: names of the checkpoint and of a save or load, and its own notes.

    Example::

        >>> from oneflow.distributed.checkpoint.metadata import StorageMeta
        >>> StorageMeta(checkpoint_id="run/3").checkpoint_id
        'run/3'
    """

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class Metadata:
    """The entries of a checkpoint by name, and what a planner wants to keep: ``planner_data``.

    Example::

        >>> from oneflow.distributed.checkpoint.metadata import Metadata
        >>> Metadata({}).planner_data is None
        True
    """

    state_dict_metadata: dict[str, Any]
    planner_data: Any = None
    storage_data: Any = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of an entry, and where the part of it begins that is meant.

    Example::

        >>> from oneflow.distributed.checkpoint.metadata import MetadataIndex
        >>> MetadataIndex("model.weight", (0, 0)).fqn
        'model.weight'
    """

    fqn: str
    offset: Any = None
    index: int | None = field(default=None, hash=False, compare=False)

    def __post_init__(self) -> None:
        if self.offset is not None:
            object.__setattr__(self, "offset", oneflow.Size(self.offset))
