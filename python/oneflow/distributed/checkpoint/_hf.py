"""Hugging Face's folders: what their files hold, and how such files are written.

A file may hold parts of tensors; its header then says where each begins (``DCP_SHARDING_INFO``, as PyTorch writes it).
What a header or an index says is checked before it is used.

A folder has no manifest that is written last: files replace those of the save before one by one. The headers of several
files say which save they are of, so that those of two saves are not read as one.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.checkpoint._agreement import gathered
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
_SAVE = "ONEFLOW_SAVE"


def read(folder: Folder) -> Manifest:
    """What a folder holds.

    Raises:
        CheckpointException: no files, one that is damaged, or files of two saves.
    """
    wanted = _index(folder)
    names = sorted(set(wanted.values())) if wanted else sorted(n for n in folder.names() if n.endswith(SUFFIX))
    if not names:
        raise CheckpointException(f"{folder} holds no {SUFFIX} files")
    tensors: dict[str, TensorEntry] = {}
    saves: dict[str, str] = {}
    for name in names:
        try:
            file = SafetensorsFile(folder.local(name))
            starts = _starts(file)
        except FileNotFoundError:
            said = f"the index of {folder} names a file {name}, which is missing"
            raise CheckpointException(said if wanted else f"{folder} lost its file {name} while it was read") from None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CheckpointException(f"{folder.at(name)} is damaged: {error}") from None
        if _SAVE in file.metadata:
            saves.setdefault(file.metadata[_SAVE], name)
        for key, at in file.entries.items():
            if wanted and wanted.get(key, name) != name:
                continue
            _add(tensors, key, dtype_name(_DTYPES[at.dtype]), Chunk(starts[key], at.shape, name, key))
    if len(saves) > 1:
        first, second, *_ = saves.values()
        raise CheckpointException(
            f"{folder} holds files of {len(saves)} saves, such as {first} and {second}: one of them did not come to "
            "its end, so that neither is whole; save again"
        )
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
    entries: Callable[[], dict[str, Any]], writer: HuggingFaceStorageWriter, group: Any, no_dist: bool, planner: Any
) -> Manifest:
    """Write a state dictionary of tensors. Files of an earlier one are replaced when all ranks have written theirs.

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
    done = plan(entries, folder, writer.sync_files, writer.overwrite, group, no_dist, False, planner=planner)
    if done.manifest.objects:
        raise TypeError(
            f"save: Hugging Face's files hold tensors alone, and {next(iter(done.manifest.objects))!r} is none"
        )
    sync, n_ranks = writer.sync_files, 1 if is_alone else distributed.get_world_size(group)
    numbers: dict[str, tuple[int, int]] = {}
    files: dict[str, str] = {}
    manifest: list[Any] = [None]

    def choose() -> str:
        numbers.update(_numbers(done.manifest, writer.fqn_to_index_mapping))
        return secrets.token_hex(8)

    def draft() -> None:
        prefix = f"shard-{done.rank + 1:05}-" if writer.save_distributed else ""
        own = {name: (box[0], tensor) for (name, box), tensor in done.tensors.items()}
        for name, entry in done.manifest.tensors.items():
            # What has no elements is nobody's part.
            if not entry.chunks and done.rank == 0:
                own[name] = (0,) * len(entry.shape), oneflow.empty(entry.shape, dtype=dtype_of(entry.dtype))
        files.update({name: _file(prefix, *numbers[name]) for name in own})
        has_several = n_ranks > 1 or len(set(numbers.values())) > 1
        _draft(folder, own, files, sync, writer.save_distributed, save if has_several else None)

    def publish() -> None:
        _publish(folder, files, sync)
        if not writer.save_distributed:
            _write_index(folder, files, done.manifest, sync)

    def clean() -> None:
        if done.rank == 0 and writer.save_distributed:
            _remove_stale(folder, n_ranks, numbers)

    def join() -> None:
        # After `clean` on all ranks: what an earlier save left is neither read nor removed meanwhile.
        manifest[0] = read(folder)
        if done.rank == 0 and writer.enable_consolidation:
            _consolidate(Reader(folder, manifest[0]), writer.folder(), numbers, sync, save)

    what = f"save: the checkpoint in {folder} was not written"
    save: str = gathered("save", choose, done.group)[0]
    try:
        for step in (draft, publish, clean, join):
            gathered(what, step, done.group, wraps=True)
    finally:
        _discard(folder, files)
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


def _draft(
    folder: Folder,
    own: Mapping[str, tuple[tuple[int, ...], Tensor]],
    files: Mapping[str, str],
    sync: bool,
    are_parts: bool,
    save: str | None,
) -> None:
    """Write tensors to the scratches of their files."""
    folder.make()
    for file in sorted({files[name] for name in own}):
        held = {name: tensor for name, (_, tensor) in own.items() if files[name] == file}
        said = {"format": "pt"}
        if are_parts:
            starts = {name: {"saved_offsets": list(own[name][0])} for name in held}
            said |= {"DCP_VERSION": "1.0", _PARTS: json.dumps(starts)}
        if save is not None:
            said[_SAVE] = save
        save_file(held, folder.scratch(file), said)
        if sync:
            folder.settle_scratch(file)


def _publish(folder: Folder, files: Mapping[str, str], sync: bool) -> None:
    for file in sorted(set(files.values())):
        folder.publish(file)
    if sync:
        folder.settle_names()


def _discard(folder: Folder, files: Mapping[str, str]) -> None:
    """Remove scratches that were not published."""
    for file in set(files.values()):
        with contextlib.suppress(OSError):
            folder.scratch(file).unlink()


def _write_index(folder: Folder, files: Mapping[str, str], manifest: Manifest, sync: bool) -> None:
    total = 0
    for entry in manifest.tensors.values():
        n = dtype_of(entry.dtype).itemsize
        for size in entry.shape:
            n *= size
        total += n
    table = {"metadata": {"total_size": total}, "weight_map": dict(sorted(files.items()))}
    folder.replace(INDEX, json.dumps(table, indent=2).encode(), sync)


def _remove_stale(folder: Folder, n_ranks: int, numbers: Mapping[str, tuple[int, int]]) -> None:
    """Remove parts of an earlier save that this one has not replaced."""
    places = set(numbers.values())
    kept = {_file(f"shard-{rank + 1:05}-", *place) for rank in range(n_ranks) for place in places}
    for name in folder.names():
        if name.startswith("shard-") and name.endswith(SUFFIX) and name not in kept:
            folder.remove(name)


def _consolidate(reader: Reader, folder: Folder, numbers: Mapping[str, tuple[int, int]], sync: bool, save: str) -> None:
    """Write whole tensors, of which one file at a time is in memory."""
    files = {name: _file("", *numbers[name]) for name in reader.manifest.tensors}
    try:
        for file in sorted(set(files.values())):
            names = [name for name in files if files[name] == file]
            own = {name: ((), reader.whole(name)) for name in names}
            _draft(folder, own, files, sync, False, save if len(set(files.values())) > 1 else None)
        _publish(folder, files, sync)
    finally:
        _discard(folder, files)
    _write_index(folder, files, reader.manifest, sync)
