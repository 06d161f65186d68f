"""Modules over several devices by PyTorch's names. Global tensors do more: :meth:`oneflow.Tensor.to_global`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow.nn._ddp import DistributedDataParallel
from oneflow.nn.modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]

_INSTEAD = "make the model and its inputs global: module.to_global(placement, oneflow.sbp.broadcast)"


class DataParallel(Module):
    """The module as ``self.module``, for programs that wrap theirs. It runs where its parameters are: on one device.

    Args:
        module: the module.
        device_ids: the GPUs to use; all if left out. At most one.
        output_device: where the result is put.
        dim: dimension of the batch.

    Raises:
        NotImplementedError: there are several GPUs to use: a module is not copied to them by threads.

    Example::

        >>> nn.DataParallel(nn.Linear(2, 1))(oneflow.ones(3, 2)).shape
        oneflow.Size([3, 1])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        devices = list(range(oneflow.cuda.device_count())) if device_ids is None else list(device_ids)
        if len(devices) > 1:
            raise NotImplementedError(f"oneflow.nn.DataParallel uses one device, not {len(devices)}: {_INSTEAD}")
        self.module = module
        self.device_ids, self.output_device, self.dim = devices, output_device, dim
        if devices:
            self.module.to(oneflow.device(f"cuda:{devices[0]}") if isinstance(devices[0], int) else devices[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*inputs, **kwargs)


# PyTorch has a module for each.
data_parallel = distributed = sys.modules[__name__]
sys.modules[f"{__name__}.data_parallel"] = sys.modules[f"{__name__}.distributed"] = distributed
