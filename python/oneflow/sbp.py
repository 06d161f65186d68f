"""How a global tensor lies over a mesh axis: split along a dimension, whole on every rank, or as terms of a sum.

>>> import oneflow
>>> oneflow.sbp.split(0)
oneflow.sbp.split(dim=0)
>>> oneflow.sbp.broadcast
oneflow.sbp.broadcast
"""

from __future__ import annotations

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
