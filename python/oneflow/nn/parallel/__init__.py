"""Modules over several devices by PyTorch's names. Global tensors do more: :meth:`oneflow.Tensor.to_global`."""

from __future__ import annotations

from oneflow.nn.parallel.data_parallel import DataParallel, data_parallel
from oneflow.nn.parallel.distributed import DistributedDataParallel
from oneflow.nn.parallel.parallel_apply import parallel_apply
from oneflow.nn.parallel.scatter_gather import gather, scatter

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "scatter"]
