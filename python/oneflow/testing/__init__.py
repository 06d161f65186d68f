"""Helpers for tests."""

from __future__ import annotations

from oneflow.testing._comparison import assert_close
from oneflow.testing._file_check import FileCheck
from oneflow.testing._make_tensor import assert_allclose, make_tensor
from oneflow.testing._ranks import run_ranks

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor", "run_ranks"]
