"""``torch.distributed.tensor``: layouts of tensors on devices; the tensors are oneflow's global ones."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse, refuse_class
from oneflow.mock_torch.private.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor"]

_INSTEAD = "oneflow splits tensors with oneflow.Tensor.to_global over an oneflow.placement"

DTensor: Any = refuse_class("torch.distributed.tensor.DTensor", _INSTEAD)
distribute_tensor = refuse("torch.distributed.tensor.distribute_tensor", _INSTEAD)
distribute_module = refuse("torch.distributed.tensor.distribute_module", _INSTEAD)
