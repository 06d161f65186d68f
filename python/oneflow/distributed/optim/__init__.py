"""Optimizers of several ranks: PyTorch's ``torch.distributed.optim``."""

from __future__ import annotations

from typing import Any

from oneflow._base.lazy import LazyNames
from oneflow.distributed.optim.apply_optimizer_in_backward import (
    _apply_optimizer_in_backward,
    _get_in_backward_optimizers,
)
from oneflow.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from oneflow.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "DistributedOptimizer",
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
    "_apply_optimizer_in_backward",
    "_get_in_backward_optimizers",
]

_lazy = LazyNames(
    "oneflow.distributed.optim", ("optimizer",), {"distributed.optim.optimizer": ("DistributedOptimizer",)}
)


def __getattr__(name: str) -> Any:
    """Return what needs :mod:`oneflow.distributed.rpc`, imported on first use."""
    return _lazy.find(name)
