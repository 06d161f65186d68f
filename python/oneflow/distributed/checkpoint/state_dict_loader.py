"""``load``."""

from __future__ import annotations

import os
from typing import Any

from oneflow.distributed.checkpoint._load import load_into
from oneflow.distributed.checkpoint._own_storage import read_from
from oneflow.distributed.checkpoint.default_planner import DefaultLoadPlanner
from oneflow.distributed.checkpoint.filesystem import FileSystemReader, _path
from oneflow.distributed.checkpoint.planner import LoadPlanner
from oneflow.distributed.checkpoint.state_dict_saver import stated
from oneflow.distributed.checkpoint.stateful import Stateful
from oneflow.distributed.checkpoint.storage import StorageReader, refuse_overrides

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | FileSystemReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state dictionary from a folder that :func:`save` wrote, under any number of ranks and any layout.

    Tensors are filled in place, and each rank reads what its own parts need. Plain values are replaced.

    Args:
        state_dict: the entries to fill; what else the checkpoint holds is left.
        checkpoint_id: the folder, or a URL that the fsspec package knows, as "s3://bucket/run".
        storage_reader: in its place; one of the program's own is asked for all it does, see :class:`StorageReader`.
        planner: decides who reads what under which name; see :class:`DefaultLoadPlanner`.
        process_group: the ranks that take part; all by default.
        no_dist: this process alone.

    Raises:
        CheckpointException: there is no checkpoint, or it is damaged, or another rank failed.
        RuntimeError: the checkpoint lacks an entry.
        ValueError: an entry has another shape.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> manifest = dcp.save({"w": oneflow.ones(2)}, checkpoint_id="checkpoint")
        >>> state = {"w": oneflow.zeros(2)}
        >>> dcp.load(state, checkpoint_id="checkpoint")
        >>> state["w"]
        tensor([1., 1.])
    """
    if storage_reader is None:
        if checkpoint_id is None:
            raise ValueError("load: give checkpoint_id, a folder, or storage_reader")
        storage_reader = FileSystemReader(checkpoint_id)
    if not isinstance(storage_reader, (FileSystemReader, StorageReader)):
        raise TypeError(f"load: storage_reader must be a StorageReader, got {type(storage_reader).__name__}")
    if planner is not None and not isinstance(planner, LoadPlanner):
        raise TypeError(f"load: planner must be a LoadPlanner, got {type(planner).__name__}")
    if not isinstance(storage_reader, FileSystemReader):
        given = lambda: stated(state_dict)  # noqa: E731
        _take(state_dict, read_from(storage_reader, checkpoint_id, given, planner, process_group, no_dist))
        return
    refuse_overrides(storage_reader, StorageReader, "load")
    if checkpoint_id is not None:
        storage_reader.path = _path(checkpoint_id)
    # What the default planner would say is known without asking it.
    is_default = type(planner) is DefaultLoadPlanner
    partial = isinstance(planner, DefaultLoadPlanner) and planner.allow_partial_load
    chosen = None if is_default else planner
    folder, manifest_of = storage_reader.folder(), storage_reader.read_metadata
    _take(
        state_dict,
        load_into(lambda: stated(state_dict), folder, partial, process_group, no_dist, chosen, manifest_of),
    )


def _take(state_dict: dict[str, Any], entries: dict[str, Any]) -> None:
    for key, value in state_dict.items():
        if isinstance(value, Stateful):
            value.load_state_dict(entries[key])
        else:
            state_dict[key] = entries[key]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader | FileSystemReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The older form of :func:`load`.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> manifest = dcp.save({"step": 1}, checkpoint_id="checkpoint")
        >>> state = {"step": 0}
        >>> dcp.load_state_dict(state, dcp.FileSystemReader("checkpoint"))
        >>> state["step"]
        1
    """
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist, planner=planner)
