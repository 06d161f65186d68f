"""Dataclasses as nests of arguments and results."""

from __future__ import annotations

import dataclasses

from oneflow.utils import _pytree

__all__ = ["register_dataclass"]


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let objects of a dataclass be arguments and results of exported modules: their fields are the leaves.

    Raises:
        TypeError: ``cls`` is not a dataclass.

    Example::

        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Pair:
        ...     a: oneflow.Tensor
        ...     b: oneflow.Tensor
        >>> oneflow.export.register_dataclass(Pair)
        >>> oneflow.utils._pytree.tree_leaves(Pair(1, 2))
        [1, 2]
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"register_dataclass: {cls!r} is not a dataclass")
    names = [f.name for f in dataclasses.fields(cls) if f.init]
    _pytree.register_pytree_node(
        cls,
        lambda value: ([getattr(value, name) for name in names], names),
        lambda items, names: cls(**dict(zip(names, items, strict=True))),
        flatten_with_keys_fn=lambda value: (
            [(_pytree.GetAttrKey(name), getattr(value, name)) for name in names],
            names,
        ),
        serialized_type_name=serialized_type_name,
    )
