"""``torch._dynamo.utils``."""

from __future__ import annotations

from typing import Any


def is_compile_supported(device_type: Any) -> bool:
    """Return whether :func:`oneflow.compile` takes programs for that kind of device."""
    return str(device_type).partition(":")[0] in ("cpu", "cuda")
