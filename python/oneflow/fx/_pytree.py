"""Nested arguments flattened in the structure of the traced call."""

from __future__ import annotations

from typing import Any

from oneflow.utils import _pytree

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree: Any, spec: Any) -> list[Any]:
    """The leaves of ``pytree``, which must be nested as ``spec`` is, or have its values flat.

    Raises:
        ValueError: it is nested otherwise.

    Example::

        >>> from oneflow.fx._pytree import tree_flatten_spec
        >>> from oneflow.utils import _pytree
        >>> tree_flatten_spec([1, {"a": 2}], _pytree.tree_structure((0, {"a": 0})))
        [1, 2]
    """
    leaves, found = _pytree.tree_flatten(tuple(pytree))
    if found != spec and len(leaves) != spec.num_leaves:
        raise ValueError(f"the arguments are nested as {found}, the function was traced with {spec}")
    return leaves
