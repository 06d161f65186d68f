"""The older name of :mod:`oneflow.distributed.tensor`."""

from __future__ import annotations

from oneflow.distributed import tensor
from oneflow.distributed.device_mesh import DeviceMesh, init_device_mesh
from oneflow.distributed.tensor import *  # noqa: F403

__all__ = ["DeviceMesh", "init_device_mesh"]
__all__ += tensor.__all__
