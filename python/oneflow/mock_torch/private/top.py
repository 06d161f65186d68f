"""Names of ``torch`` itself that packages mention though oneflow has them elsewhere or not at all."""

from __future__ import annotations

from oneflow import Tensor, tensor
from oneflow.futures import Future
from oneflow.jit import ScriptModule
from oneflow.mock_torch.private._C import DeviceObjType, FloatType, PyTorchFileReader, PyTorchFileWriter, TensorType

__all__ = [
    "DeviceObjType",
    "FloatType",
    "Future",
    "PyTorchFileReader",
    "PyTorchFileWriter",
    "ScriptModule",
    "TensorType",
    "_shape_as_tensor",
]


def _shape_as_tensor(x: Tensor) -> Tensor:
    """Return the sizes of a tensor as a tensor of int64."""
    return tensor(list(x.shape))
