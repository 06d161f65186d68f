"""Functions of sparse tensors."""

from __future__ import annotations

from oneflow._sparse import mm, sum

__all__ = ["mm", "sum"]
