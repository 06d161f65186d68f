"""``map``: a function of each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe
from oneflow.utils.data.datapipes.utils.common import _check_unpickable_fn, length

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data: Any) -> Any:
    """The item itself.

    Example::

        >>> from oneflow.utils.data.datapipes.map.callable import default_fn
        >>> default_fn(3)
        3
    """
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """A function of each item (functional form: ``map``).

    Example::

        >>> from oneflow.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper([1, 2]).map(str))
        ['1', '2']
    """

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[[Any], Any] = default_fn) -> None:
        _check_unpickable_fn(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]
