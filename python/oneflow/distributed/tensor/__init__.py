"""Tensors over a mesh of ranks by PyTorch's names: ``torch.distributed.tensor``. They are oneflow's global tensors."""

from __future__ import annotations

from oneflow.distributed.device_mesh import DeviceMesh, init_device_mesh
from oneflow.distributed.tensor._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    linspace,
    logspace,
    ones,
    rand,
    randn,
    zeros,
)
from oneflow.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "zeros",
]
