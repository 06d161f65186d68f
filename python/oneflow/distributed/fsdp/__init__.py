"""Training with parameters, gradients and optimizer states in slices: PyTorch's ``torch.distributed.fsdp``."""

from __future__ import annotations

from oneflow.distributed.fsdp import api, wrap
from oneflow.distributed.fsdp._fully_shard import (
    FSDPModule,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
    share_comm_ctx,
)
from oneflow.distributed.fsdp._policies import (
    CPUOffloadPolicy,
    DiskOffloadPolicy,
    MixedPrecisionPolicy,
    OffloadPolicy,
)
from oneflow.distributed.fsdp.api import *  # noqa: F403
from oneflow.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    "CPUOffloadPolicy",
    "DiskOffloadPolicy",
    "FSDPModule",
    "FullyShardedDataParallel",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
    "wrap",
]
__all__ += api.__all__
