"""``save`` and ``async_save``."""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

import oneflow
from oneflow import distributed
from oneflow.distributed.checkpoint import _hf
from oneflow.distributed.checkpoint._folders import is_url
from oneflow.distributed.checkpoint._manifest import Manifest
from oneflow.distributed.checkpoint._own_storage import write_to
from oneflow.distributed.checkpoint._save import SavePlan, plan, start_writing, write
from oneflow.distributed.checkpoint._staging import StagingFuture
from oneflow.distributed.checkpoint.default_planner import DefaultSavePlanner
from oneflow.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat, _path
from oneflow.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from oneflow.distributed.checkpoint.metadata import Metadata
from oneflow.distributed.checkpoint.planner import SavePlanner
from oneflow.distributed.checkpoint.staging import AsyncStager, DefaultStager
from oneflow.distributed.checkpoint.stateful import Stateful
from oneflow.distributed.checkpoint.storage import StorageWriter, refuse_overrides

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | FileSystemWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Manifest | Metadata | None:
    """Write a state dictionary of all ranks to a folder: each rank its part, as safetensors, and one manifest.

    What several ranks hold is written once. The checkpoint is there when its manifest is; until then, and after a
    failure of any rank, the folder holds the checkpoint that was there before, if one was.

    Args:
        state_dict: tensors of any layout, nested dictionaries, plain values, and objects with ``state_dict()``.
        checkpoint_id: the folder, or a URL that the fsspec package knows, as "s3://bucket/run".
        storage_writer: in its place, with options; one of the program's own is asked for all it does, see
            :class:`StorageWriter`.
        planner: decides who writes what under which name; see :class:`DefaultSavePlanner`.
        process_group: the ranks that take part; all by default.
        no_dist: this process alone.
        use_collectives: true is how ranks agree.

    Returns:
        the manifest; of a program's own storage what the planner says that it holds, on the first rank.

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
    if isinstance(storage_writer, StorageWriter) and not isinstance(storage_writer, FileSystemWriter):
        given = lambda: stated(state_dict)  # noqa: E731
        return write_to(storage_writer, checkpoint_id, given, _checked(planner), process_group, no_dist)
    writer = _writer(checkpoint_id, storage_writer)
    # It would take this checkpoint's files for those of an earlier one.
    _finish_last("save", _place(writer))
    if isinstance(writer, HuggingFaceStorageWriter):
        return _hf.write(lambda: stated(state_dict), writer, process_group, no_dist, _asked(planner))
    done = _plan(lambda: stated(state_dict), writer, process_group, no_dist, False, planner)
    write(done)
    return done.manifest


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter | FileSystemWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Manifest | Metadata | None:
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


class AsyncCheckpointerType(Enum):
    """Who writes an asynchronous checkpoint: a thread. Processes are refused.

    Example::

        >>> from oneflow.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save
        >>> kind = AsyncCheckpointerType.THREAD
        >>> async_save({"step": 1}, checkpoint_id="checkpoint", async_checkpointer_type=kind).result()
    """

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What :func:`async_save` returns where tensors are copied beside training.

    Attributes:
        staging_completion: has a result once the tensors are copied and may change.
        upload_completion: has a result once all ranks have written.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> stager = dcp.staging.DefaultStager()
        >>> response = dcp.async_save({"w": oneflow.ones(1)}, checkpoint_id="checkpoint", async_stager=stager)
        >>> response.staging_completion.result(), response.upload_completion.result()
        (None, None)
    """

    staging_completion: Future[None]
    upload_completion: Future[None]


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType | None = None,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[None] | AsyncSaveResponse:
    """:func:`save` in a thread: the call returns once the rank's part is copied, and training may change the originals.

    A call waits for the one before it. The future has no result until all ranks have written.

    Args:
        async_stager: who copies; the package if left out. A :class:`.staging.DefaultStager` whose options have
            ``use_async_staging`` copies beside the forward and backward that follow: wait for ``staging_completion``
            of the result before the optimizer changes parameters.

    Raises:
        NotImplementedError: processes in place of threads.
        TypeError: ``async_stager`` is none.

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
    if getattr(async_checkpointer_type, "value", "thread") != "thread":
        raise NotImplementedError("async_save: checkpoints are written by a thread (AsyncCheckpointerType.THREAD)")
    if not use_collectives:
        raise NotImplementedError("async_save: ranks agree by collectives (use_collectives=True)")
    if async_stager is not None and not isinstance(async_stager, AsyncStager):
        raise TypeError(f"async_save: async_stager must be an AsyncStager, got {type(async_stager).__name__}")
    writer = _writer(checkpoint_id, storage_writer)
    _finish_last("async_save")
    group = process_group
    if not no_dist and distributed.get_world_size(process_group) > 1:
        group = _background_group(process_group)
    staging: Future[Any] | None = None
    if async_stager is None or isinstance(async_stager, DefaultStager):
        later = async_stager is not None and async_stager.options.use_async_staging
        planned = _plan(lambda: stated(state_dict), writer, group, no_dist, True, planner, later)
        if later:
            staging = StagingFuture(None if planned.staged is None else planned.staged.copies, planned.failure)
        future = start_writing(lambda: planned)
    else:
        future, staging = _by_stager(state_dict, async_stager, writer, group, no_dist, planner)
    _LAST.future, _LAST.folder = future, _place(writer)
    return future if staging is None else AsyncSaveResponse(staging, future)


def _by_stager(
    state_dict: dict[str, Any], stager: AsyncStager, writer: FileSystemWriter, group: Any, no_dist: bool, planner: Any
) -> tuple[Future[None], Future[Any] | None]:
    """Write what a stager of the program makes of a state dictionary; it may say that its copies come later."""
    try:
        staged = stager.stage(stated(state_dict))
    except Exception as error:
        # The other ranks wait for this one's part.
        _plan(functools.partial(_raise, error), writer, group, no_dist, False, planner)
        raise
    if isinstance(staged, Future):
        return start_writing(lambda: _plan(staged.result, writer, group, no_dist, False, planner)), staged
    planned = _plan(lambda: staged, writer, group, no_dist, False, planner)
    future = start_writing(lambda: planned)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return future, None


def _raise(error: Exception) -> Any:
    raise error


class _Last(threading.local):
    """Of this rank, which may be a thread: its save that may still run, and groups for such saves alone."""

    def __init__(self) -> None:
        self.future: Future[None] | None = None
        self.folder = ""
        self.groups: list[tuple[Any, Any]] = []


_LAST = _Last()


def _place(writer: FileSystemWriter) -> str:
    return str(writer.path) if is_url(writer.path) else os.path.abspath(writer.path)


def _finish_last(name: str, folder: str | None = None) -> None:
    """Wait for the save that may still run in the background, if it writes to this folder."""
    if _LAST.future is None or folder not in (None, _LAST.folder):
        return
    try:
        _LAST.future.result()
    except Exception as error:  # The caller of that save holds its future.
        warnings.warn(f"{name}: the save before this one failed: {error}", stacklevel=3)


def _background_group(group: Any) -> Any:
    """A group of the same ranks, whose collectives do not mix with those of training."""
    world = oneflow._oneflow._world_group()
    group = world if group is None else group
    for of, made in _LAST.groups:
        if of == group:
            return made
    # Ranks outside take no part, and do not count the groups that others make.
    made = distributed.new_group(
        distributed.get_process_group_ranks(group), use_local_synchronization=group != world, sort_ranks=False
    )
    _LAST.groups.append((group, made))
    return made


def _writer(checkpoint_id: Any, writer: Any) -> FileSystemWriter:
    if writer is None:
        if checkpoint_id is None:
            raise ValueError("save: give checkpoint_id, a folder, or storage_writer")
        return FileSystemWriter(checkpoint_id)
    if not isinstance(writer, FileSystemWriter):
        if isinstance(writer, StorageWriter):
            raise NotImplementedError("async_save: a storage of the program is written by save")
        raise TypeError(f"save: storage_writer must be a StorageWriter, got {type(writer).__name__}")
    refuse_overrides(writer, StorageWriter, "save")
    if checkpoint_id is not None:
        writer.path = _path(checkpoint_id)
    return writer


def _plan(
    entries: Callable[[], dict[str, Any]],
    writer: FileSystemWriter,
    group: Any,
    no_dist: bool,
    copies: bool,
    planner: Any,
    later: bool = False,
) -> SavePlan:
    if isinstance(writer, HuggingFaceStorageWriter):
        raise NotImplementedError("async_save: Hugging Face's files are written by save")
    chosen = _asked(planner)
    is_distcp = writer.serialization_format is SerializationFormat.TORCH_SAVE
    return plan(
        entries, writer.folder(), writer.sync_files, writer.overwrite, group, no_dist, copies, is_distcp, chosen, later
    )


def _checked(planner: Any) -> SavePlanner | None:
    if planner is not None and not isinstance(planner, SavePlanner):
        raise TypeError(f"save: planner must be a SavePlanner, got {type(planner).__name__}")
    return planner


def _asked(planner: Any) -> SavePlanner | None:
    """A planner that has to be asked.

    The default planner's answers are known: no rank has to wait for the first.
    """
    planner = _checked(planner)
    return None if type(planner) is DefaultSavePlanner and not planner.dedup_save_to_lowest_rank else planner


def stated(state_dict: dict[str, Any]) -> dict[str, Any]:
    """The state dictionaries of the objects that have one, and other entries as they are."""
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}
