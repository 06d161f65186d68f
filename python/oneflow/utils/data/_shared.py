"""Tensors between a loader and its workers: through shared memory that both keep, over a socket that carries the rest.

A worker writes a batch into segments of anonymous shared memory and sends their numbers; a segment's file descriptor
crosses once. The loader's tensors use the same memory. When the last of them is freed, the number goes back with the
next task and the worker uses the segment again: nothing is copied, mapped or faulted in twice. Knows no data sets.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import socket
import struct
import weakref
from typing import Any

import oneflow
from oneflow import Tensor, UntypedStorage
from oneflow._base.shared_memory import new_segment

# Below this a tensor travels with the message.
_SMALL = 2048
_PAGE = mmap.PAGESIZE
_HEAD = struct.Struct("<QI")
_MAX_FDS = 200


class _Mapping:
    """A mapped segment."""

    def __init__(self, fd: int, n_bytes: int) -> None:
        self.map = mmap.mmap(fd, n_bytes)
        self.n_bytes = n_bytes
        self.pin = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self.pin)


class _Lease:
    """Keeps a mapping alive for the tensors in it; its end is the tensors' end."""

    __slots__ = ("__weakref__", "mapping")

    def __init__(self, mapping: _Mapping) -> None:
        self.mapping = mapping


def _tensor_at(address: int, n_bytes: int, keep: Any, dtype: Any, shape: Any) -> Tensor:
    storage = UntypedStorage._from_address(address, n_bytes, keep)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return oneflow.empty((0,), dtype=dtype).set_(storage, 0, tuple(shape), tuple(reversed(strides)))


def _n_bytes(shape: Any, dtype: Any) -> int:
    n = dtype.itemsize
    for size in shape:
        n *= size
    return n


class Sender:
    """The worker's side: segments it owns, and which of them are free."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []  # (bytes, number), smallest first
        self.mappings: dict[int, _Mapping] = {}
        self.unsent: dict[int, int] = {}  # number: file descriptor that has not crossed yet
        self.made: dict[int, tuple[int, int]] = {}  # address of a batch's tensor: (number, bytes used)

    def give_back(self, numbers: list[int]) -> None:
        """Take segments whose tensors are gone in the loader."""
        self.free += [(self.mappings[number].n_bytes, number) for number in numbers]
        self.free.sort()

    def _segment(self, n_bytes: int) -> int:
        for i, (size, _) in enumerate(self.free):
            if n_bytes <= size <= max(2 * n_bytes, 16 * _PAGE):
                return self.free.pop(i)[1]
        number = len(self.mappings)
        size = -(-n_bytes // _PAGE) * _PAGE
        fd = new_segment(size)
        self.mappings[number] = _Mapping(fd, size)
        self.unsent[number] = fd
        return number

    def empty(self, shape: Any, dtype: Any) -> Tensor:
        """A contiguous tensor in a segment, to write a batch into."""
        n_bytes = _n_bytes(shape, dtype)
        if n_bytes < _SMALL:
            return oneflow.empty(shape, dtype=dtype)
        number = self._segment(n_bytes)
        mapping = self.mappings[number]
        self.made[mapping.address] = (number, n_bytes)
        return _tensor_at(mapping.address, n_bytes, mapping, dtype, shape)

    def _place(self, tensor: Tensor) -> tuple[int, Any, tuple[int, ...]]:
        """Return the position of a tensor for the other side. One outside this batch's segments is copied first."""
        shape = tuple(tensor.shape)
        made = self.made.pop(tensor.data_ptr(), None)
        if made is None or made[1] != _n_bytes(shape, tensor.dtype) or not tensor.is_contiguous():
            if made is not None:
                self.made[tensor.data_ptr()] = made
            copy = self.empty(shape, tensor.dtype)
            copy.copy_(tensor)
            made = self.made.pop(copy.data_ptr())
        return made[0], tensor.dtype, shape

    def send(self, channel: socket.socket, message: Any) -> None:
        """Send a message with its tensors."""
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self)
        try:
            pickler.dump(message)
        finally:
            # Segments that were allocated and not sent are free again.
            self.give_back([number for number, _ in self.made.values()])
            self.made.clear()
        new = sorted(set(pickler.numbers) & self.unsent.keys())
        fds = [self.unsent.pop(number) for number in new]
        sizes = [(number, self.mappings[number].n_bytes) for number in new]
        head = pickle.dumps(sizes) if new else b""
        send_bytes(channel, head, buffer.getbuffer(), fds)
        for fd in fds:
            os.close(fd)


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, sender: Sender) -> None:
        super().__init__(file, protocol=5)
        self.sender = sender
        self.numbers: list[int] = []
        self.known: dict[int, Any] = {}

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not Tensor:
            return None
        if obj.device.type != "cpu" or obj.requires_grad or obj.is_sparse or _n_bytes(obj.shape, obj.dtype) < _SMALL:
            return None
        place = self.known.get(id(obj))
        if place is None:
            place = self.known[id(obj)] = (*self.sender._place(obj), len(self.numbers))
            self.numbers.append(place[0])
        return place


class Receiver:
    """The loader's side of one worker: mapped segments, and those that can go back."""

    def __init__(self) -> None:
        self.mappings: dict[int, _Mapping] = {}
        self.returned: list[int] = []

    def take_returned(self) -> list[int]:
        """Numbers of segments whose tensors are gone since the last call."""
        # The list stays the same object: finalizers of tensors append to it, at any time.
        returned = self.returned[:]
        del self.returned[: len(returned)]
        return returned

    def receive(self, channel: socket.socket) -> Any:
        """Receive one message; raises EOFError when the other side is gone."""
        head, body, fds = receive_bytes(channel)
        if head:
            for (number, n_bytes), fd in zip(pickle.loads(head), fds, strict=True):
                self.mappings[number] = _Mapping(fd, n_bytes)
                os.close(fd)
        return _Unpickler(io.BytesIO(body), self).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, receiver: Receiver) -> None:
        super().__init__(file)
        self.receiver = receiver
        self.known: dict[int, Tensor] = {}

    def persistent_load(self, place: Any) -> Tensor:
        number, dtype, shape, index = place
        if index not in self.known:
            lease = _Lease(self.receiver.mappings[number])
            weakref.finalize(lease, self.receiver.returned.append, number).atexit = False  # type: ignore[misc]
            address, n_bytes = lease.mapping.address, _n_bytes(shape, dtype)
            self.known[index] = _tensor_at(address, n_bytes, lease, dtype, shape)
        return self.known[index]


def message(head: bytes, body: bytes) -> bytes:
    """The bytes of a message without file descriptors."""
    return _HEAD.pack(len(body), len(head)) + head + body


def send_bytes(channel: socket.socket, head: bytes, body: Any, fds: list[int]) -> None:
    """Send two byte strings, and file descriptors with the first bytes."""
    start = _HEAD.pack(len(body), len(head)) + head
    if fds:
        if len(fds) > _MAX_FDS:
            raise RuntimeError(f"a batch of {len(fds)} new tensors is more than one message can carry ({_MAX_FDS})")
        sent = socket.send_fds(channel, [start], fds)
        start = start[sent:]
    if start:
        channel.sendall(start)
    channel.sendall(body)


def receive_bytes(channel: socket.socket) -> tuple[bytes, bytearray, list[int]]:
    """Receive what ``send_bytes`` sent; raises EOFError when the other side is gone."""
    start, fds, _, _ = socket.recv_fds(channel, _HEAD.size, _MAX_FDS)
    if not start:
        raise EOFError
    start += _exactly(channel, _HEAD.size - len(start))
    n_body, n_head = _HEAD.unpack(start)
    head = bytes(_exactly(channel, n_head))
    return head, _exactly(channel, n_body), fds


def _exactly(channel: socket.socket, n: int) -> bytearray:
    data = bytearray(n)
    view, at = memoryview(data), 0
    while at < n:
        got = channel.recv_into(view[at:])
        if got == 0:
            raise EOFError
        at += got
    return data


_sender: Sender | None = None


def set_sender(sender: Sender) -> None:
    """Let ``batch_tensor`` allocate in shared memory: this is a worker."""
    global _sender
    _sender = sender


def batch_tensor(shape: Any, dtype: Any) -> Tensor | None:
    """In a worker, a tensor in shared memory to collate into; None elsewhere."""
    return None if _sender is None else _sender.empty(shape, dtype)
