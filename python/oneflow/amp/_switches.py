"""Autocast's switches under the names that carry the device type."""

from __future__ import annotations

import functools

import oneflow
from oneflow.amp.autocast_mode import autocast

get_autocast_cpu_dtype = functools.partial(oneflow.get_autocast_dtype, "cpu")
get_autocast_gpu_dtype = functools.partial(oneflow.get_autocast_dtype, "cuda")
is_autocast_cpu_enabled = functools.partial(oneflow.is_autocast_enabled, "cpu")
set_autocast_cpu_dtype = functools.partial(oneflow.set_autocast_dtype, "cpu")
set_autocast_gpu_dtype = functools.partial(oneflow.set_autocast_dtype, "cuda")
set_autocast_cpu_enabled = functools.partial(oneflow.set_autocast_enabled, "cpu")

__all__ = [
    "autocast",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cpu_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_gpu_dtype",
]
