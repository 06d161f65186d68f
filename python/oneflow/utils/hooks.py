"""Handles by which a registered hook is removed again."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any

_ids = itertools.count()

__all__ = ["RemovableHandle", "unserializable_hook"]


class _Changes:
    """Counts hooks that come and go, and attributes of modules that are set: who depends on them looks again."""

    count = 0


changes = _Changes()


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a hook of a tensor that is lost, as its author knows, where the tensor is written to a file.

    Example::

        >>> @oneflow.utils.hooks.unserializable_hook
        ... def double(grad):
        ...     return grad * 2
        >>> handle = oneflow.ones(1, requires_grad=True).register_hook(double)
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


class RemovableHandle:
    """The result of ``register_*_hook``. ``remove()`` removes the hook; leaving a ``with`` block does the same.

    Args:
        hooks: the dictionary the hook was put into, held weakly.
        extra: dictionaries with entries under the same id (options of the hook), cleaned at the same time.

    Example::

        >>> m = nn.ReLU()
        >>> handle = m.register_forward_hook(lambda m, args, y: y * 2)
        >>> m(oneflow.ones(1))
        tensor([2.])
        >>> handle.remove()
        >>> m(oneflow.ones(1))
        tensor([1.])
    """

    def __init__(
        self, hooks: MutableMapping[int, Any], *, extra_dict: MutableMapping[int, Any] | tuple[Any, ...] = ()
    ) -> None:
        self.id = next(_ids)
        extras = extra_dict if isinstance(extra_dict, (tuple, list)) else (extra_dict,)
        self.hooks_dict_ref: weakref.ref[Any] = weakref.ref(hooks)
        self.extra_dict_ref: tuple[weakref.ref[Any], ...] = tuple(weakref.ref(d) for d in extras)

    def remove(self) -> None:
        """Remove the hook. Removing it twice is harmless."""
        changes.count += 1
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[int, tuple[Any, ...]]:
        return self.id, tuple(reference() for reference in (self.hooks_dict_ref, *self.extra_dict_ref))

    def __setstate__(self, state: tuple[int, tuple[Any, ...]]) -> None:
        global _ids
        self.id, dicts = state
        # A dictionary that was gone stays gone: the reference to the empty one is dead.
        self.hooks_dict_ref, *extras = (weakref.ref(OrderedDict() if d is None else d) for d in dicts)
        self.extra_dict_ref = tuple(extras)
        # Hooks that are registered later have their own ids.
        _ids = itertools.count(max(next(_ids), self.id + 1))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register(
    hooks: OrderedDict[int, Any],
    hook: Callable[..., Any],
    *,
    prepend: bool = False,
    flags: tuple[tuple[OrderedDict[int, bool], bool], ...] = (),
) -> RemovableHandle:
    """Add ``hook`` to ``hooks``; each (dictionary, value) of ``flags`` gets an entry where the value is true."""
    changes.count += 1
    handle = RemovableHandle(hooks, extra_dict=tuple(d for d, _ in flags))
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    for dictionary, value in flags:
        if value:
            dictionary[handle.id] = True
    return handle
