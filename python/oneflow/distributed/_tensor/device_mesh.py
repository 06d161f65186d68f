"""The older place of :mod:`oneflow.distributed.device_mesh`."""

from __future__ import annotations

from oneflow.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
