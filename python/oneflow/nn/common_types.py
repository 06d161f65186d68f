"""Types of sizes: one number for all dimensions, or a tuple of one for each.

They are written as ``Union``, whose ``__origin__`` and ``__args__`` programs read.
"""

# ruff: noqa: UP006, UP007, UP035

from __future__ import annotations

from typing import Tuple, TypeAlias, TypeVar, Union

from oneflow import Tensor

_T = TypeVar("_T")
_scalar_or_tuple_any_t: TypeAlias = Union[_T, Tuple[_T, ...]]
_scalar_or_tuple_1_t: TypeAlias = Union[_T, Tuple[_T]]
_scalar_or_tuple_2_t: TypeAlias = Union[_T, Tuple[_T, _T]]
_scalar_or_tuple_3_t: TypeAlias = Union[_T, Tuple[_T, _T, _T]]
_size_any_t: TypeAlias = Union[int, Tuple[int, ...]]
_size_1_t: TypeAlias = Union[int, Tuple[int]]
_size_2_t: TypeAlias = Union[int, Tuple[int, int]]
_size_3_t: TypeAlias = Union[int, Tuple[int, int, int]]
_size_4_t: TypeAlias = Union[int, Tuple[int, int, int, int]]
_size_5_t: TypeAlias = Union[int, Tuple[int, int, int, int, int]]
_size_6_t: TypeAlias = Union[int, Tuple[int, int, int, int, int, int]]
_ratio_any_t: TypeAlias = Union[float, Tuple[float, ...]]
_ratio_2_t: TypeAlias = Union[float, Tuple[float, float]]
_ratio_3_t: TypeAlias = Union[float, Tuple[float, float, float]]
_tensor_list_t: TypeAlias = Union[Tensor, list[Tensor]]
