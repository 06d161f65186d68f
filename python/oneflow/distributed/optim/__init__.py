"""Optimizers of several ranks: PyTorch's ``torch.distributed.optim``. Those of its RPC framework are left out."""

from __future__ import annotations

from oneflow.distributed.optim.apply_optimizer_in_backward import (
    _apply_optimizer_in_backward,
    _get_in_backward_optimizers,
)
from oneflow.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from oneflow.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = [
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
    "_apply_optimizer_in_backward",
    "_get_in_backward_optimizers",
]
