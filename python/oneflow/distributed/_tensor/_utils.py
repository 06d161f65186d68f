"""The older place of :mod:`oneflow.distributed.tensor._utils`."""

from __future__ import annotations

from oneflow.distributed.tensor._utils import compute_local_shape_and_global_offset

__all__ = ["compute_local_shape_and_global_offset"]
