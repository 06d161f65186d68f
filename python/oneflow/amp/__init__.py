"""Mixed precision: autocast chooses the dtype of each op, GradScaler keeps half-precision gradients in range."""

from __future__ import annotations

from oneflow.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from oneflow.amp.grad_scaler import GradScaler, OptState, StaticGradScaler

__all__ = [
    "GradScaler",
    "OptState",
    "StaticGradScaler",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "is_autocast_available",
]
