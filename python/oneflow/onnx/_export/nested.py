"""Nested arguments and results of models, taken apart into tensors and put together again."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor


def flat(value: Any, found: list[Tensor]) -> Any:
    """The tensors in nested lists, tuples and dictionaries, in order; what remains has their places."""
    if isinstance(value, Tensor):
        found.append(value)
        return None
    if isinstance(value, dict):
        return {k: flat(v, found) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [flat(v, found) for v in value]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*items)
        return type(value)(items)
    if hasattr(value, "to_tuple"):
        return flat(value.to_tuple(), found)
    return ("constant", value)


def filled(structure: Any, tensors: Any) -> Any:
    """The nested value that `flat` took apart, with other tensors."""
    if structure is None:
        return next(tensors)
    if isinstance(structure, dict):
        return {k: filled(v, tensors) for k, v in structure.items()}
    if isinstance(structure, tuple) and len(structure) == 2 and structure[0] == "constant":
        return structure[1]
    items = [filled(v, tensors) for v in structure]
    return type(structure)(*items) if hasattr(structure, "_fields") else type(structure)(items)
