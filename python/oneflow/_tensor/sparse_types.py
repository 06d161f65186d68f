"""``sparse.FloatTensor`` and its like: the older names of sparse tensors by dtype."""

from __future__ import annotations

import warnings
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._tensor.typed_tensors import DTYPES


class SparseTensorType(type):
    """The class of ``sparse.FloatTensor``: a dtype, called with indices and values."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        warnings.warn(
            "torch.sparse.SparseTensor(indices, values, shape, *, device=) is deprecated.  Please use "
            "torch.sparse_coo_tensor(indices, values, shape, dtype=, device=).",
            UserWarning,
            stacklevel=2,
        )
        if len(args) >= 2 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            if args[1].dtype != cls.dtype:
                raise TypeError(f"{cls.__name__}: expected values of {cls.dtype}, got {args[1].dtype}")
            return oneflow.sparse_coo_tensor(*args, device=device)
        sizes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return oneflow.zeros(tuple(sizes) or (0,), dtype=cls.dtype, device=device).to_sparse()

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.is_sparse and instance.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def _make(kind: str) -> SparseTensorType:
    dtype = getattr(oneflow, DTYPES[kind])
    doc = (
        f"Sparse tensors of {DTYPES[kind]}: ``{kind}Tensor(indices, values, size)``, an older name of "
        f":func:`oneflow.sparse_coo_tensor`.\n\nExample::\n\n"
        f"    >>> isinstance(oneflow.ones(2), oneflow.sparse.{kind}Tensor)\n    False"
    )
    return SparseTensorType(f"{kind}Tensor", (), {"__module__": "oneflow.sparse", "__doc__": doc, "dtype": dtype})


__all__ = [f"{_kind}Tensor" for _kind in DTYPES if _kind != "Bool"]
globals().update({f"{_kind}Tensor": _make(_kind) for _kind in DTYPES if _kind != "Bool"})
