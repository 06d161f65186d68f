"""A rank's file in memory: copied there while training waits, or beside it, and written while it goes on.

The copies stand as in the file, so that a write of many bytes takes one system call. They go to the disk past the
page cache where the file system can do that (``O_DIRECT``): another copy in the system's memory would take time from a
core that trains, and writing it back would throttle whoever asks for memory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.models.safetensors import lay_out

__all__ = ["Copies", "StagedFile", "StagingFuture"]

# What the system asks of addresses, positions and lengths that go past its cache.
_ALIGN = 4096
# Bytes that are copied at once, and of one system call: many requests for the disk, and soon enough an error.
_PIECE = 32 << 20


class Copies:
    """Copies that several threads make together.

    Args:
        pieces: targets and what is copied there. Neither is kept once it is done.
    """

    def __init__(self, pieces: list[tuple[Tensor, Tensor]]) -> None:
        # Popping one is atomic.
        self._pieces, self._n_open = deque(pieces), len(pieces)
        self._lock, self._done = threading.Lock(), threading.Event()
        self._failure: BaseException | None = None
        # Called once with the error, or with none.
        self.then: Callable[[BaseException | None], None] = lambda failure: None

    def finish(self, timeout: float | None = None) -> None:
        """Copy what nobody else has taken, and return when all is copied.

        Raises:
            TimeoutError: another thread still copies after that many seconds.
        """
        while self._pieces and self._failure is None:
            with contextlib.suppress(IndexError):
                self._copy(*self._pieces.popleft())
        if not self.are_done() and self._failure is None and not self._done.wait(timeout):
            raise TimeoutError
        if self._failure is not None:
            raise self._failure

    def are_done(self) -> bool:
        """Whether what is copied may change."""
        return self._n_open == 0

    def _copy(self, target: Tensor, source: Tensor) -> None:
        failure: BaseException | None = None
        try:
            with oneflow.no_grad():
                target.view(source.dtype).view(source.shape).copy_(source)
        except BaseException as error:
            failure = error
        with self._lock:
            self._n_open -= failure is None
            is_last = failure is None and self._n_open == 0
            if failure is not None and self._failure is None:
                self._failure, is_last = failure, True
                self._pieces.clear()
        if is_last:
            self.then(failure)
            self._done.set()
        if failure is not None:
            raise failure


class StagedFile:
    """A safetensors file of copies of tensors.

    Args:
        tensors: what the file will hold, of any device and strides. They may change once ``copies`` are done.
        later: copies are not made yet when this returns.
    """

    def __init__(self, tensors: dict[str, Tensor], later: bool = False) -> None:
        header, places = lay_out(tensors)
        self._size = max([len(header), *(end for _, end in places.values())])
        room = oneflow.empty(-(-self._size // _ALIGN) * _ALIGN + _ALIGN, dtype=oneflow.uint8)
        start = -room.data_ptr() % _ALIGN
        self._image = room[start : room.numel() - _ALIGN + start]
        with oneflow.no_grad():
            self._image[: len(header)].copy_(oneflow.frombuffer(bytearray(header), dtype=oneflow.uint8))
            # The rest of the last block is written, too, and then cut off.
            self._image[self._size :].zero_()
        self.copies = Copies(list(_pieces(self._image, tensors, places)))
        if not later:
            self.copies.finish()

    def write(self, path: Path) -> None:
        """Write the file, which appears whole or not at all."""
        self.copies.finish()
        scratch = Path(f"{path}.tmp")
        view = memoryview(self._image.numpy())
        try:
            if not _write(scratch, view, getattr(os, "O_DIRECT", 0)):
                _write(scratch, view, 0)
            os.truncate(scratch, self._size)
            os.replace(scratch, path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


def _pieces(
    image: Tensor, tensors: dict[str, Tensor], places: dict[str, tuple[int, int]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Parts of the image, and of the tensors that they are copied from."""
    for name, (begin, end) in places.items():
        t = tensors[name].detach()
        if begin == end:
            continue
        if not t.is_contiguous():
            yield image[begin:end], t
            continue
        n_bytes = max(1, _PIECE // t.element_size()) * t.element_size()
        yield from zip(image[begin:end].split(n_bytes), t.view(-1).split(n_bytes // t.element_size()), strict=True)


class StagingFuture(Future[None]):
    """The time when the tensors of a save are copied. Who waits for it copies what the background has not.

    Args:
        copies: nobody makes them yet.
        failure: why there will be none.
    """

    def __init__(self, copies: Copies | None, failure: BaseException | None = None) -> None:
        super().__init__()
        self._copies = copies
        if failure is not None:
            self.set_exception(failure)
        elif copies is None or copies.are_done():
            self.set_result(None)
        else:
            copies.then = self._end

    def _end(self, failure: BaseException | None) -> None:
        if failure is None:
            self.set_result(None)
        else:
            self.set_exception(failure)

    def _help(self, timeout: float | None) -> None:
        if self._copies is not None:
            # The error is the future's.
            with contextlib.suppress(Exception):
                self._copies.finish(timeout)

    def result(self, timeout: float | None = None) -> None:
        self._help(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._help(timeout)
        return super().exception(0)


def _write(path: Path, view: Any, how: int) -> bool:
    """Write whole blocks to a new file; false if the file system does not write in this way."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | how, 0o666)
    except OSError as error:
        if how and error.errno == errno.EINVAL:
            return False
        raise
    try:
        at = 0
        while at < len(view):
            at += os.pwrite(file, view[at : at + _PIECE], at)
            if how and at % _ALIGN:
                # A disk that is nearly full, or a system with other sizes.
                return False
    except OSError as error:
        if how and error.errno == errno.EINVAL:
            return False
        raise
    finally:
        os.close(file)
    return True
