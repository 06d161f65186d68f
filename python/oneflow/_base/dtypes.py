"""Type promotion as functions: the dtype of an operation on given operands.

The rules themselves are the op table's (in Rust): pairs of dtypes are asked there.
"""

from __future__ import annotations

from typing import Any

from oneflow import _oneflow
from oneflow._oneflow import Tensor
from oneflow._oneflow import dtype as DType


def _category(dtype: DType) -> int:
    """0 bool, 1 integer, 2 floating-point, 3 complex."""
    if dtype.is_complex:
        return 3
    return 2 if dtype.is_floating_point else int(dtype != _oneflow.bool)


def promote_types(type1: DType, type2: DType) -> DType:
    """The smallest dtype that holds the values of both, of the higher category.

    >>> import oneflow
    >>> oneflow.promote_types(oneflow.int32, oneflow.float16)
    oneflow.float16
    """
    if not isinstance(type1, DType) or not isinstance(type2, DType):
        raise TypeError(f"promote_types(): expected two dtypes, got {type1!r} and {type2!r}")
    return _oneflow.promote_types(type1, type2)


def can_cast(from_: DType, to: DType) -> bool:
    """Return whether values of dtype ``from_`` may be cast to ``to`` as results are: the category may rise, never sink.

    >>> import oneflow
    >>> oneflow.can_cast(oneflow.double, oneflow.int)
    False
    """
    return _category(from_) <= _category(to) or (_category(from_) == 1 and _category(to) == 1)


_COMPLEX = {_oneflow.float16: _oneflow.complex32, _oneflow.float64: _oneflow.complex128}


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an operation on two tensors or numbers.

    >>> import oneflow
    >>> oneflow.result_type(oneflow.tensor([1, 2], dtype=oneflow.int32), 1.0)
    oneflow.float32
    """
    default = _oneflow.get_default_dtype()
    ranked: dict[int, DType] = {}
    for x in (tensor1, tensor2):
        if isinstance(x, Tensor):
            rank, dtype = int(x.dim() == 0), x.dtype
        elif isinstance(x, bool):
            rank, dtype = 2, _oneflow.bool
        elif isinstance(x, int):
            rank, dtype = 2, _oneflow.int64
        elif isinstance(x, float):
            rank, dtype = 2, default
        elif isinstance(x, complex):
            rank, dtype = 2, default.to_complex()
        else:
            raise TypeError(f"result_type(): expected a Tensor or a number, got {type(x).__name__}")
        ranked[rank] = promote_types(ranked[rank], dtype) if rank in ranked else dtype
    result: DType | None = None
    for _, dtype in sorted(ranked.items()):
        # A lower class counts only where its category is higher.
        if result is None:
            result = dtype
        elif _category(dtype) > _category(result):
            # A float becomes the complex dtype of its own width.
            is_widened = result.is_floating_point and dtype.is_complex
            result = _COMPLEX.get(result, _oneflow.complex64) if is_widened else promote_types(result, dtype)
    assert result is not None
    return result
