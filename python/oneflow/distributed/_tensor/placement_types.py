"""The older place of :mod:`oneflow.distributed.tensor.placement_types`."""

from __future__ import annotations

from oneflow.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from oneflow.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensorSpec", "Partial", "Placement", "Replicate", "Shard", "TensorMeta"]
