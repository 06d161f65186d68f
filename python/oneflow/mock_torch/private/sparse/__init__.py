"""``torch.sparse``: :mod:`oneflow.sparse`, and names of it that packages import without using them."""

from __future__ import annotations

from typing import Any

import oneflow.sparse
from oneflow._base.refusals import refuse, refuse_class

# Whose modules the importer enters under torch's names.
_target = oneflow.sparse

_INSTEAD = "matrices with two of four numbers are multiplied by GPUs of one vendor only"
SparseSemiStructuredTensor: Any = refuse_class("torch.sparse.SparseSemiStructuredTensor", _INSTEAD)
SparseSemiStructuredTensorCUSPARSELT: Any = refuse_class("torch.sparse.SparseSemiStructuredTensorCUSPARSELT", _INSTEAD)
SparseSemiStructuredTensorCUTLASS: Any = refuse_class("torch.sparse.SparseSemiStructuredTensorCUTLASS", _INSTEAD)
to_sparse_semi_structured: Any = refuse("torch.sparse.to_sparse_semi_structured", _INSTEAD)


def __getattr__(name: str) -> Any:
    return getattr(oneflow.sparse, name)
