"""Hugging Face's folders: what their files hold, and how such files are written.

A file may hold parts of tensors; its header then says where each begins (``DCP_SHARDING_INFO``, as PyTorch writes it).
What a header or an index says is checked before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.checkpoint._folders import Folder, folder_at, is_url
from oneflow.distributed.checkpoint._load import Reader
from oneflow.distributed.checkpoint._manifest import (
    MAX_BYTES,
    Chunk,
    Manifest,
    TensorEntry,
    _file_name,
    _sizes,
    dtype_name,
    dtype_of,
)
from oneflow.distributed.checkpoint._save import plan
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.models.safetensors import _DTYPES, SafetensorsFile, save_file

if TYPE_CHECKING:
    from oneflow.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
SHARDED = "sharded"
_PARTS = "DCP_SHARDING_INFO"


def read(folder: Folder) -> Manifest:
    """What a folder holds.

    Raises:
        CheckpointException: no files, or one that is damaged.
    """
    wanted = _index(folder)
    names = sorted(set(wanted.values())) if wanted else sorted(n for n in folder.names() if n.endswith(SUFFIX))
    if not names:
        raise CheckpointException(f"{folder} holds no {SUFFIX} files")
    tensors: dict[str, TensorEntry] = {}
    for name in names:
        try:
            file = SafetensorsFile(folder.local(name))
            starts = _starts(file)
        except FileNotFoundError:
            said = f"the index of {folder} names a file {name}, which is missing"
            raise CheckpointException(said if wanted else f"{folder} lost its file {name} while it was read") from None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointException(f"{folder.at(name)} is damaged: {error}") from None
        for key, at in file.entries.items():
            if wanted and wanted.get(key, name) != name:
                continue
            _add(tensors, key, dtype_name(_DTYPES[at.dtype]), Chunk(starts[key], at.shape, name, key))
    missing = sorted(set(wanted) - set(tensors))
    if missing:
        raise CheckpointException(f"the index of {folder} names {missing[0]!r}, which {wanted[missing[0]]} lacks")
    return Manifest(tensors, {}, {})


def _index(folder: Folder) -> dict[str, str]:
    """The file of each tensor, where there is an index."""
    if not folder.exists(INDEX):
        return {}
    try:
        table = json.loads(folder.read(INDEX, MAX_BYTES))["weight_map"]
        return {str(key): _file_name(str(name)) for key, name in table.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointException(f"{folder.at(INDEX)} is damaged: {error}") from None


def _starts(file: SafetensorsFile) -> dict[str, tuple[int, ...]]:
    """Where each tensor of a file begins in the whole."""
    if _PARTS not in file.metadata:
        return {key: (0,) * len(at.shape) for key, at in file.entries.items()}
    table = json.loads(file.metadata[_PARTS])
    return {key: _sizes(table[key]["saved_offsets"], len(at.shape)) for key, at in file.entries.items()}


def _add(tensors: dict[str, TensorEntry], name: str, dtype: str, chunk: Chunk) -> None:
    ends = tuple(o + n for o, n in zip(chunk.offsets, chunk.sizes, strict=True))
    entry = tensors.setdefault(name, TensorEntry(dtype, ends, []))
    if entry.dtype != dtype or len(entry.shape) != len(ends):
        raise CheckpointException(
            f"{name!r} is {entry.dtype} with {len(entry.shape)} dimensions in one file, "
            f"and {dtype} with {len(ends)} in {chunk.file}"
        )
    entry.shape = tuple(map(max, entry.shape, ends))
    entry.chunks.append(chunk)


def write(
    state_dict: Mapping[str, Any], writer: HuggingFaceStorageWriter, group: Any, no_dist: bool, planner: Any
) -> Manifest:
    """Write a state dictionary of tensors.

    Raises:
        CheckpointException: a rank could not write; all raise.
        TypeError: an entry is no tensor.
        ValueError: several ranks without ``save_distributed``, or a tensor without a file.
    """
    is_alone = no_dist or distributed.get_world_size(group) == 1
    if not is_alone and not writer.save_distributed:
        raise ValueError(
            "save: several ranks write Hugging Face's files with save_distributed=True; or one of them does, with "
            "no_dist=True"
        )
    folder = writer.folder()
    if writer.enable_consolidation:
        folder = folder_at(f"{writer.path}/{SHARDED}" if is_url(writer.path) else Path(writer.path) / SHARDED)
    done = plan(state_dict, folder, writer.sync_files, writer.overwrite, group, no_dist, False, planner=planner)
    if done.manifest.objects:
        raise TypeError(
            f"save: Hugging Face's files hold tensors alone, and {next(iter(done.manifest.objects))!r} is none"
        )
    numbers = _numbers(done.manifest, writer.fqn_to_index_mapping)
    prefix = f"shard-{done.rank + 1:05}-" if writer.save_distributed else ""
    own = {name: (box[0], tensor) for (name, box), tensor in done.tensors.items()}
    for name, entry in done.manifest.tensors.items():
        # What has no elements is nobody's part.
        if not entry.chunks and done.rank == 0:
            own[name] = (0,) * len(entry.shape), oneflow.empty(entry.shape, dtype=dtype_of(entry.dtype))
    manifest: list[Any] = [None]

    def write_own() -> None:
        files = _write_files(folder, own, numbers, prefix, writer.sync_files, writer.save_distributed)
        if not writer.save_distributed:
            _write_index(folder, files, done.manifest, writer.sync_files)

    def clean() -> None:
        if done.rank == 0:
            _remove_stale(folder, prefix, distributed.get_world_size(group) if not is_alone else 1, numbers)

    def join() -> None:
        # After `clean` on all ranks: what an earlier save left is neither read nor removed meanwhile.
        manifest[0] = read(folder)
        if done.rank == 0 and writer.enable_consolidation:
            _consolidate(Reader(folder, manifest[0]), writer.folder(), numbers, writer.sync_files)

    for step in (write_own, clean, join):
        _together(step, folder, None if is_alone else group or distributed.group.WORLD)
    return manifest[0]


def _numbers(manifest: Manifest, mapping: Mapping[str, int] | None) -> dict[str, tuple[int, int]]:
    """The number of each tensor's file, and how many files there are."""
    chosen = mapping or dict.fromkeys(manifest.tensors, 1)
    for name in manifest.tensors:
        if not isinstance(chosen.get(name), int) or chosen[name] < 1:
            raise ValueError(
                f"save: fqn_to_index_mapping gives {name!r} the file {chosen.get(name)}, expected 1 or more"
            )
    last = max(chosen.values(), default=1)
    return {name: (chosen[name], last) for name in manifest.tensors}


def _file(prefix: str, number: int, last: int) -> str:
    return f"{prefix}model-{number:05}-of-{last:05}{SUFFIX}"


def _write_files(
    folder: Folder,
    own: Mapping[str, tuple[tuple[int, ...], Tensor]],
    numbers: Mapping[str, tuple[int, int]],
    prefix: str,
    sync: bool,
    are_parts: bool,
) -> dict[str, str]:
    """Write tensors to their files; the file of each."""
    folder.make()
    files = {name: _file(prefix, *numbers[name]) for name in own}
    for file in sorted(set(files.values())):
        held = {name: tensor for name, (_, tensor) in own.items() if files[name] == file}
        said = {"format": "pt"}
        if are_parts:
            starts = {name: {"saved_offsets": list(own[name][0])} for name in held}
            said |= {"DCP_VERSION": "1.0", _PARTS: json.dumps(starts)}
        save_file(held, folder.draft(file), said)
        folder.settle(file, sync)
    if sync:
        folder.settle_names()
    return files


def _write_index(folder: Folder, files: Mapping[str, str], manifest: Manifest, sync: bool) -> None:
    total = 0
    for entry in manifest.tensors.values():
        n = dtype_of(entry.dtype).itemsize
        for size in entry.shape:
            n *= size
        total += n
    table = {"metadata": {"total_size": total}, "weight_map": dict(sorted(files.items()))}
    folder.replace(INDEX, json.dumps(table, indent=2).encode(), sync)


def _remove_stale(folder: Folder, prefix: str, n_ranks: int, numbers: Mapping[str, tuple[int, int]]) -> None:
    """Remove parts of an earlier save that this one has not replaced."""
    if not prefix:
        return
    places = set(numbers.values())
    kept = {_file(f"shard-{rank + 1:05}-", *place) for rank in range(n_ranks) for place in places}
    for name in folder.names():
        if name.startswith("shard-") and name.endswith(SUFFIX) and name not in kept:
            folder.remove(name)


def _consolidate(reader: Reader, folder: Folder, numbers: Mapping[str, tuple[int, int]], sync: bool) -> None:
    """Write whole tensors, of which one file at a time is in memory."""
    files: dict[str, str] = {}
    for place in sorted(set(numbers.values())):
        names = [name for name in reader.manifest.tensors if numbers[name] == place]
        whole = {name: ((), reader.whole(name)) for name in names}
        files |= _write_files(folder, whole, numbers, "", sync, False)
    _write_index(folder, files, reader.manifest, sync)


def _together(step: Any, folder: Folder, group: Any) -> None:
    """Run a step; all ranks raise if one does."""
    failure: Exception | None = None
    try:
        step()
    except Exception as error:  # All ranks learn of it.
        failure = error
    told: list[Any] = [None if failure is None else f"{type(failure).__name__}: {failure}"]
    if group is not None:
        own = told[0]
        told = [None] * distributed.get_world_size(group)
        distributed.all_gather_object(told, own, group)
    bad = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(told) if text is not None)
    if bad:
        raise CheckpointException(f"save: the checkpoint in {folder} was not written: {bad}") from failure
