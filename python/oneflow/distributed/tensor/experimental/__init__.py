"""``torch.distributed.tensor.experimental``: context parallelism, and local tensors in calls beside DTensors."""

from __future__ import annotations

from oneflow.distributed.tensor.experimental._context_parallel._attention import context_parallel
from oneflow.distributed.tensor.experimental._implicit_replication import implicit_replication
from oneflow.distributed.tensor.experimental._local_map import local_map
from oneflow.distributed.tensor.experimental._sharding_rules import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
