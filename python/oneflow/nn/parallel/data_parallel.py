"""DataParallel: a wrapper for programs that use one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]

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


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run ``module`` on ``inputs``, a tensor or a tuple of arguments, as :class:`DataParallel` does.

    Raises:
        NotImplementedError: there are several GPUs to use.

    Example::

        >>> nn.parallel.data_parallel(nn.Linear(2, 1), oneflow.ones(3, 2)).shape
        oneflow.Size([3, 1])
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
