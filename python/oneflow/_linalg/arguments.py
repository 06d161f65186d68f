"""Checks of the arguments of linear algebra functions, and ``out=``."""

from __future__ import annotations

import sys
from typing import Any

import oneflow
from oneflow._base import wording
from oneflow._base.destinations import cast_into
from oneflow._oneflow import Tensor
from oneflow._oneflow import dtype as DType


def given(result: Any, out: Any, casts: bool = False) -> Any:
    """Return the result, in ``out`` if one was given: of the result's own dtype, or of any wider category."""
    if out is None:
        return result
    results, places = ([result], [out]) if isinstance(out, Tensor) else (result, out)
    for r, place in zip(results, places, strict=True):
        if r.dtype == place.dtype:
            oneflow.alias_copy(r, out=place)
        elif casts:
            cast_into(r, place)
        else:
            name = sys._getframe(1).f_code.co_name
            raise RuntimeError(f"{name}(): Expected out tensor to have dtype {r.dtype}, but got {place.dtype} instead")
    return out if isinstance(out, Tensor) else type(result)(out)


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


SCALAR_TYPES = {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}
