"""Reads the archives of :func:`oneflow.load`: their records, storages and the names that their pickles may call.

Every number read from a file is checked before memory is touched.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import oneflow
from oneflow import Tensor
from oneflow._files import storage_bytes as storage
from oneflow._files.checkpoint_settings import assumed_order
from oneflow._files.storage_places import relocate
from oneflow._files.unpickler import Listed, as_text
from oneflow._functions.compressed import layout_name, sparse_compressed_tensor
from oneflow._tensor.methods import _set_attributes
from oneflow.storage import TypedStorage, UntypedStorage

# Bytes read at a time where the file cannot read into memory.
_PIECE = 1 << 26


class Storage(TypedStorage):
    """One storage read from a file. Its elements are read when they, or the first tensor over them, are asked for."""

    def __init__(
        self, read: Callable[[], Tensor], kind: str, n_elements: int, place: Callable[[Tensor], Tensor]
    ) -> None:
        self._read = read
        self.kind = kind
        self.dtype = getattr(oneflow, kind)
        self.n_elements = n_elements
        self._place = place
        self._flat: Tensor | None = None

    @property
    def _untyped_storage(self) -> UntypedStorage:  # type: ignore[override]
        return self.flat().untyped_storage()

    def flat(self) -> Tensor:
        """The whole storage as a 1-D tensor."""
        if self._flat is None:
            self._flat = self._place(self._read())
        return self._flat


def mapped(path: str | os.PathLike[str], flags: int | None) -> mmap.mmap:
    """The bytes of a file, read when they are first used; ``flags`` as in ``set_default_mmap_options``."""
    is_shared = flags is not None and flags == getattr(mmap, "MAP_SHARED", None)
    with open(path, "r+b" if is_shared else "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if is_shared else mmap.ACCESS_COPY)
        if is_shared and zipfile.is_zipfile(file):
            _forget_checksums(memory, zipfile.ZipFile(file))
    return memory


def _forget_checksums(memory: mmap.mmap, archive: zipfile.ZipFile) -> None:
    """Mark all records as ones without a checksum, since writes to tensors would make them wrong."""
    for record in archive.infolist():
        memory[record.header_offset + 14 : record.header_offset + 18] = bytes(4)
    at: int = archive.start_dir
    while memory[at : at + 4] == b"PK\x01\x02":
        memory[at + 16 : at + 20] = bytes(4)
        at += 46 + sum(struct.unpack_from("<HHH", memory, at + 28))


class Archive:
    """The records of one file, each checked against the file's real length.

    Args:
        file: binary file that can seek.
        memory: the same bytes as mapped memory; storages then lie in it instead of being read.
    """

    def __init__(self, file: IO[bytes], memory: mmap.mmap | None = None) -> None:
        self.file = file
        self.memory = memory
        try:
            records = zipfile.ZipFile(file).infolist()
            file.seek(0, os.SEEK_END)
            self.length = file.tell()
        except Exception as error:
            if isinstance(error, zipfile.BadZipFile) and file.seek(0, os.SEEK_END) == 0:
                raise EOFError("Ran out of input: the file is empty") from error
            raise RuntimeError(f"the file is no checkpoint archive, or cut short: {error}") from error
        self.records = {record.filename: record for record in records}
        pickles = [name for name in self.records if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickles) != 1:
            raise RuntimeError("the archive holds no data.pkl: it is no checkpoint")
        self.prefix = pickles[0][: -len("data.pkl")]
        order = self.read("byteorder").decode("latin1") if self.has("byteorder") else assumed_order()
        if order not in ("little", "big"):
            raise RuntimeError(f"the archive has byte order {order!r}")
        self.swapped = order != storage.NATIVE_ORDER
        self.storages: dict[str, Storage | UntypedStorage] = {}

    def has(self, name: str) -> bool:
        return self.prefix + name in self.records

    def size(self, name: str) -> int:
        record = self.records.get(self.prefix + name)
        if record is None:
            raise RuntimeError(f"the archive has no record {name!r}: it is damaged or cut short")
        if record.compress_type != zipfile.ZIP_STORED or record.file_size > self.length:
            raise RuntimeError(f"the record {name!r} is compressed or longer than the file")
        return record.file_size

    def read(self, name: str) -> bytes:
        data = bytearray(self.size(name))
        self._read_into(name, memoryview(data))
        return bytes(data)

    def _start(self, name: str) -> int:
        """Where the bytes of a record begin in the file. Its own header, before them, has padding of any length."""
        record = self.records[self.prefix + name]
        if not 0 <= record.header_offset < self.length:
            raise RuntimeError(f"the record {name!r} cannot be read: it lies outside of the file")
        self.file.seek(record.header_offset)
        head = self.file.read(30)
        if len(head) != 30 or head[:4] != b"PK\x03\x04":
            raise RuntimeError(f"the record {name!r} cannot be read: it has no header")
        start = record.header_offset + 30 + sum(struct.unpack_from("<HH", head, 26))
        if start + record.file_size > self.length:
            raise RuntimeError(f"the record {name!r} is cut short: the file ends in it")
        return start

    def _read_into(self, name: str, view: memoryview) -> None:
        """Read a whole record; raise RuntimeError if it is cut short or its checksum is wrong."""
        self.file.seek(self._start(name))
        fill(self.file, view, f"the record {name!r}")
        expected = self.records[self.prefix + name].CRC
        # 0 stands in files that were written without checksums.
        if expected and zlib.crc32(view) != expected:
            raise RuntimeError(f"the record {name!r} is damaged: its checksum is wrong")

    def storage(self, pid: Any, map_location: Any) -> Storage | UntypedStorage:
        """The storage of one persistent id ("storage", class, key, location, number of elements)."""
        pid = tuple(map(as_text, pid)) if isinstance(pid, tuple) else pid
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise pickle.UnpicklingError("a persistent id in the file is no storage")
        _, kind, key, location, n_elements = pid
        if not isinstance(key, str) or not isinstance(location, str) or type(n_elements) is not int or n_elements < 0:
            raise pickle.UnpicklingError("a storage in the file has a broken description")
        if key in self.storages:
            return self.storages[key]
        if not isinstance(kind, StorageKind):
            raise pickle.UnpicklingError("a storage in the file has an unknown type")
        width = 1 if kind.dtype is None else storage.ITEM_SIZES[kind.dtype]
        name = f"data/{key}"
        if n_elements * width != self.size(name):
            raise RuntimeError(
                f"storage {key!r} should hold {n_elements} elements of {width} bytes, "
                f"but its record has {self.size(name)} bytes"
            )

        def read() -> Tensor:
            return self._flat(name, kind.dtype or "uint8", n_elements)

        def place(flat: Tensor) -> Tensor:
            return relocate(flat, location, map_location)

        made: Storage | UntypedStorage
        if kind.dtype is None:
            made = place(read()).untyped_storage()
        else:
            made = Storage(read, kind.dtype, n_elements, place)
        self.storages[key] = made
        return made

    def _flat(self, name: str, dtype: str, n_elements: int) -> Tensor:
        """The elements of a record as a 1-D tensor on the CPU, in the byte order of this machine."""
        if self.memory is not None and n_elements and not self.swapped:
            start, kind = self._start(name), getattr(oneflow, dtype)
            return oneflow.frombuffer(self.memory, dtype=kind, count=n_elements, offset=start)
        if self.swapped:
            return storage.flat_tensor(storage.swap_bytes(self.read(name), dtype), dtype, n_elements)
        flat = oneflow.empty((n_elements,), dtype=getattr(oneflow, dtype))
        self._read_into(name, storage.memory_of(flat))
        return flat

    def finish(self) -> None:
        """Read what is still only in the file: the caller may close it."""
        for made in self.storages.values():
            if isinstance(made, Storage):
                made.flat()


def fill(file: IO[bytes], view: memoryview, what: str) -> None:
    """Read as many bytes from ``file`` as ``view`` has, into it; raise RuntimeError if ``what`` is cut short."""
    into, done = getattr(file, "readinto", None), 0
    while done < len(view):
        piece = view[done : done + _PIECE]
        if into is not None:
            n = into(piece)
        else:
            data = file.read(len(piece))
            n = len(data)
            piece[:n] = data
        if not n:
            raise RuntimeError(f"{what} is cut short: {done} of {len(view)} bytes")
        done += n


class StorageKind:
    def __init__(self, dtype: str | None) -> None:
        self.dtype = dtype


def _rebuild_tensor(
    source: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None, *rest: Any
) -> Tensor:
    if not isinstance(source, Storage):
        raise pickle.UnpicklingError("a tensor in the file has no storage")
    return _view(source.flat(), offset, size, stride, requires_grad)


def _rebuild_tensor_v3(
    source: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, *rest: Any
) -> Tensor:
    if not isinstance(source, UntypedStorage) or not isinstance(dtype, oneflow.dtype):
        raise pickle.UnpicklingError("a tensor in the file has no storage")
    flat = oneflow.empty((0,), dtype=dtype, device=source.device).set_(source)
    return _view(flat, offset, size, stride, requires_grad)


def _view(flat: Tensor, offset: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    offset, size, stride = storage.check_view(flat.numel(), offset, size, stride)
    tensor = flat.as_strided(size, stride, flat.storage_offset() + offset)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_parameter(data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Tensor:
    from oneflow.nn.parameter import Parameter

    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError("a parameter in the file has no tensor")
    parameter = Parameter(data, bool(requires_grad))
    for name, value in (state or {}).items():
        setattr(parameter, name, value)
    return parameter


def _rebuild_meta(dtype: Any, size: Any, stride: Any, requires_grad: Any = False) -> Tensor:
    _, shape, strides = storage.check_view(2**62, 0, size, stride)
    tensor = oneflow.empty_strided(shape, strides, dtype=dtype, device="meta")
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild_wrapper(
    kind: Any, dtype: Any, size: Any, stride: Any, offset: Any, layout: Any, device: Any, requires_grad: Any
) -> Tensor:
    """A tensor without memory, whose class answers its ops."""
    kind = kind.call if isinstance(kind, Listed) else kind
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise pickle.UnpicklingError("a tensor in the file has a class that is no Tensor")
    offset, size, stride = storage.check_view(2**62, offset, size, stride)
    return Tensor._make_wrapper_subclass(
        kind, size, stride, offset, dtype=dtype, layout=layout, device=device, requires_grad=bool(requires_grad)
    )


def _layout(name: Any) -> Any:
    found = getattr(oneflow, str(name).rpartition(".")[2], None)
    if not isinstance(found, oneflow.layout):
        found = None
    if found is None:
        raise pickle.UnpicklingError(f"the layout {name} of a tensor in the file is not supported")
    return found


def _rebuild_sparse(layout: Any, parts: Any) -> Tensor:
    """A sparse tensor; its indices are checked, whatever the file says of them."""
    if layout_name(layout) and isinstance(parts, tuple) and len(parts) == 4:
        starts, plain, values, size = parts
        if not all(isinstance(t, Tensor) for t in parts[:3]) or not isinstance(size, (tuple, list)):
            raise pickle.UnpicklingError("a sparse tensor in the file has a broken description")
        return sparse_compressed_tensor(starts, plain, values, size, layout=layout)
    if layout is not oneflow.sparse_coo or not isinstance(parts, tuple) or len(parts) not in (3, 4):
        raise pickle.UnpicklingError("a sparse tensor in the file has an unknown layout")
    indices, values, size, *more = parts
    if not isinstance(indices, Tensor) or not isinstance(values, Tensor) or not isinstance(size, (tuple, list)):
        raise pickle.UnpicklingError("a sparse tensor in the file has a broken description")
    return oneflow.sparse_coo_tensor(indices, values, size, is_coalesced=bool(more and more[0]))


def _rebuild_nested(values: Any, lengths: Any = None, layout: Any = "", requires_grad: Any = False) -> Tensor:
    try:
        nested: Any = oneflow.nested
        return nested._tensor.rebuilt(values, lengths, layout, bool(requires_grad))
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:
        raise pickle.UnpicklingError(f"a nested tensor in the file has a broken description: {error}") from None


def _rebuild_dtensor(*described: Any) -> Tensor:
    from oneflow._files import mesh_tensors

    return mesh_tensors.rebuilt(*described)


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Tensor:
    """A tensor of a subclass, or with attributes."""
    tensor = (function.call if isinstance(function, Listed) else function)(*args)
    if not isinstance(tensor, Tensor) or not isinstance(state, (dict, tuple, type(None))):
        raise pickle.UnpicklingError("a tensor in the file has a broken description")
    kind = kind.call if isinstance(kind, Listed) else kind
    if kind is not Tensor:
        if not (isinstance(kind, type) and issubclass(kind, Tensor)):
            raise pickle.UnpicklingError("a tensor in the file has a class that is no Tensor")
        if type(tensor) is not kind:
            tensor = Tensor._make_subclass(kind, tensor, tensor.requires_grad)
    _set_attributes(tensor, state)
    return tensor


def _size(values: Any = ()) -> Any:
    return oneflow.Size([int(value) for value in values])


def names_in_files() -> dict[str, Any]:
    names: dict[str, Any] = {
        "oneflow._utils._rebuild_dtensor": _rebuild_dtensor,
        "oneflow._utils._rebuild_nested_tensor": _rebuild_nested,
    }
    for module, utils in (("torch", "torch._utils"), ("oneflow", "oneflow._utils")):
        names[f"{utils}._rebuild_tensor"] = names[f"{utils}._rebuild_tensor_v2"] = _rebuild_tensor
        names[f"{utils}._rebuild_tensor_v3"] = _rebuild_tensor_v3
        names[f"{utils}._rebuild_meta_tensor_no_storage"] = _rebuild_meta
        names[f"{utils}._rebuild_wrapper_subclass"] = _rebuild_wrapper
        names[f"{utils}._rebuild_sparse_tensor"] = _rebuild_sparse
        names[f"{module}.serialization._get_layout"] = _layout
        names[f"{module}._tensor._rebuild_from_type_v2"] = _rebuild_from_type
        names[f"{module}.Tensor"] = names[f"{module}._tensor.Tensor"] = Tensor
        names[f"{utils}._rebuild_parameter"] = _rebuild_parameter
        names[f"{utils}._rebuild_parameter_with_state"] = _rebuild_parameter
        names[f"{module}.Size"] = _size
        names[f"{module}.device"] = lambda *place: oneflow.device(*place)
        names["torch.storage.UntypedStorage"] = names[f"{module}.UntypedStorage"] = StorageKind(None)
        for dtype, cls in storage.STORAGE_NAMES.items():
            names[f"{module}.{cls}"] = StorageKind(dtype)
        for dtype in storage.ITEM_SIZES:
            names[f"{module}.{dtype}"] = getattr(oneflow, dtype)
    return names


# Files of earlier versions name private modules, whose functions are public here.
_PUBLIC_HOMES = (
    ("oneflow.nn._", "oneflow.nn.functional"),
    ("oneflow._linalg_", "oneflow.linalg"),
    ("oneflow._bessel", "oneflow.special"),
    ("oneflow._polynomials", "oneflow.special"),
    ("oneflow._", "oneflow"),
)


def trusting_unpickler(base: Any = pickle.Unpickler) -> Any:
    """An unpickler that builds whatever the file says, over the class of a pickle module.

    Only for files one would also execute.
    """

    class TrustingUnpickler(base):
        def __init__(self, file: IO[bytes], load_storage: Callable[[Any], Any], **options: Any) -> None:
            super().__init__(file, **{"encoding": "utf-8", **options})
            self.names = names_in_files()
            self.load_storage = load_storage

        def find_class(self, module: str, name: str) -> Any:
            if f"{module}.{name}" in self.names:
                return self.names[f"{module}.{name}"]
            if module == "torch" or module.startswith("torch."):
                module = "oneflow" + module[len("torch") :]
            try:
                return super().find_class(module, name)
            except (AttributeError, ImportError):
                home = next((home for prefix, home in _PUBLIC_HOMES if module.startswith(prefix)), module)
                if home == module:
                    raise
                return super().find_class(home, name)

        def persistent_load(self, pid: Any) -> Any:
            return self.load_storage(pid)

    return TrustingUnpickler


class Seekable(io.RawIOBase):
    """What has ``read``, ``seek`` and ``tell``, as the file that a reader of archives asks for."""

    def __init__(self, of: Any) -> None:
        super().__init__()
        self.of = of

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if hasattr(self.of, "readinto"):
            return self.of.readinto(buffer)
        data = self.of.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.of.seek(offset, whence)
        return self.of.tell()

    def tell(self) -> int:
        return self.of.tell()


def plain(value: Any) -> Any:
    if isinstance(value, (Listed, StorageKind)):
        raise pickle.UnpicklingError("the file holds a bare name where a value is expected")
    return value
