"""Autocast and GradScaler with the device type filled in. ``oneflow.amp`` takes it as an argument."""

from __future__ import annotations

import functools
from typing import Any

import oneflow.amp

custom_fwd = functools.partial(oneflow.amp.custom_fwd, device_type="cpu")
custom_bwd = functools.partial(oneflow.amp.custom_bwd, device_type="cpu")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(oneflow.amp.autocast):
    """``oneflow.amp.autocast("cpu", ...)``.

    Example::

        >>> with oneflow.cpu.amp.autocast(dtype=oneflow.bfloat16):
        ...     (oneflow.ones(2, 2) @ oneflow.ones(2, 2)).dtype
        oneflow.bfloat16
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(oneflow.amp.GradScaler):
    """``oneflow.amp.GradScaler("cpu", ...)``.

    Example::

        >>> scaler = oneflow.cpu.amp.GradScaler(init_scale=4.0)
        >>> scaler.scale(oneflow.ones(1))
        tensor([4.])
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
