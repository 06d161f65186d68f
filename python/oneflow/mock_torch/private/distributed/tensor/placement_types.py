"""``torch.distributed.tensor.placement_types``, with a private placement that packages compare with."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse_class
from oneflow.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_StridedShard: Any = refuse_class(
    "torch.distributed.tensor.placement_types._StridedShard", "use Shard on each dimension of the mesh"
)
