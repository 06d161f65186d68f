"""Names that exist so that scripts can import them. Calling one raises with an alternative, or warns of no effect."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def refuse(name: str, instead: str) -> Callable[..., Any]:
    """Return a function that raises NotImplementedError: ``name`` is not provided, use ``instead``."""
    text = f"{name} is not provided: {instead}"

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(text)

    refused._instead = instead  # type: ignore[attr-defined]
    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    refused.__doc__ = f"Raises NotImplementedError. {instead[0].upper()}{instead[1:]}."
    return refused


def refuse_class(name: str, instead: str) -> type:
    """A class that has no objects: ``isinstance`` is False of everything, making one raises."""
    made = refuse(name, instead)
    body = {"__new__": made, "_instead": instead, "__doc__": made.__doc__, "__module__": name.rpartition(".")[0]}
    return type(name.rpartition(".")[2], (), body)


_said: set[str] = set()


def without_effect(name: str, why: str) -> None:
    """Warn, once a process, that a hint for speed has nothing to do here."""
    if name not in _said:
        _said.add(name)
        warnings.warn(f"{name} is accepted and has no effect: {why}", stacklevel=3)
