"""Loading: each rank reads the parts of files that its own parts of tensors need, whatever layout they were saved
from."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.distributed.checkpoint import _distcp, _manifest
from oneflow.distributed.checkpoint._agreement import gathered, ranks_of
from oneflow.distributed.checkpoint._flatten import flatten, set_entry
from oneflow.distributed.checkpoint._folders import Folder
from oneflow.distributed.checkpoint._manifest import Chunk, Manifest, TensorEntry
from oneflow.distributed.checkpoint._parts import part_of
from oneflow.distributed.checkpoint._planned import plan_to_load
from oneflow.distributed.checkpoint.api import CheckpointException
from oneflow.distributed.checkpoint.planner import LoadItemType, LoadPlanner, ReadItem
from oneflow.models.safetensors import SafetensorsFile

__all__ = ["Reader", "load_into", "read_manifest"]


def load_into(
    entries: Callable[[], dict[str, Any]],
    folder: Folder,
    partial: bool,
    group: Any,
    no_dist: bool,
    planner: LoadPlanner | None = None,
    manifest_of: Callable[[], Manifest] | None = None,
) -> dict[str, Any]:
    """Fill the state dictionary that ``entries`` returns from a folder, in place. All ranks raise if one does.

    ``manifest_of`` says what the folder holds where it has no manifest of this package.
    """
    found: list[dict[str, Any]] = []

    def given() -> dict[str, Any]:
        found.append(entries())
        return found[0]

    def fill() -> None:
        read = manifest_of or (lambda: read_manifest(folder))
        if planner is None:
            _fill(given(), folder, read(), partial)
        else:
            _fill_as_planned(given, folder, read, planner, group, no_dist)

    gathered(f"load: {folder} could not be read", fill, ranks_of(group, no_dist))
    return found[0]


def _fill(state_dict: dict[str, Any], folder: Folder, manifest: Manifest, partial: bool) -> None:
    entries, paths = flatten(state_dict)
    reader = Reader(folder, manifest)
    for name, value in entries.items():
        if name in manifest.tensors:
            if isinstance(value, Tensor):
                reader.fill(name, value)
            else:
                set_entry(state_dict, paths[name], reader.whole(name))
        elif name in manifest.objects:
            set_entry(state_dict, paths[name], reader.object(name))
        elif isinstance(value, Mapping) and not value:
            continue
        elif not partial:
            raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")


def _fill_as_planned(
    entries: Callable[[], dict[str, Any]],
    folder: Folder,
    read: Callable[[], Manifest],
    planner: LoadPlanner,
    group: Any,
    no_dist: bool,
) -> None:
    manifests: list[Manifest] = []

    def metadata() -> Any:
        manifests.append(read())
        return manifests[0].metadata()

    plan = plan_to_load(planner, entries, metadata, group, no_dist)
    reader = Reader(folder, manifests[0])
    for item in plan.items:
        if item.type is LoadItemType.BYTE_IO:
            data = io.BytesIO()
            oneflow.save(reader.object(item.storage_index.fqn), data)
            data.seek(0)
            planner.load_bytes(item, data)
            continue
        part = reader.box(item)
        target = planner.resolve_tensor(item)
        if tuple(target.shape) != tuple(part.shape):
            raise ValueError(
                f"load: resolve_tensor gave {tuple(target.shape)} for a box of {tuple(part.shape)} of "
                f"{item.dest_index.fqn!r}"
            )
        with oneflow.no_grad():
            target.detach().copy_(part)
        planner.commit_tensor(item, target)


def read_manifest(folder: Folder) -> Manifest:
    """The manifest of a checkpoint of this package, or what PyTorch's says."""
    if not folder.exists(_manifest.NAME) and folder.exists(_distcp.NAME):
        return _distcp.read(folder)
    return _manifest.read(folder)


class Reader:
    """Reads parts of tensors, and objects, from the files that a manifest names."""

    def __init__(self, folder: Folder, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._files: dict[str, SafetensorsFile] = {}
        self._objects: dict[str, Any] = {}

    def fill(self, name: str, into: Tensor) -> None:
        entry = self.manifest.tensors[name]
        if tuple(into.shape) != entry.shape:
            raise ValueError(f"Size mismatch between saved {entry.shape} and current: {tuple(into.shape)} for {name}")
        found = part_of(name, into, loads=True)
        if found is None:
            return
        with oneflow.no_grad():
            self._copy(name, entry, found[0], found[1][0])

    def box(self, item: ReadItem) -> Tensor:
        """The elements that an item reads."""
        name, offsets = item.storage_index.fqn, tuple(item.storage_index.offset or ())
        entry = self.manifest.tensors.get(name)
        chunk = next((c for c in entry.chunks if c.offsets == offsets), None) if entry else None
        if entry is None or chunk is None:
            raise CheckpointException(
                f"the checkpoint in {self.folder} has no part of {name!r} that begins at {offsets}"
            )
        part = self._part(name, entry, chunk)
        for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            part = part.narrow(dim, start, length)
        return part

    def whole(self, name: str) -> Tensor:
        """A tensor in place of something that was none."""
        entry = self.manifest.tensors[name]
        made = oneflow.empty(entry.shape, dtype=_manifest.dtype_of(entry.dtype))
        self._copy(name, entry, made, (0,) * made.dim())
        return made

    def _copy(self, name: str, entry: TensorEntry, target: Tensor, starts: tuple[int, ...]) -> None:
        """Fill a box that begins at ``starts``. Parts do not overlap, so their elements are counted."""
        found = 0
        for chunk in entry.chunks:
            into, out_of = [], []
            for have, n, want, size in zip(chunk.offsets, chunk.sizes, starts, target.shape, strict=True):
                first, end = max(have, want), min(have + n, want + size)
                into.append(slice(first - want, max(end - want, 0)))
                out_of.append(slice(first - have, max(end - have, 0)))
            if any(s.stop <= s.start for s in into):
                continue
            part = self._part(name, entry, chunk)
            piece = part[tuple(out_of)]
            target[tuple(into)].copy_(piece) if into else target.copy_(piece)
            found += piece.numel()
        if found != target.numel():
            raise CheckpointException(
                f"the checkpoint in {self.folder} holds {found} of {target.numel()} elements of {name!r}"
            )

    def _part(self, name: str, entry: TensorEntry, chunk: Chunk) -> Tensor:
        if isinstance(self.manifest, _distcp.Slices):
            return self._checked(self.manifest.part(self.folder, name, chunk), entry, chunk)
        if chunk.file not in self._files:
            self._files[chunk.file] = SafetensorsFile(self.folder.local(chunk.file))
        file = self._files[chunk.file]
        if chunk.key not in file:
            raise CheckpointException(f"{self.folder.at(chunk.file)} has no tensor {chunk.key!r}")
        part = file[chunk.key]
        dtype = _manifest.dtype_of(entry.dtype)
        if dtype == oneflow.complex128 and part.dtype == oneflow.float64 and part.dim() == len(chunk.sizes) + 1:
            part = oneflow.view_as_complex(part)
        return self._checked(part, entry, chunk)

    def _checked(self, part: Tensor, entry: TensorEntry, chunk: Chunk) -> Tensor:
        dtype = _manifest.dtype_of(entry.dtype)
        if tuple(part.shape) != chunk.sizes or part.dtype != dtype:
            raise CheckpointException(
                f"{self.folder.at(chunk.file)} has {chunk.key!r} with {part.dtype} of shape {tuple(part.shape)}, the "
                f"manifest says {entry.dtype} of {chunk.sizes}"
            )
        return part

    def object(self, name: str) -> Any:
        if isinstance(self.manifest, _distcp.Slices):
            return self.manifest.object(self.folder, name)
        file = self.manifest.objects[name]
        if file not in self._objects:
            self._objects[file] = oneflow.load(self.folder.local(file))
        if name not in self._objects[file]:
            raise CheckpointException(f"{self.folder.at(file)} has no entry {name!r}")
        return self._objects[file][name]
