"""The tensor class, and the tuple that OneFlow returns several tensors in."""

from __future__ import annotations

from oneflow import Tensor

# Functions of this package return plain tuples.
TensorTuple = tuple

__all__ = ["Tensor", "TensorTuple"]
