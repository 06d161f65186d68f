"""``torch.distributed.tensor.experimental``: context parallelism, and local tensors in calls beside DTensors."""

from __future__ import annotations

from oneflow.distributed.tensor.experimental._context_parallel._attention import context_parallel
from oneflow.distributed.tensor.experimental._implicit_replication import implicit_replication

__all__ = ["context_parallel", "implicit_replication"]
