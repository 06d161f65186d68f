"""save and load in PyTorch's zip format: each reads what the other wrote.

The format before it is read and written by ``_files/old_checkpoint.py``.

An archive holds ``data.pkl`` (the object, tensors as references), ``data/<key>`` (the bytes of one storage each, shared
by its views), ``byteorder`` and ``version``. Loading is restricted to tensors and plain containers unless asked
otherwise; see ``_files/unpickler.py``. Every number read from a file is checked before memory is touched.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import pickletools
import struct
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, ClassVar

import oneflow
from oneflow import Tensor
from oneflow._base.global_layouts import gather_full
from oneflow._files import storage_bytes as storage
from oneflow._files.replaced_file import replaced_file
from oneflow._files.unpickler import (
    Listed,
    RestrictedUnpickler,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    is_listed,
    safe_globals,
)
from oneflow._tensor.methods import _attributes, _set_attributes, _tensor_from_bytes  # noqa: F401 (in pickles)
from oneflow.overrides import DisableTorchFunctionSubclass
from oneflow.storage import TypedStorage, UntypedStorage
from oneflow.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]

_ALIGNMENT = 64
# Bytes of a zip record's header for sizes of eight bytes.
_LONG_SIZES = 20
# Bytes written at a time.
_PIECE = 1 << 26


# ---- writing


class _Global:
    """A name written into the pickle as it stands, whether or not a module of that name is installed."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        raise TypeError("stands for a name in a file and cannot be called")


# The implementation in Python: how names are written can be replaced. Its type stub is incomplete.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):
    """Writes tensors as references to storages, under the names PyTorch reads."""

    dispatch: ClassVar[dict[Any, Any]] = _PythonPickler.dispatch.copy()

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
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, oneflow.device):
            place = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _Global("torch", "device"), place
        if isinstance(obj, oneflow.layout):
            return _LAYOUT, ("torch." + str(obj).rpartition(".")[2],)
        return NotImplemented

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, oneflow.dtype):
            self.save(_torch_name(storage.dtype_name(obj)))
        elif isinstance(obj, oneflow.Size):
            # A tuple subclass: the plain path would write it as a tuple.
            self.save_reduce(*self.reducer_override(obj), obj=obj)
        else:
            super().save(obj, save_persistent_id)

    def _save_name(self, obj: _Global) -> None:
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_Global] = _save_name

    def _reduce_tensor(self, tensor: Tensor) -> Any:
        from oneflow.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

        if isinstance(tensor, (UninitializedBuffer, UninitializedParameter)):
            # There is nothing to keep but that it waits for a shape; a state_dict of it is refused by weights_only.
            return _Global("torch.nn.parameter", type(tensor).__name__), (tensor.requires_grad,)
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
        with DisableTorchFunctionSubclass():
            function, args = self._reduce_plain(tensor)
        # The class is written by its own name: reading it back needs weights_only=False or an allowed name.
        kind: Any = _TENSOR_CLASS if type(tensor) is Tensor else type(tensor)
        return _FROM_TYPE, (function, kind, args, _attributes(tensor))

    def _reduce_plain(self, tensor: Tensor) -> Any:
        if tensor.is_global:
            # Every rank brings its part, and the file holds the whole.
            whole = gather_full(tensor)
            self._wholes.append(whole)
            tensor = whole.requires_grad_(tensor.requires_grad)
        if tensor.is_sparse:
            parts = (tensor._indices(), tensor._values(), tensor.shape, tensor.is_coalesced())
            return _SPARSE_TENSOR, (tensor.layout, parts)
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
        return _StorageReference(("storage", kind, key, str(tensor.device), length))

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


class _StorageReference:
    def __init__(self, pid: tuple[Any, ...]) -> None:
        self.pid = pid


_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_BYTES = _Global("torch._utils", "_rebuild_tensor_v3")
_UNTYPED_STORAGE = _Global("torch.storage", "UntypedStorage")
_META_TENSOR = _Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_LAYOUT = _Global("torch.serialization", "_get_layout")
_SPARSE_TENSOR = _Global("torch._utils", "_rebuild_sparse_tensor")
_FROM_TYPE = _Global("torch._tensor", "_rebuild_from_type_v2")
_TENSOR_CLASS = _Global("torch", "Tensor")
_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_PARAMETER_WITH_STATE = _Global("torch._utils", "_rebuild_parameter_with_state")
_names: dict[str, _Global] = {}


def _torch_name(name: str) -> _Global:
    """One object for each name of the ``torch`` module, so that the pickle writes it once."""
    return _names.setdefault(name, _Global("torch", name))


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    *,
    global_dst_rank: int | None = None,
) -> None:
    """Write ``obj`` to a file that :func:`load` and ``torch.load`` read.

    Args:
        obj: tensors, numbers, strings and containers of them, such as a ``state_dict``; or a compiled ``nn.Graph``,
            whose program and weights go into a directory that runs without Python too.
        f: path, or a binary file open for writing. A file of that path is replaced when the new one is whole.
        pickle_module: must be left out.
        pickle_protocol: 2 is what ``torch.load(weights_only=True)`` reads.
        _use_new_zipfile_serialization: False writes what PyTorch before 1.6 reads.
        global_dst_rank: the one rank that writes. By default every rank that calls does.

    Global tensors are written whole, as local ones: all ranks call, with the same ``obj``. ``Module.load_state_dict``
    takes them back into global modules.

    Views of one storage share it in the file and after loading.

    Raises:
        ValueError: another pickle module is asked for.
        RuntimeError: the directory does not exist.
        OSError: the file cannot be written; what was there before stays.

    Example::

        >>> oneflow.save(model.state_dict(), "model.pt")
    """
    if isinstance(obj, oneflow.nn.Graph):
        if not isinstance(f, (str, os.PathLike)):
            raise TypeError(f"save(): a graph is written into a directory, got {type(f).__name__}")
        # Late: importing the package stays light.
        from oneflow._trace import saved

        if _is_rank(global_dst_rank):
            saved.save(obj, f)
        return
    if pickle_module not in (None, pickle):
        raise ValueError("save uses Python's own pickle only")
    if not _use_new_zipfile_serialization:
        from oneflow._files import old_checkpoint

        with replaced_file(f) if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
            old_checkpoint.write(obj, file, pickle_protocol)
        return
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, pickle_protocol)
    pickler.dump(obj)
    if not _is_rank(global_dst_rank):
        return
    if isinstance(f, (str, os.PathLike)):
        with replaced_file(f) as file:
            _write_archive(file, Path(os.fspath(f)).stem, buffer.getvalue(), pickler)
    else:
        _write_archive(f, "archive", buffer.getvalue(), pickler)


def _is_rank(rank: int | None) -> bool:
    if rank is None:
        return True
    here, n = oneflow.env.get_rank(), oneflow.env.get_world_size()
    if not isinstance(rank, int) or not 0 <= rank < n:
        raise ValueError(f"there is no rank {rank!r}: the job has {n}")
    return rank == here


def _write_archive(file: IO[bytes], name: str, described: bytes, pickler: _Pickler) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, f"{name}/data.pkl", described)
        _write(archive, f"{name}/.format_version", b"1")
        _write(archive, f"{name}/.storage_alignment", str(_ALIGNMENT).encode())
        _write(archive, f"{name}/byteorder", storage.NATIVE_ORDER.encode())
        for key, tensor, n_elements in pickler.storages.values():
            _write(archive, f"{name}/data/{key}", storage.storage_bytes(tensor, n_elements))
        _write(archive, f"{name}/version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Store one record with its bytes aligned in the file, so that it can be memory-mapped."""
    info = zipfile.ZipInfo(name)
    info.file_size = len(data)
    # Sizes that four bytes do not hold come after our padding, as zipfile writes them.
    is_long = len(data) >= zipfile.ZIP64_LIMIT
    header = archive.fp.tell() + 30 + len(name.encode()) + 4 + (_LONG_SIZES if is_long else 0)  # type: ignore[union-attr]
    padding = -header % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    view = memoryview(data)
    with archive.open(info, "w", force_zip64=is_long) as record:
        for at in range(0, len(view), _PIECE):
            record.write(view[at : at + _PIECE])


# ---- reading


class _Storage(TypedStorage):
    """One storage read from a file. Its elements are read when they, or the first tensor over them, are asked for."""

    def __init__(
        self, read: Callable[[], bytes], kind: str, n_elements: int, place: Callable[[Tensor], Tensor]
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
            self._flat = self._place(storage.flat_tensor(self._read(), self.kind, self.n_elements))
        return self._flat


class _Archive:
    """The records of one file, each checked against the file's real length."""

    def __init__(self, file: IO[bytes]) -> None:
        try:
            self.zip = zipfile.ZipFile(file)
            records = self.zip.infolist()
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
        order = self.read("byteorder").decode("latin1") if self.has("byteorder") else "little"
        if order not in ("little", "big"):
            raise RuntimeError(f"the archive has byte order {order!r}")
        self.swapped = order != storage.NATIVE_ORDER
        self.storages: dict[str, _Storage | UntypedStorage] = {}

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
        size = self.size(name)
        try:
            data = self.zip.read(self.records[self.prefix + name])
        except Exception as error:
            raise RuntimeError(f"the record {name!r} cannot be read: {error}") from error
        if len(data) != size:
            raise RuntimeError(f"the record {name!r} is cut short: {len(data)} of {size} bytes")
        return data

    def storage(self, pid: Any, map_location: Any) -> _Storage | UntypedStorage:
        """The storage of one persistent id ("storage", class, key, location, number of elements)."""
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise pickle.UnpicklingError("a persistent id in the file is no storage")
        _, kind, key, location, n_elements = pid
        if not isinstance(key, str) or not isinstance(location, str) or type(n_elements) is not int or n_elements < 0:
            raise pickle.UnpicklingError("a storage in the file has a broken description")
        if key in self.storages:
            return self.storages[key]
        if not isinstance(kind, _StorageKind):
            raise pickle.UnpicklingError("a storage in the file has an unknown type")
        width = 1 if kind.dtype is None else storage.ITEM_SIZES[kind.dtype]
        name = f"data/{key}"
        if n_elements * width != self.size(name):
            raise RuntimeError(
                f"storage {key!r} should hold {n_elements} elements of {width} bytes, "
                f"but its record has {self.size(name)} bytes"
            )

        def read() -> bytes:
            data = self.read(name)
            return storage.swap_bytes(data, kind.dtype) if self.swapped and kind.dtype else data

        def place(flat: Tensor) -> Tensor:
            return _relocate(flat, location, map_location)

        made: _Storage | UntypedStorage
        if kind.dtype is None:
            made = place(storage.flat_tensor(read(), "uint8", n_elements)).untyped_storage()
        else:
            made = _Storage(read, kind.dtype, n_elements, place)
        self.storages[key] = made
        return made


class _StorageKind:
    def __init__(self, dtype: str | None) -> None:
        self.dtype = dtype


def _relocate(flat: Tensor, location: str, map_location: Any) -> Tensor:
    if callable(map_location):
        moved = map_location(flat, location)
        return flat if moved is None else moved
    if isinstance(map_location, dict):
        location = str(map_location.get(location, location))
    elif map_location is not None:
        location = str(map_location)
    if location == "cpu":
        return flat
    try:
        return flat.to(location)
    except Exception as error:
        raise RuntimeError(
            f"cannot put a storage saved on {location!r} there: {error}. Use load with map_location='cpu'"
        ) from error


def _rebuild_tensor(
    source: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None, *rest: Any
) -> Tensor:
    if not isinstance(source, _Storage):
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


def _layout(name: Any) -> Any:
    found = {"sparse_coo": oneflow.sparse_coo, "strided": oneflow.strided}.get(str(name).rpartition(".")[2])
    if found is None:
        raise pickle.UnpicklingError(f"the layout {name} of a tensor in the file is not supported")
    return found


def _rebuild_sparse(layout: Any, parts: Any) -> Tensor:
    """A sparse tensor; its indices are checked, whatever the file says of them."""
    if layout is not oneflow.sparse_coo or not isinstance(parts, tuple) or len(parts) not in (3, 4):
        raise pickle.UnpicklingError("a sparse tensor in the file has an unknown layout")
    indices, values, size, *more = parts
    if not isinstance(indices, Tensor) or not isinstance(values, Tensor) or not isinstance(size, (tuple, list)):
        raise pickle.UnpicklingError("a sparse tensor in the file has a broken description")
    return oneflow.sparse_coo_tensor(indices, values, size, is_coalesced=bool(more and more[0]))


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Tensor:
    """A tensor of a subclass, or with attributes."""
    tensor = (function.call if isinstance(function, Listed) else function)(*args)
    if not isinstance(tensor, Tensor) or not isinstance(state, (dict, tuple, type(None))):
        raise pickle.UnpicklingError("a tensor in the file has a broken description")
    kind = kind.call if isinstance(kind, Listed) else kind
    if kind is not Tensor:
        if not (isinstance(kind, type) and issubclass(kind, Tensor)):
            raise pickle.UnpicklingError("a tensor in the file has a class that is no Tensor")
        tensor = Tensor._make_subclass(kind, tensor, tensor.requires_grad)
    _set_attributes(tensor, state)
    return tensor


def _size(values: Any = ()) -> Any:
    return oneflow.Size([int(value) for value in values])


def _names_in_files() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for module, utils in (("torch", "torch._utils"), ("oneflow", "oneflow._utils")):
        names[f"{utils}._rebuild_tensor"] = names[f"{utils}._rebuild_tensor_v2"] = _rebuild_tensor
        names[f"{utils}._rebuild_tensor_v3"] = _rebuild_tensor_v3
        names[f"{utils}._rebuild_meta_tensor_no_storage"] = _rebuild_meta
        names[f"{utils}._rebuild_sparse_tensor"] = _rebuild_sparse
        names[f"{module}.serialization._get_layout"] = _layout
        names[f"{module}._tensor._rebuild_from_type_v2"] = _rebuild_from_type
        names[f"{module}.Tensor"] = names[f"{module}._tensor.Tensor"] = Tensor
        names[f"{utils}._rebuild_parameter"] = _rebuild_parameter
        names[f"{utils}._rebuild_parameter_with_state"] = _rebuild_parameter
        names[f"{module}.Size"] = _size
        names[f"{module}.device"] = lambda *place: oneflow.device(*place)
        names["torch.storage.UntypedStorage"] = names[f"{module}.UntypedStorage"] = _StorageKind(None)
        for dtype, cls in storage.STORAGE_NAMES.items():
            names[f"{module}.{cls}"] = _StorageKind(dtype)
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


class _TrustingUnpickler(pickle.Unpickler):
    """Builds whatever the file says. Only for files one would also execute."""

    def __init__(self, file: IO[bytes], load_storage: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(file, **options)
        self.names = _names_in_files()
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


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    global_src_rank: int | None = None,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    support_pytorch_format: bool = True,
    **pickle_load_args: Any,
) -> Any:
    """Read what :func:`save` or ``torch.save`` wrote.

    Of an archive of TorchScript the weights are read, as a dictionary by name, with a warning.

    Args:
        f: path, or a binary file open for reading, seekable. A directory holds a compiled graph: it comes back as a
            function of the same arguments.
        map_location: where storages go: a device, a dictionary from saved to wanted device, or a function
            ``(flat tensor, saved location) -> tensor``. None puts them where they were.
        pickle_module: must be left out.
        global_src_rank: the one rank that reads; all ranks call. Tensors come as global ones on that rank.
        weights_only: True (the default) builds tensors and plain containers only and refuses every other name; False
            can run any code the file contains. TORCH_FORCE_WEIGHTS_ONLY_LOAD=1 in the environment makes it True
            whatever is asked, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 makes it False where nothing is asked.
        mmap: accepted for compatibility; storages are read one by one.
        support_pytorch_format: must be True, since :func:`save` writes PyTorch's format too.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: the archive is damaged, or a tensor lies outside its storage.
        pickle.UnpicklingError: the pickle is broken or wants a name that is not allowed.

    Example::

        >>> oneflow.save({"w": oneflow.ones(2)}, "w.pt")
        >>> oneflow.load("w.pt")
        {'w': tensor([1., 1.])}
    """
    if pickle_module not in (None, pickle):
        raise ValueError("load uses Python's own pickle only")
    if not support_pytorch_format:
        raise ValueError(f"Cannot load file {f}: its format is PyTorch's, and support_pytorch_format is False")
    if global_src_rank is not None:
        options = {"map_location": map_location, "weights_only": weights_only, **pickle_load_args}
        return _from_rank(global_src_rank, f, options)
    if isinstance(f, (str, os.PathLike)):
        if os.path.isdir(f):
            from oneflow._trace import saved

            return saved.LoadedGraph(f)
        with open(f, "rb") as file:
            return _load(file, map_location, _is_restricted(weights_only), pickle_load_args)
    if not (hasattr(f, "seek") and hasattr(f, "read") and hasattr(f, "tell")):
        raise AttributeError("load needs a file that can seek; read it into io.BytesIO first")
    if not hasattr(f, "seekable"):
        f = io.BufferedReader(_Seekable(f))
    return _load(f, map_location, _is_restricted(weights_only), pickle_load_args)


class _Seekable(io.RawIOBase):
    """What has ``read``, ``seek`` and ``tell``, as the file that a reader of archives asks for."""

    def __init__(self, of: Any) -> None:
        super().__init__()
        self.of = of

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.of.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.of.seek(offset, whence)
        return self.of.tell()

    def tell(self) -> int:
        return self.of.tell()


_FORCE, _FORCE_NOT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def _is_restricted(weights_only: bool | None) -> bool:
    """Whether only listed names are built: as asked, or as the environment decides where nothing was asked."""
    force, force_not = (os.environ.get(name, "0") in ("1", "y", "yes", "true") for name in (_FORCE, _FORCE_NOT))
    if force and force_not:
        raise RuntimeError(f"Only one of `{_FORCE}` or `{_FORCE_NOT}` should be set, but both were set.")
    if force:
        return True
    if force_not and weights_only is None:
        warnings.warn(
            f"Environment variable {_FORCE_NOT} detected, since the `weights_only` argument was not explicitly passed "
            "to `load`, forcing weights_only=False.",
            stacklevel=3,
        )
        return False
    return weights_only is not False


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """Return the names in a checkpoint that ``load`` refuses with ``weights_only=True``, without building anything.

    Args:
        f: path, or a binary file open for reading, seekable.

    Example::

        >>> oneflow.save({"w": oneflow.ones(2)}, "w.pt")
        >>> oneflow.serialization.get_unsafe_globals_in_checkpoint("w.pt")
        []
    """
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f) as file:
        described = _Archive(file).read("data.pkl")
    known = _names_in_files()
    strings: list[str] = []
    found = []
    for opcode, argument, _ in pickletools.genops(described):
        if opcode.name == "GLOBAL":
            module, name = str(argument).split(" ", 1)
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            module, name = strings[-2:]
        else:
            if isinstance(argument, str):
                strings.append(argument)
            continue
        if not is_listed(module, name, known):
            found.append(f"{module}.{name}")
    return sorted(set(found))


def _from_rank(rank: int, f: Any, options: dict[str, Any]) -> Any:
    """What one rank reads, on all ranks: its tensors as global ones that lie there."""
    found: list[Any] = [None, None]
    own: Any = None
    if _is_rank(rank):
        try:
            own = load(f, **options)
            # Of a tensor the others need the dtype alone.
            found = [tree_map(lambda x: oneflow.empty(0, dtype=x.dtype) if isinstance(x, Tensor) else x, own), None]
        except Exception as error:  # All ranks fail alike.
            found = [
                None,
                error if type(error).__module__ in _TOLD else RuntimeError(f"{type(error).__name__}: {error}"),
            ]
    if oneflow.env.get_world_size() > 1:
        # The file was trusted by all ranks alike, or by none.
        oneflow.distributed.broadcast_object_list(found, rank, weights_only=options.get("weights_only") is not False)
    made, failure = found
    if failure is not None:
        raise failure
    place = oneflow.placement("cpu", [rank])
    leaves, form = tree_flatten(made)
    own_leaves = tree_flatten(own)[0] if _is_rank(rank) else leaves
    result = [
        mine.detach().cpu().to_global(place, oneflow.sbp.broadcast) if isinstance(leaf, Tensor) else mine
        for leaf, mine in zip(leaves, own_leaves, strict=True)
    ]
    return tree_unflatten(result, form)


# Modules of exceptions that other ranks can build again.
_TOLD = ("builtins", "pickle", "_pickle")


def _load(file: IO[bytes], map_location: Any, weights_only: bool, options: dict[str, Any]) -> Any:
    from oneflow._files import old_checkpoint, torchscript

    if old_checkpoint.is_old(file):
        return old_checkpoint.read(file, map_location, weights_only, options)
    archive = _Archive(file)
    data = io.BytesIO(archive.read("data.pkl"))

    def load_storage(pid: Any) -> _Storage | UntypedStorage:
        return archive.storage(pid, map_location)

    if torchscript.is_torchscript(archive.has):
        warnings.warn(
            "the file is an archive of TorchScript: its weights are loaded, by name, and its program is not",
            UserWarning,
            stacklevel=3,
        )
        return torchscript.weights(data, _names_in_files(), load_storage)
    if weights_only:
        return _plain(RestrictedUnpickler(data, _names_in_files(), load_storage).load())
    return _TrustingUnpickler(data, load_storage, **options).load()


def _plain(value: Any) -> Any:
    if isinstance(value, (Listed, _StorageKind)):
        raise pickle.UnpicklingError("the file holds a bare name where a value is expected")
    return value
