"""``torch._subclasses``: tensors without values that seem to lie on a device."""

from __future__ import annotations

from oneflow.mock_torch.private._subclasses import fake_tensor
from oneflow.mock_torch.private._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "fake_tensor"]
