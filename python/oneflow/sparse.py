"""Functions of sparse tensors."""

from __future__ import annotations

from oneflow._sparse import check_sparse_tensor_invariants, mm, sum

__all__ = ["check_sparse_tensor_invariants", "mm", "sum"]
