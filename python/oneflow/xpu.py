"""Intel's GPUs: there is no provider for them."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import constant, refuse

__all__ = ["current_device", "device_count", "empty_cache", "is_available", "is_initialized", "synchronize"]

_NO_PROVIDER = "there is no provider for Intel's GPUs"
_NO_MEMORY = "no memory is held"
_INSTEAD = f"{_NO_PROVIDER}; oneflow.xpu.is_available() is False"

is_available = constant("oneflow.xpu.is_available", False, _NO_PROVIDER)
is_initialized = constant("oneflow.xpu.is_initialized", False, _NO_PROVIDER)
is_bf16_supported = constant("oneflow.xpu.is_bf16_supported", False, _NO_PROVIDER)
device_count = constant("oneflow.xpu.device_count", 0, _NO_PROVIDER)
memory_allocated = constant("oneflow.xpu.memory_allocated", 0, _NO_MEMORY)
memory_reserved = constant("oneflow.xpu.memory_reserved", 0, _NO_MEMORY)
max_memory_allocated = constant("oneflow.xpu.max_memory_allocated", 0, _NO_MEMORY)
max_memory_reserved = constant("oneflow.xpu.max_memory_reserved", 0, _NO_MEMORY)
empty_cache = constant("oneflow.xpu.empty_cache", None, _NO_MEMORY)
reset_peak_memory_stats = constant("oneflow.xpu.reset_peak_memory_stats", None, _NO_MEMORY)
manual_seed = constant("oneflow.xpu.manual_seed", None, "there is no generator to seed")
manual_seed_all = constant("oneflow.xpu.manual_seed_all", None, "there is no generator to seed")

current_device = refuse("oneflow.xpu.current_device", _INSTEAD)
get_device_properties = refuse("oneflow.xpu.get_device_properties", _INSTEAD)
get_device_capability = refuse("oneflow.xpu.get_device_capability", _INSTEAD)
get_device_name = refuse("oneflow.xpu.get_device_name", _INSTEAD)
set_device = refuse("oneflow.xpu.set_device", _INSTEAD)
synchronize: Any = refuse("oneflow.xpu.synchronize", _INSTEAD)
