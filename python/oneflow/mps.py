"""Apple's GPUs: there is no provider for them."""

from __future__ import annotations

from oneflow._base.refusals import constant, refuse

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

_NO_PROVIDER = "there is no provider for Apple's GPUs"
_INSTEAD = f"{_NO_PROVIDER}; oneflow.backends.mps.is_available() is False"

is_available = constant("oneflow.mps.is_available", False, _NO_PROVIDER)
device_count = constant("oneflow.mps.device_count", 0, _NO_PROVIDER)
empty_cache = constant("oneflow.mps.empty_cache", None, "no memory is held")
manual_seed = constant("oneflow.mps.manual_seed", None, "there is no generator to seed")

synchronize = refuse("oneflow.mps.synchronize", _INSTEAD)
current_allocated_memory = refuse("oneflow.mps.current_allocated_memory", _INSTEAD)
driver_allocated_memory = refuse("oneflow.mps.driver_allocated_memory", _INSTEAD)
