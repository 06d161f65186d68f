"""A rank's file in memory: copied there while training waits, and written while it goes on.

The copies stand as in the file, so that a write of many bytes takes one system call. They go to the disk past the
page cache where the file system can do that (``O_DIRECT``): another copy in the system's memory would take time from a
core that trains, and writing it back would throttle whoever asks for memory.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.models.safetensors import lay_out

__all__ = ["StagedFile"]

# What the system asks of addresses, positions and lengths that go past its cache.
_ALIGN = 4096
# Bytes of one system call: many requests for the disk, and soon enough an error.
_PIECE = 32 << 20


class StagedFile:
    """A safetensors file of copies of tensors.

    Args:
        tensors: what the file will hold, of any device and strides. They may change once this returns.
    """

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        header, places = lay_out(tensors)
        self._size = max([len(header), *(end for _, end in places.values())])
        room = oneflow.empty(-(-self._size // _ALIGN) * _ALIGN + _ALIGN, dtype=oneflow.uint8)
        start = -room.data_ptr() % _ALIGN
        self._image = room[start : room.numel() - _ALIGN + start]
        with oneflow.no_grad():
            self._image[: len(header)].copy_(oneflow.frombuffer(bytearray(header), dtype=oneflow.uint8))
            for name, (begin, end) in places.items():
                if begin < end:
                    t = tensors[name].detach()
                    self._image[begin:end].view(t.dtype).view(t.shape).copy_(t)
            # The rest of the last block is written, too, and then cut off.
            self._image[self._size :].zero_()

    def write(self, path: Path) -> None:
        """Write the file, which appears whole or not at all."""
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
