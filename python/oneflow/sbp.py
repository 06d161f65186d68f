"""The layout of a global tensor over a mesh axis: split along a dimension, whole on every rank, or as terms of a sum.

>>> import oneflow
>>> oneflow.sbp.split(0)
oneflow.sbp.split(dim=0)
>>> oneflow.sbp.broadcast
oneflow.sbp.broadcast
"""

from __future__ import annotations

from typing import Any

import numpy

from oneflow._oneflow import _sbp as sbp

__all__ = ["broadcast", "partial_sum", "sbp", "split"]

broadcast = sbp("B")
partial_sum = sbp("P")


def split(dim: int) -> sbp:
    """Return the layout in which every rank holds a slice along ``dim``; the first ranks get the extra elements.

    Example::

        >>> oneflow.sbp.split(1)
        oneflow.sbp.split(dim=1)
    """
    return sbp("S", dim)


class _Ranks(numpy.ndarray):
    """The ranks of a placement: an array that equals, as a whole, the nested list of the same numbers."""

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, (list, tuple)):
            return numpy.bool_(self.tolist() == _lists(other))
        return super().__eq__(other)

    def __ne__(self, other: Any) -> Any:
        return ~(self == other)

    __hash__ = None

    def __repr__(self) -> str:
        return repr(self.view(numpy.ndarray))


def _lists(nest: Any) -> Any:
    return [_lists(item) for item in nest] if isinstance(nest, (list, tuple)) else nest


def _ranks(nested: list[Any]) -> _Ranks:
    return numpy.array(nested, dtype=numpy.int64).view(_Ranks)
