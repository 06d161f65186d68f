"""``torch.jit``: :mod:`oneflow.jit` with a second name."""

from __future__ import annotations

from typing import Any, TypeVar

import oneflow.jit

T = TypeVar("T")

_script_if_tracing = oneflow.jit.script_if_tracing


def _overload_method(function: T) -> T:
    """Return ``function`` itself: the last definition of a method is the one that runs."""
    return function


class TracerWarning(Warning):
    """A warning that programs filter when they trace. It is never raised here."""


def __getattr__(name: str) -> Any:
    return getattr(oneflow.jit, name)
