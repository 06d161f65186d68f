"""The older name of :mod:`oneflow.distributed.tensor`."""

from __future__ import annotations

from oneflow.distributed import tensor
from oneflow.distributed.tensor import *  # noqa: F403

__all__ = []
__all__ += tensor.__all__
