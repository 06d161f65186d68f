"""Forms of parallelism that are applied to a module in place: PyTorch's ``torch.distributed._composable``."""

from __future__ import annotations

from oneflow.distributed._composable.checkpoint_activation import checkpoint
from oneflow.distributed._composable.fsdp import fully_shard
from oneflow.distributed._composable.replicate import replicate

__all__ = ["checkpoint", "fully_shard", "replicate"]
