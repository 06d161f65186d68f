"""There are no quantized kernels."""

from __future__ import annotations

from typing import Any

engine = "none"


def __getattr__(name: str) -> Any:
    if name == "supported_engines":
        # A list of the caller's own, as in PyTorch: some take entries off it.
        return ["none"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
