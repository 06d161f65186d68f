"""There are no quantized kernels."""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
