"""``save`` and ``async_save``."""

from __future__ import annotations

import os
import threading
import warnings
from concurrent.futures import Future
from typing import Any

import oneflow
from oneflow import distributed
from oneflow.distributed.checkpoint._manifest import Manifest
from oneflow.distributed.checkpoint._save import SavePlan, plan, start_writing, write
from oneflow.distributed.checkpoint.default_planner import DefaultSavePlanner
from oneflow.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat, _path
from oneflow.distributed.checkpoint.planner import SavePlanner
from oneflow.distributed.checkpoint.stateful import Stateful

__all__ = ["async_save", "save", "save_state_dict"]


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Manifest:
    """Write a state dictionary of all ranks to a folder: each rank its part, as safetensors, and one manifest.

    What several ranks hold is written once. The checkpoint is there when its manifest is; until then, and after a
    failure of any rank, the folder holds the checkpoint that was there before, if one was.

    Args:
        state_dict: tensors of any layout, nested dictionaries, plain values, and objects with ``state_dict()``.
        checkpoint_id: the folder, or a URL that the fsspec package knows, as "s3://bucket/run".
        storage_writer: in its place, with options.
        planner: decides who writes what under which name; see :class:`DefaultSavePlanner`.
        process_group: the ranks that take part; all by default.
        no_dist: this process alone.
        use_collectives: true is how ranks agree.

    Raises:
        CheckpointException: a rank could not write; all raise.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> state = {"w": oneflow.ones(2), "step": 3}
        >>> manifest = dcp.save(state, checkpoint_id="checkpoint")
        >>> again = {"w": oneflow.zeros(2), "step": 0}
        >>> dcp.load(again, checkpoint_id="checkpoint")
        >>> again
        {'w': tensor([1., 1.]), 'step': 3}
    """
    if not use_collectives:
        raise NotImplementedError("save: ranks agree by collectives (use_collectives=True)")
    writer = _writer(checkpoint_id, storage_writer)
    done = _plan(state_dict, writer, process_group, no_dist, False, planner)
    write(done)
    return done.manifest


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Manifest:
    """The older form of :func:`save`.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> manifest = dcp.save_state_dict({"step": 1}, dcp.FileSystemWriter("checkpoint"))
    """
    if coordinator_rank != 0:
        raise NotImplementedError("save_state_dict: the manifest is written by the first rank (coordinator_rank=0)")
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist, planner=planner
    )


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[None]:
    """:func:`save` in a thread: the call returns once the rank's part is copied, and training may change the originals.

    A call waits for the one before it. The future has no result until all ranks have written.

    Raises:
        NotImplementedError: another stager, or processes in place of threads.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> w = oneflow.ones(2)
        >>> future = dcp.async_save({"w": w}, checkpoint_id="checkpoint")
        >>> w.zero_()
        tensor([0., 0.])
        >>> future.result()
        >>> dcp.load({"w": w}, checkpoint_id="checkpoint")
        >>> w
        tensor([1., 1.])
    """
    if async_stager is not None or getattr(async_checkpointer_type, "value", "thread") != "thread":
        raise NotImplementedError("async_save: copies are made by the package, and written by a thread")
    if not use_collectives:
        raise NotImplementedError("async_save: ranks agree by collectives (use_collectives=True)")
    writer = _writer(checkpoint_id, storage_writer)
    before = _LAST.future
    if before is not None:
        try:
            before.result()
        except Exception as error:  # The caller of that save holds its future.
            warnings.warn(f"async_save: the save before this one failed: {error}", stacklevel=2)
    group = process_group
    if not no_dist and distributed.get_world_size(process_group) > 1:
        group = _background_group(process_group)
    staged = _plan(state_dict, writer, group, no_dist, True, planner)
    future = start_writing(staged, lambda: None)
    _LAST.future = future
    return future


class _Last(threading.local):
    """Of this rank, which may be a thread: its save that may still run, and groups for such saves alone."""

    def __init__(self) -> None:
        self.future: Future[None] | None = None
        self.groups: list[tuple[Any, Any]] = []


_LAST = _Last()


def _background_group(group: Any) -> Any:
    """A group of the same ranks, whose collectives do not mix with those of training."""
    world = oneflow._oneflow._world_group()
    group = world if group is None else group
    for of, made in _LAST.groups:
        if of == group:
            return made
    made = distributed.new_group(distributed.get_process_group_ranks(group), sort_ranks=False)
    _LAST.groups.append((group, made))
    return made


def _writer(checkpoint_id: Any, writer: FileSystemWriter | None) -> FileSystemWriter:
    if writer is None:
        if checkpoint_id is None:
            raise ValueError("save: give checkpoint_id, a folder, or storage_writer")
        return FileSystemWriter(checkpoint_id)
    if not isinstance(writer, FileSystemWriter):
        raise NotImplementedError(f"save: storage_writer must be a FileSystemWriter, got {type(writer).__name__}")
    if checkpoint_id is not None:
        writer.path = _path(checkpoint_id)
    return writer


def _plan(
    state_dict: dict[str, Any], writer: FileSystemWriter, group: Any, no_dist: bool, copies: bool, planner: Any
) -> SavePlan:
    if planner is not None and not isinstance(planner, SavePlanner):
        raise TypeError(f"save: planner must be a SavePlanner, got {type(planner).__name__}")
    is_distcp = writer.serialization_format is SerializationFormat.TORCH_SAVE
    entries = stated(state_dict)
    # The default planner's answers are known without asking it: no rank has to wait for the first.
    is_default = type(planner) is DefaultSavePlanner and not planner.dedup_save_to_lowest_rank
    chosen = None if is_default else planner
    return plan(
        entries, writer.folder(), writer.sync_files, writer.overwrite, group, no_dist, copies, is_distcp, chosen
    )


def stated(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state dictionaries of the objects that have one, and other entries as they are."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}
