"""``torch.distributed.nn``: collectives with gradients under their older names, and modules of other workers."""

from __future__ import annotations

from oneflow.distributed.nn import functional
from oneflow.distributed.nn.api.remote_module import RemoteModule
from oneflow.distributed.nn.functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "RemoteModule",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
