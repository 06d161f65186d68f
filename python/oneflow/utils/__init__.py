"""Helpers around training: data loading, removable hooks."""

from __future__ import annotations

import importlib
from typing import Any

from oneflow.utils import data, hooks

__all__ = ["checkpoint", "data", "hooks"]


def __getattr__(name: str) -> Any:
    """Import checkpointing on first use: it needs the rest of the package."""
    if name in ("checkpoint", "dlpack", "_pytree"):
        return importlib.import_module(f"oneflow.utils.{name}")
    raise AttributeError(f"module 'oneflow.utils' has no attribute '{name}'")
