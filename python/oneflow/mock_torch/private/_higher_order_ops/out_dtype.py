"""``torch._higher_order_ops.out_dtype``: an op whose result is computed in another dtype than its operands have."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

__all__ = ["out_dtype"]


def out_dtype(op: Any, output_dtype: oneflow.dtype, *args: Any) -> Tensor:
    """The result of an op of tensors, computed and returned in a dtype: products of int8 are sums of int32, say."""
    matrices = all(isinstance(a, Tensor) and a.dtype is oneflow.int8 and a.dim() == 2 for a in args)
    if matrices and output_dtype is oneflow.int32 and op is oneflow.ops.aten.mm.default:
        return oneflow._int_mm(*args)
    return op(*(a.to(output_dtype) if isinstance(a, Tensor) else a for a in args)).to(output_dtype)
