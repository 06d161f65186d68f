"""XNNPACK is not used: kernels and threads are the package's own."""

from __future__ import annotations

from oneflow._base.refusals import constant

__all__ = ["is_available"]

is_available = constant("oneflow.backends.xnnpack.is_available", False, "it is not used")
