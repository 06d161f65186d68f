"""Streams and tables of samples that are joined like pipes: PyTorch's ``torch.utils.data.datapipes``.

``IterableWrapper(range(10)).filter(is_even).shuffle().batch(2)`` reads from left to right. Each method is the
functional
form of a class of :mod:`oneflow.utils.data.datapipes.iter` (streams) or :mod:`oneflow.utils.data.datapipes.map`
(tables).
A :class:`oneflow.utils.data.DataLoader` seeds what shuffles and gives each worker its part at ``sharding_filter``. Data
frames and decoders of files are left out.
"""

from __future__ import annotations

from oneflow.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
