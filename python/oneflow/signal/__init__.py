"""Signal processing: window functions."""

from __future__ import annotations

from oneflow.signal import windows

__all__ = ["windows"]
