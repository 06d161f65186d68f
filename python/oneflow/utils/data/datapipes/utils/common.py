"""Checks of the functions that pipes are given, and lengths of their sources."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import warnings
from collections.abc import Callable, Sized
from typing import Any

__all__ = ["validate_input_col"]


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """Refuse a function that cannot be called with so many columns.

    Args:
        fn: called with a value, or with one for each of ``input_col``.
        input_col: ``None``, a column, or a list or tuple of them.

    Raises:
        ValueError: it takes another number of arguments, or needs one that is given by name alone.

    Example::

        >>> from oneflow.utils.data.datapipes.utils.common import validate_input_col
        >>> validate_input_col(lambda a, b: a + b, ["x", "y"])
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:
        # Functions of C may have none.
        return
    n = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    inner = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(inner, "__name__", repr(inner))
    by_name = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_name:
        raise ValueError(
            f"The function {name} takes {len(by_name)} non-default keyword-only parameters, which is not allowed."
        )
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if len(parameters) < n and not takes_any:
        raise ValueError(f"The function {name} takes {len(parameters)} parameters, but {n} are required.")
    is_short = len(places) < n and not takes_any
    if is_short or any(p.default is p.empty for p in places[n:]):
        raise ValueError(f"The function {name} takes {len(places)} positional parameters, but {n} are required.")


def _check_unpickable_fn(fn: Any) -> None:
    """Warn of functions that cannot be sent to worker processes.

    Raises:
        TypeError: it cannot be called.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    inner: Any = fn.func if isinstance(fn, functools.partial) else fn
    if importlib.util.find_spec("dill") is not None:
        return
    if hasattr(inner, "__code__"):
        is_local = bool(inner.__code__.co_flags & inspect.CO_NESTED)
    else:
        is_local = "<locals>" in getattr(inner, "__qualname__", type(inner).__qualname__)
    kind = "Local" if is_local else "Lambda" if getattr(inner, "__name__", "") == "<lambda>" else None
    if kind is not None:
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or functools.partial "
            "instead.",
            stacklevel=3,
        )


def length(pipe: Any, *sources: Any) -> list[int]:
    """The lengths of the sources of a pipe.

    Raises:
        TypeError: one has none.
    """
    if not all(isinstance(source, Sized) for source in sources):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return [len(source) for source in sources]
