"""Hints to PyTorch's compiler that programs use. A trace here holds the ops that ran, so none changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from oneflow._trace import logical

T = TypeVar("T")


def allow_in_graph(fn: T) -> T:
    """Return ``fn`` itself: its ops are traced.

    Example::

        >>> oneflow.compiler.allow_in_graph(len) is len
        True
    """
    return fn


def nonstrict_trace(traceable_fn: T) -> T:
    """Return the function itself: its ops are traced.

    Example::

        >>> oneflow.compiler.nonstrict_trace(len) is len
        True
    """
    return traceable_fn


def assume_constant_result(fn: T) -> T:
    """Return ``fn`` itself: what is no tensor is a constant of the trace.

    Example::

        >>> oneflow.compiler.assume_constant_result(len) is len
        True
    """
    return fn


def nested_compile_region(fn: T = None) -> Any:  # type: ignore[assignment]
    """Return ``fn`` itself. Also a decorator with arguments.

    Example::

        >>> oneflow.compiler.nested_compile_region(len) is len
        True
    """
    return nested_compile_region if fn is None else fn


def substitute_in_graph(original_fn: Any, **_: Any) -> Callable[[T], T]:
    """A decorator that returns the function itself: Python runs as it is.

    Example::

        >>> @oneflow.compiler.substitute_in_graph(abs)
        ... def size_of(x):
        ...     return x if x >= 0 else -x
        >>> size_of(-2)
        2
    """
    return lambda replacement: replacement


def is_exporting() -> bool:
    """Return whether :func:`oneflow.export.export`, ``jit.trace`` or ``onnx.export`` runs the program.

    Example::

        >>> oneflow.compiler.is_exporting()
        False
    """
    return logical.is_exporting()
