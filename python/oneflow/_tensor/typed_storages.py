"""``FloatStorage``, ``LongStorage`` and their like: the older names of storages by dtype.

They construct storages and support ``isinstance``; each returns a :class:`TypedStorage` of its dtype in host memory.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow.storage import DTYPES, TypedStorage


class StorageType(type):
    """The class of ``FloatStorage``: called with a size, with numbers or with the bytes."""

    dtype: Any

    def __call__(cls, *args: Any, wrap_storage: Any = None) -> TypedStorage:
        if wrap_storage is not None:
            if args:
                raise RuntimeError(f"{cls.__name__}: no other arguments are allowed with wrap_storage")
            return TypedStorage(wrap_storage=wrap_storage, dtype=cls.dtype)
        if len(args) > 1:
            raise RuntimeError(f"{cls.__name__}: expected a size or a sequence of numbers, got {len(args)} arguments")
        return TypedStorage(*args, dtype=cls.dtype)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The first ``size`` elements of a file."""
        return TypedStorage._of_file(filename, shared, size, cls.dtype)

    def from_buffer(cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0) -> TypedStorage:
        """A copy of the elements in a buffer."""
        return TypedStorage._of_buffer(buffer, byte_order, count, offset, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype and instance.device.type == "cpu"

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def make(name: str) -> StorageType:
    """The type of one name, such as "LongStorage"."""
    dtype = DTYPES[name.removesuffix("Storage")]
    doc = (
        f"Storages of {dtype}: ``{name}(4)`` is uninitialised, ``{name}([1, 0])`` holds the data.\n\nExample::\n\n"
        f"    >>> oneflow.{name}([1, 0]).size()\n    2"
    )
    return StorageType(name, (), {"__module__": "oneflow", "__doc__": doc, "dtype": getattr(oneflow, dtype)})


__all__ = []

for _kind in DTYPES:
    globals()[f"{_kind}Storage"] = make(f"{_kind}Storage")
    __all__.append(f"{_kind}Storage")
