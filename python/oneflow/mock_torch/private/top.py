"""Names of ``torch`` itself that packages mention though oneflow has them elsewhere or not at all."""

from __future__ import annotations

from oneflow import Tensor, _oneflow, tensor
from oneflow.futures import Future
from oneflow.jit import ScriptModule
from oneflow.library import Tag
from oneflow.mock_torch.private._C import DeviceObjType, FloatType, PyTorchFileReader, PyTorchFileWriter, TensorType

__all__ = [
    "DeviceObjType",
    "FloatType",
    "Future",
    "PyTorchFileReader",
    "PyTorchFileWriter",
    "ScriptModule",
    "Tag",
    "TensorType",
    "_has_compatible_shallow_copy_type",
    "_shape_as_tensor",
]


def _shape_as_tensor(x: Tensor) -> Tensor:
    """Return the sizes of a tensor as a tensor of int64."""
    return tensor(list(x.shape))


def _has_compatible_shallow_copy_type(a: Tensor, b: Tensor) -> bool:
    """Return whether ``a.data = b`` may be set: both lie in memory, in one kind of layout, or neither does."""
    is_without_memory = _oneflow._C._is_without_memory
    return a.layout is b.layout and is_without_memory(a) == is_without_memory(b)
