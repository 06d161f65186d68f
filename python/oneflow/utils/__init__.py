"""Helpers around training: data loading, removable hooks."""

from __future__ import annotations

from oneflow.utils import data, hooks

__all__ = ["data", "hooks"]
