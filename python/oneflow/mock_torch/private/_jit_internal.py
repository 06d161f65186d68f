"""``torch._jit_internal``: marks for TorchScript, which change nothing."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def _copy_to_script_wrapper(fn: T) -> T:
    """Return ``fn`` itself."""
    return fn
