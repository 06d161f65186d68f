"""Checks of arguments that several OneFlow functions share. Messages name the argument and the value."""

from __future__ import annotations

from collections.abc import Sequence

import oneflow
from oneflow import Tensor
from oneflow._base import wording

_INDICES = (oneflow.int32, oneflow.int64)


def expect(condition: bool, message: str, error: type[Exception] = RuntimeError) -> None:
    """Raise ``error`` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise wording.error(error, message)


def least_dims(name: str, tensor: Tensor, least: int) -> None:
    """Check that a tensor has at least ``least`` dimensions."""
    expect(
        tensor.dim() >= least,
        f"The dimension of {name} must be greater than or equal to {least}, but found {tensor.dim()}",
    )


def one_dim_less(name: str, tensor: Tensor, of: str, other: Tensor) -> None:
    """Check that ``tensor`` has the sizes of ``other`` without its last dimension."""
    one_dim_fewer(name, tensor, of, other)
    same_sizes(of, other, name, tensor, tensor.dim())


def one_dim_fewer(name: str, tensor: Tensor, of: str, other: Tensor) -> None:
    """Check that ``tensor`` has one dimension less than ``other``."""
    expect(
        tensor.dim() == other.dim() - 1,
        f"The dimension of {name} is expected to be less than that of {of} by 1, but found {tensor.dim()} "
        f"and {other.dim()}",
    )


def same_sizes(name: str, tensor: Tensor, of: str, other: Tensor, dims: int | None = None) -> None:
    """Check that the sizes of two tensors are equal along the first ``dims`` dimensions, or along all."""
    if dims is None:
        expect(
            tensor.dim() == other.dim(),
            f"The dimension of {name} ({tensor.dim()}) must match the dimension of {of} ({other.dim()})",
        )
    for axis in range(tensor.dim() if dims is None else dims):
        expect(
            tensor.shape[axis] == other.shape[axis],
            f"The size of {name} ({list(tensor.shape)}) must match the size of {of} ({list(other.shape)}) at "
            f"dimension {axis}",
        )


def same_dtype(name: str, tensor: Tensor, of: str, other: Tensor) -> None:
    """Check that two tensors have one dtype."""
    expect(
        tensor.dtype == other.dtype,
        f"{name} and {of} are expected to have the same dtype, but found {tensor.dtype} and {other.dtype}",
        TypeError,
    )


def integers(name: str, tensor: Tensor) -> None:
    """Check that a tensor holds integers."""
    expect(
        not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == oneflow.bool),
        f"The dtype of {name} must be integer, but found {tensor.dtype}",
        TypeError,
    )


def indices(name: str, tensor: Tensor) -> None:
    """Check that a tensor holds indices."""
    expect(
        tensor.dtype in _INDICES,
        f"The dtype of the {name} tensor must be int32 or int64, but found {tensor.dtype}",
        TypeError,
    )


def labels(label: Tensor, prediction: Tensor) -> None:
    """Check labels (*) and predictions (*, classes)."""
    least_dims("prediction", prediction, 2)
    integers("label", label)
    one_dim_less("label", label, "prediction", prediction)


def slice_lists(ndim: int, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> None:
    """Check the lists of a slice: one entry a dimension, no entry below zero, steps above it."""
    for name, values in (("start", start), ("stop", stop)):
        for value in values:
            expect(value >= 0, f"The {name} list elements must be greater than or equal to 0, but got {value}")
    for axis, (first, last, every) in enumerate(zip(start, stop, step, strict=True)):
        expect(every > 0, f"The step list elements must be greater than 0, but got {every}")
        expect(
            first <= last,
            "The element in start list must be less than or equal to the element in stop list at index "
            f"{axis}, but got {first} and {last}",
        )
    expect(
        len(start) == ndim,
        f"The size of slice tuple must be equal to the size of value tensor at dimension {ndim}, but got {len(start)}",
    )


def reduction(value: str) -> None:
    """Check the name of a reduction."""
    expect(value in ("none", "sum", "mean"), f"Reduction should be none, sum or mean. Got {value!r}", ValueError)
