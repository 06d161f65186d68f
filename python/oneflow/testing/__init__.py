"""Helpers for tests."""

from __future__ import annotations

from oneflow.testing._comparison import assert_close
from oneflow.testing._ranks import run_ranks

__all__ = ["assert_close", "run_ranks"]
