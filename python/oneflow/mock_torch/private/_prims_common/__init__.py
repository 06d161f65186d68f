"""``torch._prims_common``: questions about shapes and dtypes that packages ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor

__all__ = [
    "is_boolean_dtype",
    "is_complex_dtype",
    "is_float_dtype",
    "is_integer_dtype",
    "make_contiguous_strides_for",
    "suggest_memory_format",
]

DeviceLikeType = Any
ShapeType = Sequence[int]
StrideType = Sequence[int]
TensorLike = Tensor


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of contiguous memory; with ``row_major=False`` the last two dimensions lie in the other order."""
    strides = [max(1, math.prod(max(1, n) for n in shape[i + 1 :])) for i in range(len(shape))]
    if not row_major and len(shape) > 1:
        strides[-2:] = [1, max(1, shape[-2])]
    return tuple(strides)


def suggest_memory_format(x: Tensor) -> oneflow.memory_format:
    """The memory format whose order of dimensions the strides of a tensor have."""
    formats = {4: oneflow.channels_last, 5: oneflow.channels_last_3d}
    if x.dim() in formats and x.numel() and x.stride(1) and _steps_grow(x, (1, *range(x.dim() - 1, 1, -1), 0)):
        return formats[x.dim()]
    return oneflow.contiguous_format


def _steps_grow(x: Tensor, order: Sequence[int]) -> bool:
    """Whether each dimension of this order steps over those before it; the last one over more than the first."""
    least = 0
    for d in order:
        if x.stride(d) < least or (d == order[-1] and least == x.stride(order[0])):
            return False
        least = x.stride(d) * max(1, x.size(d))
    return True


def dtype_to_type(dtype: oneflow.dtype) -> type:
    """The type of Python's numbers that an element becomes."""
    if dtype is oneflow.bool:
        return bool
    return float if dtype.is_floating_point else complex if dtype.is_complex else int


def type_to_dtype(typ: type) -> oneflow.dtype:
    """The dtype that a tensor of such numbers has: the default one of float and complex."""
    kinds = {bool: oneflow.bool, int: oneflow.int64, float: oneflow.get_default_dtype()}
    if typ in kinds:
        return kinds[typ]
    if typ is complex:
        return corresponding_complex_dtype(oneflow.get_default_dtype())
    raise ValueError(f"Invalid type {typ}!")


_COMPLEX = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}


def corresponding_complex_dtype(dtype: oneflow.dtype) -> oneflow.dtype:
    """The complex dtype of parts of a real one."""
    found: oneflow.dtype = getattr(oneflow, _COMPLEX[str(dtype).rpartition(".")[2]])
    return found


def corresponding_real_dtype(dtype: oneflow.dtype) -> oneflow.dtype:
    """The dtype of the parts of a complex one."""
    names = {theirs: ours for ours, theirs in _COMPLEX.items()}
    found: oneflow.dtype = getattr(oneflow, names[str(dtype).rpartition(".")[2]])
    return found


def is_boolean_dtype(dtype: oneflow.dtype) -> bool:
    """Whether it is bool."""
    return dtype is oneflow.bool


def is_float_dtype(dtype: oneflow.dtype) -> bool:
    """Whether it is a real floating-point type."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: oneflow.dtype) -> bool:
    """Whether it is complex."""
    return dtype.is_complex


def is_integer_dtype(dtype: oneflow.dtype) -> bool:
    """Whether it is an integer type; bool is none."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is oneflow.bool)
