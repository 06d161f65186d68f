"""Checks of the arguments of linear algebra functions, and ``out=``."""

from __future__ import annotations

import sys
from typing import Any

import oneflow
from oneflow import _oneflow
from oneflow._base import wording
from oneflow._base.destinations import cast_into
from oneflow._oneflow import Tensor
from oneflow._oneflow import dtype as DType


def given(result: Any, out: Any, casts: bool = False, what: str = "result") -> Any:
    """Return the result, in ``out`` if one was given: of the result's own dtype, or of any wider category.

    Errors call a single result ``what``.
    """
    if out is None:
        return result
    name = sys._getframe(1).f_code.co_name
    results, places = ([result], [out]) if isinstance(out, Tensor) else (result, out)
    whats = getattr(type(result), "__match_args__", None) or [what] * len(results)
    for r, place, what in zip(results, places, whats, strict=True):
        if r.device != place.device:
            raise RuntimeError(
                f"{name}(): Expected out tensor to have device {r.device}, but got {place.device} instead"
            )
        if r.dtype == place.dtype:
            oneflow.alias_copy(r, out=place)
        elif casts and _oneflow.can_cast(r.dtype, place.dtype):
            cast_into(r, place)
        elif casts:
            raise RuntimeError(
                f"{name}: Expected {what} to be safely castable from {_scalar_type(r.dtype)} dtype, but got {what} "
                f"with dtype {_scalar_type(place.dtype)}"
            )
        else:
            expected, given = _c_type(r.dtype), _c_type(place.dtype)
            raise RuntimeError(f"{name}(): Expected out tensor to have dtype {expected}, but got {given} instead")
    return out if isinstance(out, Tensor) else type(result)(out)


def _scalar_type(dtype: DType) -> str:
    return SCALAR_TYPES.get(str(dtype).rpartition(".")[2], str(dtype))


def _c_type(dtype: DType) -> str:
    """The name of a dtype in C++, which PyTorch's errors have."""
    return _C_TYPES.get(str(dtype).rpartition(".")[2], str(dtype))


def wants_grad(*tensors: Tensor) -> bool:
    return oneflow.is_grad_enabled() and any(t.requires_grad for t in tensors)


def is_complex(dtype: DType) -> bool:
    return dtype in (oneflow.complex64, oneflow.complex128)


def epsilon(dtype: DType) -> float:
    return 2.0**-52 if dtype in (oneflow.float64, oneflow.complex128) else 2.0**-23


def need_matrix(A: Tensor, name: str) -> None:
    if A.ndim < 2:
        raise wording.error(RuntimeError, f"{name}: The input tensor A must have at least 2 dimensions.")


def need_square(A: Tensor, name: str) -> None:
    need_matrix(A, name)
    if A.shape[-1] != A.shape[-2]:
        rows, columns = A.shape[-2:]
        raise wording.error(
            RuntimeError, f"{name}: A must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def need_float(A: Tensor, name: str) -> None:
    if not (A.is_floating_point() or is_complex(A.dtype)):
        kind = SCALAR_TYPES.get(str(A.dtype).rpartition(".")[2], str(A.dtype))
        raise NotImplementedError(f"{name}: Expected a floating point or complex tensor as input. Got {kind}")


SCALAR_TYPES = {
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_C_TYPES = {
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}
