"""Custom differentiable functions."""

from __future__ import annotations

from oneflow._oneflow import Function

__all__ = ["Function"]
