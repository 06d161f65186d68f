"""PyTorch's format of checkpoints of several ranks: ``.metadata``, a pickle, and ``.distcp`` files of saved tensors.

The pickle is read by the unpickler of checkpoints: its classes become records of their fields, and nothing of it is
used before it was checked. Compressed parts and files of safetensors are not read.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import oneflow
from oneflow import Tensor
from oneflow._files import checkpoint_reader, checkpoint_writer
from oneflow._files.unpickler import RestrictedUnpickler
from oneflow.distributed.checkpoint import _manifest
from oneflow.distributed.checkpoint._folders import Folder
from oneflow.distributed.checkpoint._manifest import Chunk, Manifest, TensorEntry
from oneflow.distributed.checkpoint.api import CheckpointException

__all__ = ["NAME", "Slice", "Slices", "dumps", "file_name", "read", "write_parts"]

NAME = ".metadata"
_PACKAGE = "torch.distributed.checkpoint"
# PyTorch's classes and their fields in the order of their constructors.
_FIELDS = {
    f"{_PACKAGE}.metadata.Metadata": "state_dict_metadata planner_data storage_data storage_meta version",
    f"{_PACKAGE}.metadata.TensorStorageMetadata": "properties size chunks",
    f"{_PACKAGE}.metadata.BytesStorageMetadata": "",
    f"{_PACKAGE}.metadata.ChunkStorageMetadata": "offsets sizes",
    f"{_PACKAGE}.metadata.TensorProperties": "dtype",
    f"{_PACKAGE}.metadata.MetadataIndex": "fqn offset index",
    f"{_PACKAGE}.metadata.StorageMeta": "checkpoint_id save_id load_id modules",
    f"{_PACKAGE}.filesystem._StorageInfo": "relative_path offset length transform_descriptors",
}


@dataclass(frozen=True)
class Slice:
    """Bytes of a file that ``save`` has written for one tensor or object."""

    file: str
    offset: int
    length: int


@dataclass
class Slices(Manifest):
    """A manifest whose parts are slices: of a tensor by name and offsets, of an object by name and ``None``."""

    slices: dict[tuple[str, tuple[int, ...] | None], Slice]

    def part(self, folder: Folder, name: str, chunk: Chunk) -> Tensor:
        """Read a part of a tensor."""
        value = self._value(folder, name, chunk.offsets)
        if not isinstance(value, Tensor):
            raise CheckpointException(f"{folder.at(chunk.file)} has a {type(value).__name__} for a part of {name!r}")
        return value

    def object(self, folder: Folder, name: str) -> Any:
        """Read an entry that is no tensor."""
        return self._value(folder, name, None)

    def _value(self, folder: Folder, name: str, offsets: tuple[int, ...] | None) -> Any:
        at = self.slices[name, offsets]
        with open(folder.local(at.file), "rb") as file:
            file.seek(at.offset)
            data = file.read(at.length)
        return oneflow.load(io.BytesIO(data), map_location="cpu")


class _Record:
    """An object of one of PyTorch's classes: its fields, unchecked."""

    def __init__(self, name: str, *values: Any) -> None:
        self.name = name
        self.fields: dict[str, Any] = dict(zip(_FIELDS[name].split(), values, strict=False))

    def set_state(self, state: Any) -> None:
        """What a pickle of a dataclass holds: a dictionary, or a tuple of a class that packs its fields."""
        if isinstance(state, tuple):
            state = dict(zip(_FIELDS[self.name].split(), state, strict=False))
        if not isinstance(state, dict):
            raise pickle.UnpicklingError(f"the fields of a {self.name} are a {type(state).__name__}")
        self.fields = state

    def of(self, kind: str) -> dict[str, Any]:
        """The fields, if it is one of ``kind``."""
        if self.name.rpartition(".")[2] != kind:
            raise ValueError(f"a {self.name.rpartition('.')[2]} stands where a {kind} belongs")
        return self.fields


class _Unpickler(RestrictedUnpickler):
    dispatch: ClassVar[dict[int, Any]] = RestrictedUnpickler.dispatch.copy()

    def _load_build(self) -> None:
        if isinstance(self.stack[-2], _Record):
            self.stack[-2].set_state(self.stack.pop())
        else:
            super()._load_build()

    def _put(self, target: Any, key: Any, value: Any) -> None:
        if isinstance(key, _Record) and isinstance(target, dict):
            target[key] = value
        else:
            super()._put(target, key, value)

    dispatch[pickle.BUILD[0]] = _load_build


def _functions() -> dict[str, Any]:
    records: dict[str, Any] = {name: (lambda *values, name=name: _Record(name, *values)) for name in _FIELDS}
    return {
        **checkpoint_reader.names_in_files(),
        **records,
        f"{_PACKAGE}.metadata._MEM_FORMAT_ENCODING": lambda number: int(number),
        "pathlib.PosixPath": lambda *parts: "/".join(map(str, parts)),
        "pathlib._local.PosixPath": lambda *parts: "/".join(map(str, parts)),
    }


def read(folder: Folder) -> Slices:
    """Read and check the ``.metadata`` of a folder that PyTorch wrote.

    Raises:
        CheckpointException: it is damaged, or contradicts itself or the files.
        NotImplementedError: its parts are compressed.
    """
    try:
        data = io.BytesIO(folder.read(NAME, _manifest.MAX_BYTES))
        table = _Unpickler(data, _functions(), _no_storage).load()
        found = _checked(table)
    except NotImplementedError:
        raise
    except (pickle.UnpicklingError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointException(f"{folder.at(NAME)} is damaged: {error}") from None
    for name in found.files:
        try:
            found.files[name] = folder.size(name)
        except FileNotFoundError:
            raise CheckpointException(f"the checkpoint in {folder} lacks its file {name}") from None
    for at in found.slices.values():
        if at.offset + at.length > found.files[at.file]:
            raise CheckpointException(
                f"{folder.at(at.file)} has {found.files[at.file]} bytes, {folder.at(NAME)} says {at.offset + at.length}"
            )
    return found


def _no_storage(pid: Any) -> Any:
    raise pickle.UnpicklingError("it holds a tensor")


def _checked(table: Any) -> Slices:
    fields = _record(table).of("Metadata")
    slices: dict[tuple[str, tuple[int, ...] | None], Slice] = {}
    for index, info in fields["storage_data"].items():
        where, what = _record(index).of("MetadataIndex"), _record(info).of("_StorageInfo")
        if what.get("transform_descriptors"):
            raise NotImplementedError(f"load: {where['fqn']!r} is stored as {what['transform_descriptors']}")
        offset = None if where.get("offset") is None else _manifest._sizes(list(where["offset"]))
        file = _manifest._file_name(str(what["relative_path"]))
        slices[str(where["fqn"]), offset] = Slice(
            file, _manifest._size(what["offset"]), _manifest._size(what["length"])
        )
    tensors: dict[str, TensorEntry] = {}
    objects: dict[str, str] = {}
    for name, entry in fields["state_dict_metadata"].items():
        if not isinstance(name, str):
            raise ValueError(f"the name of an entry is a {type(name).__name__}")
        if _record(entry).name.endswith("BytesStorageMetadata"):
            objects[name] = slices[name, None].file
            continue
        said = _record(entry).of("TensorStorageMetadata")
        shape = _manifest._sizes(list(said["size"]))
        dtype = _record(said["properties"]).of("TensorProperties")["dtype"]
        if not isinstance(dtype, oneflow.dtype):
            raise ValueError(f"the dtype of {name!r} is a {type(dtype).__name__}")
        chunks = []
        for chunk in said["chunks"]:
            box = _record(chunk).of("ChunkStorageMetadata")
            offsets = _manifest._sizes(list(box["offsets"]), len(shape))
            sizes = _manifest._sizes(list(box["sizes"]), len(shape))
            if any(o + n > whole for o, n, whole in zip(offsets, sizes, shape, strict=True)):
                raise ValueError(f"a part of {name!r} at {offsets} of sizes {sizes} is outside of shape {shape}")
            if math.prod(sizes):
                chunks.append(Chunk(offsets, sizes, slices[name, offsets].file, name))
        tensors[name] = TensorEntry(_manifest.dtype_name(dtype), shape, chunks)
    # What a planner of the program keeps there may be anything.
    kept = fields.get("planner_data")
    known: dict[Any, Any] = kept if isinstance(kept, dict) else {}
    entries = {*tensors, *objects}
    paths = {
        str(name): _manifest._path(list(path))
        for name, path in known.items()
        if name in entries and isinstance(path, tuple)
    }
    return Slices(tensors, objects, {at.file: 0 for at in slices.values()}, slices, paths=paths)


def _record(value: Any) -> _Record:
    if not isinstance(value, _Record):
        raise ValueError(f"a {type(value).__name__} stands where one of PyTorch's classes belongs")
    return value


def file_name(rank: int, token: str) -> str:
    """The file of a rank. PyTorch's readers take any name that ``.metadata`` says."""
    return f"__{rank}_{token}.distcp"


def write_parts(
    path: Path, tensors: Mapping[tuple[str, tuple[int, ...]], Tensor], objects: Mapping[str, Any]
) -> dict[tuple[str, tuple[int, ...] | None], Slice]:
    """Write tensors and objects one after the other; where each lies."""
    slices: dict[tuple[str, tuple[int, ...] | None], Slice] = {}
    with open(path, "wb") as file:
        for key, value in [*tensors.items(), *(((name, None), value) for name, value in objects.items())]:
            start = file.tell()
            data = io.BytesIO()
            # A clone, since a part of a tensor is saved with all memory that it lies in.
            oneflow.save(value.clone() if isinstance(value, Tensor) else value, data)
            file.write(data.getbuffer())
            slices[key] = Slice(path.name, start, file.tell() - start)
    return slices


class _Pickler(checkpoint_writer.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, _Record):
            module, _, name = obj.name.rpartition(".")
            return checkpoint_writer.Global(module, name), tuple(obj.fields.values())
        return super().reducer_override(obj)


def dumps(manifest: Manifest, slices: Mapping[tuple[str, tuple[int, ...] | None], Slice], paths: Any) -> bytes:
    """The ``.metadata`` of a checkpoint; ``paths`` has the path of each entry in the state dictionary."""

    def record(name: str, *values: Any) -> _Record:
        return _Record(f"{_PACKAGE}.{name}", *values)

    entries: dict[str, _Record] = {}
    indices: dict[tuple[str, tuple[int, ...] | None], int | None] = {}
    for name, entry in manifest.tensors.items():
        chunks = []
        for i, chunk in enumerate(entry.chunks):
            indices[name, chunk.offsets] = i
            offsets, sizes = oneflow.Size(chunk.offsets), oneflow.Size(chunk.sizes)
            chunks.append(record("metadata.ChunkStorageMetadata", offsets, sizes))
        properties = record("metadata.TensorProperties", _manifest.dtype_of(entry.dtype))
        entries[name] = record("metadata.TensorStorageMetadata", properties, oneflow.Size(entry.shape), chunks)
    for name in manifest.objects:
        entries[name] = record("metadata.BytesStorageMetadata")
    stored = {
        record(
            "metadata.MetadataIndex",
            name,
            None if offset is None else oneflow.Size(offset),
            indices.get((name, offset)),
        ): record("filesystem._StorageInfo", at.file, at.offset, at.length)
        for (name, offset), at in slices.items()
    }
    data = io.BytesIO()
    _Pickler(data, 2).dump(record("metadata.Metadata", entries, dict(paths), stored))
    return data.getvalue()
