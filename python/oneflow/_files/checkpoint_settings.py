"""Settings of ``save`` and ``load`` that hold for a process or for a block, under PyTorch's names."""

from __future__ import annotations

import mmap
import sys
import threading
from enum import Enum
from types import TracebackType
from typing import Literal

__all__ = [
    "LoadEndianness",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]


class LoadEndianness(Enum):
    """Byte order of numbers in a file: that of this machine, or a fixed one.

    Example::

        >>> oneflow.serialization.LoadEndianness.LITTLE.name
        'LITTLE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Settings:
    byte_order: LoadEndianness | None = None
    compute_crc32: bool = True
    # Windows has no such flags.
    mmap_flags: int | None = getattr(mmap, "MAP_PRIVATE", None)


class _OfThread(threading.local):
    skips_data: bool = False


_settings = _Settings()
_of_thread = _OfThread()


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order assumed for files that do not name one; None is this machine's.

    Example::

        >>> oneflow.serialization.get_default_load_endianness() is None
        True
    """
    return _settings.byte_order


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order that ``load`` assumes for files that do not name one.

    Args:
        endianness: the order; None for this machine's.

    Raises:
        TypeError: it is something else.

    Example::

        >>> oneflow.serialization.set_default_load_endianness(oneflow.serialization.LoadEndianness.BIG)
        >>> oneflow.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            f"Invalid argument type in function set_default_load_endianness: {type(endianness).__name__}, "
            "expected LoadEndianness or None"
        )
    _settings.byte_order = endianness


def assumed_order() -> str:
    """Return "little" or "big": what holds for a file that does not name its byte order."""
    order = _settings.byte_order
    return sys.byteorder if order in (None, LoadEndianness.NATIVE) else order.name.lower()  # type: ignore[union-attr]


def get_crc32_options() -> bool:
    """Return whether ``save`` writes a checksum for each record.

    Example::

        >>> oneflow.serialization.get_crc32_options()
        True
    """
    return _settings.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether ``save`` writes a checksum for each record.

    Without it ``save`` is faster, ``load`` does not notice damaged numbers, and other programs that unpack the archive
    may complain of wrong checksums.

    Example::

        >>> oneflow.serialization.set_crc32_options(False)
        >>> oneflow.serialization.set_crc32_options(True)
    """
    _settings.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """Return how ``load(mmap=True)`` maps a file: ``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``.

    Example::

        >>> import mmap
        >>> oneflow.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        True
    """
    return _settings.mmap_flags


class set_default_mmap_options:
    """Set how ``load(mmap=True)`` maps a file; as a context manager, for the time of a block.

    Args:
        flags: ``mmap.MAP_PRIVATE`` keeps writes to loaded tensors in memory, ``mmap.MAP_SHARED`` writes them to the
            file.

    Raises:
        ValueError: other flags.
        RuntimeError: the platform has no such flags.

    Example::

        >>> import mmap
        >>> with oneflow.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     oneflow.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if _settings.mmap_flags is None:
            raise RuntimeError("Changing the default mmap options is not supported on this platform")
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, "
                f"expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self.before = _settings.mmap_flags
        _settings.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _settings.mmap_flags = self.before


class skip_data:
    """Context manager: ``save`` leaves room for the numbers of tensors and does not write them.

    The room reads as zeros until another program fills it. It holds for the thread that enters.

    Args:
        materialize_fake_tensors: must be False: there are no fake tensors.

    Raises:
        NotImplementedError: ``materialize_fake_tensors=True``.

    Example::

        >>> with oneflow.serialization.skip_data():
        ...     oneflow.save(oneflow.ones(2), "room.pt")
        >>> oneflow.load("room.pt")
        tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: materialize_fake_tensors=True has no meaning: no tensor is fake")
        self.before = False

    def __enter__(self) -> None:
        self.before = _of_thread.skips_data
        _of_thread.skips_data = True

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        _of_thread.skips_data = self.before
        return False


def skips_data() -> bool:
    """Return whether this thread is inside of :class:`skip_data`."""
    return _of_thread.skips_data
