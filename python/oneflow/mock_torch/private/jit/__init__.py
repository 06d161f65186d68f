"""``torch.jit``: :mod:`oneflow.jit` with a second name."""

from __future__ import annotations

from typing import Any, TypeVar

import oneflow.jit
from oneflow._base.refusals import refuse
from oneflow.mock_torch.private.jit import _recursive, _state

T = TypeVar("T")

_script_if_tracing = oneflow.jit.script_if_tracing


_get_trace_graph = refuse("torch.jit._get_trace_graph", "oneflow.jit.trace records a program, oneflow.fx a graph")


def _overload_method(function: T) -> T:
    """Return ``function`` itself: the last definition of a method is the one that runs."""
    return function


# The same of functions.
_overload = _overload_method


def __getattr__(name: str) -> Any:
    return getattr(oneflow.jit, name)
