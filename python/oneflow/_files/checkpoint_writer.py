"""Writes the archives of :func:`oneflow.save`: the pickle, with tensors as references, and the bytes of storages."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from typing import IO, Any, ClassVar

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.global_layouts import gather_full
from oneflow._files import checkpoint_reader as reader
from oneflow._files import storage_bytes as storage
from oneflow._files.checkpoint_settings import get_crc32_options, skips_data
from oneflow._files.storage_places import location_tag
from oneflow._functions.compressed import is_compressed, parts_by_name
from oneflow._tensor.methods import _attributes, wrapper_description
from oneflow.overrides import DisableTorchFunctionSubclass
from oneflow.storage import TypedStorage, UntypedStorage

_ALIGNMENT = 64
# Bytes of a zip record's header for sizes of eight bytes.
_LONG_SIZES = 20
# Bytes written at a time.
_PIECE = 1 << 26


class Global:
    """A name written into the pickle as it stands, whether or not a module of that name is installed."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        raise TypeError("stands for a name in a file and cannot be called")


# What the classes below are mixed into: a pickler. The type stub of the one in Python is incomplete.
_AnyPickler: Any = object
_PythonPickler: Any = pickle._Pickler


class TensorPickler(_AnyPickler):
    """How tensors are written by any pickler: as references to storages.

    ``writes_wholes``: one file is for all ranks, so that it holds wholes of DTensors rather than parts.
    """

    writes_wholes = False

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.storages: dict[tuple[int, str], tuple[str, Tensor, int]] = {}
        self._dtypes: dict[int, str] = {}
        self._wholes: list[Tensor] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, (TypedStorage, UntypedStorage)):
            return self._reference(obj._tensor(), isinstance(obj, UntypedStorage)).pid
        return obj.pid if isinstance(obj, _StorageReference) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, oneflow.Size):
            return Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, oneflow.device):
            place = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return Global("torch", "device"), place
        if isinstance(obj, oneflow.layout):
            return _LAYOUT, ("torch." + str(obj).rpartition(".")[2],)
        override = getattr(super(), "reducer_override", None)
        return NotImplemented if override is None else override(obj)

    def _reduce_tensor(self, tensor: Tensor) -> Any:
        from oneflow.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

        if isinstance(tensor, (UninitializedBuffer, UninitializedParameter)):
            # There is nothing to keep but that it waits for a shape; a state_dict of it is refused by weights_only.
            return Global("torch.nn.parameter", type(tensor).__name__), (tensor.requires_grad,)
        if isinstance(tensor, Parameter):
            attributes = dict(tensor.__dict__)
            args: tuple[Any, ...] = (tensor.data, tensor.requires_grad, OrderedDict())
            if attributes:
                return _PARAMETER_WITH_STATE, (*args, attributes)
            return _PARAMETER, args
        if type(tensor) is Buffer:
            # What makes it a buffer is the module it belongs to.
            return self._reduce_plain(tensor)
        if type(tensor) is Tensor and not getattr(tensor, "__dict__", None):
            return self._reduce_plain(tensor)
        if tensor.is_nested:
            reduced: Any = tensor.__reduce_ex__(pickle.DEFAULT_PROTOCOL)
            return _NESTED_TENSOR, reduced[1]
        with DisableTorchFunctionSubclass():
            function, args = self._reduce_plain(tensor)
        # The class is written by its own name: reading it back needs weights_only=False or an allowed name.
        kind: Any = _TENSOR_CLASS if type(tensor) is Tensor else type(tensor)
        return _FROM_TYPE, (function, kind, args, _attributes(tensor))

    def _reduce_plain(self, tensor: Tensor) -> Any:
        if tensor.is_global and not self.writes_wholes:
            from oneflow._files import mesh_tensors

            if mesh_tensors.is_on_mesh(tensor):
                return _DTENSOR, mesh_tensors.described(tensor)
        if tensor.is_global:
            # Every rank brings its part, and the file holds the whole.
            whole = gather_full(tensor)
            self._wholes.append(whole)
            tensor = whole.requires_grad_(tensor.requires_grad)
        if is_compressed(tensor):
            return _SPARSE_TENSOR, (tensor.layout, (*parts_by_name(tensor).values(), tensor.shape))
        if tensor.is_sparse:
            parts = (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())
            return _SPARSE_TENSOR, (tensor.layout, parts)
        if _oneflow._C._is_without_memory(tensor):
            return _WRAPPER, wrapper_description(tensor)
        if tensor.is_meta:
            layout = (tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad)
            return _META_TENSOR, layout
        untyped = storage.dtype_name(tensor.dtype) in storage.UNTYPED
        hooks: OrderedDict[str, Any] = OrderedDict()
        args = (
            self._reference(tensor, untyped),
            tensor.storage_offset(),
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.requires_grad,
            hooks,
        )
        return (_TENSOR_OF_BYTES, (*args, tensor.dtype)) if untyped else (_TENSOR, args)

    def _reference(self, tensor: Tensor, untyped: bool) -> _StorageReference:
        """What stands in the pickle for the storage of a tensor; ``untyped``: for its bytes."""
        dtype = storage.dtype_name(tensor.dtype)
        key, _, n_elements = self._storage_of(tensor, "uint8" if untyped else dtype)
        kind = _UNTYPED_STORAGE if untyped else _torch_name(storage.STORAGE_NAMES[dtype])
        length = n_elements * tensor.element_size() if untyped else n_elements
        return _StorageReference(("storage", kind, key, location_tag(tensor.untyped_storage()), length))

    def _storage_of(self, tensor: Tensor, dtype: str) -> tuple[str, Tensor, int]:
        n_elements = storage.storage_length(tensor)
        key = str(len(self.storages))
        if n_elements == 0:
            # Empty storages have no address of their own.
            return self.storages.setdefault((-1 - len(self.storages), dtype), (key, tensor, 0))
        address = storage.storage_address(tensor)
        if self._dtypes.setdefault(address, dtype) != dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: "
                f"{self._dtypes[address]} and {dtype}. Save a clone() of one of them."
            )
        return self.storages.setdefault((address, dtype), (key, tensor, n_elements))


class _WritesNames(TensorPickler):
    """Writes tensors under the names that PyTorch reads, which needs a pickler in Python."""

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, oneflow.dtype):
            self.save(_torch_name(storage.dtype_name(obj)))
        elif isinstance(obj, oneflow.Size):
            # A tuple subclass: the plain path would write it as a tuple.
            self.save_reduce(*self.reducer_override(obj), obj=obj)
        else:
            super().save(obj, save_persistent_id)

    def _save_name(self, obj: Global) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)


class Pickler(_WritesNames, _PythonPickler):
    """Writes what ``load`` and ``torch.load`` read."""

    dispatch: ClassVar[dict[Any, Any]] = {**_PythonPickler.dispatch, Global: _WritesNames._save_name}


class _NamesOurOwn(TensorPickler):
    """Writes tensors under this package's names, where a compiled pickler writes no others."""

    def persistent_id(self, obj: Any) -> Any:
        pid = super().persistent_id(obj)
        return None if pid is None else tuple(_resolved(part) for part in pid)

    def reducer_override(self, obj: Any) -> Any:
        found = super().reducer_override(obj)
        if not isinstance(found, tuple):
            return found
        function, args, *rest = found
        return (_resolved(function), tuple(_resolved(arg) for arg in args), *rest)


def _resolved(value: Any) -> Any:
    return reader.names_in_files()[f"{value.module}.{value.name}"] if isinstance(value, Global) else value


def pickler_of(pickle_module: Any) -> Any:
    """The class that writes tensors over the pickler of a module; None for Python's own.

    Over a compiled pickler, as that of cloudpickle, the file names this package, and PyTorch does not read it.
    """
    if pickle_module in (None, pickle):
        return Pickler
    base = pickle_module.Pickler
    if not issubclass(base, _PythonPickler):
        return type("Pickler", (_NamesOurOwn, base), {})
    return type("Pickler", (_WritesNames, base), {"dispatch": {**base.dispatch, Global: _WritesNames._save_name}})


class _StorageReference:
    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


_TENSOR = Global("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_BYTES = Global("torch._utils", "_rebuild_tensor_v3")
_UNTYPED_STORAGE = Global("torch.storage", "UntypedStorage")
_META_TENSOR = Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_WRAPPER = Global("torch._utils", "_rebuild_wrapper_subclass")
_LAYOUT = Global("torch.serialization", "_get_layout")
_SPARSE_TENSOR = Global("torch._utils", "_rebuild_sparse_tensor")
_DTENSOR = Global("oneflow._utils", "_rebuild_dtensor")
_NESTED_TENSOR = Global("oneflow._utils", "_rebuild_nested_tensor")
_FROM_TYPE = Global("torch._tensor", "_rebuild_from_type_v2")
_TENSOR_CLASS = Global("torch", "Tensor")
_PARAMETER = Global("torch._utils", "_rebuild_parameter")
_PARAMETER_WITH_STATE = Global("torch._utils", "_rebuild_parameter_with_state")
_names: dict[str, Global] = {}


def _torch_name(name: str) -> Global:
    """One object for each name of the ``torch`` module, so that the pickle writes it once."""
    return _names.setdefault(name, Global("torch", name))


def write_archive(file: IO[bytes], name: str, described: bytes, pickler: TensorPickler) -> None:
    """Write an archive of that name at the position of ``file``: the pickle, and the storages ``pickler`` noted."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, f"{name}/data.pkl", described)
        _write(archive, f"{name}/.format_version", b"1")
        _write(archive, f"{name}/.storage_alignment", str(_ALIGNMENT).encode())
        _write(archive, f"{name}/byteorder", storage.NATIVE_ORDER.encode())
        for key, tensor, n_elements in pickler.storages.values():
            if skips_data():
                _write_room(archive, f"{name}/data/{key}", n_elements * tensor.element_size())
            else:
                _write(archive, f"{name}/data/{key}", storage.storage_bytes(tensor, n_elements))
        _write(archive, f"{name}/version", b"3\n")


def _aligned(archive: zipfile.ZipFile, name: str, size: int) -> tuple[zipfile.ZipInfo, bool]:
    """The entry of a record whose bytes are aligned in the file, so that it can be memory-mapped; is it a long one."""
    info = zipfile.ZipInfo(name)
    info.file_size = size
    # Sizes that four bytes do not hold come after our padding, as zipfile writes them.
    is_long = size >= zipfile.ZIP64_LIMIT
    header = archive.fp.tell() + 30 + len(name.encode()) + 4 + (_LONG_SIZES if is_long else 0)  # type: ignore[union-attr]
    padding = -header % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    return info, is_long


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    view = memoryview(data)
    if not get_crc32_options():
        file = _begin_unchecked(archive, name, len(data))
        for at in range(0, len(view), _PIECE):
            file.write(view[at : at + _PIECE])
        archive.start_dir = file.tell()
        return
    info, is_long = _aligned(archive, name, len(data))
    with archive.open(info, "w", force_zip64=is_long) as record:
        for at in range(0, len(view), _PIECE):
            record.write(view[at : at + _PIECE])


def _write_room(archive: zipfile.ZipFile, name: str, size: int) -> None:
    """A record whose bytes somebody else will write."""
    file = _begin_unchecked(archive, name, size)
    file.seek(size, os.SEEK_CUR)
    archive.start_dir = file.tell()


def _begin_unchecked(archive: zipfile.ZipFile, name: str, size: int) -> IO[bytes]:
    """Add a record without a checksum, which is 0, and write its header. Its bytes are to follow."""
    info, is_long = _aligned(archive, name, size)
    file: Any = archive.fp
    info.header_offset, info.compress_size, info.CRC = file.tell(), size, 0
    file.write(info.FileHeader(zip64=is_long))
    archive.filelist.append(info)
    archive.NameToInfo[name] = info
    archive._didModify = True  # type: ignore[attr-defined]
    return file
