"""Apple's GPUs: there is no provider for them."""

from __future__ import annotations

from oneflow._base.refusals import constant

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]

_NO_PROVIDER = "there is no provider for Apple's GPUs"

is_built = constant("oneflow.backends.mps.is_built", False, _NO_PROVIDER)
is_available = constant("oneflow.backends.mps.is_available", False, _NO_PROVIDER)
is_macos_or_newer = constant("oneflow.backends.mps.is_macos_or_newer", False, _NO_PROVIDER)
is_macos13_or_newer = constant("oneflow.backends.mps.is_macos13_or_newer", False, _NO_PROVIDER)
