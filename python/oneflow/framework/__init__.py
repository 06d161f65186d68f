"""OneFlow's names for its own inner modules, as far as the libraries written for it import them."""

from __future__ import annotations

from oneflow.framework import balanced_splitter, check_point_v2, dtype, tensor

__all__ = ["balanced_splitter", "check_point_v2", "dtype", "tensor"]
