"""Arguments of calls bound to the names of parameters."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

__all__ = ["normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position and by name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def normalize_function(
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: Any = None,
    kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of ``target`` with their defaults; None where the signature is not known or does not fit.

    Example::

        >>> from oneflow.fx.operator_schemas import normalize_function
        >>> normalize_function(oneflow.nn.functional.relu, (1,)).kwargs
        {'inplace': False}
    """
    try:
        signature = inspect.signature(target)
        bound = signature.bind(*args, **(kwargs or {}))
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    named = dict(bound.arguments)
    if normalize_to_only_use_kwargs:
        return ArgsKwargsPair((), named)
    required = [
        name
        for name, p in signature.parameters.items()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return ArgsKwargsPair(tuple(named.pop(name) for name in required), named)


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """As :func:`normalize_function`, of the module at a path of ``root``.

    Example::

        >>> from oneflow.fx.operator_schemas import normalize_module
        >>> normalize_module(oneflow.nn.Sequential(oneflow.nn.ReLU()), "0", (1,)).args
        (1,)
    """
    forward = type(root.get_submodule(target)).forward
    found = normalize_function(forward, (None, *args), kwargs, None, None, normalize_to_only_use_kwargs)
    if found is None:
        return None
    named = {key: value for key, value in found.kwargs.items() if key != "self"}
    return ArgsKwargsPair(found.args[1:] if not normalize_to_only_use_kwargs else (), named)
