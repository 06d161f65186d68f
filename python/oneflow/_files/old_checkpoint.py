"""The format of checkpoints before PyTorch 1.6: pickles one after the other, then the bytes of all storages.

A file holds a magic number, a version, facts of the machine, the object (tensors as references), the list of keys and
for each key the number of elements and the bytes. Names and tensors are those of ``serialization.py``. The archives of
PyTorch before 0.1.10 are not read.
"""

from __future__ import annotations

import os
import pickle
import struct
from typing import IO, Any

import oneflow
from oneflow._files import storage_bytes as storage
from oneflow._files.checkpoint_reader import Storage, StorageKind, names_in_files, plain
from oneflow._files.storage_places import relocate
from oneflow._files.unpickler import RestrictedUnpickler, as_text

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001


def is_old(file: IO[bytes]) -> bool:
    """Return whether a pickle of the magic number begins here. The position stays."""
    start = file.tell()
    head = file.read(16)
    file.seek(start)
    # LONG1 of ten bytes, after the two bytes of any protocol's mark.
    return head[:1] == b"\x80" and b"\x8a\x0a" + _MAGIC.to_bytes(10, "little") in head


# ---- writing


def _of_old(pickler: Any) -> Any:
    class OldPickler(pickler):
        def persistent_id(self, obj: Any) -> Any:
            pid = super().persistent_id(obj)
            # The last entry describes a view of another storage, which newer files never have.
            return None if pid is None else (*pid, None)

    return OldPickler


def write(obj: Any, file: IO[bytes], protocol: int, pickler_class: Any) -> None:
    """Write ``obj`` at the file's position; ``pickler_class`` as ``checkpoint_writer.pickler_of`` makes it."""
    machine = {
        "protocol_version": _VERSION,
        "little_endian": storage.NATIVE_ORDER == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for head in (_MAGIC, _VERSION, machine):
        pickle.dump(head, file, protocol=protocol)
    pickler = _of_old(pickler_class)(file, protocol)
    pickler.dump(obj)
    stored = {key: (tensor, n_elements) for key, tensor, n_elements in pickler.storages.values()}
    pickle.dump(list(stored), file, protocol=protocol)
    for tensor, n_elements in stored.values():
        file.write(struct.pack("<q", n_elements))
        file.write(storage.storage_bytes(tensor, n_elements))
    # The caller may read it by its name before closing it.
    file.flush()


# ---- reading


class _Late(Storage):
    """A storage whose bytes are read after the tensors over it were created."""

    def fill(self, data: bytes) -> None:
        if self._flat is None:
            self._read = lambda: storage.flat_tensor(data, self.kind, self.n_elements)
            return
        with oneflow.no_grad():
            self._flat.copy_(storage.flat_tensor(data, self.kind, self.n_elements))


class _Part(Storage):
    """Some elements of another storage."""

    def __init__(self, whole: _Late, start: int, n_elements: int) -> None:
        self.kind, self.dtype, self.n_elements = whole.kind, whole.dtype, n_elements
        self._whole, self._start = whole, start

    @property
    def _untyped_storage(self) -> Any:  # type: ignore[override]
        item = storage.ITEM_SIZES[self.kind]
        start = self._start * item
        return self._whole._untyped_storage[start : start + self.n_elements * item]

    def flat(self) -> Any:
        return self._whole.flat().narrow(0, self._start, self.n_elements)


class _Storages:
    """The storages of one file, each checked against the file's length before memory is taken."""

    def __init__(self, file: IO[bytes], map_location: Any, trusted: bool) -> None:
        start = file.tell()
        self.bytes_left = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        self.by_key: dict[str, _Late] = {}
        self.map_location = map_location
        self.trusted = trusted

    def __call__(self, pid: Any) -> Any:
        if self.trusted and isinstance(pid, tuple) and pid[:1] == ("module",) and len(pid) > 1:
            # The class of a whole module, followed by its source.
            return pid[1]
        pid = tuple(map(as_text, pid)) if isinstance(pid, tuple) else pid
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
            raise pickle.UnpicklingError("a persistent id in the file is no storage")
        _, kind, key, location, n_elements, *more = pid
        if (
            not isinstance(kind, StorageKind)
            or kind.dtype is None
            or not isinstance(key, str)
            or not isinstance(location, str)
            or type(n_elements) is not int
            or n_elements < 0
        ):
            raise pickle.UnpicklingError("a storage in the file has a broken description")
        if key not in self.by_key:
            n_bytes = n_elements * storage.ITEM_SIZES[kind.dtype]
            self.bytes_left -= n_bytes
            if self.bytes_left < 0:
                raise RuntimeError("the file is cut short: its storages would be longer than it is")
            self.by_key[key] = _Late(
                lambda: storage.flat_tensor(bytes(n_bytes), str(kind.dtype), n_elements),
                kind.dtype,
                n_elements,
                lambda flat: relocate(flat, location, self.map_location),
            )
        whole = self.by_key[key]
        if not more or more[0] is None:
            return whole
        try:
            *_, start, length = more[0]
            fits = 0 <= start <= start + length <= whole.n_elements
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise pickle.UnpicklingError("a view of a storage in the file has a broken description")
        return _Part(whole, start, length)


def read(file: IO[bytes], map_location: Any, unpickler: Any, options: dict[str, Any]) -> Any:
    """Read the object that begins at the file's position, and leave the position behind it.

    ``unpickler`` is the class for files that one trusts; None for the restricted one.
    """
    names = names_in_files()

    def header() -> Any:
        return RestrictedUnpickler(file, names, _refuse).load()

    header()
    if header() != _VERSION:
        raise RuntimeError("the checkpoint has an unknown version of the format before PyTorch 1.6")
    machine = header()
    little = not isinstance(machine, dict) or bool(machine.get("little_endian", True))
    storages = _Storages(file, map_location, trusted=unpickler is not None)
    if unpickler is None:
        result = plain(RestrictedUnpickler(file, names, storages, options.get("encoding", "utf-8")).load())
    else:
        result = unpickler(file, storages, **options).load()
    keys = [as_text(key) for key in found] if isinstance(found := header(), list) else None
    if not isinstance(keys, list) or not set(storages.by_key) <= {key for key in keys if isinstance(key, str)}:
        raise RuntimeError("the checkpoint does not hold all its storages")
    for key in keys:
        known = storages.by_key.get(key)
        if known is None:
            raise RuntimeError(f"the checkpoint holds a storage {key!r} that nothing refers to")
        head = file.read(8)
        if len(head) != 8 or struct.unpack("<q", head)[0] != known.n_elements:
            raise RuntimeError(f"storage {key!r} of the checkpoint has another length than its description says")
        n_bytes = known.n_elements * storage.ITEM_SIZES[known.kind]
        data = file.read(n_bytes)
        if len(data) != n_bytes:
            raise RuntimeError(f"the file is cut short: storage {key!r} has {len(data)} of {n_bytes} bytes")
        known.fill(data if little == (storage.NATIVE_ORDER == "little") else storage.swap_bytes(data, known.kind))
    return result


def _refuse(pid: Any) -> Any:
    raise pickle.UnpicklingError("an unexpected storage")
