"""Functions of sparse tensors."""

from __future__ import annotations

from oneflow._functions.compressed_products import sampled_addmm, spdiags
from oneflow._functions.sparse import mm, sum
from oneflow._functions.sparse_gradcheck import as_sparse_gradcheck
from oneflow._functions.sparse_indices import check_sparse_tensor_invariants
from oneflow._functions.sparse_products import addmm
from oneflow._functions.sparse_softmax import log_softmax, softmax
from oneflow._tensor.sparse_types import *  # noqa: F403
from oneflow._tensor.sparse_types import __all__ as _types

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]
__all__ += _types
