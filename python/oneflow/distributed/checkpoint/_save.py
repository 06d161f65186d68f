"""Saving: every rank writes its part to a file of its own, then one of them writes the manifest.

Ranks first agree on who writes what: of equal parts that several hold, the rank with least to write takes each. Files
have names that no checkpoint in the folder uses, so one that is there stays whole until the new manifest replaces its
own; then files that no manifest names are removed.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.checkpoint import _distcp, _manifest
from oneflow.distributed.checkpoint._flatten import flatten
from oneflow.distributed.checkpoint._folders import Folder
from oneflow.distributed.checkpoint._manifest import Chunk, Manifest, TensorEntry, dtype_name
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.tensor import _layouts
from oneflow.models.safetensors import save_file

__all__ = ["SavePlan", "plan", "start_writing", "write"]

# A part of a tensor: where it begins and how large it is.
Box = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass
class SavePlan:
    """What this rank writes, and what all of them do."""

    folder: Folder
    sync: bool
    rank: int
    group: Any
    tensors: dict[str, Tensor]
    objects: dict[str, Any]
    manifest: Manifest
    # Where this rank's parts begin, and the path of every entry of all ranks.
    offsets: dict[str, tuple[int, ...]]
    paths: dict[str, Any]
    # Whether it is written as PyTorch does.
    is_distcp: bool

    def is_alone(self) -> bool:
        """Whether no other rank takes part."""
        return self.group is None


def box_of(x: Tensor) -> Box | None:
    """The part of a global tensor that this rank holds; None on a rank outside."""
    ranks = x.placement.ranks
    here = oneflow.env.get_rank()
    if here not in ranks.reshape(-1).tolist():
        return None
    at = [int(i[0]) for i in (ranks == here).nonzero()]
    starts, sizes = [0] * x.dim(), list(x.shape)
    for axis, s in enumerate(x.sbp):
        if s.dim is not None:
            each, more = divmod(sizes[s.dim], ranks.shape[axis])
            starts[s.dim] += each * at[axis] + min(at[axis], more)
            sizes[s.dim] = each + (at[axis] < more)
    return tuple(starts), tuple(sizes)


def plan(
    state_dict: Any,
    folder: Folder,
    sync: bool,
    overwrite: bool,
    group: Any,
    no_dist: bool,
    copies: bool,
    is_distcp: bool = False,
) -> SavePlan:
    """Agree with the other ranks on who writes what. With ``copies`` the parts are copied, so that training goes on."""
    alone = no_dist or distributed.get_world_size(group) == 1
    rank = 0 if alone else distributed.get_rank(group)
    entries, paths = flatten(state_dict)
    parts: dict[str, Tensor] = {}
    mine: dict[str, Any] = {}
    objects: dict[str, Any] = {}
    for name, value in entries.items():
        if not isinstance(value, Tensor):
            objects[name] = value
            continue
        value = value.detach()
        if value.is_meta:
            raise ValueError(f"save: entry {name!r} is on the meta device and has no elements")
        shape, dtype = tuple(value.shape), dtype_name(value.dtype)
        if not value.is_global:
            parts[name], box = value, ((0,) * len(shape), shape)
        else:
            if no_dist and value.placement.ranks.size > 1:
                raise ValueError(f"save: entry {name!r} is on {value.placement}; no_dist is for tensors of one rank")
            if oneflow.sbp.partial_sum in value.sbp:
                value = value.to_global(sbp=[oneflow.sbp.broadcast if s.dim is None else s for s in value.sbp])
            found = box_of(value)
            if found is None:
                continue
            parts[name], box = _layouts.local_part(value), found
        mine[name] = (dtype, shape, box)
    # Every rank finds the same answer from what all of them hold.
    is_there = any(folder.exists(name) for name in (_manifest.NAME, _distcp.NAME))
    told: list[Any] = [(mine, list(objects), secrets.token_hex(4), is_there, paths)]
    if not alone:
        own = told[0]
        told = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(told, own, group)
    if not overwrite and any(there for *_, there, _ in told):
        raise CheckpointException(f"save: {folder} holds a checkpoint, and overwrite is false")
    manifest, writers, object_writers = _who_writes([t[0] for t in told], [t[1] for t in told], told[0][2], is_distcp)
    own_parts = {
        name: t.clone(memory_format=oneflow.contiguous_format) if copies else t
        for name, t in parts.items()
        if writers.get((name, mine[name][2])) == rank and 0 not in mine[name][2][1]
    }
    own_objects = {name: value for name, value in objects.items() if object_writers[name] == rank}
    if copies:
        import copy

        own_objects = copy.deepcopy(own_objects)
    return SavePlan(
        folder,
        sync,
        rank,
        None if alone else group or distributed.group.WORLD,
        own_parts,
        own_objects,
        manifest,
        {name: mine[name][2][0] for name in own_parts},
        {name: path for *_, of in told for name, path in of.items()},
        is_distcp,
    )


def _who_writes(
    held: list[dict[str, Any]], objects: list[list[str]], token: str, is_distcp: bool
) -> tuple[Manifest, dict[tuple[str, Box], int], dict[str, int]]:
    """The manifest but for sizes of files, the rank that writes each part, and that of each object."""
    holders: dict[tuple[str, Box], list[int]] = {}
    facts: dict[str, Any] = {}
    for rank, parts in enumerate(held):
        for name, (dtype, shape, box) in parts.items():
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
    object_writers: dict[str, int] = {}
    for rank, names in enumerate(objects):
        for name in names:
            if name in facts:
                raise CheckpointException(f"save: entry {name!r} is a tensor on one rank and none on rank {rank}")
            object_writers.setdefault(name, rank)
    files = {name: object_file(rank, token) for name, rank in object_writers.items()}
    return Manifest(tensors, files, {}), writers, object_writers


def _tensor_file(rank: int, token: str) -> str:
    return f"part_{rank:05}_{token}.safetensors"


def _object_file(rank: int, token: str) -> str:
    return f"objects_{rank:05}_{token}.pt"


def write(plan: SavePlan) -> None:
    """Write this rank's files; then, once all ranks have, the manifest.

    Raises:
        CheckpointException: a rank could not write. The folder holds what it held before.
    """
    failure: Exception | None = None
    sizes: dict[str, int] = {}
    slices: dict[Any, _distcp.Slice] = {}
    try:
        sizes, slices = _write_own(plan)
    except Exception as error:  # All ranks learn of it.
        failure = error
    told: list[Any] = [(sizes, _plain(slices), None if failure is None else f"{type(failure).__name__}: {failure}")]
    if not plan.is_alone():
        own = told[0]
        told = [None] * distributed.get_world_size(plan.group)
        distributed.all_gather_object(told, own, plan.group)
    bad = {rank: text for rank, (*_, text) in enumerate(told) if text is not None}
    done: list[Any] = [None]
    if not bad and plan.rank == 0:
        for files, *_ in told:
            plan.manifest.files.update(files)
        try:
            _write_manifest(plan, [row for _, rows, _ in told for row in rows])
        except Exception as error:
            failure, done = error, [f"{type(error).__name__}: {error}"]
    if not plan.is_alone() and not bad:
        first = distributed.get_global_rank(plan.group, 0)
        distributed.broadcast_object_list(done, first, plan.group)
    if done[0] is not None:
        bad = {0: done[0]}
    if bad:
        for name in sizes:
            plan.folder.remove(name)
        text = "; ".join(f"rank {rank}: {text}" for rank, text in bad.items())
        raise CheckpointException(f"save: the checkpoint in {plan.folder} was not written: {text}") from failure
    if plan.rank == 0:
        _remove_others(plan.folder, set(plan.manifest.files))


def _plain(slices: dict[Any, _distcp.Slice]) -> list[Any]:
    """Slices as messages hold them: plain values."""
    return [(*key, at.file, at.offset, at.length) for key, at in slices.items()]


def _write_manifest(plan: SavePlan, rows: list[Any]) -> None:
    """Write the manifest of the plan's format; then one of the other format, whose files will go, is none any more."""
    name, other, data = _manifest.NAME, _distcp.NAME, b""
    if plan.is_distcp:
        name, other = other, name
        slices = {(name, offsets): _distcp.Slice(*at) for name, offsets, *at in rows}
        data = _distcp.dumps(plan.manifest, slices, plan.paths)
    else:
        data = plan.manifest.dumps()
    plan.folder.replace(name, data, plan.sync)
    plan.folder.remove(other)


def _write_own(plan: SavePlan) -> tuple[dict[str, int], dict[Any, _distcp.Slice]]:
    plan.folder.make()
    chunks = [c.file for entry in plan.manifest.tensors.values() for c in entry.chunks]
    token = next((f.rpartition("_")[2].partition(".")[0] for f in [*chunks, *plan.manifest.objects.values()]), "")
    sizes = {}
    if plan.is_distcp:
        slices: dict[Any, _distcp.Slice] = {}
        if plan.tensors or plan.objects:
            name = _distcp.file_name(plan.rank, token)
            parts = {(key, plan.offsets[key]): t for key, t in plan.tensors.items()}
            slices = _distcp.write_parts(plan.folder.draft(name), parts, plan.objects)
            sizes[name] = plan.folder.settle(name, plan.sync)
        if plan.sync:
            plan.folder.settle_names()
        return sizes, slices
    if plan.tensors:
        name = _tensor_file(plan.rank, token)
        save_file({key: _as_stored(t) for key, t in plan.tensors.items()}, plan.folder.draft(name))
        sizes[name] = plan.folder.settle(name, plan.sync)
    if plan.objects:
        name = _object_file(plan.rank, token)
        oneflow.save(plan.objects, plan.folder.draft(name))
        sizes[name] = plan.folder.settle(name, plan.sync)
    if plan.sync:
        plan.folder.settle_names()
    return sizes, {}


def _as_stored(t: Tensor) -> Tensor:
    # The format has no name for this dtype.
    return oneflow.view_as_real(t) if t.dtype == oneflow.complex128 else t


def _remove_others(folder: Folder, kept: set[str]) -> None:
    for name in folder.names():
        is_part = name.startswith(("part_", "objects_", ".objects_")) or name.endswith(".distcp")
        if is_part and name not in kept:
            folder.remove(name)


def start_writing(plan: SavePlan, after: Callable[[], None]) -> Future[None]:
    """Write in a thread; the result is known to the future."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            write(plan)
        except BaseException as error:
            after()
            future.set_exception(error)
        else:
            after()
            future.set_result(None)

    threading.Thread(target=run, name="checkpoint writer").start()
    return future
