"""Helpers around training: data loading, removable hooks."""

from __future__ import annotations

import importlib
from typing import Any

from oneflow.utils import data, hooks

__all__ = ["checkpoint", "data", "hooks"]

_LAZY = (
    "_pytree",
    "benchmark",
    "checkpoint",
    "cpp_extension",
    "dlpack",
    "flop_counter",
    "global_view",
    "tensor",
)


def __getattr__(name: str) -> Any:
    """Import the rest on first use: it needs the rest of the package."""
    if name in _LAZY:
        return importlib.import_module(f"oneflow.utils.{name}")
    raise AttributeError(
        f"module 'oneflow.utils' has no attribute '{name}': this version of oneflow does not provide it"
    )
