"""Autocast and GradScaler with the device type filled in. ``oneflow.amp`` takes it as an argument."""

from __future__ import annotations

import functools
import sys
from typing import Any

import oneflow.amp

custom_fwd = functools.partial(oneflow.amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(oneflow.amp.custom_bwd, device_type="cuda")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(oneflow.amp.autocast):
    """``oneflow.amp.autocast("cuda", ...)``.

    Example::

        >>> if oneflow.cuda.is_available():
        ...     with oneflow.cuda.amp.autocast():
        ...         y = oneflow.ones(2, 2, device="cuda") @ oneflow.ones(2, 2, device="cuda")
    """

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(oneflow.amp.GradScaler):
    """``oneflow.amp.GradScaler("cuda", ...)``.

    Example::

        >>> oneflow.cuda.amp.GradScaler(enabled=False).scale(oneflow.ones(1))
        tensor([1.])
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


# PyTorch has a module for each.
autocast_mode = grad_scaler = sys.modules[__name__]
sys.modules[f"{__name__}.autocast_mode"] = sys.modules[f"{__name__}.grad_scaler"] = autocast_mode
