"""Memory that several processes share: anonymous segments, and storages over their memory.

The loader's workers and ``multiprocessing`` send the segment's file descriptor; this file defines no message.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

from oneflow._oneflow import UntypedStorage

# The segments of storages that are shared already, by the storage's address. The storage keeps its segment alive.
_shared: dict[int, weakref.ref[Segment]] = {}
# Segments opened here, by the memory's identity, so that one memory is mapped once.
_opened: weakref.WeakValueDictionary[tuple[int, int], Segment] = weakref.WeakValueDictionary()


class Segment:
    """Mapped shared memory with its descriptor."""

    def __init__(self, fd: int, n_bytes: int) -> None:
        self.fd, self.n_bytes = fd, n_bytes
        self.map = mmap.mmap(fd, max(n_bytes, 1))
        self.pin = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self.pin)

    def __del__(self) -> None:
        os.close(self.fd)


def new_segment(n_bytes: int) -> int:
    """Return a file descriptor of anonymous shared memory."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("oneflow-batch", os.MFD_CLOEXEC)
    else:
        import tempfile

        fd, path = tempfile.mkstemp(prefix="oneflow-batch-")
        os.unlink(path)
    os.ftruncate(fd, n_bytes)
    return fd


def open_segment(fd: int, n_bytes: int) -> Segment:
    """Map the memory of a descriptor, which the segment then owns, unless it is mapped already."""
    key = _identity(fd)
    segment = _opened.get(key)
    if segment is not None:
        os.close(fd)
        return segment
    segment = _opened[key] = Segment(fd, n_bytes)
    return segment


def segment_of(storage: UntypedStorage) -> Segment:
    """Return the storage's shared memory. The first call moves the bytes there."""
    segment = shared_segment(storage)
    if segment is None:
        n_bytes = storage.nbytes()
        segment = Segment(new_segment(max(n_bytes, 1)), n_bytes)
        storage._move_into(segment.address, segment)
        _opened[_identity(segment.fd)] = segment
        _remember(storage, segment)
    return segment


def shared_segment(storage: UntypedStorage) -> Segment | None:
    """Return the storage's shared memory, or None if its memory is private."""
    known = _shared.get(storage._cdata)
    segment = None if known is None else known()
    return segment if segment is not None and segment.address == storage.data_ptr() else None


def storage_in(segment: Segment, n_bytes: int) -> UntypedStorage:
    """Return a storage over the memory of a segment."""
    storage = UntypedStorage._from_address(segment.address, n_bytes, segment)
    _remember(storage, segment)
    return storage


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _remember(storage: UntypedStorage, segment: Segment) -> None:
    for key in [key for key, alive in _shared.items() if alive() is None]:
        del _shared[key]
    _shared[storage._cdata] = weakref.ref(segment)
