"""``concat`` and ``zip``: one table of several."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from oneflow.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import length

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _check(pipes: tuple[Any, ...]) -> None:
    if not pipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    for kind in (MapDataPipe, Sized):
        if not all(isinstance(pipe, kind) for pipe in pipes):
            raise TypeError(f"Expected all inputs to be `{kind.__name__}`")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """One table behind the other, by number (functional form: ``concat``).

    Raises:
        ValueError: there is none.
        TypeError: something is no table with a length.

    Example::

        >>> from oneflow.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper("ab").concat(SequenceWrapper("cd"))[2]
        'c'
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        _check(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        left = index
        for pipe, n in zip(self.datapipes, length(self, *self.datapipes), strict=True):
            if left < n:
                return pipe[left]
            left -= n
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(length(self, *self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple[Any, ...]]):
    """Tuples of an item of each table (functional form: ``zip``).

    Raises:
        ValueError: there is none.
        TypeError: something is no table with a length.
        IndexError: one has no such item.

    Example::

        >>> from oneflow.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper("abc").zip(SequenceWrapper([1, 2]))[1]
        ('b', 2)
    """

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        _check(datapipes)
        self.datapipes = datapipes

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        found = []
        for pipe in self.datapipes:
            try:
                found.append(pipe[index])
            except IndexError as error:
                raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes {pipe}.") from error
        return tuple(found)

    def __len__(self) -> int:
        return min(length(self, *self.datapipes))
