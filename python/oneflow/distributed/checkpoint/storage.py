"""Storages of a program: what :func:`save` and :func:`load` ask where checkpoints are not in folders.

Derive from these classes and hand an instance to ``save`` as ``storage_writer`` or to ``load`` as ``storage_reader``.
"""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from oneflow.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from oneflow.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from oneflow.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from oneflow.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """What became of one item of a plan.

    Attributes:
        index: which part of which entry it is.
        size_in_bytes: how much was written.
        storage_data: where; plain values, since it travels to the first rank.

    Example::

        >>> from oneflow.distributed.checkpoint.metadata import MetadataIndex
        >>> from oneflow.distributed.checkpoint.storage import WriteResult
        >>> WriteResult(MetadataIndex("step"), 8, "file 3").storage_data
        'file 3'
    """

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint; each rank has one.

    It is asked in this order: ``reset``, ``set_up_storage_writer``, ``prepare_local_plan`` on each rank,
    ``prepare_global_plan`` on the first, ``write_data`` on each, ``finish`` on the first.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> class Memory(dcp.StorageWriter):
        ...     entries = {}
        ...     def reset(self, checkpoint_id=None): self.entries.clear()
        ...     def set_up_storage_writer(self, is_coordinator, *args, **kwargs): pass
        ...     def prepare_local_plan(self, plan): return plan
        ...     def prepare_global_plan(self, plans): return plans
        ...     def write_data(self, plan, planner):
        ...         self.entries.update((item.index.fqn, planner.resolve_data(item)) for item in plan.items)
        ...         done = oneflow.futures.Future()
        ...         done.set_result([dcp.storage.WriteResult(item.index, 0, None) for item in plan.items])
        ...         return done
        ...     def finish(self, metadata, results): self.results = results
        ...     @classmethod
        ...     def validate_checkpoint_id(cls, checkpoint_id): return True
        >>> _ = dcp.save({"w": oneflow.ones(2)}, storage_writer=Memory())
        >>> Memory.entries
        {'w': tensor([1., 1.])}
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Hear that another checkpoint is written now, and its name if it has one."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Hear whether this is the first rank."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Change this rank's plan, or add ``storage_data`` to it."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """On the first rank: change the plans of all."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write what ``planner.resolve_data`` gives for each item; the future has a list of :class:`WriteResult`."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """On the first rank: keep what the checkpoint holds and what each rank has written. Then it is complete."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a name may be one of this storage."""

    def storage_meta(self) -> StorageMeta | None:
        """What the planner hears about the storage."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint; each rank has one.

    It is asked in this order: ``reset``, ``read_metadata``, ``set_up_storage_reader``, ``prepare_local_plan`` on each
    rank, ``prepare_global_plan`` on the first, ``read_data`` on each.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> isinstance(dcp.FileSystemReader("checkpoint"), dcp.StorageReader)
        True
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Hear that another checkpoint is read now, and its name if it has one."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint holds."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take that, and hear whether this is the first rank."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Change this rank's plan, or add ``storage_data`` to it."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """On the first rank: change the plans of all."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read each item: a tensor to where ``planner.resolve_tensor`` says, others by ``planner.load_bytes``."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether a name may be one of this storage."""


# Folders are written by functions that need none of these methods.
StorageWriter.register(FileSystemWriter)
StorageReader.register(FileSystemReader)


def refuse_overrides(storage: FileSystemWriter | FileSystemReader, base: type, what: str) -> None:
    """Raise NotImplementedError if a class derived from that of folders has methods that nobody would call."""
    kind: type = FileSystemWriter if isinstance(storage, FileSystemWriter) else FileSystemReader
    asked = {name for name in vars(base) if not name.startswith("_")} - {"read_metadata"}
    for cls in type(storage).__mro__:
        if cls is kind:
            return
        if found := sorted(asked & set(vars(cls))):
            raise NotImplementedError(
                f"{what}: {cls.__name__}.{found[0]} would not be called, since {kind.__name__} does not ask its own "
                f"methods; derive from {base.__name__}, which asks all"
            )
