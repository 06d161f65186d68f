"""Helpers for tests."""

from __future__ import annotations

from oneflow.testing._comparison import assert_close

__all__ = ["assert_close"]
