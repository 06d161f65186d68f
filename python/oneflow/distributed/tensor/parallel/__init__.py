"""Tensor parallelism of modules by a plan: PyTorch's ``torch.distributed.tensor.parallel``."""

from __future__ import annotations

from oneflow.distributed.tensor.parallel._loss import loss_parallel
from oneflow.distributed.tensor.parallel._plan import parallelize_module
from oneflow.distributed.tensor.parallel._styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]
