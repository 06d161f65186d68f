"""A context for what a trace must not hold: the making of parameters and of optimizers' states."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from oneflow import _oneflow


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Inside, calls on tensors with values run at once, though this thread traces; they draw before the trace does."""
    before = _oneflow._trace_calls(False)
    try:
        yield
    finally:
        _oneflow._trace_calls(before)
