"""Second names of ops, as PyTorch has them: functions and methods, with their in-place forms."""

from __future__ import annotations

from typing import Any

from oneflow import _oneflow
from oneflow._oneflow import Tensor

ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "true_divide": "div",
}

__all__ = []
METHODS: dict[str, Any] = {}

for _alias, _name in ALIASES.items():
    for _suffix in ("", "_"):
        if hasattr(_oneflow, _name + _suffix):
            globals()[_alias + _suffix] = getattr(_oneflow, _name + _suffix)
            __all__.append(_alias + _suffix)
        if hasattr(Tensor, _name + _suffix):
            METHODS[_alias + _suffix] = getattr(Tensor, _name + _suffix)
