"""Lists and dictionaries that cannot be changed: the arguments of nodes, whose users are counted when they are set."""

from __future__ import annotations

from typing import Any, NoReturn

from oneflow.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. Arguments of a node are set as a whole: make a "
        "plain list or dict of this one, change that, and assign it to node.args or node.kwargs"
    )


class immutable_list(list[Any]):
    """A list that raises TypeError where it would change; it can be hashed.

    Example::

        >>> from oneflow.fx.immutable_collections import immutable_list
        >>> immutable_list([1, 2])
        [1, 2]
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dictionary that raises TypeError where it would change; it can be hashed.

    Example::

        >>> from oneflow.fx.immutable_collections import immutable_dict
        >>> immutable_dict(a=1)
        {'a': 1}
    """

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


_pytree.register_pytree_node(
    immutable_list, lambda value: (list(value), None), lambda values, _: immutable_list(values)
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda value: (list(value.values()), list(value)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)
