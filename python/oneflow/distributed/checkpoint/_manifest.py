"""The manifest of a checkpoint: which file holds which part of which tensor.

It is a JSON file, written last: a directory without it holds no checkpoint, and one with it holds a whole one. Nothing
that is read from it is used before it was checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import oneflow
from oneflow.distributed.checkpoint._folders import Folder
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

__all__ = ["NAME", "Chunk", "Manifest", "TensorEntry", "read"]

NAME = ".metadata.json"
VERSION = 1
MAX_BYTES = 1 << 30
MAX_DIMS = 64
MAX_KEYS = 256
MAX_PLACES = 1 << 20


@dataclass(frozen=True)
class Chunk:
    """A box of a tensor: where it begins, how large it is, and which tensor of which file holds it."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    key: str


@dataclass
class TensorEntry:
    """A tensor of the checkpoint."""

    dtype: str
    shape: tuple[int, ...]
    chunks: list[Chunk]


@dataclass
class Manifest:
    """Everything that a checkpoint holds.

    ``objects`` names the file of each entry that is no tensor, ``paths`` where each entry stood in the state
    dictionary: keys of dictionaries, and numbers for places in lists.
    """

    tensors: dict[str, TensorEntry]
    objects: dict[str, str]
    files: dict[str, int]
    paths: dict[str, tuple[str | int, ...]] = field(default_factory=dict, kw_only=True)

    def metadata(self) -> Metadata:
        """The same in the words of planners."""
        found: dict[str, Any] = {name: BytesStorageMetadata() for name in self.objects}
        for name, entry in self.tensors.items():
            chunks = [ChunkStorageMetadata(oneflow.Size(c.offsets), oneflow.Size(c.sizes)) for c in entry.chunks]
            properties = TensorProperties(dtype_of(entry.dtype))
            found[name] = TensorStorageMetadata(properties, oneflow.Size(entry.shape), chunks)
        return Metadata(found)

    @property
    def state_dict_metadata(self) -> dict[str, Any]:
        """The entries by name, in the words of planners."""
        return self.metadata().state_dict_metadata

    def dumps(self) -> bytes:
        """As JSON."""
        table = {
            "format": "oneflow.distributed.checkpoint",
            "version": VERSION,
            "files": self.files,
            "objects": self.objects,
            "paths": list(self.paths.items()),
            "tensors": {name: asdict(entry) for name, entry in self.tensors.items()},
        }
        return json.dumps(table, separators=(",", ":"), sort_keys=True).encode()


def dtype_of(name: str) -> Any:
    """The dtype of this name."""
    found = getattr(oneflow, name, None)
    if not isinstance(found, oneflow.dtype):
        raise ValueError(f"no dtype is called {name!r}")
    return found


def dtype_name(dtype: Any) -> str:
    """The name of a dtype, without the package's."""
    return str(dtype).rpartition(".")[2]


def read(folder: Folder) -> Manifest:
    """Read and check the manifest of a folder.

    Raises:
        CheckpointException: there is none, or it contradicts itself or the files.
    """
    try:
        table = json.loads(folder.read(NAME, MAX_BYTES))
        if not isinstance(table, dict) or table.get("format") != "oneflow.distributed.checkpoint":
            raise ValueError("it is no manifest of this format")
        if table.get("version") != VERSION:
            raise ValueError(f"its version is {table.get('version')!r}, this package reads {VERSION}")
        files = {_file_name(name): _size(n) for name, n in table["files"].items()}
        objects = {str(name): _known(file, files) for name, file in table["objects"].items()}
        tensors = {str(name): _tensor(entry, files) for name, entry in table["tensors"].items()}
        # Earlier manifests have none.
        paths = {str(name): _path(path) for name, path in table.get("paths", ())}
    except FileNotFoundError:
        raise CheckpointException(f"{folder} holds no checkpoint: {NAME} is missing") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CheckpointException(f"{folder.at(NAME)} is damaged: {error}") from None
    for name, n_bytes in files.items():
        try:
            found = folder.size(name)
        except FileNotFoundError:
            raise CheckpointException(f"the checkpoint in {folder} lacks its file {name}") from None
        if found != n_bytes:
            raise CheckpointException(f"{folder.at(name)} has {found} bytes, the checkpoint's manifest says {n_bytes}")
    return Manifest(tensors, objects, files, paths=paths)


def _file_name(name: str) -> str:
    if not name or "/" in name or "\\" in name or name in (".", "..") or "\0" in name:
        raise ValueError(f"{name!r} is no name of a file in the folder")
    return name


def _path(keys: Any) -> tuple[str | int, ...]:
    if not isinstance(keys, list) or not 0 < len(keys) <= MAX_KEYS:
        raise ValueError(f"{keys!r} is no path of an entry")
    for key in keys:
        # A place far behind the others would make a list of that length.
        if not isinstance(key, str) and not (type(key) is int and 0 <= key < MAX_PLACES):
            raise ValueError(f"{key!r} is no part of a path")
    return tuple(keys)


def _known(file: str, files: Iterable[str]) -> str:
    if file not in files:
        raise ValueError(f"it names a file {file!r} that it does not list")
    return file


def _size(n: Any) -> int:
    if type(n) is not int or not 0 <= n < 2**63:
        raise ValueError(f"{n!r} is no size")
    return n


def _sizes(values: Any, ndim: int | None = None) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > MAX_DIMS or (ndim is not None and len(values) != ndim):
        raise ValueError(f"{values!r} is no list of {'' if ndim is None else ndim} sizes")
    return tuple(_size(n) for n in values)


def _tensor(entry: Any, files: Iterable[str]) -> TensorEntry:
    shape = _sizes(entry["shape"])
    dtype_of(entry["dtype"])
    chunks = []
    for chunk in entry["chunks"]:
        offsets, sizes = _sizes(chunk["offsets"], len(shape)), _sizes(chunk["sizes"], len(shape))
        if any(o + n > whole for o, n, whole in zip(offsets, sizes, shape, strict=True)):
            raise ValueError(f"a part at {offsets} of sizes {sizes} is outside a tensor of shape {shape}")
        chunks.append(Chunk(offsets, sizes, _known(chunk["file"], files), str(chunk["key"])))
    return TensorEntry(entry["dtype"], shape, chunks)
