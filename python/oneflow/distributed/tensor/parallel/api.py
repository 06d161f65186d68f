"""PyTorch's place of :func:`parallelize_module`."""

from __future__ import annotations

from oneflow.distributed.tensor.parallel._plan import parallelize_module

__all__ = ["parallelize_module"]
