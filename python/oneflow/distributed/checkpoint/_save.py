"""Saving: every rank writes its part to a file of its own, then one of them writes the manifest.

Ranks first agree on who writes what: of equal parts that several hold, the rank with least to write takes each. Files
have names that no checkpoint in the folder uses, so one that is there stays whole until the new manifest replaces its
own; then files that no manifest names are removed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.checkpoint import _distcp, _manifest
from oneflow.distributed.checkpoint._agreement import gathered, ranks_of, settled
from oneflow.distributed.checkpoint._flatten import flatten, plain_paths
from oneflow.distributed.checkpoint._folders import Folder
from oneflow.distributed.checkpoint._manifest import Chunk, Manifest, TensorEntry, dtype_name
from oneflow.distributed.checkpoint._parts import Box, part_of
from oneflow.distributed.checkpoint._planned import data_to_save
from oneflow.distributed.checkpoint._staging import StagedFile
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.checkpoint.default_planner import DefaultSavePlanner
from oneflow.distributed.checkpoint.planner import SavePlanner
from oneflow.models.safetensors import save_file

__all__ = ["SavePlan", "plan", "start_writing", "write"]


@dataclass
class SavePlan:
    """What this rank writes, and what all of them do."""

    folder: Folder
    sync: bool
    rank: int
    group: Any
    # This rank's parts, by name and box.
    tensors: dict[tuple[str, Box], Tensor]
    objects: dict[str, Any]
    manifest: Manifest
    # The path of every entry of all ranks.
    paths: dict[str, Any]
    # Whether it is written as PyTorch does.
    is_distcp: bool
    # Copies of this rank's parts, of a save beside training.
    staged: StagedFile | None = None
    # Why this rank has nothing to write although others count on it.
    failure: Exception | None = None


def plan(
    entries: Callable[[], dict[str, Any]],
    folder: Folder,
    sync: bool,
    overwrite: bool,
    group: Any,
    no_dist: bool,
    copies: bool,
    is_distcp: bool = False,
    planner: SavePlanner | None = None,
    later: bool = False,
) -> SavePlan:
    """Agree with the other ranks on who writes what. With ``copies`` the parts are copied, so that training goes on.

    With ``later`` tensors are not copied yet, where the format has a ``StagedFile`` for them.

    Args:
        entries: what is to be saved; an exception is known to all ranks.

    Raises:
        CheckpointException: another rank failed, the folder must not be written, or ranks contradict each other.
    """
    ranks = ranks_of(group, no_dist)
    held: list[_Held] = []

    def facts() -> Any:
        found = _held(entries(), no_dist) if planner is None else _planned(planner, entries, group, no_dist)
        held.append(found)
        if not overwrite and any(folder.exists(name) for name in (_manifest.NAME, _distcp.NAME)):
            raise CheckpointException(f"save: {folder} holds a checkpoint, and overwrite is false")
        mine = [(name, dtype_name(t.dtype), found.wholes[name, box], box) for (name, box), t in found.parts.items()]
        return mine, list(found.objects), secrets.token_hex(4), found.paths

    # Every rank finds the same answer from what all of them hold.
    told = gathered("save", facts, ranks)
    rank = 0 if ranks is None else distributed.get_rank(ranks)
    manifest, writers, object_writers = _who_writes([t[0] for t in told], [t[1] for t in told], told[0][2], is_distcp)
    own_parts = {key: t for key, t in held[0].parts.items() if writers.get(key) == rank}
    own_objects = {name: value for name, value in held[0].objects.items() if object_writers[name] == rank}
    paths = {name: path for *_, of in told for name, path in of.items()}
    done = SavePlan(folder, sync, rank, ranks, own_parts, own_objects, manifest, paths, is_distcp)
    if copies:
        try:
            _copy(done, later)
        except Exception as error:
            if ranks is None:
                raise
            # The others write already, or will: they hear of it there.
            done.failure = error
    return done


def _copy(done: SavePlan, later: bool) -> None:
    """Let a plan hold copies of what its rank writes."""
    import copy

    done.objects = copy.deepcopy(done.objects)
    if done.is_distcp:
        done.tensors = {key: t.clone(memory_format=oneflow.contiguous_format) for key, t in done.tensors.items()}
    elif done.tensors:
        done.staged, done.tensors = StagedFile(_file_tensors(done, _token(done.manifest)), later), {}


class _Held(NamedTuple):
    """What a rank has to save: parts of tensors, the sizes of the tensors, other entries, and the path of each name."""

    parts: dict[tuple[str, Box], Tensor]
    wholes: dict[tuple[str, Box], Any]
    objects: dict[str, Any]
    paths: dict[str, Any]


def _planned(planner: SavePlanner, entries: Callable[[], dict[str, Any]], group: Any, no_dist: bool) -> _Held:
    parts, wholes, objects = data_to_save(planner, entries, group, no_dist)
    # Planners of the program flatten by PyTorch's function, whose paths are plain.
    paths = dict(getattr(planner, "mappings", {}))
    return _Held(parts, wholes, objects, plain_paths(paths) if isinstance(planner, DefaultSavePlanner) else paths)


def _held(state_dict: Any, no_dist: bool) -> _Held:
    entries, paths = flatten(state_dict)
    parts: dict[tuple[str, Box], Tensor] = {}
    wholes: dict[tuple[str, Box], Any] = {}
    objects: dict[str, Any] = {}
    for name, value in entries.items():
        if not isinstance(value, Tensor):
            objects[name] = value
            continue
        if value.is_global and no_dist and value.placement.ranks.size > 1:
            raise ValueError(f"save: entry {name!r} is on {value.placement}; no_dist is for tensors of one rank")
        found = part_of(name, value)
        if found is not None:
            part, box = found
            parts[name, box], wholes[name, box] = part, tuple(value.shape)
    return _Held(parts, wholes, objects, plain_paths(paths))


def _who_writes(
    held: list[list[Any]], objects: list[list[str]], token: str, is_distcp: bool
) -> tuple[Manifest, dict[tuple[str, Box], int], dict[str, int]]:
    """The manifest but for sizes of files, the rank that writes each part, and that of each object."""
    holders: dict[tuple[str, Box], list[int]] = {}
    facts: dict[str, Any] = {}
    for rank, parts in enumerate(held):
        for name, dtype, shape, box in parts:
            if facts.setdefault(name, (dtype, shape)) != (dtype, shape):
                raise CheckpointException(
                    f"save: entry {name!r} is {facts[name]} on one rank and {(dtype, shape)} on rank {rank}"
                )
            holders.setdefault((name, box), []).append(rank)
    tensor_file, object_file = (_distcp.file_name,) * 2 if is_distcp else (_tensor_file, _object_file)
    loads = [0] * len(held)
    writers: dict[tuple[str, Box], int] = {}
    tensors = {name: TensorEntry(dtype, shape, []) for name, (dtype, shape) in facts.items()}
    for key, ranks in holders.items():
        name, (offsets, sizes) = key
        if 0 in sizes:
            continue
        writer = min(ranks, key=lambda r: (loads[r], r))
        n = _manifest.dtype_of(tensors[name].dtype).itemsize
        for size in sizes:
            n *= size
        loads[writer] += n
        writers[key] = writer
        tensors[name].chunks.append(Chunk(offsets, sizes, tensor_file(writer, token), name))
    _tell_apart(tensors)
    object_writers: dict[str, int] = {}
    for rank, names in enumerate(objects):
        for name in names:
            if name in facts:
                raise CheckpointException(f"save: entry {name!r} is a tensor on one rank and none on rank {rank}")
            object_writers.setdefault(name, rank)
    files = {name: object_file(rank, token) for name, rank in object_writers.items()}
    return Manifest(tensors, files, {}), writers, object_writers


def _tell_apart(tensors: dict[str, TensorEntry]) -> None:
    """Give the parts of a tensor that stand in one file keys of their own: the name, and where they begin."""
    for name, entry in tensors.items():
        seen: set[str] = set()
        for i, chunk in enumerate(entry.chunks):
            if chunk.file in seen:
                entry.chunks[i] = replace(chunk, key=f"{name}@{','.join(map(str, chunk.offsets))}")
            seen.add(chunk.file)


def _tensor_file(rank: int, token: str) -> str:
    return f"part_{rank:05}_{token}.safetensors"


def _object_file(rank: int, token: str) -> str:
    return f"objects_{rank:05}_{token}.pt"


def write(plan: SavePlan) -> None:
    """Write this rank's files; then, once all ranks have, the manifest.

    Raises:
        CheckpointException: a rank could not write. The folder holds what it held before.
    """
    what = f"save: the checkpoint in {plan.folder} was not written"
    try:
        told = gathered(what, lambda: _write_own(plan), plan.group, wraps=True)
        settled(what, lambda: _write_manifest(plan, told), plan.group, wraps=True)
    except CheckpointException:
        # Not where a rank is gone: it may have written the manifest before.
        with contextlib.suppress(Exception):
            _remove_own(plan)
        raise
    if plan.rank == 0:
        try:
            _remove_others(plan.folder, set(plan.manifest.files))
        except Exception as error:
            warnings.warn(
                f"save: the checkpoint in {plan.folder} is written, but files of an earlier one are left: {error}",
                stacklevel=3,
            )


def _write_manifest(plan: SavePlan, told: list[Any]) -> None:
    """Write the manifest of the plan's format; then one of the other format, whose files will go, is none any more.

    After a failure the folder has the manifest that it had.
    """
    for files, _ in told:
        plan.manifest.files.update(files)
    name, other, data = _manifest.NAME, _distcp.NAME, b""
    if plan.is_distcp:
        name, other = other, name
        slices = {(key, offsets): _distcp.Slice(*at) for _, rows in told for key, offsets, *at in rows}
        data = _distcp.dumps(plan.manifest, slices, plan.paths)
    else:
        plan.manifest.paths = plan.paths
        data = plan.manifest.dumps()
    before = plan.folder.read(name, _manifest.MAX_BYTES) if plan.folder.exists(name) else None
    try:
        plan.folder.replace(name, data, plan.sync)
        plan.folder.remove(other)
    except Exception:
        if before is None:
            plan.folder.remove(name)
        else:
            plan.folder.replace(name, before, plan.sync)
        raise


def _write_own(plan: SavePlan) -> tuple[dict[str, int], list[Any]]:
    """Write this rank's files; return their sizes, and the slices of PyTorch's format as plain values."""
    if plan.failure is not None:
        raise plan.failure
    plan.folder.make()
    token = _token(plan.manifest)
    sizes = {}
    if plan.is_distcp:
        slices: dict[Any, _distcp.Slice] = {}
        if plan.tensors or plan.objects:
            name = _distcp.file_name(plan.rank, token)
            parts = {(key, offsets): t for (key, (offsets, _)), t in plan.tensors.items()}
            slices = _distcp.write_parts(plan.folder.draft(name), parts, plan.objects)
            sizes[name] = plan.folder.settle(name, plan.sync)
        if plan.sync:
            plan.folder.settle_names()
        return sizes, [(*key, at.file, at.offset, at.length) for key, at in slices.items()]
    if plan.tensors or plan.staged is not None:
        name = _tensor_file(plan.rank, token)
        if plan.staged is not None:
            plan.staged.write(plan.folder.draft(name))
        else:
            save_file(_file_tensors(plan, token), plan.folder.draft(name))
        sizes[name] = plan.folder.settle(name, plan.sync)
    if plan.objects:
        name = _object_file(plan.rank, token)
        oneflow.save(plan.objects, plan.folder.draft(name))
        sizes[name] = plan.folder.settle(name, plan.sync)
    if plan.sync:
        plan.folder.settle_names()
    return sizes, []


def _remove_own(plan: SavePlan) -> None:
    """Remove what this rank may have written."""
    token = _token(plan.manifest)
    for name in (_tensor_file(plan.rank, token), _object_file(plan.rank, token), _distcp.file_name(plan.rank, token)):
        plan.folder.remove(name)


def _token(manifest: Manifest) -> str:
    """What the names of all files of this save have in common."""
    chunks = [c.file for entry in manifest.tensors.values() for c in entry.chunks]
    return next((f.rpartition("_")[2].partition(".")[0] for f in [*chunks, *manifest.objects.values()]), "")


def _file_tensors(plan: SavePlan, token: str) -> dict[str, Tensor]:
    """This rank's tensors as its file has them, by their names there."""
    name, own = _tensor_file(plan.rank, token), plan.manifest.tensors
    keys = {(key, (c.offsets, c.sizes)): c.key for key, entry in own.items() for c in entry.chunks if c.file == name}
    return {keys[key]: _as_stored(t) for key, t in plan.tensors.items()}


def _as_stored(t: Tensor) -> Tensor:
    # The format has no name for this dtype.
    return oneflow.view_as_real(t) if t.dtype == oneflow.complex128 else t


def _remove_others(folder: Folder, kept: set[str]) -> None:
    for name in folder.names():
        is_part = name.startswith(("part_", "objects_", ".objects_")) or name.endswith(".distcp")
        if is_part and name not in kept:
            folder.remove(name)


def start_writing(made: Callable[[], SavePlan]) -> Future[None]:
    """Write in a thread what ``made`` returns there; the result is known to the future."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            if sys.platform == "linux":
                # Of this thread alone: those that train come first.
                os.setpriority(os.PRIO_PROCESS, 0, 19)
            write(made())
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, name="checkpoint writer").start()
    return future
