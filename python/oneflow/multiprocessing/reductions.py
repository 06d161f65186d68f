"""How tensors cross to another process: their storage as a descriptor of shared memory, their layout as numbers."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import oneflow
from oneflow import Tensor, UntypedStorage
from oneflow.nn.parameter import Parameter
from oneflow.utils.data._shared import _open_segment

__all__ = ["init_reductions", "reduce_tensor"]

# Storages of this process that are shared already: the storage's address to its segment, which the storage keeps alive.
_shared: dict[int, weakref.ref[_Segment]] = {}
# Segments opened here, by the memory's identity, so that one memory is mapped once.
_opened: weakref.WeakValueDictionary[tuple[int, int], _Segment] = weakref.WeakValueDictionary()


class _Segment:
    """Mapped shared memory with its descriptor."""

    def __init__(self, fd: int, n_bytes: int) -> None:
        self.fd, self.n_bytes = fd, n_bytes
        self.map = mmap.mmap(fd, max(n_bytes, 1))
        self.pin = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self.pin)

    def __del__(self) -> None:
        os.close(self.fd)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def segment_of(storage: UntypedStorage) -> _Segment:
    """The storage's shared memory. The bytes move there on first use."""
    segment = shared_segment(storage)
    if segment is None:
        n_bytes = storage.nbytes()
        segment = _Segment(_open_segment(max(n_bytes, 1)), n_bytes)
        storage._move_into(segment.address, segment)
        _opened[_identity(segment.fd)] = segment
        _remember(storage, segment)
    return segment


def shared_segment(storage: UntypedStorage) -> _Segment | None:
    """The storage's shared memory, None where it is private."""
    known = _shared.get(storage._cdata)
    segment = None if known is None else known()
    return segment if segment is not None and segment.address == storage.data_ptr() else None


def _remember(storage: UntypedStorage, segment: _Segment) -> None:
    for key in [key for key, alive in _shared.items() if alive() is None]:
        del _shared[key]
    _shared[storage._cdata] = weakref.ref(segment)


def _open(handle: Any, n_bytes: int) -> _Segment:
    fd = handle.detach()
    key = _identity(fd)
    segment = _opened.get(key)
    if segment is not None:
        os.close(fd)
        return segment
    segment = _opened[key] = _Segment(fd, n_bytes)
    return segment


def _rebuild(kind: Any, handle: Any, n_bytes: int, dtype: Any, layout: Any, requires_grad: bool) -> Tensor:
    segment = _open(handle, n_bytes)
    storage = UntypedStorage._from_address(segment.address, n_bytes, segment)
    _remember(storage, segment)
    offset, shape, stride = layout
    tensor = oneflow.empty((0,), dtype=dtype).set_(storage, offset, shape, stride)
    return Parameter(tensor, requires_grad) if kind is Parameter else tensor.requires_grad_(requires_grad)


def reduce_tensor(tensor: Tensor) -> Any:
    """What ``multiprocessing`` sends instead of a tensor.

    Example::

        >>> rebuild, parts = oneflow.multiprocessing.reductions.reduce_tensor(oneflow.ones(2))
        >>> callable(rebuild)
        True
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if tensor.device.type != "cpu" or tensor.is_sparse or not tensor.is_local or tensor.numel() == 0:
        return tensor.__reduce_ex__(2)
    storage = tensor.untyped_storage()
    segment = segment_of(storage)
    layout = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
    kind = Parameter if isinstance(tensor, Parameter) else Tensor
    return _rebuild, (kind, DupFd(segment.fd), segment.n_bytes, tensor.dtype, layout, tensor.requires_grad)


def init_reductions() -> None:
    """Teach ``multiprocessing`` to send tensors.

    Example::

        >>> oneflow.multiprocessing.reductions.init_reductions()  # Importing oneflow.multiprocessing does it.
    """
    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, reduce_tensor)
