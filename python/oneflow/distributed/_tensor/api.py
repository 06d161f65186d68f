"""The older place of the functions of :mod:`oneflow.distributed.tensor`."""

from __future__ import annotations

from oneflow.distributed.tensor import DTensor, distribute_module, distribute_tensor

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]
