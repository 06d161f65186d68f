"""ONNX's element types, and the values that are not tensors of this package: strings and elements of less than a
byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import oneflow as flow

FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, BFLOAT16 = 1, 2, 3, 6, 7, 8, 9, 10, 11, 16
UINT4, INT4, FLOAT4, UINT2, INT2 = 21, 22, 23, 25, 26

_DTYPES = {
    FLOAT: "float32",
    UINT8: "uint8",
    INT8: "int8",
    4: "uint16",
    5: "int16",
    INT32: "int32",
    INT64: "int64",
    BOOL: "bool",
    FLOAT16: "float16",
    DOUBLE: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    BFLOAT16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    24: "float8_e8m0fnu",
}

NAMES = {
    **_DTYPES,
    STRING: "string",
    UINT4: "uint4",
    INT4: "int4",
    FLOAT4: "float4e2m1",
    UINT2: "uint2",
    INT2: "int2",
}

# The dtypes that hold elements of less than a byte, one element each.
_CARRIERS = {UINT4: "uint8", INT4: "int8", FLOAT4: "float32", UINT2: "uint8", INT2: "int8"}
RANGES = {
    UINT8: (0, 255),
    INT8: (-128, 127),
    4: (0, 65535),
    5: (-32768, 32767),
    UINT4: (0, 15),
    INT4: (-8, 7),
    UINT2: (0, 3),
    INT2: (-2, 1),
    INT32: (-(2**31), 2**31 - 1),
}
# Of each float of eight bits the largest finite value.
LARGEST = {17: 448.0, 18: 240.0, 19: 57344.0, 20: 57344.0}


@dataclass
class Narrow:
    """A tensor of elements of less than a byte: ``values`` holds one element each, in an ordinary dtype."""

    values: Any
    elem: int

    @property
    def shape(self) -> Any:
        return self.values.shape


class Strings:
    """A tensor of strings: its sizes, and its elements in row-major order."""

    def __init__(self, shape: Sequence[int], items: list[str]) -> None:
        self.shape = tuple(shape)
        self.items = items

    def __repr__(self) -> str:
        return f"Strings(shape={self.shape}, items={self.items})"


class Missing:
    """The empty value of an optional type."""

    def __repr__(self) -> str:
        return "Missing()"


def dtype_of(elem: int) -> Any:
    """The dtype that holds elements of an ONNX type."""
    name = _DTYPES.get(elem) or _CARRIERS.get(elem)
    if name is None:
        raise NotImplementedError(f"ONNX element type {elem} ({NAMES.get(elem, 'unknown')}) has no dtype here")
    return getattr(flow, name)


def elem_of(value: Any) -> int:
    """The ONNX type of a value's elements."""
    if isinstance(value, Narrow):
        return value.elem
    if isinstance(value, Strings):
        return STRING
    return elem_of_dtype(value.dtype)


def elem_of_dtype(dtype: Any) -> int:
    for elem, name in _DTYPES.items():
        if getattr(flow, name) == dtype:
            return elem
    raise NotImplementedError(f"{dtype} has no element type in ONNX")


def is_narrow(elem: int) -> bool:
    return elem in _CARRIERS


def on_values(value: Any, function: Any) -> Any:
    """``function`` of a tensor, or of the elements of a narrow one: for functions that only move elements."""
    if isinstance(value, Narrow):
        return Narrow(function(value.values), value.elem)
    if isinstance(value, Strings):
        index = flow.arange(len(value.items)).reshape(value.shape)
        moved = function(index)
        return Strings(moved.shape, [value.items[i] for i in moved.flatten().tolist()])
    return function(value)
