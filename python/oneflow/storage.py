"""Storages with a dtype: the flat memory behind tensors, as old checkpoints and code name it.

``UntypedStorage`` itself, plain bytes, is compiled; the methods added here need no speed.
"""

from __future__ import annotations

import ctypes
import operator
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.shared_memory import segment_of, shared_segment
from oneflow._oneflow import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

# The dtype of each older storage type: ``FloatStorage`` and so on.
DTYPES = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "ComplexDouble": "complex128",
    "ComplexFloat": "complex64",
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
}


def __getattr__(name: str) -> Any:
    if name == "Storage":
        # The storage type of the default dtype, which may change.
        kind = str(oneflow.get_default_dtype()).rpartition(".")[2]
        return getattr(oneflow, next(short for short, dtype in DTYPES.items() if dtype == kind) + "Storage")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _share(self: UntypedStorage) -> UntypedStorage:
    """Move the bytes into memory that other processes can share, unless they are there already."""
    if self.device.type == "cpu" and self.nbytes() > 0:
        segment_of(self)
    return self


def _is_shared(self: UntypedStorage) -> bool:
    return self.device.type == "cuda" or shared_segment(self) is not None


def _clone(self: UntypedStorage) -> UntypedStorage:
    copy = UntypedStorage(self.nbytes(), device=self.device)
    copy._tensor().copy_(self._tensor())
    return copy


def _deepcopy(self: UntypedStorage, memo: dict[int, Any]) -> UntypedStorage:
    # Copies are remembered by the storage, since every tensor creates a new object for it.
    copies = memo.setdefault(_MEMO, {})  # type: ignore[call-overload]
    if self._cdata not in copies:
        copies[self._cdata] = (_clone(self), self)
    return copies[self._cdata][0]


_MEMO = "oneflow"


def _copy_from(self: UntypedStorage, source: Any, non_blocking: bool = False) -> UntypedStorage:
    inner = source._untyped_storage if isinstance(source, TypedStorage) else source
    self._tensor().copy_(inner._tensor(), non_blocking)
    return self


def _fill(self: UntypedStorage, value: int) -> UntypedStorage:
    self._tensor().fill_(value)
    return self


def _size_in_memory(self: UntypedStorage) -> int:
    return object.__sizeof__(self) + self.nbytes()


def _has_elements(storage: Any) -> None:
    if storage.device.type == "meta":
        raise NotImplementedError("Not available for 'meta' device type")


def _getitem(self: UntypedStorage, index: Any) -> Any:
    _has_elements(self)
    found = self._tensor()[index]
    if found.dim() == 0:
        return found.item()
    if self.device.type == "cpu" and found.is_contiguous() and found.numel():
        # A storage over the same bytes, which keeps this one.
        return oneflow.from_numpy(found.numpy()).untyped_storage()
    part = UntypedStorage(found.numel(), device=self.device)
    part._tensor().copy_(found)
    return part


def _from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """Bytes of a file, read when they are first used.

    Args:
        filename: the file.
        shared: write changes back to the file, which is created or extended if it is too short.
        nbytes: how many bytes; the whole file where it is 0 and ``shared`` is not set.

    Raises:
        RuntimeError: the file has fewer bytes.
    """
    import numpy

    path = Path(filename)
    if shared:
        with path.open("ab") as file:
            if file.tell() < nbytes:
                file.truncate(nbytes)
    have = path.stat().st_size
    nbytes = nbytes or have
    if have < nbytes:
        raise RuntimeError(f"UntypedStorage.from_file: {path} has {have} bytes, {nbytes} were asked for")
    if nbytes == 0:
        return UntypedStorage(0)
    mapped = numpy.memmap(path, dtype="uint8", mode="r+" if shared else "c", shape=(nbytes,))
    if shared:
        _FILES[mapped.ctypes.data] = str(filename)
        weakref.finalize(mapped, _FILES.pop, mapped.ctypes.data, None)
    return oneflow.from_numpy(mapped).untyped_storage()


# Files whose bytes are mapped and shared, by the address of their first byte.
_FILES: dict[int, str] = {}


def _file_name(self: UntypedStorage) -> str | None:
    """The name of the file that shares its bytes with the storage, as ``from_file`` was given it; None without one."""
    return _FILES.get(self.data_ptr()) if self.device.type == "cpu" else None


def _setitem(self: UntypedStorage, index: Any, value: Any) -> None:
    _has_elements(self)
    self._tensor()[index] = value


def _to_list(self: UntypedStorage) -> list[int]:
    return self._tensor().tolist()


def _iterate(self: UntypedStorage) -> Iterator[int]:
    return iter(_to_list(self))


def _on_cpu(self: UntypedStorage) -> UntypedStorage:
    if self.device.type == "cpu":
        return self
    copy = UntypedStorage(self.nbytes())
    copy._tensor().copy_(self._tensor())
    return copy


def _byteswap(self: UntypedStorage, dtype: Any) -> None:
    """Reverse the bytes of each element, in place; of a complex one those of its parts."""
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    bytes_ = self._tensor()
    bytes_.copy_(bytes_.reshape(-1, size).flip(1).reshape(-1))


def _show(self: UntypedStorage) -> str:
    lines = "\n".join(f" {value}" for value in _to_list(self))
    return f"{lines}\n[oneflow.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


def _reduce(self: UntypedStorage, protocol: Any) -> Any:
    here = _on_cpu(self)
    # Not `ctypes.string_at`, which counts in 32 bits.
    return _from_bytes, (
        bytes((ctypes.c_char * here.nbytes()).from_address(here.data_ptr())) if here.nbytes() else b"",
    )


def _from_bytes(data: bytes) -> UntypedStorage:
    storage = UntypedStorage(len(data))
    if data:
        ctypes.memmove(storage.data_ptr(), data, len(data))
    return storage


for _name, _method in {
    "share_memory_": _share,
    "is_shared": _is_shared,
    "is_pinned": lambda self, device="cuda": self._tensor().is_pinned(),
    "pin_memory": lambda self, device="cuda": self._tensor().pin_memory().untyped_storage(),
    "clone": _clone,
    "__copy__": _clone,
    "__deepcopy__": _deepcopy,
    "copy_": _copy_from,
    "fill_": _fill,
    "from_file": staticmethod(_from_file),
    "filename": property(_file_name),
    "_get_filename": _file_name,
    # Lets `oneflow.asarray` and others take the bytes as they are.
    "__dlpack__": lambda self, **options: self._tensor().__dlpack__(**options),
    "__dlpack_device__": lambda self: self._tensor().__dlpack_device__(),
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "__iter__": _iterate,
    "tolist": _to_list,
    "type": lambda self: "oneflow.storage.UntypedStorage",
    "byteswap": _byteswap,
    "get_device": lambda self: self._tensor().get_device(),
    "cpu": _on_cpu,
    "untyped": lambda self: self,
    "__repr__": _show,
    "__sizeof__": _size_in_memory,
    "__reduce_ex__": _reduce,
    "is_cuda": property(lambda self: self.device.type == "cuda"),
}.items():
    setattr(UntypedStorage, _name, _method)


def _dtype_to_storage_type_map() -> dict[Any, str]:
    """Names of storage types by dtype."""
    return {getattr(oneflow, dtype): f"{kind}Storage" for kind, dtype in DTYPES.items()}


def _storage_type_to_dtype_map() -> dict[str, Any]:
    return {name: dtype for dtype, name in _dtype_to_storage_type_map().items()}


class TypedStorage:
    """An :class:`UntypedStorage` seen as elements of one dtype.

    Args:
        size: number of elements, or a sequence of numbers; left out if ``wrap_storage`` is given.
        wrap_storage: the bytes.
        dtype: type of the elements.

    Example::

        >>> oneflow.ones(2).storage().size()
        2
    """

    dtype: Any = None

    def __init__(
        self, size: Any = 0, *, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None
    ) -> None:
        self.dtype = type(self).dtype or dtype or oneflow.get_default_dtype()
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif isinstance(size, int) or (hasattr(size, "__index__") and not hasattr(size, "__len__")):
            size = operator.index(size)
            item = oneflow.empty((), dtype=self.dtype).element_size()
            self._untyped_storage = UntypedStorage(size * item, device=device)
        else:
            self._untyped_storage = oneflow.tensor(size, dtype=self.dtype, device=device).untyped_storage()

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first ``size`` elements of a file, as :meth:`UntypedStorage.from_file`."""
        return cls._of_file(filename, shared, size, cls.dtype or oneflow.get_default_dtype())

    @classmethod
    def _of_file(cls, filename: Any, shared: bool, size: int, dtype: Any) -> TypedStorage:
        return cls(wrap_storage=_from_file(filename, shared, size * dtype.itemsize), dtype=dtype)

    @classmethod
    def _of_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, *, dtype: Any
    ) -> TypedStorage:
        item = dtype.itemsize
        if byte_order not in (None, "native", "little", "big") or (byte_order is None and item > 1):
            raise ValueError(f"from_buffer(): byte_order must be 'native', 'little' or 'big', got {byte_order!r}")
        data = memoryview(buffer).cast("B")[offset:]
        data = data if count < 0 else data[: count * item]
        if dtype is oneflow.bool:
            return cls([bool(byte) for byte in data], dtype=dtype)
        if len(data) % item or len(data) < count * item:
            raise ValueError(f"from_buffer(): {len(data)} bytes do not hold {max(count, 1)} elements of {item} bytes")
        storage = _from_bytes(bytes(data))
        if byte_order not in (None, "native", sys.byteorder):
            _byteswap(storage, dtype)
        return cls(wrap_storage=storage, dtype=dtype)

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, **options: Any) -> TypedStorage:
        """A copy of the elements in a buffer, from ``offset``, in a byte order: "native", "little" or "big".

        Raises:
            ValueError: the bytes are not a whole number of elements.
        """
        return cls._of_buffer(*args, dtype=dtype or cls.dtype or oneflow.get_default_dtype(), **options)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def type(self, dtype: Any = None) -> Any:
        """The name of the storage's type; with a dtype or such a name, a copy of that dtype."""
        if dtype is None:
            return f"oneflow.{self.pickle_storage_type()}"
        if isinstance(dtype, str):
            kind = DTYPES.get(dtype.rpartition(".")[2].removesuffix("Storage"))
            if kind is None:
                raise ValueError(f"TypedStorage.type(): unknown type {dtype!r}")
            dtype = getattr(oneflow, kind)
        return self._to(getattr(dtype, "dtype", dtype))

    def pickle_storage_type(self) -> str:
        """Return the name of storages of this dtype in checkpoints."""
        name = str(self.dtype).rpartition(".")[2]
        return next(f"{kind}Storage" for kind, dtype in DTYPES.items() if dtype == name)

    def _to(self, dtype: Any) -> TypedStorage:
        copy = self._tensor().to(dtype, copy=True)
        return TypedStorage(wrap_storage=copy.untyped_storage(), dtype=dtype)

    def resizable(self) -> bool:
        """Return whether the memory may be exchanged: it belongs to the storage, and no other library uses it."""
        return self._untyped_storage.resizable()

    def get_device(self) -> int:
        """The number of the device; -1 in host memory."""
        return self._tensor().get_device()

    @property
    def filename(self) -> str | None:
        """The name of the file that shares its bytes with the storage, None without one."""
        return _file_name(self._untyped_storage)

    def _get_filename(self) -> str | None:
        return self.filename

    def _tensor(self) -> Tensor:
        """The elements as a 1-D tensor that shares them."""
        return oneflow.empty((0,), dtype=self.dtype, device=self.device).set_(self._untyped_storage)

    @property
    def device(self) -> Any:
        """Where the bytes are."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are in a CUDA device's memory."""
        return self._untyped_storage.device.type == "cuda"

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    def element_size(self) -> int:
        """Bytes of one element."""
        return oneflow.empty((), dtype=self.dtype).element_size()

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._untyped_storage.nbytes()

    def size(self) -> int:
        """Number of elements."""
        return self.nbytes() // self.element_size()

    __len__ = size

    def data_ptr(self) -> int:
        """Address of the first element."""
        return self._untyped_storage.data_ptr()

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def resize_(self, size: int) -> TypedStorage:
        """Resize to ``size`` elements, keeping those that fit."""
        self._untyped_storage.resize_(size * self.element_size())
        return self

    def share_memory_(self) -> TypedStorage:
        """Move the elements into memory that forked processes share."""
        self._untyped_storage.share_memory_()
        return self

    def is_shared(self) -> bool:
        """Return whether forked processes share the memory."""
        return self._untyped_storage.is_shared()

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.__deepcopy__(memo), dtype=self.dtype)

    def copy_(self, source: Any, non_blocking: bool = False) -> TypedStorage:
        """Copy the elements of another storage, cast to this dtype."""
        self._tensor().copy_(source._tensor(), non_blocking)
        return self

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._tensor().fill_(value)
        return self

    def cpu(self) -> TypedStorage:
        """The storage in host memory."""
        return TypedStorage(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._tensor().tolist()

    def __getitem__(self, index: int) -> Any:
        _has_elements(self)
        if not isinstance(index, int):
            raise RuntimeError(f"slices are only supported in UntypedStorage.__getitem__, got {type(index).__name__}")
        return self._tensor()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        _has_elements(self)
        self._tensor()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        lines = "\n".join(f" {value}" for value in self.tolist())
        text = f"[oneflow.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {self.size()}]"
        return f"{lines}\n{text}"


def _converter(name: str, dtype: str) -> Any:
    def convert(self: TypedStorage) -> TypedStorage:
        return self._to(getattr(oneflow, dtype))

    convert.__name__, convert.__qualname__ = name, f"TypedStorage.{name}"
    convert.__doc__ = f"A copy with elements of {dtype}."
    return convert


for _name, _dtype in {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
    "complex_double": "complex128",
    "complex_float": "complex64",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}.items():
    setattr(TypedStorage, _name, _converter(_name, _dtype))
