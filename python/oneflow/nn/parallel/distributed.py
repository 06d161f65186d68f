"""DistributedDataParallel in the module in which packages look for it."""

from __future__ import annotations

from oneflow.nn._ddp import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
