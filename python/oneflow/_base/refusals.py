"""Names that exist so that scripts can import them, as data: a name and a value, or a name and an alternative.

Calling one raises an error with the alternative, returns a constant, or warns that it has no effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

V = TypeVar("V")


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


def constant(name: str, value: V, reason: str) -> Callable[..., V]:
    """Return a function that always returns ``value``, whatever its arguments.

    Example::

        >>> from oneflow._base.refusals import constant
        >>> constant("oneflow.moon.is_available", False, "there is no provider for it")()
        False
    """

    def constantly(*args: Any, **kwargs: Any) -> V:
        return value

    shown = "" if value is None else f"\n    {value!r}"
    constantly.__name__ = constantly.__qualname__ = name.rpartition(".")[2]
    constantly.__doc__ = f"Return {value!r}: {reason}.\n\nExample::\n\n    >>> {name}(){shown}"
    return constantly


def refuse_composed(doing: str, value: object) -> None:
    """Raise NotImplementedError if ``value`` is of a class of tensors that mean more than the tensor below them.

    Such a class says in ``_parts`` what its tensors are and what they consist of.
    """
    parts = getattr(type(value), "_parts", None)
    if parts is not None:
        raise NotImplementedError(
            f"{doing}: not implemented for {parts[0]}; give {parts[1]}, which are ordinary tensors"
        )


_said: set[str] = set()


def without_effect(name: str, why: str) -> None:
    """Warn, once a process, that a hint for speed has nothing to do here."""
    if name not in _said:
        _said.add(name)
        warnings.warn(f"{name} is accepted and has no effect: {why}", stacklevel=3)
