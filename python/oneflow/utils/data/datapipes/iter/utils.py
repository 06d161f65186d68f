"""``IterableWrapper``: the start of a pipeline."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from oneflow.utils.data.datapipes.datapipe import IterDataPipe
from oneflow.utils.data.datapipes.utils.common import length

__all__ = ["IterableWrapperIterDataPipe"]

T = TypeVar("T")


class IterableWrapperIterDataPipe(IterDataPipe[T]):
    """A stream of the items of an iterable.

    Args:
        iterable: what is iterated over.
        deepcopy: each pass goes over a copy, so that changes in place do not stay.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(3)))
        [0, 1, 2]
    """

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[T]:
        source: Any = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                    "source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return length(self, self.iterable)[0]
